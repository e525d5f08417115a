"""The measuring of what one row, one claim, one save and one poll take, in a database that is filled for it."""

from __future__ import annotations

import json
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests
import sqlalchemy as sa

from simulate.units import Cost, Units
from trihop import Pacing, SQLStore, Worker, operation
from trihop._clock import SystemClock
from trihop.providers import generic
from trihop.stores import Claim, StoredRecord
from trihop.stores._sql_url import parsed

# How many operations are claimed at a time, and how often that is measured.
ROUNDS = {1: 400, 8: 150, 50: 60, 200: 25}
SAVES = 2_000
STEPS = 300
_CLOCK = SystemClock()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PERMUTES = 7_919  # a prime: what is due one after the other does not lie side by side

FILL = """
INSERT INTO trihop_operations (key, name, job_id, record, version, ended, due_at, claimable_at, deadline_at,
    holder, lease_until, token, claims, expired, woken, updated_at)
SELECT 'export-' || n, 'export', 'job-' || n, :record, 1, false, :now - n * :prime % :rows * 1000,
    :now - n * :prime % :rows * 1000, :now + 86400000000 + n * 1000, NULL, NULL, n, 1, false, false, :now + n
FROM {numbers}
"""
NUMBERS = {
    "postgresql": "generate_series(CAST(1 AS bigint), CAST(:rows AS bigint)) AS numbers (n)",
    "sqlite": "(WITH RECURSIVE up (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < :rows) SELECT n FROM up)",
}
AGAIN = "UPDATE trihop_operations SET claimable_at = due_at, lease_until = NULL, holder = NULL WHERE holder IS NOT NULL"


