"""Batches of ten model providers at llmock, in real time, and what its judge says of our retries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from acceptance.conftest import Table
from acceptance.servers.llmock import LLMock, running
from trihop import (
    Event,
    Job,
    JobCancelled,
    JobFailed,
    JobPartiallyFailed,
    Operation,
    Pacing,
    Provider,
    ReadJob,
    ReadState,
    Ready,
    Result,
    StatusUnavailable,
    SubmitRejected,
    SubmitUncertain,
    operation,
)
from trihop.providers import anthropic, cohere, gemini, groq, mistral, openai, perplexity, together, xai

QUICK = Pacing(first=0.2, factor=1.5, cap=0.4)
GOOD = {"total": 2, "completed": 2, "failed": 0}
POLLS = {"path": "/v1/batches/*"}

AI21 = replace(openai.BATCH, name="ai21.batch")

# llmock has a state word where xAI counts, and a dataset at hand where Cohere links to its parts.
XAI = replace(
    xai.BATCHES,
    poll=ReadState(
        "state.status",
        pending={"PENDING"},
        succeeded={"COMPLETED"},
        failed={"FAILED"},
        cancelled={"CANCELLED"},
        results=[Result("batches/{id}/results")],
        bad_items="state.failed_requests",
    ),
)
COHERE = replace(
    cohere.BATCHES,
    submit=ReadJob(id="id", status_url=None),
    status="batches/{id}",
    poll=ReadState(
        "status",
        pending={"BATCH_STATUS_IN_PROGRESS"},
        succeeded={"BATCH_STATUS_COMPLETED"},
        failed={"BATCH_STATUS_FAILED"},
        results=lambda reply: [Result(f"../datasets/{reply.json()['output_dataset_id']}/download")],
        bad_items="num_failed_records",
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLMock]:
    with running(tmp_path_factory.mktemp("llmock")) as server:
        yield server


@pytest.fixture(autouse=True)
def _forget(server: LLMock) -> None:
    server.reset()


@contextmanager
def block(provider: Provider, **options: Any) -> Iterator[tuple[Operation, requests.Session]]:
    """An operation of 30 s whose session has a key."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = "Bearer sk-test"
        with operation("batch", deadline=30, provider=provider, session=session, **options) as op:
            yield op, session


def line(custom_id: str, url: str = "/v1/chat/completions") -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": f"ping {custom_id}"}]}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body})


def submitted(op: Operation, session: requests.Session, api: str, *lines: str) -> Job:
    """Upload and submit, as OpenAI and those that follow it have it."""

    def upload() -> str:
        files = {"file": ("in.jsonl", "\n".join(lines))}
        return str(session.post(f"{api}/files", data={"purpose": "batch"}, files=files).json()["id"])

    body = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return op.submit("POST", f"{api}/batches", json={"input_file_id": op.once("upload", upload), **body})


def custom_ids(text: str) -> list[str | None]:
    return [json.loads(line)["custom_id"] for line in text.splitlines()]


def fetched(op: Operation, ready: Ready, folder: Path) -> dict[str, list[str | None]]:
    return {name: custom_ids(file.text) for name, file in op.download(ready, into=folder).items()}


# ---- good batches

LIKE_OPENAI = [
    (openai.BATCH, "/v1"),
    (groq.BATCH, "/groq/openai/v1"),
    (together.BATCH, "/together/v1"),
    (AI21, "/ai21/v1"),
    (perplexity.BATCH, "/perplexity/v1"),
]


@pytest.mark.parametrize(("provider", "path"), LIKE_OPENAI, ids=lambda value: getattr(value, "name", ""))
def test_a_good_batch(server: LLMock, table: Table, tmp_path: Path, provider: Provider, path: str) -> None:
    with block(provider) as (op, session):
        ready = op.poll(submitted(op, session, server.url + path, line("r1"), line("r2")), pacing=QUICK)
        got = (ready.state, ready.counts, fetched(op, ready, tmp_path))

    table.row(provider.name, "all good", expected=("completed", GOOD, {"output": ["r1", "r2"]}), got=got)


# ---- mishaps at OpenAI


def test_partly_bad(server: LLMock, table: Table, tmp_path: Path) -> None:
    with block(openai.BATCH) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"), line("r2", "/v1/nope"), "not json")
        with pytest.raises(JobPartiallyFailed) as caught:
            op.poll(job, pacing=QUICK)
        got = (type(caught.value).__name__, fetched(op, caught.value.ready, tmp_path))

    expected = ("JobPartiallyFailed", {"output": ["r1"], "error": ["r2", None]})
    table.row("openai.batch", "partly bad", expected=expected, got=got)


def test_all_bad(server: LLMock, table: Table, tmp_path: Path) -> None:
    with block(openai.BATCH) as (op, session):
        with pytest.raises(JobFailed) as caught:
            op.poll(submitted(op, session, f"{server.url}/v1", line("r1", "/v1/nope")), pacing=QUICK)
        got = (type(caught.value).__name__, fetched(op, caught.value.ready, tmp_path))

    table.row("openai.batch", "all bad", expected=("JobFailed", {"error": ["r1"]}), got=got)


