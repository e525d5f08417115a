"""The scenes that a trace alone must explain: cause, hop, wait and next step.

Each scene is played through the engine against a scripted server, and what is
asked afterwards is answered from the exported spans and nothing else.

The ninth of the twelve scenes, an operation that was killed and resumed, is
left out: it takes a record that outlives the process.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from socket import socket
from typing import Any

import pytest
import requests
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from telling import attempts, said

import trihop
from trihop import Budget, Event, Pacing, Reply, operation
from trihop.providers import generic
from trihop.testing import ReceivedCall, ScriptedServer, SpanLog, VirtualClock, done, failed, running
from trihop.viewer import read, story

ACCEPTED = Reply(202, {"id": "job-1"}, headers={"Location": "{url}jobs/1"})


@dataclass
class Stage:
    """Where a scene is played."""

    server: ScriptedServer
    clock: VirtualClock
    session: requests.Session
    spans: SpanLog

    def play(self, *replies: Any, deadline: float, then_always: Any = None, **options: Any) -> None:
        """Run a triangle against these replies, and let nothing of it out but its spans."""
        self.server.script(*replies, then_always=then_always)
        with pytest.raises(trihop.TrihopError), self.open(deadline, **options) as op:
            op.run("POST", f"{self.server.url}jobs", json={"q": 1})

    def open(self, deadline: float, **options: Any) -> trihop.Operation:
        return operation("export", deadline=deadline, session=self.session, clock=self.clock, **options)


@dataclass
class Trace:
    """What somebody knows who has the spans alone."""

    spans: list[ReadableSpan]

    def hop(self, name: str) -> ReadableSpan:
        """The span that says it is this hop."""
        (found,) = [span for span in self.spans if said(span).get("trihop.hop") == name]
        return found

    @property
    def root(self) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.parent is None]
        return found

    @property
    def cause(self) -> tuple[str, str, str | None]:
        """How it came out, in which hop, and by which error."""
        root = said(self.root)
        return root["trihop.operation.result"], root["trihop.operation.ended_in"], root.get("error.type")

    @property
    def message(self) -> str:
        return self.root.status.description or ""

    @property
    def ended_in(self) -> ReadableSpan:
        return self.hop(self.cause[1])

    @property
    def story(self) -> str:
        """What the viewer makes of the same spans, written to a file and read back."""
        text = io.StringIO()
        FileSpanExporter(stream=text).export(self.spans)
        (trace,) = read(text.getvalue().encode().splitlines(keepends=True)).traces
        return "\n".join(story(trace.operations[0]).lines)


@pytest.fixture
def stage(server: ScriptedServer, clock: VirtualClock, session: requests.Session, spans: SpanLog) -> Stage:
    return Stage(server, clock, session, spans)


# ---- the scenes


def job_failed(stage: Stage) -> None:
    stage.play(ACCEPTED, running(), failed("INVALID_FIELD: no such column 'Foo'"), deadline=60)


def queued_until_the_deadline(stage: Stage) -> None:
    stage.play(ACCEPTED, then_always=running("Queued", hint_s=30), deadline=7_200)


def a_hint_beyond_the_deadline(stage: Stage) -> None:
    stage.clock.random.random = lambda: 0.0  # type: ignore[method-assign]
    stage.play(
        Reply(202, {"id": "job-1"}, headers={"Location": "{url}jobs/1", "Retry-After": "900"}),
        running("Queued", hint_s=3_600),
        deadline=1_800,
    )


def load_balancer_outage(stage: Stage) -> None:
    outage = [Reply(503, headers={"X-Request-Id": f"req-{n}"}, content=b"<html>") for n in range(1, 6)]
    stage.play(ACCEPTED, *[running()] * 7, *outage, deadline=1_800)


def a_captive_proxy(stage: Stage) -> None:
    page = Reply(200, headers={"Content-Type": "text/html"}, content=b"<html>Sign in to the network</html>")
    stage.play(ACCEPTED, running(), then_always=page, deadline=1_800)


def token_expired(stage: Stage) -> None:
    refusal = Reply(
        401,
        {"error": "invalid_token"},
        headers={"WWW-Authenticate": 'Bearer error="invalid_token", error_description="The token expired"'},
    )
    stage.play(ACCEPTED, *[running()] * 30, refusal, deadline=1_800)


def an_old_link(stage: Stage) -> None:
    link = done(result_url="{url}files/1.csv?X-Amz-Date=20260301T120000Z&X-Amz-Signature=secret")
    stage.server.script(ACCEPTED, link, 403, link)
    with pytest.raises(trihop.ResultUnavailable), stage.open(7_200) as op:
        op.submit("POST", f"{stage.server.url}jobs")
        ready = op.poll()
        op.sleep(4_200)
        op.download(ready)


def a_dripped_body(stage: Stage) -> None:
    arrived = threading.Semaphore(0)

    def drip(connection: socket, call: ReceivedCall) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(100):
            stage.clock.advance(10)
            connection.sendall(b"x" * 1_000)
            assert arrived.acquire(timeout=10)

    def told(event: Event) -> None:
        if event.kind == "downloading":
            arrived.release()

    stage.play(ACCEPTED, done(result_url="{url}files/1"), drip, deadline=405, on_event=told)
    arrived.release(100)  # the rest of it goes nowhere


def the_machine_slept(stage: Stage) -> None:
    sleep, naps = stage.clock.sleep, iter([0.0, 0.0, 0.0, 2_400.0])
    stage.clock.sleep = lambda seconds: sleep(seconds + next(naps))  # type: ignore[method-assign]
    stage.play(ACCEPTED, then_always=running(hint_s=60), deadline=1_800)


def some_items_failed(stage: Stage) -> None:
    counts = {"total": 10_000, "failed": 3}
    surface = trihop.ReadState(
        "status", pending={"running"}, succeeded={"succeeded"}, counts="counts", bad_items="counts.failed"
    )
    stage.play(ACCEPTED, running(), done(counts=counts), deadline=60, provider=replace(generic.ACCEPTED, poll=surface))


def a_word_nobody_knew(stage: Stage) -> None:
    provider = replace(generic.ACCEPTED, pacing=Pacing(first=5, cap=5), budget=Budget(polls=50))
    stage.play(ACCEPTED, running(), then_always=running("Paused"), deadline=1_800, provider=provider)


def played(scene: Callable[[Stage], None], stage: Stage) -> Trace:
    """The trace of a scene."""
    scene(stage)
    stage.server.assert_done()
    return Trace(stage.spans.all)


# ---- the questions


def test_a_failed_job_says_why(stage: Stage):
    """Scene 1: the server's code and words are on the root; nothing was waited for in vain, so mend and submit anew."""
    trace = played(job_failed, stage)
    assert trace.cause == ("failure", "poll", "JobFailed")
    assert said(trace.root)["trihop.job.error.code"] == "INVALID_FIELD"
    assert said(trace.root)["trihop.job.error.message"] == "INVALID_FIELD: no such column 'Foo'"
    assert said(trace.root)["trihop.job.state"] == "failed"
    assert "INVALID_FIELD: no such column 'Foo'" in trace.message


