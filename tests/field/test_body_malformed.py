"""Bodies that are not what a status monitor should say."""

from __future__ import annotations

import pytest

from field.jobs import JOBS, submitted
from trihop import PollErrorsExhausted, Reply
from trihop.providers import generic

PAGE = b"<!DOCTYPE html><title>Bad gateway</title>"
HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.mark.parametrize("provider", [JOBS, generic.ACCEPTED], ids=lambda provider: provider.name)
@pytest.mark.parametrize(
    "garbled",
    [Reply(502, content=PAGE, headers=HTML), Reply(200, content=PAGE, headers=HTML), Reply(200)],
    ids=["502 page", "200 page", "200 empty"],
)
def test_body_01_html_502(server, spans, wait_for, provider, garbled):
    """A gateway's page or an empty body is a poll that failed, never a job that did, and never a result.

    https://github.com/valyuAI/valyu-py/pull/126
    """
    server.script(submitted(), garbled, {"state": "done", "status": "completed"})

    assert wait_for(provider=provider).job.state in ("done", "completed")
    assert spans.named("poll export").attributes["trihop.poll.errors"] == 1


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}], ids=str)
@pytest.mark.parametrize("provider", [JOBS, generic.ACCEPTED], ids=lambda provider: provider.name)
def test_body_04_200_empty_on_success(server, wait_for, provider, headers):
    """An empty 200 is no success: it is asked again within the budget, and the error has the last good state.

    https://github.com/defer-run/defer.client/issues/58
    """
    server.script(submitted(), {"state": "running", "status": "running"}, then_always=Reply(200, headers=headers))

    with pytest.raises(PollErrorsExhausted, match="not_json") as exhausted:
        wait_for(provider=provider)
    assert (exhausted.value.state, exhausted.value.polls) == ("running", 6)
