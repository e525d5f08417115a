"""What so many jobs would take, from what one takes: nothing here is run."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from simulate.units import Units
from trihop import Fleet, Pacing
from trihop._fleet.crew import _LOOKS_PER_S, _WOKEN_WITHIN_S
from trihop._pacing import next_pause
from trihop._worker import _OFFERED_AT_ONCE, Worker

FLEET, WORKER, ENGINE = "fleet", "worker", "engine"

OFFERED_AT_A_LOOK: int = inspect.signature(Worker.offer).parameters["limit"].default
IN_FLIGHT: int = inspect.signature(Fleet).parameters["in_flight"].default

_DRAWS = 20_000
_MANY = 1_000  # pauses after which no pause grows any more
_POOL = 8  # connections that a process keeps
_PAGE_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How many, and of what.

    Args:
        jobs: In flight.
        workers: Threads that ask.
        threads: Of these in a process.
        latency_s: How long a server's answer takes.
        cores: Of the database; 1 for a file, which has one writer.
        wal_per_s: Bytes a second that its log's disk takes.
        connections: How many it accepts (PostgreSQL's default).
        vacuum_pages_per_s: How many pages its vacuum cleans in a second (PostgreSQL's defaults:
            vacuum_cost_limit 200, 20 a page that is made dirty, every 2 ms).
        offers_every_s: How often an engine's dispatcher looks (its `every=`).
        vacuum_at: Share of the rows that are dead when it begins (autovacuum_vacuum_scale_factor).
    """

    jobs: int = 10_000_000
    workers: int = 1_000
    threads: int = 8
    latency_s: float = 0.1
    cores: int = 16
    wal_per_s: float = 200e6
    connections: int = 100
    vacuum_pages_per_s: float = 200 / 20 / 0.002
    offers_every_s: float = 1.0
    vacuum_at: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What one poll costs, one way.

    Args:
        database_s: CPU of the database.
        wait_s: Until its statements are answered.
        wal_bytes: Of its log, long after a checkpoint.
        cold_wal_bytes: Of its log, right after one.
        updates: Rows that are written anew, each of which leaves a dead one.
        cpu_s: Of the process that asks.
    """

    database_s: float
    wait_s: float
    wal_bytes: float
    cold_wal_bytes: float
    updates: int
    cpu_s: float


def polls(units: Units) -> dict[str, Poll]:
    """What a poll costs, by the way it is made.

    A fleet writes the record, where the pause is above 5 s. A worker claims for the threads that are free,
    which is one under load as the simulation shows, and writes the record, which gives the lease back. An engine's
    dispatcher claims as many at a time as `Worker.offer` does, and its step reads, claims by key and writes.
    """
    one, save, get = units.claims[1], units.save, units.get
    claim_bytes = (units.claims[200].wal_bytes - one.wal_bytes) / 199
    cold_bytes = units.cold_claim.wal_bytes / 50
    step_s = units.step_cpu_s
    return {
        FLEET: Poll(
            database_s=save.server_s,
            wait_s=save.wall_s,
            wal_bytes=save.wal_bytes,
            cold_wal_bytes=units.cold_save.wal_bytes,
            updates=1,
            cpu_s=units.poll_cpu_s + units.save_cpu_s,
        ),
        WORKER: Poll(
            database_s=one.server_s + save.server_s,
            wait_s=one.wall_s + save.wall_s,
            wal_bytes=one.wal_bytes + save.wal_bytes,
            cold_wal_bytes=cold_bytes + units.cold_save.wal_bytes,
            updates=2,
            cpu_s=step_s,
        ),
        ENGINE: Poll(
            database_s=units.statement_s / _OFFERED_AT_ONCE
            + units.claim_s
            + get.server_s
            + one.server_s
            + save.server_s,
            wait_s=get.wall_s + one.wall_s + save.wall_s,
            wal_bytes=claim_bytes + one.wal_bytes + save.wal_bytes,
            cold_wal_bytes=cold_bytes + one.wal_bytes + units.cold_save.wal_bytes,
            updates=3,
            cpu_s=step_s,
        ),
    }


def looks_per_s(scale: Scale, pause_s: float) -> float:
    """How often fleets read a record in a pause, for a webhook that cut it short; the last one is its poll."""
    processes = scale.workers / scale.threads
    look_s = max(_WOKEN_WITHIN_S, scale.jobs / processes / _LOOKS_PER_S)
    return scale.jobs / pause_s * max(0.0, math.ceil(pause_s / look_s) - 1)


def carries(units: Units, scale: Scale, way: str) -> dict[str, float]:
    """How many polls a second each resource carries, the first to break first; those that polls do not use left out."""
    found = demand(units, scale, way, 300.0)
    twice = demand(units, scale, way, 600.0)
    moved = {name: share for name, share in found.used.items() if share != twice.used[name]}
    return {name: found.polls_per_s / share for name, share in moved.items()}


def mean_pause_s(cap_s: float, *, hinted: bool) -> float:
    """The mean of the pauses that the library makes, long after the start.

    Args:
        cap_s: `Pacing.cap`; or what the server asks for.
        hinted: Which of these.
    """
    draw, pacing = Random(7), Pacing(cap=cap_s)
    hint_s = cap_s if hinted else None
    return sum(next_pause(pacing, _MANY, hint_s, None, draw).seconds for _ in range(_DRAWS)) / _DRAWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What all of them take.

    Args:
        polls_per_s: Of all jobs.
        database_cores: CPU seconds of the database in a second.
        wal_per_s: Bytes of its log in a second, long after a checkpoint.
        cold_wal_per_s: The same right after one.
        dead_per_s: Rows that die in a second.
        vacuum_every_s: How often that begins a vacuum.
        threads: That are busy in the mean.
        process_cores: CPU seconds of the processes that ask, in a second.
        used: By resource, what is asked of it against what there is; the first to break first.
    """

    polls_per_s: float
    database_cores: float
    wal_per_s: float
    cold_wal_per_s: float
    dead_per_s: float
    vacuum_every_s: float
    threads: float
    process_cores: float
    used: Mapping[str, float]