def test_a_queue_that_never_moved_is_seen(stage: Stage):
    """Scene 2: from the first to the last poll the job was queued, for all of the two hours; it may still finish."""
    trace = played(queued_until_the_deadline, stage)
    poll = said(trace.hop("poll"))
    assert trace.cause == ("timeout", "poll", "DeadlineExceeded")
    assert said(trace.root)["trihop.deadline.duration"] == 7_200.0
    assert said(trace.root)["trihop.deadline.phase"] == "wait"
    assert {attempt["trihop.job.state"] for attempt in attempts(trace.hop("poll"))} == {"Queued"}
    assert poll["trihop.job.state"] == "Queued"
    assert poll["trihop.poll.wait_time"] > 0.99 * 7_200 - 30
    assert poll["trihop.poll.errors"] == 0
    assert "last state 'Queued'" in trace.message
    assert said(trace.root)["trihop.job.id"] == "job-1"


def test_a_hint_that_was_refused_is_seen(stage: Stage):
    """Scene 3: what the server asked for, what was left, and that the pause was not begun."""
    trace = played(a_hint_beyond_the_deadline, stage)
    assert trace.cause == ("timeout", "poll", "DeadlineExceeded")
    assert said(trace.hop("poll"))["trihop.wait.refused"] == 3_600.0
    assert said(trace.root)["trihop.deadline.remaining"] == 900.0
    assert said(trace.root)["trihop.deadline.phase"] == "wait"
    assert said(trace.hop("poll"))["trihop.poll.wait_time"] == 900.0
    assert attempts(trace.hop("poll"))[-1]["http.response.header.retry-after"] == ("3600",)
    assert "the server asked for 3600 s and 900 s are left" in trace.message


