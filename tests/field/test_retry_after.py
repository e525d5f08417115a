"""What a server asks for in `Retry-After`, in words that broke other clients."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import DeadlineExceeded, Pacing, Reply

DATES = {"Date": "Sun, 01 Mar 2026 11:00:00 GMT", "Retry-After": "Sun, 01 Mar 2026 11:00:20 GMT"}


def test_ra_01_httpdate_crash(server, clock, wait_for):
    """A date is waited for, measured against the reply's own `Date`, so that a clock an hour off cancels out.

    https://github.com/mloesch/sickle/pull/28
    """
    server.script(submitted(), Reply(503, headers=DATES), state("done"))

    assert wait_for().state == "done"
    assert clock.sleeps == [1, 20]


def test_ra_03_fractional(server, clock, spans, wait_for):
    """Decimals are a hint as they stand; the report would round them up and mark them, we do neither.

    https://github.com/teng-lin/notebooklm-py/issues/1275
    """
    server.script(submitted(), Reply(429, headers={"Retry-After": "1.5"}), state("done"))

    assert wait_for().state == "done"
    assert clock.sleeps == [1, 1.5]
    first, _ = spans.named("poll export").events
    assert "trihop.attempt.mark" not in first.attributes


def test_ra_05_negative(server, clock, spans, wait_for):
    """A negative number is no hint: it is marked, and our own backoff is slept instead.

    https://github.com/NousResearch/hermes-agent/pull/84762
    """
    server.script(submitted(), *[Reply(429, headers={"Retry-After": "-5"})] * 3, state("done"))

    assert wait_for().state == "done"
    assert clock.sleeps == [1, 1, 2, 4]
    marks = [event.attributes.get("trihop.attempt.mark") for event in spans.named("poll export").events]
    assert marks == ["hint_unreadable"] * 3 + [None]


def test_ra_07_hour_beyond_timeout(server, clock, spans, wait_for):
    """A pause beyond the deadline is refused at once, and the error carries what was asked for.

    https://github.com/urllib3/urllib3/issues/1338
    """
    server.script(submitted(), Reply(503, headers={"Retry-After": "3600"}))

    with pytest.raises(DeadlineExceeded, match=r"asked for 3600 s and 9 s are left") as refused:
        wait_for(deadline=10)

    assert (refused.value.phase, refused.value.asked, refused.value.remaining) == ("wait", 3600, 9)
    assert clock.sleeps == [1]
    assert spans.named("poll export").attributes["trihop.wait.refused"] == 3600


@pytest.mark.parametrize("at_once", ["0", "Sun, 01 Mar 2026 11:59:57 GMT"], ids=["zero", "past"])
def test_ra_09_zero_hot_loop(server, clock, wait_for, at_once):
    """Zero, or a date gone by, is raised to the floor of 0.5 s, and our own backoff goes on counting meanwhile.

    https://github.com/kubescape/kubevuln/pull/755
    """
    asap = Reply(429, headers={"Retry-After": at_once})
    server.script(submitted(), asap, asap, asap, 503, state("done"))

    assert wait_for().state == "done"
    assert clock.sleeps == [1, 0.5, 0.5, 0.5, 8]


def test_ra_11_initial_202_ignored(server, wait_for):
    """The submit's own hint is waited for before the first poll, and a 404 within `grace` is pending.

    https://github.com/Azure/azure-sdk-for-net/issues/44147
    """
    server.script(submitted(Retry_After="10"), 404, state("running"), state("done"))

    assert wait_for(provider=replace(JOBS, grace=30)).state == "done"
    assert [call.at for call in server.calls] == [0, 10, 11, 13]


@pytest.mark.parametrize("wrong", [None, "1", "soon"], ids=["missing", "too short", "unreadable"])
def test_ra_13_user_interval_lost(server, clock, wait_for, wrong):
    """The caller's own interval holds as the floor below which no hint is followed, and where there is no hint.

    https://github.com/Azure/azure-sdk-for-net/issues/29072
    """
    server.script(submitted(), *[state("running", retry_after=wrong)] * 3, state("done"))

    assert wait_for(pacing=Pacing(first=30, cap=30, floor=30)).state == "done"
    assert clock.sleeps == [30, 30, 30, 30]


@pytest.mark.parametrize("status", [429, 529])
def test_ra_15_invalid_date_escapes(server, clock, wait_for, status):
    """A date that no calendar has is no hint, and raises nothing.

    https://github.com/anthropics/anthropic-sdk-python/pull/1827
    """
    server.script(submitted(), Reply(status, headers={"Retry-After": "Wed, 21 Oct 99999 07:28:00 GMT"}), state("done"))

    assert wait_for().state == "done"
    assert clock.sleeps == [1, 1]