def test_the_input_is_deleted_before_it_runs(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"))
        file_id = session.get(f"{server.url}/v1/batches/{job.id}").json()["input_file_id"]
        session.delete(f"{server.url}/v1/files/{file_id}").raise_for_status()
        with pytest.raises(JobFailed) as caught:
            op.poll(job, pacing=QUICK)
        got = (type(caught.value).__name__, caught.value.error[0]["code"], len(caught.value.ready.results))

    table.row("openai.batch", "input file deleted", expected=("JobFailed", "missing_file", 0), got=got)


def test_cancel(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"))
        taken = op.cancel(job)
        with pytest.raises(JobCancelled) as caught:
            op.poll(job, pacing=QUICK)
        again = op.cancel(job)

    got = (taken, type(caught.value).__name__, again)
    table.row("openai.batch", "cancel, and cancel again", expected=(True, "JobCancelled", False), got=got)


def test_unknown_ids(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, _):
        with pytest.raises(SubmitRejected) as refused:
            op.submit("POST", f"{server.url}/v1/batches", json={"input_file_id": "file-no"})
        with pytest.raises(StatusUnavailable) as unknown:
            op.poll(Job(id="none", submit_url=f"{server.url}/v1/batches"), pacing=QUICK)

    got = (refused.value.status_code, refused.value.error["error"]["code"], unknown.value.status_code)
    table.row("openai.batch", "unknown file, unknown batch", expected=(400, "bad_request", 404), got=got)


# ---- the others

REQUESTS = [{"custom_id": f"r{n}", "params": {"model": "claude", "max_tokens": 10, "messages": []}} for n in (1, 2)]


def test_anthropic_ends(server: LLMock, table: Table) -> None:
    with block(anthropic.BATCHES) as (op, session):
        session.headers.update({"x-api-key": "k", "anthropic-version": "2023-06-01"})
        job = op.submit("POST", f"{server.url}/anthropic/v1/messages/batches", json={"requests": REQUESTS})
        ready = op.poll(job, pacing=QUICK)
        found = custom_ids(op.download(ready).text)

    # Before the end it would answer 200 with an empty body: it is asked once, and then.
    asked = sum(request.endswith("/results") for request in server.journal())
    got = (ready.state, ready.counts["succeeded"], found, asked)
    table.row("anthropic.batches", "all good", expected=("ended", 2, ["r1", "r2"], 1), got=got)


def test_anthropic_cancelled_says_ended(server: LLMock, table: Table) -> None:
    with block(anthropic.BATCHES) as (op, _):
        job = op.submit("POST", f"{server.url}/anthropic/v1/messages/batches", json={"requests": REQUESTS})
        op.cancel(job)
        with pytest.raises(JobCancelled) as caught:
            op.poll(job, pacing=QUICK)
        got = (type(caught.value).__name__, caught.value.state, op.download(caught.value.ready).text)

    table.row("anthropic.batches", "cancelled", expected=("JobCancelled", "ended", ""), got=got)


def test_mistral(server: LLMock, table: Table, tmp_path: Path) -> None:
    api = f"{server.url}/mistral/v1"
    with block(mistral.BATCH) as (op, session):
        uploaded = session.post(f"{api}/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", line("r1"))})
        body = {"input_files": [uploaded.json()["id"]], "model": "mistral-small", "endpoint": "/v1/chat/completions"}
        ready = op.poll(op.submit("POST", f"{api}/batch/jobs", json=body), pacing=QUICK)
        got = (ready.state, fetched(op, ready, tmp_path))

    table.row("mistral.batch", "all good", expected=("SUCCESS", {"output": ["r1"]}), got=got)


def test_gemini(server: LLMock, table: Table) -> None:
    request = {"custom_id": "r1", "request": {"contents": [{"role": "user", "parts": [{"text": "ping 1"}]}]}}
    with block(gemini.BATCHES) as (op, session):
        session.headers["x-goog-api-key"] = "k"
        url = f"{server.url}/gemini/v1beta/models/gemini-2.0-flash:batchGenerateContent"
        ready = op.poll(op.submit("POST", url, json={"requests": [request]}), pacing=QUICK)
        got = (ready.state, [answer["custom_id"] for answer in ready.data])

    table.row("gemini.batches", "all good", expected=("JOB_STATE_SUCCEEDED", ["r1"]), got=got)


def test_xai_is_filled_later(server: LLMock, table: Table) -> None:
    events: list[Event] = []
    with block(XAI, on_event=events.append) as (op, session):
        job = op.submit("POST", f"{server.url}/xai/v1/batches", json={})
        empty = session.get(op.provider.status_call(job).url).json()["state"]["status"]

        def fill() -> int:
            body = {"batch_requests": [json.loads(line("r1"))]}
            return session.post(f"{server.url}/xai/v1/batches/{job.id}/requests", json=body).status_code

        op.once("fill", fill)
        ready = op.poll(job, pacing=QUICK)
        found = custom_ids(op.download(ready).text)

    got = (empty, ready.state, found)
    table.row("xai.batches", "filled later", expected=("PENDING", "COMPLETED", ["r1"]), got=got)


