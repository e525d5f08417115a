"""One instant, and the cutting of every wait to what is left before it."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, replace

from trihop._clock import Clock, utc

DeadlineSpec = float | dt.timedelta | dt.datetime | None


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant on the clock's monotonic time; infinite where there is none.

    Args:
        at_s: The instant.
        duration_s: From the operation's begin to it.
        clock: Whose time it is.
    """

    at_s: float
    duration_s: float
    clock: Clock

    def remaining(self) -> float:
        """Seconds left; negative once it has passed, `inf` where there is none."""
        return self.at_s - self.clock.monotonic()

    def fits(self, seconds: float) -> bool:
        """Whether a pause of that length would leave time for a further request."""
        return seconds < self.remaining()

    def no_later_than(self, other: Deadline | None) -> Deadline:
        """This one, or the other if that comes first, its duration counted from now."""
        if other is None or other.at_s >= self.at_s:
            return self
        return replace(other, duration_s=max(0.0, other.remaining()))

    def at(self) -> dt.datetime | None:
        """The instant on the wall clock as it stands now; None where there is none, or none that a calendar has."""
        if math.isinf(self.at_s):
            return None
        try:
            return utc(self.clock.time_ns()) + dt.timedelta(seconds=self.remaining())
        except OverflowError:
            return None


def seconds_until(deadline: DeadlineSpec, *, now: dt.datetime, operation: str) -> float:
    """What a caller's `deadline=` comes to, in seconds from now.

    Args:
        deadline: Seconds as in `requests`, a `timedelta`, an aware `datetime`, or
            None for none at all. 0 means at once: nothing will be sent.
        now: The wall clock, aware.
        operation: Named in the errors.

    Returns:
        Seconds, `inf` for None; negative for a datetime that has passed.

    Raises:
        TypeError: It is none of these.
        ValueError: It is negative, not a number, or a datetime without a zone.
    """
    expected = "deadline= takes seconds, a timedelta, an aware datetime, or None for no deadline"
    match deadline:
        case None:
            return math.inf
        case bool():
            raise TypeError(f"operation {operation!r}: {expected}; got {deadline!r}")
        case int() | float():
            try:
                seconds = float(deadline)
            except OverflowError:  # a whole number that no float has
                seconds = math.inf if deadline > 0 else -math.inf
        case dt.timedelta():
            seconds = deadline.total_seconds()
        case dt.datetime():
            if deadline.tzinfo is None or deadline.utcoffset() is None:
                raise ValueError(
                    f"operation {operation!r}: {expected}; got a datetime without a time zone ({deadline.isoformat()})"
                )
            return (deadline - now).total_seconds()
        case _:
            raise TypeError(f"operation {operation!r}: {expected}; got {deadline!r}")
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"operation {operation!r}: {expected}; got {deadline!r}, which is not a time to come")
    return seconds
