"""OpenAI's Batch API and those that follow it: two files, eight states, counts."""

import json
from dataclasses import replace

import pytest
import requests

from trihop import (
    Expired,
    Failed,
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    Partial,
    Pending,
    Reply,
    ResultUnavailable,
    SubmitRejected,
    SubmitUncertain,
    Succeeded,
    operation,
)
from trihop.providers import groq, openai, perplexity, together
from trihop.testing import check_provider, reset

ID = "batch_abc123"
JOB = Job(id=ID, submit_url="https://api.openai.com/v1/batches")
ANSWERS = b'{"custom_id": "r2"}\n{"custom_id": "r1"}\n'
MISHAPS = b'{"custom_id": "r3", "error": {"code": "invalid_request"}}\n'


def batch(status, *, output=None, error=None, counts=(0, 0, 0), **fields):
    total, completed, failed = counts
    return {
        "id": ID,
        "object": "batch",
        "status": status,
        "input_file_id": "file-in",
        "output_file_id": output,
        "error_file_id": error,
        "errors": None,
        "request_counts": {"total": total, "completed": completed, "failed": failed},
        **fields,
    }


@pytest.fixture
def run(server, clock, tmp_path):
    """Submit, poll and fetch all files."""

    def run(provider=openai.BATCH, *, allow_partial=False):
        with operation("eval", deadline=26 * 3600, provider=provider, clock=clock) as op:
            job = op.submit("POST", f"{server.url}v1/batches", json={"input_file_id": "file-in"})
            return op.download(op.poll(job, allow_partial=allow_partial), into=tmp_path)

    return run


def contents(files):
    return {name: file.path.read_bytes() for name, file in files.items()}


# ---- states

STATES = {
    "validating": Pending("validating"),
    "in_progress": Pending("in_progress"),
    "finalizing": Pending("finalizing"),
    "cancelling": Pending("cancelling"),
    "paused": Pending("paused", known=False),
}


@pytest.mark.parametrize(("word", "verdict"), STATES.items(), ids=STATES)
def test_a_batch_goes_on(word, verdict):
    """`cancelling` lasts up to ten minutes and is no end; a word never seen is pending and marked."""
    assert openai.BATCH.poll(Reply(200, batch(word)), JOB) == verdict


ENDS = {
    "all done": ("completed", (2, 2, 0), Succeeded),
    "some failed": ("completed", (3, 2, 1), Partial),
    "all failed": ("completed", (3, 0, 3), Failed),
    "the window closed": ("expired", (3, 1, 0), Expired),
}


@pytest.mark.parametrize(("word", "counts", "kind"), ENDS.values(), ids=ENDS)
def test_counts_tell_success_from_part_of_it(word, counts, kind):
    """`completed` alone proves nothing: the lines that failed are counted."""
    verdict = openai.BATCH.poll(Reply(200, batch(word, counts=counts)), JOB)

    assert (type(verdict), verdict.counts) == (kind, dict(zip(("total", "completed", "failed"), counts, strict=True)))


# ---- the triangle


def test_both_files_are_fetched_with_the_key(server, clock, tmp_path):
    """The files are ids, turned into places at the API's own origin, and asked for with the session's key."""
    server.script(batch("validating"), batch("in_progress"))
    server.script(batch("completed", output="file-out", error="file-err", counts=(3, 2, 1)), ANSWERS, MISHAPS)
    with requests.Session() as session:
        session.headers["Authorization"] = "Bearer sk-test-key"
        with operation("eval", deadline=90_000, provider=openai.BATCH, session=session, clock=clock) as op:
            job = op.submit("POST", f"{server.url}v1/batches", json={"input_file_id": "file-in"})
            files = op.download(op.poll(job, allow_partial=True), into=tmp_path)

    assert contents(files) == {"output": ANSWERS, "error": MISHAPS}
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v1/batches",
        f"GET /v1/batches/{ID}",
        f"GET /v1/batches/{ID}",
        "GET /v1/files/file-out/content",
        "GET /v1/files/file-err/content",
    ]
    assert {call.headers["Authorization"] for call in server.calls} == {"Bearer sk-test-key"}


