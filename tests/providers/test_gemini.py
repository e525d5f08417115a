"""Gemini's batches: an operation with two sets of words and two places for its answers."""

import pytest

from trihop import Expired, Failed, Job, JobFailed, Partial, Pending, Reply, Result, Succeeded, operation
from trihop.providers import gemini
from trihop.testing import check_provider

NAME = "batches/6ee4b58359ca4d79"
ROOT = "https://generativelanguage.googleapis.com/v1beta"
JOB = Job(id=NAME, status_url=f"{ROOT}/{NAME}", submit_url=f"{ROOT}/models/gemini-2.5-flash:batchGenerateContent")
ANSWERS = [{"response": {"candidates": []}, "metadata": {"key": "r1"}}]


def batch(state, *, stats=None, **fields):
    metadata = {"@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch", "state": state}
    return {"name": NAME, "metadata": metadata | ({"batchStats": stats} if stats else {}), **fields}


def stats(total, succeeded, failed):
    return {
        "requestCount": str(total),
        "successfulRequestCount": str(succeeded),
        "failedRequestCount": str(failed),
    }


VERDICTS = {
    "pending, in the guide's word": (batch("JOB_STATE_PENDING"), Pending),
    "pending, in the wire's word": (batch("BATCH_STATE_PENDING"), Pending),
    "running": (batch("BATCH_STATE_RUNNING"), Pending),
    "done": (batch("BATCH_STATE_SUCCEEDED", stats=stats(2, 2, 0)), Succeeded),
    "done, uncounted": (batch("JOB_STATE_SUCCEEDED"), Succeeded),
    "some failed": (batch("BATCH_STATE_SUCCEEDED", stats=stats(2, 1, 1)), Partial),
    "all failed": (batch("BATCH_STATE_SUCCEEDED", stats=stats(2, 0, 2)), Failed),
    "older than 48 hours": (batch("JOB_STATE_EXPIRED"), Expired),
}


@pytest.mark.parametrize(("body", "kind"), VERDICTS.values(), ids=VERDICTS)
def test_either_word_and_the_counts_decide(body, kind):
    """Counts are texts on the wire, as int64 are in JSON."""
    assert type(gemini.BATCHES.poll(Reply(200, body), JOB)) is kind


def test_counts_become_numbers():
    """The trace and the message count items; an operation without counts has none."""
    counted = gemini.BATCHES.poll(Reply(200, batch("BATCH_STATE_SUCCEEDED", stats=stats(2, 1, 1))), JOB)
    uncounted = gemini.BATCHES.poll(Reply(200, batch("BATCH_STATE_SUCCEEDED")), JOB)

    assert (counted.counts, uncounted.counts) == ({"total": 2, "succeeded": 1, "failed": 1}, None)


PLACES = {
    "inline": {"response": {"inlinedResponses": {"inlinedResponses": ANSWERS}}},
    "inline, as the guide has it": {"response": {"inlinedResponses": ANSWERS}},
    "inline, as the SDKs have it": {"dest": {"inlinedResponses": ANSWERS}},
}


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
def test_answers_at_hand_are_taken(where):
    """The answers of a small batch are in the operation."""
    assert gemini.BATCHES.poll(Reply(200, batch("JOB_STATE_SUCCEEDED", **where)), JOB).results == (
        Result(data=ANSWERS),
    )


def test_a_file_is_fetched_from_the_download_path(server, clock):
    """`responsesFile` names a file; its bytes are elsewhere on the same host."""
    server.script(batch("BATCH_STATE_PENDING"), batch("BATCH_STATE_RUNNING"))
    server.script(batch("BATCH_STATE_SUCCEEDED", done=True, response={"responsesFile": "files/batch-6ee4"}), b"{}\n")

    with operation("batch", deadline=180_000, provider=gemini.BATCHES, clock=clock) as op:
        answers = op.run("POST", f"{server.url}v1beta/models/gemini-2.5-flash:batchGenerateContent", json={})

    assert answers.text == "{}\n"
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v1beta/models/gemini-2.5-flash:batchGenerateContent",
        f"GET /v1beta/{NAME}",
        f"GET /v1beta/{NAME}",
        "GET /download/v1beta/files/batch-6ee4:download?alt=media",
    ]


def test_a_failed_operation_says_why(server, clock):
    """`error` is a status with code and message."""
    error = {"code": 3, "message": "Invalid request at line 2", "status": "INVALID_ARGUMENT"}
    server.script(batch("BATCH_STATE_PENDING"), batch("BATCH_STATE_FAILED", done=True, error=error))

    with (
        pytest.raises(JobFailed, match="3: Invalid request at line 2"),
        operation("batch", deadline=180_000, provider=gemini.BATCHES, clock=clock) as op,
    ):
        op.run("POST", f"{server.url}v1beta/models/m:batchGenerateContent", json={})


def test_cancel_is_a_custom_method():
    """AIP-151: `POST {name}:cancel`."""
    call = gemini.BATCHES.cancel_call(JOB)

    assert (call.method, call.url) == ("POST", f"{ROOT}/{NAME}:cancel")


def test_conforms():
    """It keeps the rules that the engine relies on."""
    done = {"response": {"inlinedResponses": {"inlinedResponses": ANSWERS}}}
    check_provider(
        gemini.BATCHES,
        pending=batch("BATCH_STATE_RUNNING"),
        succeeded=batch("BATCH_STATE_SUCCEEDED", **done),
        partial=batch("BATCH_STATE_SUCCEEDED", stats=stats(2, 1, 1), **done),
        failed=batch("BATCH_STATE_FAILED"),
        cancelled=batch("BATCH_STATE_CANCELLED"),
        job=JOB,
    )
