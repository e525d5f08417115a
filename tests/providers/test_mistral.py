"""Mistral's batch jobs: files by id, or answers in the job."""

import pytest

from trihop import Expired, Failed, Job, JobPartiallyFailed, Partial, Pending, Reply, Result, Succeeded, operation
from trihop.providers import mistral
from trihop.testing import check_provider

ID = "f2c8a3f0-6a5e-4c1c-8f2c-1d2f3a4b5c6d"
JOB = Job(id=ID, submit_url="https://api.mistral.ai/v1/batch/jobs")


def job(status, *, total=1, succeeded=0, failed=0, **fields):
    return {
        "id": ID,
        "object": "batch",
        "status": status,
        "output_file": None,
        "error_file": None,
        "errors": [],
        "outputs": None,
        "total_requests": total,
        "succeeded_requests": succeeded,
        "failed_requests": failed,
        "completed_requests": succeeded + failed,
        **fields,
    }


VERDICTS = {
    "queued": (job("QUEUED"), Pending),
    "running": (job("RUNNING"), Pending),
    "being cancelled": (job("CANCELLATION_REQUESTED"), Pending),
    "all done": (job("SUCCESS", total=2, succeeded=2), Succeeded),
    "some failed": (job("SUCCESS", total=2, succeeded=1, failed=1), Partial),
    "all failed": (job("SUCCESS", total=2, failed=2), Failed),
    "out of time": (job("TIMEOUT_EXCEEDED", total=2, succeeded=1), Expired),
}


@pytest.mark.parametrize(("body", "kind"), VERDICTS.values(), ids=VERDICTS)
def test_states_and_counts_decide(body, kind):
    """`SUCCESS` says that it ran; the counts say how it went."""
    assert type(mistral.BATCH.poll(Reply(200, body), JOB)) is kind


def test_files_are_at_the_files_api(server, clock, tmp_path):
    """Two levels up from the job: `/v1/files/{id}/content`; failed lines are in the other file."""
    server.script(job("QUEUED"), job("RUNNING"))
    server.script(job("SUCCESS", total=2, succeeded=1, failed=1, output_file="file-o", error_file="file-e"))
    server.script(b"out\n", b"err\n")

    with operation("batch", deadline=90_000, provider=mistral.BATCH, clock=clock) as op:
        made = op.submit("POST", f"{server.url}v1/batch/jobs", json={"input_files": ["file-i"]})
        files = op.download(op.poll(made, allow_partial=True), into=tmp_path)

    assert {name: file.text for name, file in files.items()} == {"output": "out\n", "error": "err\n"}
    assert [call.path for call in server.calls[-2:]] == ["/v1/files/file-o/content", "/v1/files/file-e/content"]


def test_a_whole_file_in_the_place_of_its_id_is_as_good():
    """Some gateways put the file there."""
    verdict = mistral.BATCH.poll(Reply(200, job("SUCCESS", succeeded=1, output_file={"id": "file-o"})), JOB)

    assert verdict.results == (Result("../../files/file-o/content", name="output"),)


def test_answers_may_be_inline():
    """A job of inline requests has its answers in `outputs`."""
    answers = [{"custom_id": "0", "response": {"status_code": 200}}]

    verdict = mistral.BATCH.poll(Reply(200, job("SUCCESS", succeeded=1, outputs=answers)), JOB)

    assert verdict.results == (Result(data=answers, name="output"),)


def test_errors_are_told(server, clock):
    """The first of the errors is quoted."""
    errors = [{"message": "Rate limit exceeded", "count": 3}]
    server.script(job("QUEUED"), job("SUCCESS", total=9, succeeded=6, failed=3, errors=errors))

    with (
        pytest.raises(JobPartiallyFailed, match=r"3 failed.*Rate limit exceeded"),
        operation("batch", deadline=90_000, provider=mistral.BATCH, clock=clock) as op,
    ):
        op.poll(op.submit("POST", f"{server.url}v1/batch/jobs", json={}))


def test_cancel_is_a_post():
    """To the job."""
    call = mistral.BATCH.cancel_call(JOB)

    assert (call.method, call.url) == ("POST", f"https://api.mistral.ai/v1/batch/jobs/{ID}/cancel")


def test_conforms():
    """It keeps the rules that the engine relies on."""
    check_provider(
        mistral.BATCH,
        pending=job("RUNNING"),
        succeeded=job("SUCCESS", succeeded=1, output_file="o"),
        partial=job("SUCCESS", succeeded=1, failed=1, output_file="o", error_file="e"),
        failed=job("FAILED"),
        cancelled=job("CANCELLED"),
        job=JOB,
    )