def test_cohere(server: LLMock, table: Table) -> None:
    api = f"{server.url}/cohere/v2"
    records = [{"custom_id": "r1", "messages": [{"role": "user", "content": "ping"}]}]
    with block(COHERE) as (op, session):
        dataset = session.post(f"{api}/datasets", json={"name": "d", "records": records}).json()
        body = {"input_dataset_id": dataset["id"], "model": "command-r"}
        ready = op.poll(op.submit("POST", f"{api}/batches", json=body), pacing=QUICK)
        got = (ready.state, custom_ids(op.download(ready).text))

    table.row("cohere.batches", "all good", expected=("BATCH_STATUS_COMPLETED", ["r1"]), got=got)


# ---- faults, and the judge


def failing(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, "match": POLLS, **more}


def judged(server: LLMock) -> tuple[bool, list[str], int]:
    """Passed, what was found, and how many faults there were."""
    verdict = server.verdict()
    return verdict["passed"], [finding["code"] for finding in verdict["findings"]], verdict["faults_injected"]


def test_429_with_a_hint_then_503(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"))
        server.faults(failing(429, retry_after=1), failing(503))
        state = op.poll(job, pacing=QUICK).state

    got = (state, *judged(server))
    table.row("openai.batch", "429 with Retry-After, then 503", expected=("completed", True, [], 2), got=got)


def test_the_judge_can_fail_and_does_not_fail_us(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"))
        status = op.provider.status_call(job).url
        server.faults(failing(429, retry_after=1))
        for _ in range(2):
            session.get(status)
        _, hasty, _ = judged(server)
        server.reset()
        server.faults(failing(429, retry_after=1))
        op.poll(job, pacing=QUICK)

    got = (hasty, *judged(server))
    expected = (["retry_after_ignored"], True, [], 1)
    table.row("openai.batch", "Retry-After: a hasty loop, and ours", expected=expected, got=got)


def test_500_on_the_submit_without_a_key(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, session):
        server.faults({"type": "fail", "status": 500, "match": {"path": "/v1/batches"}})
        with pytest.raises(SubmitUncertain) as caught:
            submitted(op, session, f"{server.url}/v1", line("r1"))

    sent = server.journal().count("POST /v1/batches")
    got = (type(caught.value).__name__, sent, *judged(server))
    expected = ("SubmitUncertain", 1, True, ["gave_up"], 1)
    table.row("openai.batch", "500 on the submit: not sent again", expected=expected, got=got)


def test_500_on_the_submit_with_a_key(server: LLMock, table: Table) -> None:
    provider = replace(perplexity.BATCH, pacing=QUICK)
    with block(provider) as (op, session):
        server.faults({"type": "fail", "status": 500, "match": {"path": "/perplexity/v1/batches"}})
        state = op.poll(submitted(op, session, f"{server.url}/perplexity/v1", line("r1"))).state

    sent = server.journal().count("POST /perplexity/v1/batches")
    got = (state, sent, *judged(server))
    expected = ("completed", 2, True, [], 1)
    table.row("perplexity.batch", "500 on the submit: again under its key", expected=expected, got=got)


def test_401_on_the_poll_and_503_on_the_download(server: LLMock, table: Table) -> None:
    with block(openai.BATCH) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"))
        server.faults(failing(401))
        with pytest.raises(StatusUnavailable) as caught:
            op.poll(job, pacing=QUICK)
        refused = (caught.value.status_code, caught.value.polls, *judged(server))
        server.reset()
        server.faults({"type": "fail", "status": 503, "match": {"path": "/v1/files/*/content"}})
        found = custom_ids(op.download(op.poll(job, pacing=QUICK)).text)

    table.row("openai.batch", "401 on the poll: not asked again", expected=(401, 1, True, [], 1), got=refused)
    got = (found, *judged(server))
    table.row("openai.batch", "503 on the download", expected=(["r1"], True, [], 1), got=got)


def test_a_slow_answer(server: LLMock, table: Table) -> None:
    events: list[Event] = []
    with block(openai.BATCH, on_event=events.append) as (op, session):
        job = submitted(op, session, f"{server.url}/v1", line("r1"))
        server.faults({"type": "delay", "seconds": 1.5, "match": POLLS})
        state = op.poll(job, pacing=QUICK, timeout=1).state

    slow = [event.message for event in events if event.kind == "polled" and event.message]
    got = (slow, state, judged(server)[0])
    expected = (["no answer (read_timeout)"], "completed", True)
    table.row("openai.batch", "a poll that takes too long", expected=expected, got=got)
