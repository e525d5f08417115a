"""Time that passes only when a test says so, or when somebody sleeps."""

from __future__ import annotations

import datetime as dt
import math
import random as _random
import threading

from trihop._clock import utc

_MOST_SLEEPS = 1_000_000
_NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)


class _NoJitter(_random.Random):
    """Always the low end: `uniform(a, b)` is a."""

    def random(self) -> float:
        return 0.0


class VirtualClock:
    """A clock whose sleeps take no time.

    `monotonic` starts at 0.0 and the wall clock at `start`; both move when
    somebody sleeps or when the test advances them. There is one time for all
    threads: two threads that sleep 10 s each move it by 20 s.

    Args:
        start: What the wall clock says at first, aware.
        random: The source of jitter. None gives none: every random pause is the
            shortest it could be. `random.Random(7)` gives real, repeatable jitter.

    Raises:
        ValueError: `start` is naive.

    >>> clock = VirtualClock()
    >>> clock.sleep(40)
    >>> clock.advance(2.5)
    >>> clock.sleeps, clock.monotonic(), clock.now.isoformat()
    ([40], 42.5, '2026-03-01T12:00:42.500000+00:00')
    """

    random: _random.Random
    sleeps: list[float]

    def __init__(self, *, start: dt.datetime = _NOON, random: _random.Random | None = None) -> None:
        if start.utcoffset() is None:
            raise ValueError(f"VirtualClock(start=) needs an aware datetime, got {start!r}")
        self.random = _NoJitter() if random is None else random
        self.sleeps = []
        self._lock = threading.Lock()
        self._elapsed_s = 0.0
        since_epoch = start - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
        self._wall_ns = since_epoch // dt.timedelta(microseconds=1) * 1000

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        with self._lock:
            return self._elapsed_s

    def time_ns(self) -> int:
        """Nanoseconds since the epoch, as the wall clock has it."""
        with self._lock:
            return self._wall_ns

    @property
    def now(self) -> dt.datetime:
        """The wall clock as an aware datetime in UTC."""
        return utc(self.time_ns())

    def sleep(self, seconds: float) -> None:
        """Let that much time pass at once, and note it in `sleeps`.

        Raises:
            ValueError: Not a finite number, 0 or more.
            AssertionError: The millionth sleep is over: some loop has no end.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"sleep() takes seconds, 0 or more, got {seconds!r}")
        with self._lock:
            if len(self.sleeps) >= _MOST_SLEEPS:
                raise AssertionError(
                    f"{_MOST_SLEEPS:,} sleeps on one VirtualClock, {self._elapsed_s:g} s in all, the last ones "
                    f"{self.sleeps[-3:]}: a loop without an end, or a script whose then_always never lets a job end"
                )
            self.sleeps.append(seconds)
            self._pass(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass without a sleep: a slow server, a machine that was suspended.

        Raises:
            ValueError: Not a finite number, 0 or more; `step_wall` goes back.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"advance() takes seconds, 0 or more, got {seconds!r}")
        with self._lock:
            self._pass(seconds)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or, with a negative number, back, as NTP does; no time passes."""
        with self._lock:
            self._wall_ns += round(seconds * 1e9)

    def _pass(self, seconds: float) -> None:
        self._elapsed_s += seconds
        self._wall_ns += round(seconds * 1e9)

    def __repr__(self) -> str:
        return f"VirtualClock(now={self.now.isoformat()}, sleeps={len(self.sleeps)})"
