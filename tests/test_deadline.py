"""One instant, and what is left before it."""

import datetime as dt
import math
import re

import pytest

from trihop._deadline import Deadline, seconds_until
from trihop.testing import VirtualClock

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
TOKYO = dt.timezone(dt.timedelta(hours=9))


def until(deadline):
    return seconds_until(deadline, now=NOON, operation="export")


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [
        (None, math.inf),
        (0, 0.0),
        (90, 90.0),
        (0.25, 0.25),
        (math.inf, math.inf),
        (10**400, math.inf),
        (dt.timedelta(minutes=1.5), 90.0),
        (dt.timedelta(0), 0.0),
        (NOON + dt.timedelta(hours=2), 7200.0),
        ((NOON + dt.timedelta(hours=2)).astimezone(TOKYO), 7200.0),
        (NOON - dt.timedelta(seconds=5), -5.0),
    ],
    ids=repr,
)
def test_a_deadline_comes_to_seconds_from_now(deadline, seconds):
    """A number means seconds, an instant what is left until it; None is written out for none."""
    assert until(deadline) == seconds


@pytest.mark.parametrize(
    ("deadline", "error", "got"),
    [
        ("soon", TypeError, "'soon'"),
        ("60", TypeError, "'60'"),
        (True, TypeError, "True"),
        ([60], TypeError, "[60]"),
        (dt.date(2026, 3, 2), TypeError, "datetime.date(2026, 3, 2)"),
        (dt.time(12), TypeError, "datetime.time(12, 0)"),
        (dt.datetime(2026, 3, 2, 1), ValueError, "a datetime without a time zone (2026-03-02T01:00:00)"),
        (-1, ValueError, "-1, which is not a time to come"),
        (dt.timedelta(seconds=-1), ValueError, "which is not a time to come"),
        (math.nan, ValueError, "nan, which is not a time to come"),
        (-math.inf, ValueError, "-inf, which is not a time to come"),
    ],
    ids=repr,
)
def test_what_is_no_deadline_is_told_what_is(deadline, error, got):
    """The message names the operation, what it takes and what it got."""
    expected = (
        "operation 'export': deadline= takes seconds, a timedelta, an aware datetime, or None for no deadline; got"
    )
    with pytest.raises(error, match=re.escape(expected) + ".*" + re.escape(got)):
        until(deadline)


def test_what_is_left_follows_the_clock():
    """Positive before, zero at and negative after the instant."""
    clock = VirtualClock()
    deadline = Deadline(60.0, 60.0, clock)

    assert deadline.remaining() == 60
    clock.sleep(60)
    assert deadline.remaining() == 0
    clock.advance(5)
    assert deadline.remaining() == -5


def test_a_pause_fits_when_it_leaves_time_for_a_request():
    """A pause that would end with the deadline leaves none."""
    deadline = Deadline(60.0, 60.0, VirtualClock())

    assert (deadline.fits(59.999), deadline.fits(60), deadline.fits(3600)) == (True, False, False)
    assert Deadline(math.inf, math.inf, VirtualClock()).fits(1e9)


def test_a_wall_clock_that_is_set_does_not_move_the_deadline():
    """What is left is elapsed time; only the instant's name on the wall follows."""
    clock = VirtualClock()
    deadline = Deadline(60.0, 60.0, clock)

    clock.step_wall(3600)

    assert deadline.remaining() == 60
    assert deadline.at() == NOON + dt.timedelta(hours=1, minutes=1)


@pytest.mark.parametrize("at_s", [math.inf, 1e15, 1e30])
def test_an_instant_beyond_the_calendar_has_no_name(at_s):
    """It is still a deadline: nothing overflows."""
    deadline = Deadline(at_s, at_s, VirtualClock())

    assert (deadline.at(), deadline.fits(1e9)) == (None, True)


def test_the_earlier_of_two_counts():
    """Its duration is then what is left of it."""
    clock = VirtualClock()
    short, long = Deadline(50.0, 50.0, clock), Deadline(80.0, 80.0, clock)
    clock.sleep(20)

    assert long.no_later_than(short) == Deadline(50.0, 30.0, clock)
    assert short.no_later_than(long) is short
    assert short.no_later_than(None) is short