def measure(database: str, *, rows: int, polls: int) -> Units:
    """Fill a database, and measure in it.

    Args:
        database: "sqlite", or "postgresql": a server of its own, of Debian's packages.
        rows: How many operations.
        polls: How often each was asked, as its record tells of each of the last ones.
    """
    for name in ("trihop", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # a fleet that is left says so
    with _empty(database) as url:
        store = SQLStore(url)
        record, step_cpu_s = _record(store, polls)
        _forget_all(store)
        measuring = _Measuring(url, store, record, rows)
        try:
            return measuring.all(polls=polls, poll_cpu_s=_poll_cpu_s(), step_cpu_s=step_cpu_s)
        finally:
            measuring.engine.dispose()
            store.close()


class _Measuring:
    """A filled database, by the front door and by the side entrance."""

    def __init__(self, url: str, store: SQLStore, record: StoredRecord, rows: int) -> None:
        self.store, self.record, self.rows = store, record, rows
        self.on_server = parsed(url).get_backend_name() == "postgresql"
        self.engine = sa.create_engine(parsed(url), isolation_level="AUTOCOMMIT")
        self.text = json.dumps(record, separators=(",", ":"))
        given = {"record": self.text, "now": _CLOCK.time_ns() // 1000, "rows": rows, "prime": _PERMUTES}
        numbers = NUMBERS["postgresql" if self.on_server else "sqlite"]
        self._sql(FILL.format(numbers=numbers), **given)
        self._sql("VACUUM ANALYZE" if self.on_server else "ANALYZE")
        self._postmaster = self._ppid() if self.on_server else 0

    def all(self, *, polls: int, poll_cpu_s: float, step_cpu_s: float) -> Units:
        row_bytes, index_bytes = self._sizes() if self.on_server else (0.0, {})
        claims = {limit: self._claim(limit, rounds) for limit, rounds in ROUNDS.items()}
        cold_claim = self._claim(50, ROUNDS[50], checkpoint=True)
        held: list[Claim] = []
        while len(held) < SAVES:
            held += self.store.claim_due(holder="one", lease_s=3600, limit=200)
        self._checkpoint()
        cold_save = self._each(held, lambda claim: self.store.save(claim, self.record, due_in_s=3600, release=True))
        began_s = time.process_time()
        save = self._each(held, lambda claim: self.store.save(claim, self.record, due_in_s=3601, release=True))
        save_cpu_s = (time.process_time() - began_s) / SAVES
        get = self._each(held, lambda claim: self.store.get(claim.key))
        if not self.on_server:
            row_bytes, index_bytes = self._sizes_of_file()
        return Units(
            kind=self._version(),
            rows=self.rows,
            polls=polls,
            record_bytes=len(self.text),
            row_bytes=row_bytes,
            index_bytes=index_bytes,
            claims=claims,
            cold_claim=cold_claim,
            save=save,
            cold_save=cold_save,
            get=get,
            hot_share=self._hot_share() if self.on_server else None,
            poll_cpu_s=poll_cpu_s,
            save_cpu_s=save_cpu_s,
            step_cpu_s=step_cpu_s,
        )

    # ---- statements

    def _claim(self, limit: int, rounds: int, *, checkpoint: bool = False) -> Cost:
        self._sql(AGAIN)
        if self.on_server:
            self._sql("VACUUM trihop_operations")
            if checkpoint:
                self._checkpoint()

        def claim() -> None:
            found = self.store.claim_due(holder="one", lease_s=3600, limit=limit)
            assert len(found) == limit

        return self._cost(claim, rounds)

    def _each(self, claims: list[Claim], do: Callable[[Claim], object]) -> Cost:
        turns = iter(claims)
        return self._cost(lambda: do(next(turns)), SAVES)

    def _checkpoint(self) -> None:
        if self.on_server:
            self._sql("CHECKPOINT")

    def _cost(self, do: Callable[[], object], times: int) -> Cost:
        server_s, wal_bytes = self._server()
        began_s = _CLOCK.monotonic()
        for _ in range(times):
            do()
        wall_s = (_CLOCK.monotonic() - began_s) / times
        if not self.on_server:
            return Cost(wall_s, wall_s)
        now_s, now_bytes = self._server()
        return Cost(wall_s, (now_s - server_s) / times, (now_bytes - wal_bytes) / times)

    def _server(self) -> tuple[float, float]:
        """CPU of the server's processes so far, and bytes of its log."""
        if not self.on_server:
            return 0.0, 0.0
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if int(fields[1]) == self._postmaster:
                ticks += int(fields[11]) + int(fields[12])
        wal = self._sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        return ticks / _TICKS_PER_S, float(wal)

    def _ppid(self) -> int:
        pid = self._sql("SELECT pg_backend_pid()")
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    # ---- sizes

    def _sizes(self) -> tuple[float, dict[str, float]]:
        indexes = self._all("SELECT indexrelname, pg_relation_size(indexrelid) FROM pg_stat_user_indexes")
        table = float(self._sql("SELECT pg_table_size('trihop_operations')"))
        ours = {str(name): size / self.rows for name, size in indexes if str(name).startswith("trihop_operations")}
        return table / self.rows, ours

    def _sizes_of_file(self) -> tuple[float, dict[str, float]]:
        """Without an index the file has so many more pages to spare."""
        page = int(self._sql("PRAGMA page_size"))
        # The key's own index cannot be dropped: it is what a table of the keys alone would have.
        found = {}
        names = self._all("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        for (name,) in names:
            before = int(self._sql("PRAGMA freelist_count"))
            self._sql(f'DROP INDEX "{name}"')
            found[str(name)] = (int(self._sql("PRAGMA freelist_count")) - before) * page / self.rows
        before = int(self._sql("PRAGMA page_count"))
        used = (before - int(self._sql("PRAGMA freelist_count"))) * page
        self._sql("CREATE UNIQUE INDEX of_keys ON trihop_operations (key)")
        after = (int(self._sql("PRAGMA page_count")) - int(self._sql("PRAGMA freelist_count"))) * page
        found["trihop_operations_pkey"] = (after - used) / self.rows
        return (used - (after - used)) / self.rows, found

    def _hot_share(self) -> float:
        self.store.close()  # a connection that ends says what it did
        _CLOCK.sleep(1.0)
        updated, hot = self._all("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables ORDER BY n_tup_upd DESC")[0]
        return float(hot / updated)

    def _version(self) -> str:
        if self.on_server:
            return f"PostgreSQL {str(self._sql('SHOW server_version')).split()[0]}"
        return f"SQLite {self._sql('SELECT sqlite_version()')}"

    def _sql(self, statement: str, **given: Any) -> Any:
        with self.engine.connect() as connection:
            done = connection.execute(sa.text(statement), given)
            return done.scalar() if done.returns_rows else None

    def _all(self, statement: str) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(sa.text(statement)))


@contextmanager
def _empty(database: str) -> Iterator[str]:
    if database == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/operations.db"
        return
    from acceptance.servers.postgresql import running

    with running() as server:
        yield server.database("simulate")


def _record(store: SQLStore, polls: int) -> tuple[StoredRecord, float]:
    """A record as it is after so many polls, and the CPU of a step."""
    from tests.bench.server import running

    provider = replace(generic.ACCEPTED, pacing=Pacing(first=0.001, factor=1, cap=0.001, floor=0))
    with running() as url, requests.Session() as session:
        worker = Worker(store, session=session, finish=lambda op, ready: None, providers=[provider], workers=1)
        for number in range(STEPS // polls + 1):
            key = f"export-{number}"
            with operation("export", deadline=86_400, session=session, provider=provider, key=key, store=store) as op:
                op.submit("POST", f"{url}/endless")
        began_s, steps = time.process_time(), 0
        while min(_polls(store)) < polls:
            steps += worker.step() is not None
        return store.list(limit=1)[0].record, (time.process_time() - began_s) / steps


def _polls(store: SQLStore) -> list[int]:
    return [int(str(stored.record["polls"])) for stored in store.list(open_only=True)]


def _forget_all(store: SQLStore) -> None:
    for stored in store.list():
        store.forget(stored.key)


def _poll_cpu_s() -> float:
    """CPU of a saturated fleet for each poll."""
    from tests.bench.fleet import polling
    from tests.bench.server import running

    with running() as url:
        return statistics.median(polling(url, 200, 0.001, for_s=1.5).cpu_per_poll_s for _ in range(3))