def test_the_input_is_uploaded_once(server, clock):
    """`op.once` keeps the id of the uploaded file; asked for again, nothing is sent."""
    server.script({"id": "file-in", "purpose": "batch"}, batch("validating"), batch("completed", counts=(1, 1, 0)))
    with (
        requests.Session() as session,
        operation("eval", deadline=90_000, provider=openai.BATCH, session=session, clock=clock) as op,
    ):

        def upload():
            lines = {"file": ("in.jsonl", b"{}\n")}
            return session.post(f"{server.url}v1/files", data={"purpose": "batch"}, files=lines).json()["id"]

        body = {"input_file_id": op.once("upload", upload), "endpoint": "/v1/chat/completions"}
        assert op.once("upload", upload) == "file-in"
        op.poll(op.submit("POST", f"{server.url}v1/batches", json=body))

    assert [call.path for call in server.calls] == ["/v1/files", "/v1/batches", f"/v1/batches/{ID}"]
    assert server.calls[1].json()["input_file_id"] == "file-in"


def test_some_failed_lines_are_an_error_that_has_both_files(run, server):
    """A partial batch raises, unless it is asked for; what there is can be fetched."""
    server.script(batch("validating"), batch("completed", output="o", error="e", counts=(3, 2, 1)))

    with pytest.raises(JobPartiallyFailed, match="1 failed") as caught:
        run()

    assert [result.name for result in caught.value.ready.results] == ["output", "error"]


def test_a_refused_input_file_is_a_failed_job_that_says_where(run, server):
    """`failed` is about the input file: code and message of its first fault are told."""
    errors = {"object": "list", "data": [{"code": "invalid_json_line", "message": "Line 7 is not JSON", "line": 7}]}
    server.script(batch("validating"), batch("failed", errors=errors))

    with pytest.raises(JobFailed, match=r"state 'failed'.*invalid_json_line: Line 7 is not JSON") as caught:
        run()

    assert (caught.value.error, caught.value.ready.results) == (errors["data"], ())


@pytest.mark.parametrize(("word", "kind"), [("expired", JobExpired), ("cancelled", JobCancelled)])
def test_an_early_end_may_leave_output(server, clock, word, kind):
    """Expired and cancelled are errors, and the lines that were done in time can be fetched."""
    server.script(batch("in_progress"), batch(word, output="file-out", counts=(9, 2, 0)), ANSWERS)

    with operation("eval", deadline=90_000, provider=openai.BATCH, clock=clock) as op:
        job = op.submit("POST", f"{server.url}v1/batches", json={})
        with pytest.raises(kind) as caught:
            op.poll(job)
        assert op.download(caught.value.ready).text == ANSWERS.decode()


def test_a_batch_without_files_has_nothing_to_download(run, server, clock):
    """Both ids may be null; a path that is asked for then is an error, not an empty file."""
    server.script(batch("validating"), batch("completed", counts=(0, 0, 0)))

    with (
        pytest.raises(ResultUnavailable, match="left no result"),
        operation("eval", deadline=90_000, provider=openai.BATCH, clock=clock) as op,
    ):
        op.run("POST", f"{server.url}v1/batches", json={}, to="never.jsonl")


def test_a_file_id_is_one_piece_of_a_path(run, server):
    """An id with a slash leads to no other place."""
    server.script(batch("validating"), batch("completed", output="../../admin?x", counts=(1, 1, 0)), ANSWERS)

    run()

    assert server.calls[-1].path == "/v1/files/..%2F..%2Fadmin%3Fx/content"


def test_cancel_is_a_post_and_the_batch_ends_later(server, clock):
    """The batch goes on `cancelling` for a while; the poll waits for the end of it."""
    server.script(batch("in_progress"), batch("cancelling"), batch("cancelling"), batch("cancelled"))

    with operation("eval", deadline=90_000, provider=openai.BATCH, clock=clock) as op:
        job = op.submit("POST", f"{server.url}v1/batches", json={})
        assert op.cancel(job)
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert f"{server.calls[1].method} {server.calls[1].path}" == f"POST /v1/batches/{ID}/cancel"


