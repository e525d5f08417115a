"""The clock whose sleeps take no time."""

import datetime as dt
import math
import random
import threading

import pytest

from trihop.testing import VirtualClock, _virtual

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)


def test_a_sleep_moves_both_clocks_at_once_and_is_noted():
    """After sleeping 40 s, elapsed and wall time are 40 s on and the sleep is in the list."""
    clock = VirtualClock()

    clock.sleep(40)
    clock.sleep(0)

    assert (clock.sleeps, clock.monotonic(), clock.now) == ([40, 0], 40.0, NOON + dt.timedelta(seconds=40))


def test_time_that_passes_is_no_sleep():
    """advance() moves both clocks and notes nothing."""
    clock = VirtualClock()

    clock.advance(2400)

    assert (clock.sleeps, clock.monotonic(), clock.now) == ([], 2400.0, NOON + dt.timedelta(seconds=2400))


def test_a_step_of_the_wall_clock_is_not_elapsed_time():
    """step_wall() moves the wall clock, back as well, and leaves elapsed time alone."""
    clock = VirtualClock()

    clock.step_wall(-3600)

    assert (clock.monotonic(), clock.now) == (0.0, NOON - dt.timedelta(hours=1))


def test_the_wall_clock_starts_where_it_is_told_to_the_nanosecond():
    """time_ns() of a start in another zone is that instant exactly."""
    start = dt.datetime(2030, 6, 1, 3, 4, 5, 678901, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))

    assert VirtualClock(start=start).time_ns() == 1906493645678901000


def test_a_naive_start_is_refused():
    """A start without a time zone is an error, not a guess."""
    with pytest.raises(ValueError, match="aware"):
        VirtualClock(start=dt.datetime(2026, 3, 1))


def test_there_is_no_jitter_unless_a_random_is_given():
    """Without a Random every draw is the low end; with one, the draws are its own."""
    still, lively = VirtualClock(), VirtualClock(random=random.Random(7))

    assert [still.random.random(), still.random.uniform(3, 9), still.random.randrange(5, 8)] == [0.0, 3, 5]
    assert [lively.random.random() for _ in range(3)] == [random.Random(7).random(), *_after_first(7, 2)]


def _after_first(seed, count):
    source = random.Random(seed)
    source.random()
    return [source.random() for _ in range(count)]


@pytest.mark.parametrize("seconds", [-0.001, math.nan, math.inf])
def test_a_sleep_of_no_length_of_time_is_refused(seconds):
    """A negative, undefined or endless sleep raises ValueError and moves nothing."""
    clock = VirtualClock()

    with pytest.raises(ValueError, match="seconds, 0 or more"):
        clock.sleep(seconds)
    with pytest.raises(ValueError, match="seconds, 0 or more"):
        clock.advance(seconds)

    assert (clock.sleeps, clock.monotonic()) == ([], 0.0)


def test_a_loop_without_an_end_is_stopped(monkeypatch):
    """Past the limit of sleeps a sleep raises AssertionError, saying what to look for."""
    monkeypatch.setattr(_virtual, "_MOST_SLEEPS", 1000)
    clock = VirtualClock()

    def loop():
        for _ in range(2000):
            clock.sleep(0.5)

    with pytest.raises(AssertionError, match=r"1,000 sleeps on one VirtualClock, 500 s in all.*then_always"):
        loop()


def test_no_sleep_is_lost_between_threads():
    """Sleeps of eight threads add up, in the list and on the clock."""
    clock = VirtualClock()
    threads = [threading.Thread(target=lambda: [clock.sleep(0.5) for _ in range(500)]) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(clock.sleeps), clock.monotonic()) == (4000, 2000.0)