def test_an_outage_of_the_load_balancer_is_seen(stage: Stage):
    """Scene 4: seven good polls, then five 503 in a row with backoff between, and the request ids to quote."""
    trace = played(load_balancer_outage, stage)
    poll = trace.hop("poll")
    assert trace.cause == ("timeout", "poll", "PollErrorsExhausted")
    assert said(poll)["trihop.poll.statuses"] == ("200=7", "503=5")
    assert [attempt.get("error.type") for attempt in attempts(poll)] == [*[None] * 7, *["503"] * 5]
    failures = attempts(poll)[7:]
    assert [attempt.get("trihop.wait.reason") for attempt in failures] == [*["backoff"] * 4, None]
    assert [attempt.get("http.response.header.x-request-id") for attempt in failures] == [
        (f"req-{n}",) for n in range(1, 6)
    ]
    assert said(poll)["http.response.status_code"] == 503
    assert said(trace.root)["trihop.job.state"] == "running"


def test_a_captive_proxy_is_seen(stage: Stage):
    """Scene 5: a page at 200 is no answer of the API, and its content type tells what answered in its stead."""
    trace = played(a_captive_proxy, stage)
    poll = trace.hop("poll")
    assert trace.cause == ("timeout", "poll", "PollErrorsExhausted")
    assert said(poll)["http.response.status_code"] == 200
    assert [attempt.get("error.type") for attempt in attempts(poll)] == [None, *["not_json"] * 5]
    assert attempts(poll)[-1]["http.response.header.content-type"] == ("text/html",)
    assert "not_json" in trace.message


def test_an_expired_token_is_seen(stage: Stage):
    """Scene 6: the thirty-first poll was a 401, and the server said why; the job may be running all the same."""
    trace = played(token_expired, stage)
    last = attempts(trace.hop("poll"))[-1]
    assert trace.cause == ("error", "poll", "StatusUnavailable")
    assert (last["trihop.attempt.number"], last["http.response.status_code"]) == (31, 401)
    assert last["http.response.header.www-authenticate"][0].startswith('Bearer error="invalid_token"')
    assert said(trace.root)["trihop.operation.polls"] == 31
    assert said(trace.root)["trihop.job.state"] == "running"
    assert "401" in trace.message


def test_an_old_link_is_seen(stage: Stage):
    """Scene 7: the link was seventy minutes old, and a fresh poll brought the same one; it is not shown itself."""
    trace = played(an_old_link, stage)
    download = trace.hop("download")
    assert trace.cause == ("error", "download", "ResultUnavailable")
    assert said(download)["trihop.download.link_age"] == 4_200.0
    assert said(download)["trihop.download.link_refreshes"] == 1
    refused, polled = attempts(download)
    assert (refused["http.response.status_code"], refused["trihop.attempt.verdict"]) == (403, "link_expired")
    assert (polled["trihop.attempt.verdict"], polled["trihop.attempt.mark"]) == ("succeeded", "same_link")
    assert said(download)["http.response.status_code"] == 403
    assert "secret" not in str([said(span) for span in trace.spans])
    assert "gave the same link" in trace.message


