"""Deadlines that were none: per request, slept past, replaced, or answered with half a result."""

from __future__ import annotations

import pytest

from field.jobs import state, submitted
from trihop import DeadlineExceeded, Pacing, operation
from trihop.testing import delayed


def test_dl_04_poll_timeout_ignored(server, clock, wait_for):
    """The deadline is the wait's, whatever each request's own timeout is.

    https://github.com/openai/openai-python/issues/1855
    """
    server.script(submitted(), then_always=delayed(0.1, state("running")))

    with pytest.raises(DeadlineExceeded, match="last state 'running'"):
        wait_for(deadline=2, timeout=600, pacing=Pacing(first=0.5, cap=0.5))
    assert 1.5 <= clock.monotonic() <= 2


def test_dl_06_sleep_full_delay(server, clock, wait_for):
    """A pause that does not fit before the deadline is not begun.

    https://github.com/RedHatQE/wait_for/issues/43
    """
    server.script(submitted(), then_always=state("running"))

    with pytest.raises(DeadlineExceeded, match="the next pacing pause is 45 s and 15 s are left"):
        wait_for(deadline=60, pacing=Pacing(first=45, cap=45))
    assert clock.monotonic() == 45


def test_dl_11_none_becomes_900(server, clock, wait_for):
    """None is no deadline, 0 is at once, and there is no default that could be mistaken for either.

    https://github.com/googleapis/python-api-core/issues/591
    """
    server.script(submitted(), *[state("running")] * 400, state("done"))
    assert wait_for(deadline=None).state == "done"
    assert clock.monotonic() > 3 * 3600

    asked = len(server.calls)
    with pytest.raises(DeadlineExceeded, match=r"deadline 0 s"):
        wait_for(deadline=0)
    assert len(server.calls) == asked

    with pytest.raises(TypeError, match="deadline"):
        operation("export")


def test_dl_13_timeout_returns_half_result(server, wait_for):
    """What the deadline gives is an exception, never a result with empty fields.

    https://github.com/Azure/azure-sdk-for-python/issues/1003
    """
    server.script(submitted(), then_always=state("running", results=[]))

    with pytest.raises(DeadlineExceeded) as late:
        wait_for(deadline=30)
    assert isinstance(late.value, TimeoutError)
    assert not hasattr(late.value, "ready")
