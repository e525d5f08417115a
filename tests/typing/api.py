"""The public API as type checkers see it; read by them only, never run.

Each `type: ignore` is a mistake that must be one: where it is none, the checker complains about the comment.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import requests
from typing_extensions import assert_type

import trihop
from trihop import (
    Accepted,
    Ambiguous,
    Budget,
    Call,
    Cancelled,
    Content,
    DeadlineExceeded,
    Download,
    DownloadVerdict,
    Event,
    Expired,
    Failed,
    Fleet,
    Gone,
    Job,
    JobFailed,
    JobPartiallyFailed,
    LinkExpired,
    LongPoll,
    MemoryStore,
    Operation,
    OperationError,
    Outcome,
    OutcomeAmbiguous,
    Pacing,
    Partial,
    Pending,
    PollBudgetExhausted,
    PollErrorsExhausted,
    PollVerdict,
    Provider,
    ReadJob,
    ReadState,
    Ready,
    Rejected,
    Reply,
    Result,
    RetryPolicy,
    SQLStore,
    Store,
    SubmitRejected,
    SubmitVerdict,
    Succeeded,
    SurfaceError,
    Transient,
    TrihopError,
    Worker,
    accepts,
    header,
    operation,
    resume,
    show,
    text,
    wake,
    xml,
)
from trihop.providers import generic
from trihop.testing import ScriptedServer, VirtualClock, check_provider


def outliving(session: requests.Session, store: Store, to: Path) -> None:
    """Records that outlive the process."""
    with operation("export", deadline=None, session=session, key="k", store=store, store_payload=True) as op:
        assert_type(op.once("upload", lambda: {"etag": "e1"}), dict[str, str])
    with resume("k", store=store, session=session, provider=generic.ACCEPTED, deadline=60) as op:
        assert_type(op, Operation)
    assert_type(wake(store, job_id="7"), bool)

    def finish(op: Operation, ready: Ready) -> None:
        op.download(ready, to=to)

    worker = Worker(store, session=session, finish=finish, providers=[generic.ACCEPTED], workers=2)
    Worker(MemoryStore(), session=lambda name: session, finish=finish)
    assert_type(worker.step("k"), float | None)
    assert_type(worker.run(), None)
    SQLStore("sqlite:///jobs.db", lease=30)
    operation("export", deadline=60, key="k", store="sqlite:///jobs.db")  # type: ignore[arg-type]
    wake("sqlite:///jobs.db", key="k")  # type: ignore[arg-type]


def many(session: requests.Session, url: str, store: Store, to: Path) -> None:
    """A fleet, and several jobs of one operation."""

    def submit(op: Operation) -> Job:
        return op.submit("POST", url, auth=("me", "secret"))

    with Fleet(session=session, store=store, workers=4, in_flight=100, per_origin=2, on_event=show) as fleet:
        assert_type(fleet, Fleet)
        assert_type(fleet.start("export", Call("POST", url), deadline=dt.timedelta(hours=1), key="k", to=to), str)
        fleet.start("export", submit, deadline=None, key="l", provider=generic.ACCEPTED)
        fleet.start("export", lambda op: None, deadline=60)  # type: ignore[arg-type, return-value]
        fleet.start("export", Call("POST", url))  # type: ignore[call-arg]
        assert_type(fleet.cancel("k"), None)
        for outcome in fleet.outcomes():
            assert_type(outcome, Outcome)
            assert_type(outcome.key, str)
            assert_type(outcome.error, Exception | None)
            assert_type(outcome.download, Download | None)
    with operation("export", deadline=60, session=session) as op:
        assert_type(op.gather([op.submit("POST", url)]), Iterator[Ready])
        op.gather([url])  # type: ignore[list-item]


def asking(session: requests.Session, url: str, to: Path, file: IO[bytes]) -> None:
    """The block and its hops."""
    with operation("export", deadline=1800, session=session) as op:
        assert_type(op, Operation)
        assert_type(op.id, str)
        assert_type(op.key, str | None)
        assert_type(op.trace_id, str | None)
        assert_type(op.job, Job | None)
        assert_type(op.resumed, bool)
        assert_type(op.remaining(), float)
        assert_type(op.sleep(1), None)

        job = op.submit("POST", url, json={"query": "all"}, headers={"Accept": "text/csv"}, params={"v": 2})
        assert_type(job, Job)
        op.submit("POST", url, data=b"body", auth=("me", "secret"), cookies={"a": "b"}, verify=False, cert=("c", "k"))
        op.submit(
            "POST", url, files={"file": file}, timeout=(3, 30), idempotency_key="k", retry=RetryPolicy(attempts=2)
        )
        op.submit("POST", url, surface=lambda reply: Accepted(reply.json()["id"]))

        ready = op.poll(job)
        assert_type(ready, Ready)
        op.poll()
        op.poll(url, pacing=Pacing(first=2, cap=60), budget=Budget(polls=10), allow_partial=True, timeout=5)
        op.poll(job, surface=lambda reply, job: Pending(reply.text))

        assert_type(op.download(ready), Download)
        assert_type(op.download(ready, to=to), Download)
        assert_type(op.download(ready, to="rows.csv"), Download)
        assert_type(op.download(ready, to=file, sha256="0" * 64, max_size=10**9, decode=False), Download)
        assert_type(op.download(ready, to=io.BytesIO()), Download)
        assert_type(op.download(url), Download)
        assert_type(op.download(Call("GET", url)), Download)
        assert_type(op.download(Result(url)), Download)
        assert_type(op.download(ready, into="folder"), dict[str, Download])
        assert_type(op.download(ready["failedResults"], into=to), dict[str, Download])
        op.download(ready, surface=lambda reply, result: Content(header_lines=1))

        assert_type(op.run("POST", url, json=[1], to=to, allow_partial=True), Download)
        assert_type(op.once("upload", lambda: 7), int)
        assert_type(op.once("activate", lambda: None), None)
        assert_type(op.cancel(), bool)
        op.cancel(job)
        with op.hop("poll", surface=generic.ACCEPTED.poll) as hop:
            assert_type(hop.wait(session.get(url)), Ready | None)


def options(clock: VirtualClock) -> None:
    """What an operation takes."""
    operation("a", deadline=None)
    operation(
        "b", deadline=1.5, provider=generic.ACCEPTED, key="k", on_event=show, attributes={"tenant": "acme", "n": 1}
    )
    operation("c", deadline=dt.timedelta(hours=1), origins=["https://files.example.com"], propagate=False)
    operation("t", deadline=60, trace_url="http://localhost:16686/trace/{trace_id}")
    operation("d", deadline=dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc), on_interrupt="cancel", clock=clock)

    def listener(event: Event) -> None:
        assert_type(event.kind, str)
        assert_type((event.state, event.job_id, event.message), tuple[str | None, str | None, str | None])
        assert_type((event.polls, event.elapsed, event.next_poll_in), tuple[int, float, float | None])
        assert_type((event.bytes_done, event.bytes_total, event.progress), tuple[int, int | None, float | None])

    operation("e", deadline=60, on_event=listener)


def results(ready: Ready, download: Download) -> None:
    """What a job left, and what came of fetching it."""
    assert_type(ready.job, Job)
    assert_type(ready.state, str)
    assert_type(ready.results, Sequence[Result])
    assert_type(ready["name"], Ready)
    assert_type(ready.complete, bool)
    assert_type(ready.data, Any)
    assert_type(download.path, Path | None)
    assert_type(download.size_bytes, int)
    assert_type(download.sha256, str | None)
    assert_type(download.content, bytes)
    assert_type(download.text, str)
    assert_type(download.json(), Any)
    assert_type(download.iter_lines(), Iterator[str])
    assert_type(download.iter_rows(), Iterator[Any])


def errors(session: requests.Session, url: str) -> None:
    """Each class has its own facts; all have the operation's."""
    try:
        operation("a", deadline=1).__enter__().run("POST", url)
    except JobPartiallyFailed as partial:
        assert_type(partial.ready, Ready)
    except JobFailed as failure:
        assert_type(failure.error, Any)
        assert_type(failure.ready, Ready)
    except OutcomeAmbiguous as ambiguous:
        assert_type(ambiguous.ready, Ready | None)
    except SubmitRejected as rejected:
        assert_type(rejected.error, Any)
    except DeadlineExceeded as late:
        assert_type((late.phase, late.asked, late.remaining), tuple[str, float | None, float])
    except PollErrorsExhausted as outage:
        exhausted: PollBudgetExhausted = outage
        assert_type(exhausted.cause, BaseException | None)
    except SurfaceError as fault:
        assert_type(fault.reply, Reply | None)
    except OperationError as error:
        assert_type((error.operation, error.operation_id, error.trace_id), tuple[str, str, str | None])
        assert_type(error.trace_url, str | None)
        assert_type((error.hop, error.job_id, error.state), tuple[str | None, str | None, str | None])
        assert_type((error.status_code, error.polls, error.elapsed), tuple[int | None, int, float])
        assert_type(error.job, Job | None)
        base: TrihopError = error
        raise base from None


