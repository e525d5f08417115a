"""The only module that reads the time or sleeps."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

_SLICE_S = 30.0


class Clock(Protocol):
    """Time as the engine sees it; handed in, never looked up.

    `random` is here because a jitter is a part of time: a virtual clock brings
    a source that gives none.
    """

    random: random.Random

    def monotonic(self) -> float:
        """Seconds since some fixed instant; never runs backwards."""
        ...

    def time_ns(self) -> int:
        """Nanoseconds since the epoch, as the wall clock has it."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `monotonic`, at the earliest."""
        ...


class SystemClock:
    """The machine's own clocks.

    `monotonic` counts the time the machine was suspended where the system can
    tell (CLOCK_BOOTTIME on Linux): a deadline is about elapsed time, and a lid
    that was closed for an hour did not stop the server's job.
    """

    def __init__(self) -> None:
        self.random = random.Random()  # noqa: S311 - spreads load, guards no secret
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        # Asked some twenty times in each exchange: no method of ours in between.
        self.monotonic: Callable[[], float] = (
            time.monotonic if boottime is None else partial(time.clock_gettime, boottime)
        )

    def time_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep in slices, so that a machine that was suspended wakes on time."""
        until = self.monotonic() + seconds
        while (left := until - self.monotonic()) > 0:
            time.sleep(min(left, _SLICE_S))


class CorrectedClock:
    """Another clock, its wall time put right.

    Args:
        clock: Whose.
        by_s: Seconds by which it is behind; negative where it is ahead.
    """

    def __init__(self, clock: Clock, by_s: float) -> None:
        self.random, self.monotonic, self.sleep = clock.random, clock.monotonic, clock.sleep
        self._clock = clock
        self._by_ns = round(by_s * 1e9)

    def time_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return self._clock.time_ns() + self._by_ns


def utc(time_ns: int) -> dt.datetime:
    """An aware datetime for nanoseconds since the epoch."""
    return dt.datetime.fromtimestamp(time_ns / 1e9, tz=dt.timezone.utc)