def test_an_unknown_input_file_is_refused(run, server):
    """There is no job, and what the server says is told."""
    server.script(Reply(400, {"error": {"message": "Input file 'file-no' not found.", "code": "bad_request"}}))

    with pytest.raises(SubmitRejected, match="HTTP 400: bad_request: Input file 'file-no' not found"):
        run()


def test_a_submit_is_not_repeated_without_a_key(run, server):
    """No idempotency key is documented: who lost the answer looks for the batch."""
    server.script(reset())

    with pytest.raises(SubmitUncertain):
        run()

    assert len(server.calls) == 1


def test_a_retry_in_milliseconds_is_obeyed(run, server, clock):
    """Their SDK's finer hint goes before `Retry-After`."""
    headers = {"retry-after-ms": "7250", "Retry-After": "8"}
    server.script(
        batch("validating"), Reply(429, headers=headers), batch("completed", output="o", counts=(1, 1, 0)), b""
    )

    run()

    assert 7.25 in clock.sleeps


def test_pauses_grow_to_a_minute(server, clock):
    """A window of a day asks for no hurry."""
    server.script(batch("validating"), *[batch("in_progress")] * 12, batch("completed", counts=(1, 1, 0)))

    with operation("eval", deadline=90_000, provider=openai.BATCH, clock=clock) as op:
        op.poll(op.submit("POST", f"{server.url}v1/batches", json={}))

    assert (clock.sleeps[0], clock.sleeps[-1]) == (5.0, 60.0)


# ---- those that follow it


def test_together_wraps_the_submit_and_shouts(run, server):
    """The submit's answer has the batch under `job`, the polls have it bare and in upper case."""
    server.script({"job": batch("VALIDATING"), "warning": ""}, {"id": ID, "status": "IN_PROGRESS", "progress": 50.0})
    server.script({"id": ID, "status": "COMPLETED", "output_file_id": "o", "error_file_id": "e"}, ANSWERS, MISHAPS)

    assert contents(run(together.BATCH)) == {"output": ANSWERS, "error": MISHAPS}


def test_together_says_why_in_a_text():
    """`error` is a text there."""
    verdict = together.BATCH.poll(Reply(200, {"status": "FAILED", "error": "model not found"}), JOB)

    assert verdict == Failed("FAILED", error="model not found")


def test_together_reports_progress():
    """Percent, as the server has it."""
    assert together.BATCH.poll(Reply(200, {"status": "IN_PROGRESS", "progress": 50.0}), JOB) == Pending(
        "IN_PROGRESS", progress=50.0
    )


def test_perplexity_repeats_a_lost_submit_under_its_key(run, server):
    """With a key the answer is asked for again: same key, same body, one batch."""
    server.script(reset(), batch("validating"), batch("completed", output="o", counts=(1, 1, 0)), ANSWERS)

    run(perplexity.BATCH)

    first, again = server.calls[:2]
    assert first.headers["Idempotency-Key"] == again.headers["Idempotency-Key"]
    assert json.loads(first.body) == json.loads(again.body)


@pytest.mark.parametrize("provider", [openai.BATCH, groq.BATCH, perplexity.BATCH], ids=lambda provider: provider.name)
def test_conform(provider):
    """They keep the rules that the engine relies on."""
    check_provider(
        provider,
        pending=batch("in_progress"),
        succeeded=batch("completed", output="o", counts=(2, 2, 0)),
        partial=batch("completed", output="o", error="e", counts=(2, 1, 1)),
        failed=batch("failed"),
        cancelled=batch("cancelled"),
        job=JOB,
    )


def test_together_conforms():
    """With its own words."""
    check_provider(
        together.BATCH,
        pending={"status": "IN_PROGRESS"},
        succeeded={"status": "COMPLETED", "output_file_id": "o"},
        failed={"status": "FAILED"},
        cancelled={"status": "CANCELLED"},
        job=replace(JOB, submit_url="https://api.together.xyz/v1/batches"),
    )