# ---- surfaces and providers


def submit(reply: Reply) -> SubmitVerdict:
    """A submit surface may say any of these."""
    match reply.status_code:
        case 200:
            return Succeeded("done", results=[Result(data=reply.json())])
        case 201:
            return Pending("queued", status_url=reply.headers["Location"])
        case 202:
            return Accepted("7", "/jobs/7", after=5, memo={"region": "eu"})
        case 422:
            return Rejected(reply.json())
        case _:
            return Transient("busy", after=1.5)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """A poll surface may say any of these."""
    verdicts: list[PollVerdict] = [
        Pending("running", after=1, progress=40, message="halfway", memo={"a": 1}, known=False),
        Transient("throttled"),
        Succeeded("done", results=(Result("/f"),), counts={"total": 3}, message="all well"),
        Partial("done", counts={"failed": 1}),
        Failed("failed", error={"code": 7}),
        Cancelled("cancelled"),
        Expired("expired"),
        Ambiguous("held"),
    ]
    return verdicts[job.memo["n"]]


@accepts(400, 404)
def download(reply: Reply, result: Result) -> DownloadVerdict:
    """A download surface may say any of these; the decorator keeps its type."""
    verdicts: list[DownloadVerdict] = [
        Content(),
        Content(items=[{"n": 1}], next="?page=2", header_lines=1),
        Content(next=Call("POST", "/rows", json={"token": "x"}, headers={"A": "b"})),
        Pending("not ready"),
        LinkExpired("403"),
        Gone("410"),
        Transient("503"),
    ]
    return verdicts[result.size_bytes or 0]


