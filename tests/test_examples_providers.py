"""The examples that use a provider that ships, run against what its API answers."""

import runpy
from pathlib import Path

import pytest
import requests

from trihop import JobFailed, OutcomeAmbiguous, Reply
from trihop.providers import anthropic, mistral

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _no_waiting(clock, monkeypatch):
    """Examples name no clock; here theirs is the test's."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_salesforce_ingest(server, session, tmp_path):
    """Rows that failed come back with their errors."""
    csv = tmp_path / "accounts.csv"
    csv.write_text("Name\nA\nB\n")
    server.script({"id": "750x", "state": "Open"}, 201, {"id": "750x", "state": "UploadComplete"})
    server.script({"id": "750x", "state": "JobComplete", "numberRecordsProcessed": 2, "numberRecordsFailed": 1})
    server.script("sf__Id,Name\n1,A\n", "sf__Error,Name\nDUPLICATE,B\n", "Name\n")

    failed = example("salesforce_ingest")["load"](session, f"{server.url}jobs", csv, tmp_path / "out")

    assert failed == [{"sf__Error": "DUPLICATE", "Name": "B"}]
    assert server.calls[1].body == b"Name\nA\nB\n"
    server.assert_done()


def test_openai_batch(server, session, tmp_path):
    """Upload, batch, both files."""
    lines = tmp_path / "requests.jsonl"
    lines.write_text("{}\n")
    counts = {"total": 2, "completed": 1, "failed": 1}
    ended = {"status": "completed", "output_file_id": "o", "error_file_id": "e", "request_counts": counts}
    server.script({"id": "file-in"}, {"id": "batch_1", "status": "validating"}, ended, b"out\n", b"err\n")

    files = example("openai_batch")["run"](session, lines, tmp_path / "out", f"{server.url}v1")

    assert {name: file.text for name, file in files.items()} == {"output": "out\n", "error": "err\n"}
    assert server.calls[1].json()["input_file_id"] == "file-in"
    server.assert_done()


def test_openai_batch_that_expired(server, session, tmp_path):
    """What was done in time is fetched before the error is raised."""
    lines = tmp_path / "requests.jsonl"
    lines.write_text("{}\n")
    server.script({"id": "file-in"}, {"id": "batch_1"}, {"status": "expired", "output_file_id": "o"}, b"out\n")

    with pytest.raises(JobFailed):
        example("openai_batch")["run"](session, lines, tmp_path / "out", f"{server.url}v1")

    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"out\n"]


def test_settled_inference(server, session):
    """A candidate is activated once, and its result is returned."""
    admitted = {"job_id": "7", "status_url": "/jobs/7"}
    ready = {"status": "ready", "billing": {"settled": True}, "result": {"text": "hi"}}
    server.script(Reply(202, admitted), {"status": "running", "billing": {"settled": False}}, ready, 204)

    assert example("settled_inference")["infer"](session, f"{server.url}jobs", {}) == {"text": "hi"}
    assert [f"{call.method} {call.path}" for call in server.calls[-1:]] == ["POST /jobs/7/activation"]


def test_settled_inference_to_reconcile(server, session):
    """Nothing is sent after it is known."""
    server.script({"job_id": "7", "status_url": "/jobs/7"}, {"status": "reconciliation_required"})

    with pytest.raises(OutcomeAmbiguous):
        example("settled_inference")["infer"](session, f"{server.url}jobs", {})


def test_two_providers(server, session):
    """The same block, twice."""
    module = example("two_providers")
    counts = {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0}
    server.script({"id": "m1", "processing_status": "in_progress"})
    server.script(
        {"processing_status": "ended", "request_counts": counts, "results_url": "/r"}, b'{"custom_id": "1"}\n'
    )
    server.script({"id": "j1", "status": "QUEUED"})
    server.script({"status": "SUCCESS", "succeeded_requests": 1, "outputs": [{"custom_id": "1"}]})

    asked = (
        (anthropic.BATCHES, module["ask_anthropic"]("hi", f"{server.url}v1")),
        (mistral.BATCH, module["ask_mistral"]("hi", f"{server.url}v1")),
    )
    rows = [module["answers"](session, provider, submit) for provider, submit in asked]

    assert rows == [[{"custom_id": "1"}], [{"custom_id": "1"}]]
    assert [call.path for call in server.calls] == [
        "/v1/messages/batches",
        "/v1/messages/batches/m1",
        "/r",
        "/v1/batch/jobs",
        "/v1/batch/jobs/j1",
    ]
