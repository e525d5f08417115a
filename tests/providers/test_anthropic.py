"""Message Batches: `ended` carries no outcome, the counts do."""

from contextlib import contextmanager

import pytest
import requests

from trihop import (
    Cancelled,
    Expired,
    Failed,
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    Partial,
    Pending,
    PollErrorsExhausted,
    Reply,
    ResultUnavailable,
    SubmitRejected,
    Succeeded,
    operation,
)
from trihop.providers import anthropic
from trihop.testing import check_provider

ID = "msgbatch_013Zva2CMHLNnXjNJJKqJ2EF"
JOB = Job(id=ID, submit_url="https://api.anthropic.com/v1/messages/batches")
LINES = b'{"custom_id": "r2", "result": {"type": "succeeded"}}\n{"custom_id": "r1", "result": {"type": "succeeded"}}\n'
NAMES = ("processing", "succeeded", "errored", "canceled", "expired")


def batch(status="in_progress", *counts, results=True, **fields):
    ended = status == "ended"
    return {
        "id": ID,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": dict(zip(NAMES, counts or (2, 0, 0, 0, 0), strict=True)),
        "results_url": f"{{url}}v1/messages/batches/{ID}/results" if ended and results else None,
        "archived_at": None,
        **fields,
    }


@pytest.fixture
def block(server, clock):
    """An operation whose session has the key, and its job."""

    @contextmanager
    def block():
        with requests.Session() as session:
            session.headers.update({"x-api-key": "sk-ant-test", "anthropic-version": "2023-06-01"})
            with operation("batch", deadline=26 * 3600, provider=anthropic.BATCHES, session=session, clock=clock) as op:
                yield op, op.submit("POST", f"{server.url}v1/messages/batches", json={"requests": []})

    return block


OUTCOMES = {
    "all succeeded": ((0, 2, 0, 0, 0), Succeeded),
    "some errored": ((0, 1, 1, 0, 0), Partial),
    "some canceled": ((0, 1, 0, 9, 0), Partial),
    "some expired": ((0, 9, 0, 0, 1), Partial),
    "all errored": ((0, 0, 2, 0, 0), Failed),
    "all canceled": ((0, 0, 0, 2, 0), Cancelled),
    "all expired": ((0, 0, 0, 0, 2), Expired),
    "mostly errored": ((0, 0, 3, 2, 1), Failed),
    "mostly canceled": ((0, 0, 1, 3, 2), Cancelled),
    "mostly expired": ((0, 0, 2, 1, 3), Expired),
    "a tie": ((0, 0, 2, 2, 2), Failed),
}


