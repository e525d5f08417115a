"""Errors, and the lack of them, inside an answer of 200."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import (
    Failed,
    JobFailed,
    JobPartiallyFailed,
    Partial,
    Pending,
    Provider,
    ReadState,
    Result,
    Succeeded,
    operation,
)


def batch_files(reply):
    body = reply.json()
    names = {"output": body.get("output_file_id"), "errors": body.get("error_file_id")}
    return [Result(f"/files/{file}/content", name=name) for name, file in names.items() if file is not None]


BATCH = replace(
    JOBS,
    name="field.batch",
    poll=ReadState(
        "status",
        pending={"in_progress"},
        succeeded={"completed"},
        results=batch_files,
        counts="request_counts",
        good_items="request_counts.completed",
        bad_items="request_counts.failed",
    ),
)


def test_inband_01_200_transient_code(server, spans, wait_for):
    """An in-band code that the surface calls transient is a poll error and the polls go on; any other is the job's end.

    https://github.com/Azure/azure-sdk-for-go/issues/23349
    """
    poll = replace(JOBS.poll, transient="error.code == 'InternalServerError' && error.code")
    provider = replace(JOBS, poll=poll)
    server.script(submitted(), state("failed", error={"code": "InternalServerError"}), state("done"))
    assert wait_for(provider=provider).state == "done"
    assert spans.named("poll export").attributes["trihop.poll.errors"] == 1

    spans.clear()
    server.script(submitted(), state("failed", error={"code": "QuotaExceeded", "message": "no room"}))
    with pytest.raises(JobFailed, match="QuotaExceeded: no room") as failed:
        wait_for(provider=provider)
    assert failed.value.error == {"code": "QuotaExceeded", "message": "no room"}
    assert spans.named("export").attributes["trihop.job.error.code"] == "QuotaExceeded"


def long_running(reply, job):
    body = reply.json()
    if not body.get("done"):
        return Pending("running")
    if "error" in body:
        return Failed("done", error=body["error"])
    return Succeeded("done", results=[Result(data=body["response"])] if "response" in body else [])


def test_inband_03_done_neither(server, fetch, wait_for):
    """The surface decides that done with neither response nor error is success, and its result is none.

    https://github.com/googleapis/google-cloud-python/issues/15557
    """
    provider = Provider("field.lro", submit=JOBS.submit, poll=long_running)
    server.script(*[submitted(), {"name": "J1"}, {"name": "J1", "done": True}] * 2)

    ready = wait_for(provider=provider)
    assert (ready.results, ready.data, ready.complete) == ((), None, True)
    assert fetch(provider=provider).size_bytes == 0


def test_inband_05_completed_no_output(server, session, clock):
    """No good item at all is a failed job, its error file at hand; the report would call it success without an output.

    https://github.com/BerriAI/litellm/issues/33987
    """
    counts = {"completed": 0, "failed": 3}
    ended = {"status": "completed", "output_file_id": None, "error_file_id": "f1", "request_counts": counts}
    server.script(submitted(), ended, b'{"error": 1}\n')

    with operation("batch", deadline=60, session=session, provider=BATCH, clock=clock) as op:
        job = op.submit("POST", server.url + "batches", json={})
        with pytest.raises(JobFailed) as failed:
            op.poll(job)
        assert type(failed.value) is JobFailed
        assert (failed.value.ready.counts, failed.value.ready.complete) == (counts, False)
        assert op.download(failed.value.ready["errors"]).content == b'{"error": 1}\n'
    assert server.calls[-1].path == "/files/f1/content"


def test_inband_07_counts_disagree(server, session, clock, tmp_path):
    """Every artefact that is offered is fetched, whatever the counters say.

    https://github.com/tidyverse/ellmer/issues/830
    """
    counts = {"completed": 1000, "failed": 0}
    ended = {"status": "completed", "output_file_id": "f1", "error_file_id": "f2", "request_counts": counts}
    server.script(submitted(), ended)
    server.on("GET", "/files/f1/content", b"990 lines")
    server.on("GET", "/files/f2/content", b"10 lines")

    with operation("batch", deadline=60, session=session, provider=BATCH, clock=clock) as op:
        files = op.download(op.poll(op.submit("POST", server.url + "batches", json={})), into=tmp_path)

    assert {name: file.content for name, file in files.items()} == {"output": b"990 lines", "errors": b"10 lines"}


def reports(reply):
    body = reply.json()
    kind = Partial if any(report["error"] for report in body["reports"]) else Succeeded
    return kind("answered", results=[Result(data=body["reports"])])


def test_inband_09_200_partial_failure(server, spans, wait_for):
    """What the surface calls partial raises, or with `allow_partial` is told apart from success.

    https://github.com/divviup/janus/issues/4146
    """
    provider = Provider("field.reports", submit=reports)
    answer = {"reports": [{"id": 1, "error": None}, {"id": 2, "error": "unknown task"}]}
    server.script(answer, answer)

    with pytest.raises(JobPartiallyFailed) as failed:
        wait_for(provider=provider)
    assert failed.value.ready.data == answer["reports"]

    ready = wait_for(provider=provider, allow_partial=True)
    assert (ready.complete, ready.data) == (False, answer["reports"])
    results = [span.attributes["trihop.operation.result"] for span in spans.all if span.name == "export"]
    assert results == ["partial", "partial"]


def test_inband_11_read_0_records_success(server, fetch):
    """A failure inside the job is JobFailed; no rows are a success only where the job says that it succeeded.

    https://github.com/airbytehq/airbyte/issues/17503
    """
    server.script(submitted(), state("failed", error={"code": "QUERY_TIMEOUT"}, results="/rows"))
    with pytest.raises(JobFailed, match="QUERY_TIMEOUT"):
        fetch()

    server.script(submitted(), state("done", results="/rows"), b"")
    assert fetch().size_bytes == 0
