"""Hops that the caller names: `op.hop`, `hop.wait`, `op.sleep`, and the steps of a submit."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from trihop import (
    DeadlineExceeded,
    Job,
    JobFailed,
    PollErrorsExhausted,
    Provider,
    ReadState,
    Reply,
    Result,
    operation,
    text,
)
from trihop.testing import ScriptedServer, SpanLog, VirtualClock, accepted, done, reset, running

NOON_NS = int(dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc).timestamp()) * 10**9
PLAIN = ReadState(
    text,
    pending={"queued", "running"},
    succeeded={"done"},
    failed={"failed"},
    results=[Result("{status_url}/result")],
)


def export(session: requests.Session, clock: VirtualClock, **options: Any) -> Any:
    return operation("export", **{"deadline": 600, "session": session, "clock": clock, **options})


def attempts(spans: SpanLog, name: str) -> list[tuple[float, dict[str, Any]]]:
    """When each attempt of a hop began, in seconds after noon, and what is told of it."""
    return [((event.timestamp - NOON_NS) / 1e9, dict(event.attributes or {})) for event in spans.named(name).events]


def test_the_triangle_by_hand(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog, tmp_path: Path
):
    """A loop of the caller's, judged and paced by `hop.wait`; what it returns is downloaded by the engine."""
    server.script(
        lambda _: clock.advance(1) or accepted("{url}jobs/1"),
        "queued",
        Reply(200, content=b"running", headers={"Retry-After": "30"}),
        "done",
        "a,b\n",
    )

    with export(session, clock) as op:
        status = session.post(f"{server.url}jobs", json={}).headers["Location"]
        with op.hop("poll", surface=PLAIN) as hop:
            while (ready := hop.wait(session.get(status))) is None:
                pass
        download = op.download(ready, to=tmp_path / "export.csv")

    assert download.path.read_text() == "a,b\n"
    assert [call.path for call in server.calls] == ["/jobs", "/jobs/1", "/jobs/1", "/jobs/1", "/jobs/1/result"]
    assert clock.sleeps == [1, 30]
    assert ready.job == Job(status_url=status, submit_url=f"{server.url}jobs", submit_method="POST", state="done")
    [root] = spans.roots
    assert [(span.name, span.kind.name) for span in spans.children(root)] == [
        ("submit export", "CLIENT"),
        ("poll export", "INTERNAL"),
        ("download export", "CLIENT"),
    ]
    told = [
        (at, one["trihop.job.state"], one.get("trihop.wait.duration"), one.get("trihop.wait.reason"))
        for at, one in attempts(spans, "poll export")
    ]
    assert told == [(1, "queued", 1, "pacing"), (2, "running", 30, "hint"), (32, "done", None, None)]
    assert root.attributes["trihop.operation.polls"] == 3


