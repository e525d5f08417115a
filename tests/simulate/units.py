"""What one row, one claim, one save and one poll take, as values."""

from __future__ import annotations

from dataclasses import dataclass

from simulate.setting import Costs


@dataclass(frozen=True, slots=True)
class Cost:
    """What one statement takes.

    Args:
        wall_s: Until one client has its answer.
        server_s: CPU of the database's processes; of a file, which has none, as `wall_s`.
        wal_bytes: What it writes to the log; 0 where that was not measured.
    """

    wall_s: float
    server_s: float
    wal_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What was measured.

    Args:
        kind: The database.
        rows: How many operations it had.
        polls: How often each of these had been asked.
        record_bytes: The record as JSON.
        row_bytes: What the table has of one operation.
        index_bytes: What each index has of one.
        claims: A claim, by how many it found.
        cold_claim: A claim of 50 after a checkpoint, when each page is logged whole once more.
        save: A record that is written, and its lease given back.
        cold_save: The same after a checkpoint.
        get: A record read by its key.
        hot_share: Of the updated rows, those that no index had to be told of.
        decision_s: CPU of one turn in a `Schedule`, with the pause after it.
        poll_cpu_s: CPU of a process with a fleet for one poll.
        save_cpu_s: The same for one save.
        step_cpu_s: CPU of a process with a worker for one step; that of a file's database is in it.
    """

    kind: str
    rows: int
    polls: int
    record_bytes: int
    row_bytes: float
    index_bytes: dict[str, float]
    claims: dict[int, Cost]
    cold_claim: Cost
    save: Cost
    cold_save: Cost
    get: Cost
    hot_share: float | None
    poll_cpu_s: float
    save_cpu_s: float
    step_cpu_s: float

    @property
    def on_server(self) -> bool:
        """Whether the database has processes of its own."""
        return self.hot_share is not None

    @property
    def statement_s(self) -> float:
        """What a claim costs the database however few rows it finds."""
        return max(self.claims[1].server_s - self.claim_s, 0.0)

    @property
    def claim_s(self) -> float:
        """What each row of a claim costs it; the slope between the fewest and the most rows."""
        fewest, most = min(self.claims), max(self.claims)
        return (self.claims[most].server_s - self.claims[fewest].server_s) / (most - fewest)

    def costs(self, lanes: int) -> Costs:
        """For a simulation."""
        return Costs(
            statement_s=self.statement_s,
            claim_s=self.claim_s,
            save_s=self.save.server_s,
            read_s=self.get.server_s,
            poll_cpu_s=self.poll_cpu_s + self.save_cpu_s,
            step_cpu_s=self.step_cpu_s,
            lanes=lanes,
        )