def test_a_dripped_body_is_seen(stage: Stage):
    """Scene 8: the deadline struck in the body with two fifths there, at a hundred bytes a second: slow, not large."""
    trace = played(a_dripped_body, stage)
    download = said(trace.hop("download"))
    assert trace.cause == ("timeout", "download", "DeadlineExceeded")
    assert said(trace.root)["trihop.deadline.phase"] == "body"
    assert download["trihop.download.expected_size"] == 100_000
    assert 39_000 <= download["trihop.download.size"] <= 41_000
    assert download["trihop.download.rate"] == pytest.approx(100, rel=0.05)
    assert said(trace.root)["trihop.job.state"] == "succeeded"


def test_a_machine_that_slept_is_seen(stage: Stage):
    """Scene 10: one pause took forty minutes longer than planned, and with it went the deadline."""
    trace = played(the_machine_slept, stage)
    poll = said(trace.hop("poll"))
    assert trace.cause == ("timeout", "poll", "DeadlineExceeded")
    assert poll["trihop.poll.wait_overrun_max"] == 2_400.0
    assert poll["trihop.poll.wait_time_max"] == 2_460.0
    assert attempts(trace.hop("poll"))[-1]["trihop.wait.duration"] == 2_460.0
    assert said(trace.root)["trihop.deadline.remaining"] < 0


def test_failed_items_are_counted(stage: Stage):
    """Scene 11: three of ten thousand items failed; the rest can be had."""
    trace = played(some_items_failed, stage)
    assert trace.cause == ("partial", "poll", "JobPartiallyFailed")
    assert said(trace.root)["trihop.job.items.total"] == 10_000
    assert said(trace.root)["trihop.job.items.failed"] == 3
    assert attempts(trace.hop("poll"))[-1]["trihop.attempt.verdict"] == "partial"


def test_a_word_that_nobody_knew_is_named(stage: Stage):
    """Scene 12: the job stood in a state that the provider does not list, until nobody asked any more."""
    trace = played(a_word_nobody_knew, stage)
    poll = trace.hop("poll")
    assert trace.cause == ("timeout", "poll", "PollBudgetExhausted")
    assert said(poll)["trihop.poll.unknown_states"] == ("Paused",)
    assert {attempt.get("trihop.attempt.mark") for attempt in attempts(poll)[1:]} == {"unknown_state"}
    assert (said(poll)["trihop.poll.attempts"], said(poll)["trihop.job.state"]) == (50, "Paused")
    assert "'Paused'" in trace.message


# ---- and in the viewer's words


TOLD: dict[Callable[[Stage], None], tuple[str, ...]] = {
    job_failed: ("JobFailed", "INVALID_FIELD: no such column 'Foo'", "in poll", "mend what the server names"),
    queued_until_the_deadline: ("DeadlineExceeded", "Queued", "in poll", "2 h", "may still finish"),
    a_hint_beyond_the_deadline: ("DeadlineExceeded", "asked for 3600 s and 900 s are left", "in poll"),
    load_balancer_outage: ("PollErrorsExhausted", "in poll", "12 polls, 5 of them failed", "x-request-id=req-5"),
    a_captive_proxy: ("PollErrorsExhausted", "a proxy or a sign-in page", "content-type=text/html"),
    token_expired: ("StatusUnavailable", "401", "31 polls", "sign in anew", "invalid_token"),
    an_old_link: ("ResultUnavailable", "in download", "link was 1 h 10 m old", "gave the same link", "fresh link"),
    a_dripped_body: ("DeadlineExceeded", "in download", "of 100 kB (41%)", "B/s", "download again with more time"),
    the_machine_slept: ("DeadlineExceeded", "40 m longer than planned", "suspended", "may still finish"),
    some_items_failed: ("JobPartiallyFailed", "3 of 10,000 items failed", "in poll", "allow_partial=True"),
    a_word_nobody_knew: ("PollBudgetExhausted", "does not list the state Paused", "50 polls", "Teach the provider"),
}


@pytest.mark.parametrize(("scene", "words"), TOLD.items(), ids=[scene.__name__ for scene in TOLD])
def test_the_viewer_tells_the_story(scene: Callable[[Stage], None], words: tuple[str, ...], stage: Stage):
    """The two lines that `trihop trace` prints above the waterfall name cause, hop, wait and next step."""
    told = played(scene, stage).story
    assert [word for word in words if word not in told] == [], told