def demand(units: Units, scale: Scale, way: str, pause_s: float) -> Demand:
    """What so many jobs take that are asked one way, with such a pause in the mean."""
    poll = polls(units)[way]
    polls_per_s = scale.jobs / (pause_s + scale.latency_s)
    processes = scale.workers / scale.threads
    dead_per_s = polls_per_s * poll.updates
    vacuum_every_s = scale.vacuum_at * scale.jobs / dead_per_s
    database_cores = polls_per_s * poll.database_s
    if way == FLEET:
        database_cores += looks_per_s(scale, pause_s) * units.get.server_s
    threads = polls_per_s * (scale.latency_s + poll.wait_s)
    used = {
        "database CPU": database_cores / scale.cores,
        "threads": threads / scale.workers,
        "CPU of the processes": polls_per_s * poll.cpu_s / processes,
    }
    if units.on_server:
        pages = scale.jobs * (units.row_bytes + sum(units.index_bytes.values())) / _PAGE_BYTES
        used["log (WAL)"] = polls_per_s * poll.wal_bytes / scale.wal_per_s
        used["log (WAL) after a checkpoint"] = polls_per_s * poll.cold_wal_bytes / scale.wal_per_s
        used["vacuum"] = pages / vacuum_every_s / scale.vacuum_pages_per_s
        used["connections"] = processes * min(scale.threads, _POOL) / scale.connections
    if way == FLEET:
        used["in_flight of a fleet"] = scale.jobs / processes / IN_FLIGHT
    if way == ENGINE:
        used["offers of one dispatcher"] = polls_per_s / (OFFERED_AT_A_LOOK / scale.offers_every_s)
    return Demand(
        polls_per_s=polls_per_s,
        database_cores=database_cores,
        wal_per_s=polls_per_s * poll.wal_bytes,
        cold_wal_per_s=polls_per_s * poll.cold_wal_bytes,
        dead_per_s=dead_per_s,
        vacuum_every_s=vacuum_every_s,
        threads=threads,
        process_cores=polls_per_s * poll.cpu_s,
        used=dict(sorted(used.items(), key=lambda one: -one[1])),
    )
