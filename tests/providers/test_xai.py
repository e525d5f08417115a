"""xAI's batches: no state word, counts only, pages of results."""

import pytest
import requests

from trihop import (
    Cancelled,
    DeadlineExceeded,
    Failed,
    Job,
    Partial,
    Pending,
    Reply,
    Succeeded,
    operation,
)
from trihop.providers import xai
from trihop.testing import check_provider

ID = "batch_123"
JOB = Job(id=ID, submit_url="https://api.x.ai/v1/batches")


def batch(requests=0, pending=0, success=0, error=0, cancelled=0):
    counts = {"requests": requests, "pending": pending, "success": success, "error": error, "cancelled": cancelled}
    return {"batch_id": ID, "name": "evaluation", "state": {f"num_{name}": count for name, count in counts.items()}}


VERDICTS = {
    "nothing in it": (batch(), Pending),
    "going on": (batch(4, pending=1, success=3), Pending),
    "all done": (batch(4, success=4), Succeeded),
    "some failed": (batch(4, success=3, error=1), Partial),
    "some cancelled": (batch(4, success=3, cancelled=1), Partial),
    "all failed": (batch(4, error=4), Failed),
    "all cancelled": (batch(4, cancelled=4), Cancelled),
    "none done": (batch(4, error=1, cancelled=3), Cancelled),
}


@pytest.mark.parametrize(("body", "kind"), VERDICTS.values(), ids=VERDICTS)
def test_the_counts_decide(body, kind):
    """Over is: there are requests, and none is pending."""
    assert type(xai.BATCHES.poll(Reply(200, body), JOB)) is kind


def test_progress_is_what_is_not_pending():
    """In percent."""
    assert xai.BATCHES.poll(Reply(200, batch(4, pending=1, success=3)), JOB) == Pending("pending", progress=75.0)


def test_a_batch_is_filled_once_and_its_pages_become_lines(server, clock):
    """Create, fill in `op.once`, poll; the pages of results become JSON lines."""
    server.script(batch(), batch(3, pending=3), batch(3, pending=1, success=2), batch(3, success=3))
    server.script({"results": [{"batch_request_id": "r1"}, {"batch_request_id": "r2"}], "pagination_token": "a/b"})
    server.script({"results": [{"batch_request_id": "r3"}], "pagination_token": None})

    with (
        requests.Session() as session,
        operation("batch", deadline=90_000, provider=xai.BATCHES, session=session, clock=clock) as op,
    ):
        job = op.submit("POST", f"{server.url}v1/batches", json={"name": "evaluation"})
        add = f"{server.url}v1/batches/{job.id}/requests"
        for _ in range(2):
            op.once("fill", lambda: session.post(add, json={"batch_requests": [1, 2, 3]}).status_code)
        rows = list(op.download(op.poll(job)).iter_rows())

    assert [row["batch_request_id"] for row in rows] == ["r1", "r2", "r3"]
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v1/batches",
        f"POST /v1/batches/{ID}/requests",
        f"GET /v1/batches/{ID}",
        f"GET /v1/batches/{ID}",
        f"GET /v1/batches/{ID}/results",
        f"GET /v1/batches/{ID}/results?pagination_token=a%2Fb",
    ]


def test_a_batch_that_nobody_fills_waits_until_the_deadline(server, clock):
    """It says so: the state that is told is `empty`."""
    server.script(batch(), then_always=batch())

    with (
        pytest.raises(DeadlineExceeded, match="last state 'empty'"),
        operation("batch", deadline=600, provider=xai.BATCHES, clock=clock) as op,
    ):
        op.poll(op.submit("POST", f"{server.url}v1/batches", json={"name": "evaluation"}))


def test_cancel_is_a_custom_method():
    """`POST …:cancel`."""
    call = xai.BATCHES.cancel_call(JOB)

    assert (call.method, call.url) == ("POST", f"https://api.x.ai/v1/batches/{ID}:cancel")


def test_conforms():
    """It keeps the rules that the engine relies on."""
    check_provider(
        xai.BATCHES,
        pending=batch(4, pending=4),
        succeeded=batch(4, success=4),
        partial=batch(4, success=3, error=1),
        failed=batch(4, error=4),
        cancelled=batch(4, cancelled=4),
        job=JOB,
    )