assert_type(download(Reply(), Result()), DownloadVerdict)

ACME = Provider(
    "acme.exports",
    submit=submit,
    poll=poll,
    download=download,
    status="jobs/{id}",
    cancel=Call("DELETE", "jobs/{id}", credentials="always"),
    long_poll=LongPoll(seconds=60, params={"wait": "{seconds}"}, headers={"Prefer": "wait={seconds}"}),
    idempotency="Idempotency-Key",
    origins=("https://files.example.com",),
    grace=5,
    pacing=Pacing(first=1, factor=1.5, cap=30, floor=0.5, jitter=False),
    budget=Budget(polls=None, consecutive_errors=5),
    retry=RetryPolicy(attempts=3, on={429, 503}),
)
assert_type(replace(ACME, pacing=Pacing(first=10)), Provider)
assert_type(ACME.status_call(Job(id="7")), Call)
assert_type(ACME.cancel_call(Job(id="7")), Call)
assert_type(ACME.result_calls(Job(id="7")), list[Call])

TABLES = Provider(
    "acme.tables",
    submit=ReadJob(id="id", status_url=header("Location"), after="wait", memo={"x": xml("x")}, rejected=text),
    poll=ReadState(
        xml("phase"),
        pending={"QUEUED"},
        succeeded=["DONE"],
        failed=("ERROR",),
        results=lambda reply: [Result(reply.text)],
        counts="counts",
        transient="errors[0]",
        accept=(400,),
    ),
    status=lambda job: f"{job.status_url}/state",
)
assert_type(ReadState()(Reply(), Job()), PollVerdict)
assert_type(ReadJob()(Reply()), SubmitVerdict)
assert_type(header("Location")(Reply()), str | None)
assert_type(text(Reply()), str)

reply = Reply(200, {"a": 1}, headers={"A": "b"}, url="https://api.example.com", content=b"")
assert_type((reply.status_code, reply.text, reply.content, reply.url), tuple[int, str, bytes, str])
assert_type(reply.json(), Any)

# ---- testing


def a_test(clock: VirtualClock, server: ScriptedServer) -> None:
    """The fixtures, in a test of one's own."""
    server.script({"id": 7}, 503, Reply(200), b"rows", lambda call: {"asked": call.path}, then_always=404)
    server.on("GET", "/jobs/1", "running")
    assert_type(server.url, str)
    assert_type([call.headers["A"] for call in server.calls], list[str])
    assert_type(clock.sleeps, list[float])
    check_provider(ACME, pending=Reply(202), succeeded={"status": "done"}, job=Job(id="7"))


# ---- mistakes


def mistakes(op: Operation, ready: Ready, job: Job) -> None:
    """A mistyped option fails in the editor, not in production."""
    operation("a")  # type: ignore[call-arg]
    operation("a", deadline="soon")  # type: ignore[arg-type]
    operation("a", deadline=60, timeout=5)  # type: ignore[call-arg]
    operation("a", deadline=60, trace_url=b"http://h/{trace_id}")  # type: ignore[arg-type]
    operation("a", deadline=60, on_interrupt="stop")  # type: ignore[arg-type]
    op.submit("POST", "u", jason={})  # type: ignore[call-arg]
    op.submit("POST", "u", stream=True)  # type: ignore[call-arg]
    op.submit("POST", "u", surface=poll)  # type: ignore[arg-type]
    op.run("POST", "u", retries=3)  # type: ignore[call-arg]
    op.poll(7)  # type: ignore[arg-type]
    op.poll(job, budget=5)  # type: ignore[arg-type]
    op.poll(job, surface=download)  # type: ignore[arg-type]
    op.download(ready, to="a", into="b")  # type: ignore[call-overload]
    op.hop("pol")  # type: ignore[arg-type]
    job.id = "8"  # type: ignore[misc]
    Job("7")  # type: ignore[call-arg]
    Pacing(1.0)  # type: ignore[call-arg]
    Call("GET", "/x", credentials="sometimes")  # type: ignore[arg-type]
    Provider("p", poll=submit)  # type: ignore[arg-type]
    Provider("p", status=7)  # type: ignore[arg-type]
    Pending("x", results=[])  # type: ignore[call-arg]
    Succeeded("x", results=["/f"])  # type: ignore[list-item]
    trihop.opration("a", deadline=60)  # type: ignore[attr-defined]


assert_type(trihop.__version__, str)