@pytest.mark.parametrize(("counts", "kind"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_counts_decide_how_it_ended(counts, kind):
    """All succeeded is success, some is partial, none is what most of them came to."""
    verdict = anthropic.BATCHES.poll(Reply(200, batch("ended", *counts)), JOB)

    assert (type(verdict), verdict.state, verdict.counts) == (kind, "ended", dict(zip(NAMES, counts, strict=True)))


GOING_ON = {
    "in_progress": Pending("in_progress"),
    "canceling": Pending("canceling"),
    "resting": Pending("resting", known=False),
}


@pytest.mark.parametrize(("word", "verdict"), GOING_ON.items(), ids=GOING_ON)
def test_counts_mean_nothing_before_the_end(word, verdict):
    """Only `ended` is an end; a word never seen is pending and marked, whatever is counted."""
    assert anthropic.BATCHES.poll(Reply(200, batch(word, 0, 2, 0, 0, 0)), JOB) == verdict


def test_an_end_that_counts_nothing_is_no_answer(block, server):
    """Without a count nobody knows how it ended: a poll error, never success."""
    server.script(batch(), then_always=batch("ended", 0, 0, 0, 0, 0))

    with pytest.raises(PollErrorsExhausted), block() as (op, job):
        op.poll(job)


def test_results_are_fetched_with_the_key(block, server, tmp_path):
    """`results_url` is the API's own place, not a signed link: the session's key goes along, to no other path."""
    server.script(batch(), batch(), batch("ended", 0, 2, 0, 0, 0), LINES)

    with block() as (op, job):
        op.download(op.poll(job), to=tmp_path / "results.jsonl")

    assert (tmp_path / "results.jsonl").read_bytes() == LINES
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v1/messages/batches",
        f"GET /v1/messages/batches/{ID}",
        f"GET /v1/messages/batches/{ID}",
        f"GET /v1/messages/batches/{ID}/results",
    ]
    assert {call.headers["x-api-key"] for call in server.calls} == {"sk-ant-test"}


def test_a_relative_results_url_is_as_good(block, server):
    """Some gateways hand out a path."""
    path = f"/v1/messages/batches/{ID}/results"
    server.script(batch(), batch("ended", 0, 1, 0, 0, 0, results_url=path), LINES)

    with block() as (op, job):
        op.download(op.poll(job))

    assert server.calls[-1].path == path


def test_a_cancel_that_cancels_nothing_leaves_a_success(block, server):
    """Cancel is best effort: a batch that was done by then is done."""
    server.script(batch(), batch("canceling"), batch("canceling"), batch("ended", 0, 2, 0, 0, 0), LINES)

    with block() as (op, job):
        assert op.cancel(job)
        assert op.download(op.poll(job)).text == LINES.decode()

    assert f"{server.calls[1].method} {server.calls[1].path}" == f"POST /v1/messages/batches/{ID}/cancel"


def test_a_batch_that_was_cancelled_whole_is_cancelled(block, server):
    """`ended`, all canceled: `JobCancelled`, with an empty file of results for who wants it."""
    server.script(batch(), batch("ended", 0, 0, 0, 1, 0), b"")

    with block() as (op, job):
        with pytest.raises(JobCancelled) as caught:
            op.poll(job)
        assert op.download(caught.value.ready).text == ""


MISHAPS = {
    "errored": ((0, 0, 2, 0, 0), JobFailed, r"\(2 errored\)"),
    "expired": ((0, 0, 0, 0, 2), JobExpired, r"\(2 expired\)"),
    "mixed": ((0, 3, 1, 1, 1), JobPartiallyFailed, r"\(3 succeeded, 1 errored, 1 canceled, 1 expired\)"),
}


@pytest.mark.parametrize(("counts", "kind", "told"), MISHAPS.values(), ids=MISHAPS)
def test_what_went_wrong_is_raised_with_the_counts(block, server, counts, kind, told):
    """The error's class says how it ended, its text how many went which way."""
    server.script(batch(), batch("ended", *counts))

    with (
        pytest.raises(kind, match=told) as caught,
        block() as (
            op,
            job,
        ),
    ):
        op.poll(job)

    assert type(caught.value) is kind


def test_an_archived_batch_has_no_results(block, server):
    """29 days after it was made the results are gone, and `results_url` with them."""
    server.script(batch(), batch("ended", 0, 2, 0, 0, 0, results=False, archived_at="2026-03-30T00:00:00Z"))

    with pytest.raises(ResultUnavailable, match="left no result"), block() as (op, job):
        op.download(op.poll(job), to="never.jsonl")


def test_an_overloaded_api_is_asked_again(block, server):
    """529 is theirs, and says "not now"."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.script(batch(), Reply(529, error), Reply(429, error), batch("ended", 0, 2, 0, 0, 0))

    with block() as (op, job):
        assert op.poll(job).state == "ended"


def test_an_error_of_theirs_is_quoted(block, server):
    """`{type: error, error: {type, message}}`: the inner one is told."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "requests: at least one"}}
    server.script(Reply(400, error))

    with pytest.raises(SubmitRejected, match="invalid_request_error: requests: at least one"), block():
        pass


def test_conforms():
    """It keeps the rules that the engine relies on."""
    check_provider(
        anthropic.BATCHES,
        pending=batch(),
        succeeded=batch("ended", 0, 2, 0, 0, 0, results_url="https://api.anthropic.com/r"),
        partial=batch("ended", 0, 1, 1, 0, 0, results_url="https://api.anthropic.com/r"),
        failed=batch("ended", 0, 0, 2, 0, 0),
        cancelled=batch("ended", 0, 0, 0, 2, 0),
        job=JOB,
    )
