"""Waits that would have gone on for ever."""

from __future__ import annotations

import pytest

from field.jobs import state, submitted
from trihop import Budget, DeadlineExceeded, PollBudgetExhausted, operation


def test_dl_10_six_days(server, wait_for):
    """There is no operation without a word on its deadline, and each poll is told while it waits.

    https://github.com/googleapis/python-bigquery/issues/1922
    """
    with pytest.raises(TypeError, match="deadline"):
        operation("query")

    told = []
    server.script(submitted(), *[state("running")] * 3, state("done"))
    wait_for(on_event=told.append)
    assert [(event.kind, event.state, event.polls) for event in told if event.kind != "waiting"] == [
        ("started", None, 0),
        ("submitted", None, 0),
        ("state_changed", "running", 1),
        ("polled", "running", 2),
        ("polled", "running", 3),
        ("state_changed", "done", 4),
        ("finished", "done", 4),
    ]


def test_inf_02_bulk_stuck(server, wait_for):
    """A job that stays as it is ends with the budget or the deadline; there is no detector of jobs that stand still.

    https://github.com/airbytehq/airbyte/issues/17148
    """
    server.script(submitted(), *[state("running")] * 20, submitted(), then_always=state("running"))

    with pytest.raises(PollBudgetExhausted, match="not over after 20 polls, last state 'running'"):
        wait_for(deadline=None, budget=Budget(polls=20))
    with pytest.raises(DeadlineExceeded, match="last state 'running'"):
        wait_for(deadline=7200)