def test_an_api_that_is_asked_by_post(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """Where submit and status are the same URL, the hop's name is all that tells them apart, and is enough."""
    server.script({"id": "q-1"}, {"status": "RUNNING"}, {"status": "SUCCEEDED", "result": [1, 2]})
    surface = ReadState(pending={"RUNNING"}, succeeded={"SUCCEEDED"}, data="result")

    with export(session, clock) as op:
        with op.hop("submit"):
            query = session.post(server.url, json={"do": "start"}).json()["id"]
        with op.hop("poll", surface=surface) as hop:
            while (ready := hop.wait(session.post(server.url, json={"do": "get", "id": query}))) is None:
                pass

    assert ready.data == [1, 2]
    assert ready.job == Job(status_url=server.url, submit_url=server.url, submit_method="POST", state="SUCCEEDED")
    submit, poll = spans.named("submit export"), spans.named("poll export")
    assert (submit.kind.name, submit.attributes["http.request.method"]) == ("CLIENT", "POST")
    assert (poll.attributes["http.request.method"], poll.attributes["trihop.poll.attempts"]) == ("POST", 2)
    assert poll.links[0].context.span_id == submit.context.span_id


def test_an_attempt_is_as_long_as_its_exchange(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """What the caller does between the answer and `hop.wait` is no part of it."""
    server.on("GET", "/jobs/1", lambda _: clock.advance(2) or running(), lambda _: clock.advance(3) or done(result=1))

    with export(session, clock) as op, op.hop("poll") as hop:
        for _ in range(2):
            response = session.get(f"{server.url}jobs/1")
            clock.advance(10)
            hop.wait(response)

    times = [(at, one["trihop.attempt.duration"]) for at, one in attempts(spans, "poll export")]
    assert times == [(0, 2), (13, 3)]


def test_polls_that_nobody_judges_are_attempts(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """A loop that judges by itself, inside `op.hop`: each poll is told, with its state and the pause after it."""
    server.script(running(), 503, running(), running("finished"))

    with export(session, clock) as op, op.hop("poll"):
        while True:
            response = session.get(f"{server.url}jobs/1")
            if response.ok and response.json()["status"] == "finished":
                break
            op.sleep(7) if response.ok else clock.sleep(20)

    poll, root = spans.named("poll export"), spans.named("export")
    told = [
        (
            one.get("trihop.job.state"),
            one.get("error.type"),
            one.get("trihop.wait.duration"),
            one.get("trihop.wait.reason"),
        )
        for _, one in attempts(spans, "poll export")
    ]
    assert told == [
        ("running", None, 7, "pacing"),
        (None, "503", 20, "caller"),
        ("running", None, 7, "pacing"),
        ("finished", None, None, None),
    ]
    assert root.attributes["trihop.operation.polls"] == poll.attributes["trihop.poll.attempts"] == 4
    assert (root.attributes["trihop.job.state"], op.job.status_url) == ("finished", f"{server.url}jobs/1")


def test_a_poll_that_was_lost_is_an_attempt(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """A connection that breaks, which the caller catches, is told beside the polls that were judged."""
    server.script(running(), reset(), done(result=1))

    with export(session, clock) as op, op.hop("poll") as hop:
        ready = None
        while ready is None:
            try:
                ready = hop.wait(session.get(f"{server.url}jobs/1"))
            except requests.ConnectionError:
                op.sleep(5)

    poll = spans.named("poll export")
    assert [one.get("error.type") for _, one in attempts(spans, "poll export")] == [None, "connection_reset", None]
    assert (poll.attributes["trihop.poll.errors"], poll.status.status_code.name) == (1, "UNSET")
    assert spans.named("export").attributes["trihop.operation.polls"] == 3


def test_another_request_inside_a_poll_hop_does_not_take_its_place(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """Sent between a poll and its `hop.wait`, it is an attempt of its own, and the poll is judged once."""
    server.on("GET", "/jobs/1", running(), done(result=1))
    server.on("GET", "/me", then_always={"id": 1})

    with export(session, clock) as op, op.hop("poll") as hop:
        for _ in range(2):
            response = session.get(f"{server.url}jobs/1")
            session.get(f"{server.url}me")
            hop.wait(response)

    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 4
    verdicts = [one.get("trihop.attempt.verdict") for _, one in attempts(spans, "poll export")]
    assert verdicts.count("succeeded") == 1


def test_typed_endings_by_hand(session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog):
    """`hop.wait` raises what `op.poll` would, with the job and all that is known of it."""
    server.script(
        accepted("{url}jobs/1"), running(), {"status": "failed", "error": {"code": "E1", "message": "no column"}}
    )

    with pytest.raises(JobFailed, match="E1: no column") as raised, export(session, clock) as op:
        status = session.post(f"{server.url}jobs").headers["Location"]
        with op.hop("poll") as hop:
            while True:
                hop.wait(session.get(status))

    assert (raised.value.hop, raised.value.state, raised.value.polls) == ("poll", "failed", 2)
    assert spans.named("poll export").attributes["error.type"] == "JobFailed"
    assert spans.named("export").attributes["trihop.job.error.code"] == "E1"


def test_the_error_budget_by_hand(session: requests.Session, server: ScriptedServer, clock: VirtualClock):
    """Five answers in a row that are none end the wait."""
    server.script(then_always=503)

    with pytest.raises(PollErrorsExhausted), export(session, clock) as op, op.hop("poll") as hop:
        while True:
            hop.wait(session.get(f"{server.url}jobs/1"))

    assert len(server.calls) == 5


def test_a_hint_beyond_the_deadline_is_refused_by_hand(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock
):
    """`hop.wait` does not sleep for nothing."""
    server.script(running(hint_s=700))

    with pytest.raises(DeadlineExceeded, match="asked for 700 s"), export(session, clock) as op, op.hop("poll") as hop:
        hop.wait(session.get(f"{server.url}jobs/1"))

    assert clock.sleeps == []


def test_a_response_of_a_session_that_is_not_covered(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """`hop.wait` judges whatever answer it is given; its time is what `requests` measured."""
    server.script(running(), done(result=1))

    with requests.Session() as other, export(session, clock) as op, op.hop("poll") as hop:
        other.trust_env = False
        while (ready := hop.wait(other.get(f"{server.url}jobs/1"))) is None:
            pass

    assert ready.data == 1
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 2


def test_two_jobs_by_hand_are_two_jobs(session: requests.Session, server: ScriptedServer, clock: VirtualClock):
    """Each hop knows the job whose URL it polls."""
    server.script(accepted("{url}jobs/1"), done(result=1), accepted("{url}jobs/2"), done(result=2))
    jobs = []

    with export(session, clock) as op:
        for path in ("a", "b"):
            status = session.post(f"{server.url}{path}").headers["Location"]
            with op.hop("poll") as hop:
                ready = hop.wait(session.get(status))
            jobs.append((ready.job.status_url, ready.job.submit_url))

    assert jobs == [(f"{server.url}jobs/{n}", f"{server.url}{path}") for n, path in ((1, "a"), (2, "b"))]


def test_wait_belongs_to_an_open_poll_hop(session: requests.Session, server: ScriptedServer, clock: VirtualClock):
    """Elsewhere it says where it belongs."""
    server.script("x")
    with export(session, clock) as op:
        with op.hop("download") as hop:
            response = session.get(server.url)
            with pytest.raises(RuntimeError, match=r"op.hop\('poll'\)"):
                hop.wait(response)
        with op.hop("poll") as hop:
            pass
        with pytest.raises(RuntimeError, match="open poll hop"):
            hop.wait(response)


def test_a_download_by_hand(session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog):
    """Its re-sends are its attempts, its URL is the first that was asked for."""
    server.script(503, "content")

    with export(session, clock) as op, op.hop("download"):
        for _ in range(2):
            response = session.get(f"{server.url}files/1")

    assert response.text == "content"
    span = spans.named("download export")
    assert span.kind.name == "CLIENT"
    assert [one.get("error.type") for _, one in attempts(spans, "download export")] == ["503", None]
    assert (span.attributes["http.response.status_code"], span.attributes["http.request.method"]) == (200, "GET")
    assert span.attributes["url.full"] == f"{server.url}files/1"


# ---- op.sleep


def test_sleep_keeps_within_the_deadline(session: requests.Session, clock: VirtualClock):
    """A pause that cannot fit is refused before it is begun; one that fits is slept in full."""
    with pytest.raises(DeadlineExceeded) as raised, export(session, clock, deadline=60) as op:
        op.sleep(40)
        op.sleep(40)

    assert clock.sleeps == [40]
    assert (raised.value.phase, raised.value.asked, raised.value.remaining) == ("wait", 40, 20)


def test_time_itself_is_not_patched(session: requests.Session, clock: VirtualClock):
    """`time.sleep` is everybody's."""
    before = vars(time)["sleep"]
    with export(session, clock):
        assert vars(time)["sleep"] is before


# ---- steps of a submit


def test_steps_of_a_submit_are_its_attempts(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """What `op.once` sends after the submit belongs to the submit, until the first poll."""
    server.on("POST", "/jobs", Reply(200, {"id": "J-1", "status": "open"}, headers={"Location": "{url}jobs/J-1"}))
    server.on("PUT", "/jobs/J-1/batches", 201)
    server.on("PATCH", "/jobs/J-1", 200)
    server.on("GET", "/jobs/J-1", running(), done(result="ok"))

    with export(session, clock) as op:
        job = op.submit("POST", f"{server.url}jobs", json={})

        def upload() -> int:
            session.put(f"{server.url}jobs/J-1/batches", data=b"a,b").raise_for_status()
            return session.patch(f"{server.url}jobs/J-1", json={"state": "UploadComplete"}).status_code

        assert op.once("upload", upload) == 200
        assert op.once("upload", upload) == 200
        clock.advance(5)
        op.poll(job)

    [root] = spans.roots
    assert [span.name for span in spans.children(root)] == ["submit export", "poll export"]
    submit = spans.named("submit export")
    assert [one["http.response.status_code"] for _, one in attempts(spans, "submit export")] == [200, 201, 200]
    assert (submit.attributes["http.request.method"], submit.attributes["url.full"]) == ("POST", f"{server.url}jobs")
    assert [call.method for call in server.calls] == ["POST", "PUT", "PATCH", "GET", "GET"]


def test_a_step_is_bounded_by_the_deadline(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """An upload that hangs is cut, and the submit is the hop that failed."""
    server.script(accepted("{url}jobs/1"))

    with pytest.raises(DeadlineExceeded), export(session, clock, deadline=60) as op:
        op.submit("POST", f"{server.url}jobs")

        def upload() -> None:
            clock.advance(61)
            session.put(f"{server.url}upload")

        op.once("upload", upload)

    assert len(server.calls) == 1
    assert spans.named("submit export").attributes["error.type"] == "DeadlineExceeded"


def test_a_step_that_failed_and_was_made_good(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """Only a failure that leaves the block is the hop's."""
    server.script(accepted("{url}jobs/1"), 503, 200)

    with export(session, clock) as op:
        op.submit("POST", f"{server.url}jobs")
        for _ in range(2):
            try:
                op.once("upload", lambda: session.put(f"{server.url}upload").raise_for_status())
            except requests.HTTPError:
                continue

    submit = spans.named("submit export")
    assert submit.status.status_code.name == "UNSET"
    assert [one.get("error.type") for _, one in attempts(spans, "submit export")] == [None, "503", None]


# ---- the engine's hops and the caller's own


def test_a_loop_of_ones_own_after_a_submit_of_the_engines(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """The engine handed out the job, so the loop that asks for it polls; its submit ends where the polls begin."""
    server.script(
        accepted("{url}jobs/1", hint_s=1),
        running(),
        running(),
        {"status": "done", "file": "{url}files/f-77"},
        "content",
    )

    with export(session, clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        clock.advance(5)
        while (answer := session.get(job.status_url).json())["status"] == "running":
            clock.advance(5)
        session.get(answer["file"])

    [root] = spans.roots
    hops = spans.children(root)
    assert [span.name for span in hops] == ["submit export", "poll export", "download export"]
    assert [(span.end_time - NOON_NS) / 1e9 for span in hops] == [5, 15, 15]
    assert [link.context.span_id for link in hops[1].links] == [hops[0].context.span_id]


def test_a_result_of_the_engines_fetched_by_oneself(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """The last poll handed it out: a download, and without `traceparent` where it leads elsewhere."""
    with ScriptedServer(clock=clock) as other:
        server.script(accepted("{url}jobs/1"), done(result_url=f"{other.url}files/1"))
        other.script("content")
        with export(session, clock) as op:
            ready = op.poll(op.submit("POST", f"{server.url}jobs"))
            session.get(ready.results[0].at)

        assert "traceparent" not in other.calls[0].headers
    assert spans.named("download export").attributes["trihop.download.size"] == 7


def test_providers_need_not_be_named_for_a_surface(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock
):
    """A hop's surface may be that of a provider."""
    provider = Provider("acme.plain", poll=PLAIN)
    server.script("running", "failed")

    with pytest.raises(JobFailed), export(session, clock) as op, op.hop("poll", surface=provider.poll) as hop:
        while hop.wait(session.get(f"{server.url}jobs/1")) is None:
            pass
