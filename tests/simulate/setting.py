"""What is simulated: jobs, the servers they are at, who asks, and what a statement costs the database."""

from __future__ import annotations

from dataclasses import dataclass

from trihop import Pacing

FLEETS, WORKERS = "fleets", "workers"
"""Two ways to ask: each process has a `Schedule` of its own jobs and writes them down; or the store is the schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An API at one origin.

    Args:
        name: The origin.
        share: Of the jobs; of all servers together 1.
        latency_s: How long an answer takes in the mean.
        limit_per_s: How many requests it answers in a second; others get 429. None sets no limit.
        storm_s: From when to when it answers 429 to everybody.
        retry_after_s: What it asks for with a 429.
        failing: Share of the polls that are answered 503, without a hint.
    """

    name: str
    share: float
    latency_s: float = 0.05
    limit_per_s: float | None = None
    storm_s: tuple[float, float] | None = None
    retry_after_s: float = 30.0
    failing: float = 0.005


PACING = Pacing()

SERVERS = (
    Server(name="https://plain.example", share=0.50),
    Server(name="https://limited.example", share=0.15, limit_per_s=2_000, retry_after_s=5.0),
    Server(name="https://storm.example", share=0.24, storm_s=(60.0, 70.0)),
    Server(name="https://flaky.example", share=0.10, failing=0.05),
    Server(name="https://slow.example", share=0.01, latency_s=2.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What each part of a poll takes, in seconds.

    Args:
        statement_s: A claim of what is due, however many rows it finds.
        claim_s: Each row of it.
        save_s: A record that is written, and its lease given back.
        read_s: A record that is read by its key.
        poll_cpu_s: A poll, for a process that has a fleet.
        step_cpu_s: A step, for a process that has a worker.
        lanes: How many statements the database works on at a time: cores, or one writer of a file.
    """

    statement_s: float
    claim_s: float
    save_s: float
    read_s: float
    poll_cpu_s: float
    step_cpu_s: float
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One simulation.

    Args:
        way: `FLEETS` or `WORKERS`.
        jobs: How many.
        processes: Those that ask.
        workers: Threads in each.
        per_origin: How many of a process's threads are at one origin; of `FLEETS` alone, as a worker has no such limit.
        claim_batch: How many operations are claimed at once, at most.
        lease_s: After how long an operation whose holder is dead is claimed by somebody else.
        deaths: Share of the processes (`FLEETS`), or of the threads (`WORKERS`), that die once.
        pacing: How the jobs are asked.
        ramp_s: Within which time they are started.
        lasting_s: How long a job lasts in the mean; the times are exponential, at most five times that.
        servers: Where they are.
        costs: Of a poll.
        seed: For the same numbers again.
    """

    costs: Costs
    way: str = FLEETS
    jobs: int = 100_000
    processes: int = 125
    workers: int = 8
    per_origin: int = 4
    claim_batch: int = 8
    lease_s: float = 60.0
    deaths: float = 0.05
    pacing: Pacing = PACING
    ramp_s: float = 60.0
    lasting_s: float = 40.0
    servers: tuple[Server, ...] = SERVERS
    seed: int = 7
