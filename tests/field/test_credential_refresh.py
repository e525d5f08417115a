"""Jobs that outlive the token they were begun with."""

from __future__ import annotations

import pytest
import requests

from field.jobs import state, submitted
from trihop import Pacing, StatusUnavailable


class Renewed(requests.auth.AuthBase):
    """A token for each half hour, asked for by whoever sends."""

    def __init__(self, clock):
        self.clock = clock

    def __call__(self, request):
        request.headers["Authorization"] = f"Bearer {self.clock.monotonic() // 1800:g}"
        return request


def test_inf_04_token_expiry_loop(server, session, wait_for):
    """A 401 is asked again once, with the credentials that replaced those refused; the second one is the end.

    https://github.com/sasjs/adapter/issues/403
    """
    session.headers["Authorization"] = "Bearer old"

    def expired(call):
        session.headers["Authorization"] = "Bearer new"  # somebody renews it in the background
        return 401

    server.script(submitted(), state("running"), state("running"), expired, 401)

    with pytest.raises(StatusUnavailable, match=r"HTTP 401.*Renew the credentials") as refused:
        wait_for()
    assert [call.headers["Authorization"] for call in server.calls[-2:]] == ["Bearer old", "Bearer new"]
    assert refused.value.job.status_url == server.url + "jobs/J1"
    assert (refused.value.state, refused.value.polls) == ("running", 4)


def test_cred_01_401_after_half_hour(server, session, clock, spans, wait_for):
    """Auth that is a function is called for each poll, so that no poll carries a token of half an hour ago.

    https://github.com/alpacax/alpacon-cli/pull/391
    """

    def guarded(call):
        fresh = f"Bearer {clock.monotonic() // 1800:g}"
        word = "running" if clock.monotonic() < 7200 else "done"
        return state(word) if call.headers["Authorization"] == fresh else 401

    session.auth = Renewed(clock)
    server.script(submitted(), then_always=guarded)

    assert wait_for(deadline=9000, pacing=Pacing(first=600, cap=600)).state == "done"
    assert spans.named("poll export").attributes["trihop.poll.errors"] == 0
    assert [call.headers["Authorization"] for call in server.calls[::3]] == [f"Bearer {n}" for n in range(5)]
