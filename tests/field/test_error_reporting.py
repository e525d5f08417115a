"""What an error has to tell."""

from __future__ import annotations

import pickle

import pytest

from field.jobs import JOBS, state, submitted
from trihop import DeadlineExceeded, Job, operation


def test_dup_11_job_id_in_timeout(server, session, clock, spans, wait_for):
    """A deadline's error says that the job may still finish, which one it is, and has what it takes to go on with it.

    https://github.com/HumeAI/hume-python-sdk/pull/80
    """
    server.script(submitted(), then_always=state("running"))

    with pytest.raises(DeadlineExceeded) as late:
        wait_for(deadline=300)

    root = spans.named("export")
    trace_id = format(root.context.trace_id, "032x")
    error = pickle.loads(pickle.dumps(late.value))
    assert str(error) == str(late.value)
    for part in (
        "the next pacing pause is 30 s and 28 s are left, last state 'running' after 14 polls (deadline 300 s)",
        f"[operation=export job=J1 state=running polls=14 elapsed=272.0s trace={trace_id}]",
        "The job may still finish: poll error.job in a new operation to wait on, or cancel it.",
    ):
        assert part in str(error)
    assert {
        name: getattr(error, name)
        for name in ("operation", "operation_id", "trace_id", "hop", "job_id", "state", "status_code", "polls")
    } == {
        "operation": "export",
        "operation_id": root.attributes["trihop.operation.id"],
        "trace_id": trace_id,
        "hop": "poll",
        "job_id": "J1",
        "state": "running",
        "status_code": 200,
        "polls": 14,
    }
    assert error.job == Job(id="J1", status_url=server.url + "jobs/J1", submit_url=server.url + "jobs", state="running")

    server.on("GET", "/jobs/J1", state("done"))
    with operation("export", deadline=300, session=session, provider=JOBS, clock=clock) as op:
        assert op.poll(error.job).state == "done"
