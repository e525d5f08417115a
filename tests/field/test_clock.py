"""Clocks that were set, stood still, or disagreed."""

from __future__ import annotations

import time

import pytest

from field.jobs import JOBS, state, submitted
from trihop import DeadlineExceeded, ResultUnavailable, operation
from trihop._clock import SystemClock
from trihop.testing import VirtualClock


@pytest.mark.parametrize("step_s", [9900, -9900])
def test_clk_01_wall_clock_timeout(server, clock, wait_for, step_s):
    """Setting the wall clock between two polls neither ends a wait nor lengthens it.

    https://github.com/xai-org/xai-sdk-python/issues/203
    """

    def set_meanwhile(call):
        clock.step_wall(step_s)
        return state("running")

    server.script(submitted(), set_meanwhile, state("done"))
    assert wait_for(deadline=10).state == "done"
    assert clock.sleeps == [1, 1]

    server.script(submitted(), set_meanwhile, then_always=state("running"))
    with pytest.raises(DeadlineExceeded):
        wait_for(deadline=10)
    assert clock.monotonic() <= 2 + 10


class Suspended(VirtualClock):
    """A machine that is suspended in its third sleep, for 40 minutes."""

    def sleep(self, seconds):
        super().sleep(seconds)
        if len(self.sleeps) == 3:
            self.advance(2400)


def test_clk_03_monotonic_stops(server, session, spans):
    """The deadline counts the time the machine was suspended, where it can tell, and the trace shows the gap.

    https://github.com/gammons/slk/pull/108
    """
    server.script(submitted(), state("running"), state("running"), state("done"), submitted(), state("running"))
    server.script(then_always=state("running"))

    with operation("export", deadline=7200, session=session, provider=JOBS, clock=Suspended()) as op:
        op.poll(op.submit("POST", server.url + "jobs", json={}))
    poll = spans.named("poll export")
    assert poll.attributes["trihop.poll.wait_overrun_max"] == 2400
    assert [event.attributes.get("trihop.attempt.mark") for event in poll.events] == [None, None, "late"]

    with (
        pytest.raises(DeadlineExceeded, match="the deadline passed before the next request"),
        operation("export", deadline=600, session=session, provider=JOBS, clock=Suspended()) as op,
    ):
        op.poll(op.submit("POST", server.url + "jobs", json={}))

    if hasattr(time, "CLOCK_BOOTTIME"):
        assert abs(SystemClock().monotonic() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 5


def test_clk_05_not_yet_valid(server, other, fetch):
    """A 403 on a link is answered by one poll for a fresh one; the report would first ask the same link again.

    https://github.com/minio/minio-java/issues/487
    """
    server.on("POST", "/jobs", then_always=submitted())
    server.on("GET", "/jobs/J1", *[state("done", results=f"{other.url}rows?sig={n}") for n in (1, 2, 3)])
    other.on("GET", "/rows?sig=1", then_always=403)
    other.on("GET", "/rows?sig=2", b"rows")
    assert fetch().content == b"rows"

    server.on("GET", "/jobs/J1", state("done", results=f"{other.url}rows?sig=3"))
    other.on("GET", "/rows?sig=3", 403)
    with pytest.raises(ResultUnavailable, match="a fresh poll gave the same link"):
        fetch()
