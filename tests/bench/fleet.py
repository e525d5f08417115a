"""Many jobs in one process: polls a second, lateness, memory a job, and whether a poll's cost grows with them."""

from __future__ import annotations

import gc
import logging
import statistics
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from tests.bench.server import running

from trihop import Call, Fleet, Pacing
from trihop._fleet.job import FleetJob
from trihop.providers import generic

_TICK = threading.Event()


class Enough(Exception):
    """Leaves a fleet whose jobs never end."""


@dataclass
class Seen:
    """When steps began, against when they were due."""

    late_s: list[float] = field(default_factory=list)
    counts: bool = False


@contextmanager
def watched() -> Iterator[Seen]:
    """Note each poll of a fleet."""
    seen, depart = Seen(), FleetJob.depart

    def noting(job: FleetJob, *args: Any, **options: Any) -> Any:
        if seen.counts and job._pause is not None:
            seen.late_s.append(job.op._clock.monotonic() - job._since_s - job._pause.seconds)
        return depart(job, *args, **options)

    FleetJob.depart = noting  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        FleetJob.depart = depart  # type: ignore[method-assign]


@dataclass(frozen=True)
class Run:
    """What some seconds of a fleet came to."""

    polls_per_s: float
    cpu_per_poll_s: float
    late_s: list[float]

    def late(self, share: float) -> float:
        """By how much so large a share of the polls was late at the most."""
        return self.late_s[int(share * (len(self.late_s) - 1))]


def patient(every_s: float) -> Any:
    """Asks so often, and no less often."""
    return replace(generic.ACCEPTED, pacing=Pacing(first=every_s, factor=1, cap=every_s))


def polling(
    url: str, jobs: int, every_s: float, *, for_s: float, workers: int = 8, settle_s: float | None = None
) -> Run:
    """So many jobs, asked every so often, for some seconds, some seconds after all were submitted."""
    with watched() as seen, requests.Session() as session:
        try:
            with Fleet(session=session, provider=patient(every_s), workers=workers, per_origin=workers) as fleet:
                for _ in range(jobs):
                    fleet.start("bench", Call("POST", f"{url}/endless"), deadline=None)
                while any(job._poller is None for job in list(fleet._crew.jobs.values())):
                    _TICK.wait(0.05)
                _TICK.wait(min(every_s, 2.0) if settle_s is None else settle_s)
                began_s, cpu_s = time.perf_counter(), time.process_time()
                seen.counts = True
                _TICK.wait(for_s)
                seen.counts = False
                took_s, used_s = time.perf_counter() - began_s, time.process_time() - cpu_s
                raise Enough
        except Enough:
            pass
    polls = len(seen.late_s)
    return Run(polls / took_s, used_s / max(1, polls), sorted(seen.late_s))


def pool(url: str, *, for_s: float) -> float:
    """Polls a second of 16 threads on `Session.get`."""
    over, counts = threading.Event(), [0] * 16
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=16))

        def ask(number: int) -> None:
            while not over.is_set():
                session.get(f"{url}/endless/{number}").json()
                counts[number] += 1

        with ThreadPoolExecutor(16) as threads:
            done = [threads.submit(ask, number) for number in range(16)]
            began_s = time.perf_counter()
            _TICK.wait(for_s)
            over.set()
            took_s = time.perf_counter() - began_s
            for one in done:
                one.result()
    return sum(counts) / took_s


def memory(url: str, jobs: int) -> float:
    """Bytes of a job that has been polled and waits."""
    with requests.Session() as session:
        try:
            with Fleet(session=session, provider=patient(5.0)) as fleet:
                fleet.start("bench", Call("POST", f"{url}/endless"), deadline=36_000)
                _TICK.wait(6.0)  # all that one job brings for all
                gc.collect()
                tracemalloc.start()
                for _ in range(jobs):
                    fleet.start("bench", Call("POST", f"{url}/endless"), deadline=36_000)
                while any(job.op._run.polls < 2 for job in list(fleet._crew.jobs.values())):
                    _TICK.wait(0.1)
                gc.collect()
                size_bytes = tracemalloc.get_traced_memory()[0]
                raise Enough
        except Enough:
            return size_bytes / jobs
        finally:
            tracemalloc.stop()


def saturated(url: str) -> float:
    """Polls a second of a fleet that always has some to do, against those of the pool; turn by turn."""
    ratios = [polling(url, 200, 0.001, for_s=2.0).polls_per_s / pool(url, for_s=2.0) for _ in range(3)]
    return statistics.median(ratios)


def growth(url: str) -> float:
    """CPU of a poll among 10,000 jobs, of which there is always one to ask, against that among 100.

    After the first poll of each, which costs more, and without a pause, in which the processor's caches get cold.
    """

    def cpu_s(jobs: int) -> float:
        return polling(url, jobs, 0.001, for_s=4.0, settle_s=8.0).cpu_per_poll_s

    before_s, many_s, after_s = cpu_s(100), cpu_s(10_000), cpu_s(100)
    return 2 * many_s / (before_s + after_s)


def report() -> dict[str, float]:
    """Print the table; the values by name."""
    logging.getLogger("trihop").setLevel(logging.ERROR)  # a fleet that is left says so
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    found: dict[str, float] = {}
    with running() as url:
        found["fleet, saturated / 16 threads on Session.get"] = saturated(url)
        half, whole = polling(url, 500, 1.0, for_s=6.0), polling(url, 1000, 1.0, for_s=6.0)
        found["500 jobs at 1 s: share of the offered polls"] = half.polls_per_s / 500
        found["500 jobs at 1 s: late by, for 99 of 100, in ms"] = half.late(0.99) * 1e3
        found["1,000 jobs at 1 s: share of the offered polls"] = whole.polls_per_s / 1000
        many = polling(url, 10_000, 30.0, for_s=12.0)
        found["10,000 jobs at 30 s: late by, for 99 of 100, in ms"] = many.late(0.99) * 1e3
        found["CPU of a poll: among 10,000 / among 100"] = growth(url)
        found["memory of a job, no SDK, in kB"] = memory(url, 1000) / 1e3
    show(found)
    return found


def traced() -> dict[str, float]:
    """The same of the memory, where spans are recorded."""
    logging.getLogger("trihop").setLevel(logging.ERROR)
    trace.set_tracer_provider(TracerProvider())
    with running() as url:
        found = {"memory of a job with open spans, in kB": memory(url, 500) / 1e3}
    show(found)
    return found


REACH = {
    "fleet, saturated / 16 threads on Session.get": 1.8,
    "500 jobs at 1 s: share of the offered polls": 0.99,
    "1,000 jobs at 1 s: share of the offered polls": 0.9,
    "10,000 jobs at 30 s: late by, for 99 of 100, in ms": 10,
    "CPU of a poll: among 10,000 / among 100": 1.15,
    "memory of a job, no SDK, in kB": 4,
    "memory of a job with open spans, in kB": 10,
}


def show(found: dict[str, float]) -> None:
    """Print a line for each."""
    for title, value in found.items():
        reach = f"   (reach {REACH[title]:g})" if title in REACH else ""
        print(f"{title:<55} {value:6.2f}{reach}")


if __name__ == "__main__":
    report()
