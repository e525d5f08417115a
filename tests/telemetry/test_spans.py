"""Which spans an operation makes, how they hang together, and what stands on them."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import requests
from opentelemetry import baggage, context, trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import SpanKind
from telling import (
    ACCEPTED,
    API,
    CONTENT,
    Answer,
    attempts,
    canned,
    done,
    export,
    in_turn,
    marks,
    run,
    running,
    said,
    status,
    told,
    tracing,
)

import trihop
from trihop import (
    Budget,
    Call,
    DeadlineExceeded,
    JobFailed,
    Pacing,
    ReadState,
    ResultUnavailable,
    RetryPolicy,
    operation,
)
from trihop._telemetry import semconv
from trihop._wire.exchange import DeadlineCut
from trihop.providers import generic
from trihop.testing import ScriptedServer, SpanLog, VirtualClock, accepted, delayed
from trihop.testing import done as done_reply
from trihop.testing import running as running_reply

SIGNED = "https://files.example.com/1.csv?X-Amz-Date=20260301T120000Z&X-Amz-Signature="
TRIANGLE = (ACCEPTED, running(), done(), CONTENT)

CANCELLABLE = replace(generic.ACCEPTED, cancel=Call("DELETE", "{status_url}"))
COUNTING = replace(
    generic.ACCEPTED,
    poll=ReadState(
        "status",
        succeeded={"succeeded"},
        pending={"running"},
        results="result_url",
        good_items="good",
        bad_items="bad",
        error="error",
    ),
)


# ---- the shape


def test_a_triangle_is_four_spans(clock: VirtualClock, spans: SpanLog):
    """One root and one span a hop, all in one trace, which is the operation's."""
    op = run(in_turn(*TRIANGLE), clock)
    (root,) = spans.roots
    assert [(span.name, span.kind) for span in (root, *spans.children(root))] == [
        ("export", SpanKind.INTERNAL),
        ("submit export", SpanKind.CLIENT),
        ("poll export", SpanKind.INTERNAL),
        ("download export", SpanKind.CLIENT),
    ]
    assert len(spans.all) == 4
    assert {format(span.context.trace_id, "032x") for span in spans.all} == {op.trace_id}
    assert {status(span) for span in spans.all} == {("UNSET", None)}


def test_each_hop_is_linked_to_the_hop_before(clock: VirtualClock, spans: SpanLog):
    """A hop follows the one before it by a link, and no span is ever linked to its own parent."""
    run(in_turn(*TRIANGLE), clock)
    submit, poll, download = spans.children(spans.roots[0])
    assert {span.name: [link.context for link in span.links] for span in spans.all} == {
        "export": [],
        "submit export": [],
        "poll export": [submit.context],
        "download export": [poll.context],
    }
    assert download.parent == spans.roots[0].context


def test_all_times_lie_inside_the_root(clock: VirtualClock, spans: SpanLog, session: requests.Session):
    """Hops follow one another within the root, attempts happen within their hop, in the operation's own time."""
    with ScriptedServer(clock=clock) as server:
        server.script(
            delayed(2, accepted()),
            delayed(1, running_reply()),
            delayed(3, done_reply(result_url="{url}files/1")),
            delayed(4, "a,b\n"),
        )
        began_ns = clock.time_ns()
        with operation("export", deadline=60, session=session, clock=clock) as op:
            op.run("POST", f"{server.url}jobs")
            clock.step_wall(-3600)
    (root,) = spans.roots
    submit, poll, download = spans.children(root)

    def after_s(*times: int | None) -> list[float]:
        return [(time - began_ns) / 1e9 for time in times if time is not None]

    assert after_s(root.start_time, root.end_time) == [0, 12]
    assert after_s(submit.start_time, submit.end_time) == [0, 2]
    assert after_s(poll.start_time, poll.end_time) == [2, 8]
    assert after_s(download.start_time, download.end_time) == [8, 12]
    assert [after_s(*(event.timestamp for event in hop.events)) for hop in (submit, poll, download)] == [
        [0],
        [3, 5],
        [8],
    ]
    assert [attempt["trihop.attempt.duration"] for hop in (submit, poll, download) for attempt in attempts(hop)] == [
        2,
        1,
        3,
        4,
    ]


def test_an_operation_is_part_of_the_trace_around_it(clock: VirtualClock, spans: SpanLog):
    """The root is a child of the caller's span, and what the caller's block starts is a child of the root."""
    tracer = trace.get_tracer("theirs")
    with tracer.start_as_current_span("nightly") as outer:
        with export(in_turn(*TRIANGLE), clock) as op:
            with tracer.start_as_current_span("between"):
                pass
            op.run("POST", f"{API}jobs")
        assert trace.get_current_span() is outer
    root = spans.named("export")
    assert root.parent == outer.get_span_context()
    assert spans.named("between").parent == root.context


def test_an_operation_within_an_operation_is_a_child(clock: VirtualClock, spans: SpanLog):
    """Two nested operations are one trace, and the inner one's deadline counts from its own begin."""
    with export(in_turn(*TRIANGLE), clock, "outer", deadline=60):
        clock.sleep(20)
        run(in_turn(*TRIANGLE), clock, "inner", deadline=100)
    inner, outer = spans.named("inner"), spans.named("outer")
    assert inner.parent == outer.context
    assert said(inner)["trihop.deadline.duration"] == 40.0
    assert said(inner)["trihop.deadline.at"] == said(outer)["trihop.deadline.at"] == "2026-03-01T12:01:00Z"


def test_a_cancel_is_a_plain_request_span(clock: VirtualClock, spans: SpanLog):
    """A cancel is no hop of the triangle: a CLIENT span by its method, below the root."""
    with export(in_turn(ACCEPTED, told(204)), clock, provider=CANCELLABLE) as op:
        op.submit("POST", f"{API}jobs")
        op.cancel()
    span = spans.named("DELETE")
    assert (span.kind, span.parent) == (SpanKind.CLIENT, spans.roots[0].context)
    assert said(span)["trihop.hop"] == "request"
    assert said(span)["http.response.status_code"] == 204
    assert status(span) == ("UNSET", None)


def test_a_cancel_that_failed_shows_it(clock: VirtualClock, spans: SpanLog):
    """A cancel that the server refused is an error of its own span, by its status, and of no other."""
    with export(in_turn(ACCEPTED, told(500)), clock, provider=CANCELLABLE) as op:
        op.submit("POST", f"{API}jobs")
        assert op.cancel() is False
    assert (said(spans.named("DELETE"))["error.type"], status(spans.named("DELETE"))[0]) == ("500", "ERROR")
    assert status(spans.named("export"))[0] == "UNSET"


def test_a_poll_by_hand_is_a_hop_like_any_other(clock: VirtualClock, spans: SpanLog):
    """Requests of the caller's own, judged by `hop.wait`, fold into one poll span that says what was asked."""
    session = in_turn(running(), running(), done())
    with export(session, clock) as op, op.hop("poll") as hop:
        while hop.wait(session.get(f"{API}jobs/1")) is None:
            pass
    poll = spans.named("poll export")
    assert [attempt.get("trihop.job.state") for attempt in attempts(poll)] == ["running", "running", "succeeded"]
    assert {
        name: said(poll)[name] for name in ("http.request.method", "server.address", "server.port", "url.full")
    } == {
        "http.request.method": "GET",
        "server.address": "api.example.com",
        "server.port": 443,
        "url.full": f"{API}jobs/1",
    }
    assert said(poll)["http.response.status_code"] == 200


# ---- the table


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda value: type(value) is str,
    "int": lambda value: type(value) is int,
    "double": lambda value: type(value) is float,
    "bool": lambda value: type(value) is bool,
    "str[]": lambda value: type(value) is tuple and all(type(item) is str for item in value),
}
LONGER = {semconv.URL_FULL: 2048, semconv.JOB_ERROR_MESSAGE: 256, "http.response.header.www-authenticate": 128}
ROWS = {row.name: row for row in semconv.TABLE if row.kind == "attribute"}


def places(span: ReadableSpan) -> set[str]:
    """The places of the table that a span of ours is."""
    hop = said(span).get("trihop.hop")
    return {"every", "root"} if hop is None else {"every", "hop", str(hop)}


def faults(span: ReadableSpan) -> list[str]:
    """What on this span is not as the table has it."""
    found = [
        f"{span.name}: {fault}" for name, value in said(span).items() for fault in _misplaced(name, value, places(span))
    ]
    for attempt in attempts(span):
        found += [
            f"{span.name}, attempt: {fault}"
            for name, value in attempt.items()
            for fault in _misplaced(name, value, {"attempt"})
        ]
    return found


def _misplaced(name: str, value: object, where: set[str]) -> list[str]:
    row = ROWS.get(name)
    if row is None:
        return [f"{name} is not in the table"]
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else []
    return [
        *([] if where & set(row.on) else [f"{name} belongs on {row.on}"]),
        *([] if TYPES[row.type](value) else [f"{name} is a {row.type}, got {value!r}"]),
        *([f"{name}: {value!r} is none of {row.values}"] if row.values and _strange(row, value) else []),
        *(f"{name} has {len(text)} characters" for text in texts if len(text) > LONGER.get(name, 64)),
    ]


def _strange(row: semconv.Name, value: object) -> bool:
    return any(word not in row.values for word in str(value).split(","))


def broad(clock: VirtualClock) -> list[str]:
    """One of everything that can happen in a triangle; what came out of each block."""
    link, fresh, nap = done(SIGNED + "one"), done(SIGNED + "two"), running("Napping", Retry_After="soon")
    bad = {"X_Request_Id": "req-1", "Retry_After": "soon", "WWW_Authenticate": "Bearer"}

    def slowly() -> Answer:
        clock.advance(2)
        return CONTENT

    scripts: list[tuple[Callable[[trihop.Operation], object], dict[str, Any], Sequence[Any]]] = [
        (_whole, {}, [told(202, {"id": "job-1"}, Location="jobs/1"), running(), told(503, **bad), done(), CONTENT]),
        (_whole, {}, [ACCEPTED, link, told(403), fresh, slowly]),
        (_whole, {}, [ACCEPTED, link, told(403), link]),
        (
            _whole,
            {},
            [ACCEPTED, nap, running(), nap, done(), CONTENT],
        ),
        (_whole, {}, [ACCEPTED, running(Retry_After="3600")]),
        (_whole, {}, [ACCEPTED, requests.ConnectionError("reset")]),
        (_whole, {}, [ACCEPTED, told(200, {"status": "failed", "error": {"code": "E1", "message": "no such column"}})]),
        (_whole, {}, [told(400, {"message": "no"})]),
        (_whole, {}, [ACCEPTED, DeadlineCut("body")]),
        (_whole, {"provider": COUNTING}, [ACCEPTED, told(200, {"status": "succeeded", "good": 7, "bad": 3})]),
        (_verified, {}, [ACCEPTED, done(), told(503), CONTENT]),
        (_keyed, {}, [told(503), ACCEPTED]),
        (_overslept, {}, [ACCEPTED, running(), done()]),
        (_given_up, {"provider": CANCELLABLE}, [ACCEPTED, told(204)]),
    ]
    came: list[str] = []
    for block, options, answers in scripts:
        try:
            with export(in_turn(*answers), clock, **options) as op:
                block(op)
            came.append("well")
        except trihop.TrihopError as error:
            came.append(type(error).__name__)
    return came


def _whole(op: trihop.Operation) -> None:
    op.run("POST", f"{API}jobs")


def _verified(op: trihop.Operation) -> None:
    op.submit("POST", f"{API}jobs")
    op.download(op.poll(), sha256=hashlib.sha256(CONTENT[2]).hexdigest())


def _keyed(op: trihop.Operation) -> None:
    op.submit("POST", f"{API}jobs", idempotency_key="k-1")


def _overslept(op: trihop.Operation) -> None:
    clock = op._clock
    assert isinstance(clock, VirtualClock)
    sleep = clock.sleep
    clock.sleep = lambda seconds: sleep(seconds + 5)  # type: ignore[method-assign]
    try:
        op.submit("POST", f"{API}jobs")
        op.poll()
    finally:
        del clock.sleep  # type: ignore[method-assign]


def _given_up(op: trihop.Operation) -> None:
    op.submit("POST", f"{API}jobs")
    op.cancel()


NOT_BY_A_TRIANGLE = {
    semconv.OPERATION_RESUMED: "an operation that another process began",
    semconv.OPERATION_JOBS: "an operation over many jobs",
    semconv.SEGMENT_NUMBER: "an operation that several processes took part in",
    semconv.SEGMENT_GAP: "likewise",
    semconv.SEGMENT_REASON: "likewise",
}


def test_every_attribute_is_as_the_table_has_it(clock: VirtualClock, spans: SpanLog):
    """Whatever happens: no name outside the table, none on the wrong span, none of the wrong type or too long."""
    came = broad(clock)
    assert came == [
        "well",
        "well",
        "ResultUnavailable",
        "well",
        "DeadlineExceeded",
        "PollErrorsExhausted",
        "JobFailed",
        "SubmitRejected",
        "DeadlineExceeded",
        "JobPartiallyFailed",
        "well",
        "well",
        "well",
        "well",
    ]
    assert [fault for span in spans.all for fault in faults(span)] == []


def test_every_row_of_the_table_is_emitted(clock: VirtualClock, spans: SpanLog):
    """The table promises nothing that a triangle never says, but for what takes more than one process or job."""
    broad(clock)
    emitted = {name for span in spans.all for name in said(span)}
    emitted |= {name for span in spans.all for attempt in attempts(span) for name in attempt}
    assert set(ROWS) - emitted == set(NOT_BY_A_TRIANGLE)


def test_every_mark_is_put_on_some_attempt(clock: VirtualClock, spans: SpanLog):
    """Each odd thing that an attempt may be marked for happens in a triangle."""
    broad(clock)
    seen = {word for span in spans.all for mark in marks(span) if mark is not None for word in mark.split(",")}
    assert seen == set(semconv.MARKS)


class _Watching(Sampler):
    """Keeps what each span was started with."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}

    def should_sample(
        self,
        parent_context: Any,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        self.seen[name] = dict(attributes or {})
        return ALWAYS_ON.should_sample(parent_context, trace_id, name, kind, attributes, links)

    def get_description(self) -> str:
        return "watching"


def test_a_sampler_sees_what_the_table_promises_it(clock: VirtualClock):
    """What is given at the start of a span, a sampler can decide by; on each span it is all that is marked so."""
    sampler = _Watching()
    with tracing(sampler=sampler) as log:
        run(in_turn(*TRIANGLE), clock, attributes={"team": "billing"})
    later = {semconv.OPERATION_RESUMED}
    for span in log.get_finished_spans():
        due = {row.name for row in ROWS.values() if row.at_start and places(span) & set(row.on)} - later
        assert due <= set(sampler.seen[span.name]), span.name
        assert {name: said(span)[name] for name in sampler.seen[span.name]} == sampler.seen[span.name]
    assert sampler.seen["export"]["team"] == "billing"


def test_attributes_of_the_callers_own_stand_on_the_root(clock: VirtualClock, spans: SpanLog):
    """`attributes=` goes to the root as it is, and cannot take the place of ours."""
    run(in_turn(*TRIANGLE), clock, attributes={"team": "billing", "trihop.operation.name": "other"})
    assert (said(spans.named("export"))["team"], said(spans.named("export"))["trihop.operation.name"]) == (
        "billing",
        "export",
    )
    assert all("team" not in said(span) for span in spans.children(spans.roots[0]))


def test_the_root_sums_the_operation_up(clock: VirtualClock, spans: SpanLog):
    """A success, told whole."""
    op = run(in_turn(told(202, {"id": "job-1"}, Location=f"{API}jobs/1"), *TRIANGLE[1:]), clock)
    assert said(spans.named("export")) == {
        "trihop.operation.name": "export",
        "trihop.operation.id": op.id,
        "trihop.provider": "generic.accepted",
        "trihop.deadline.at": "2026-03-01T12:01:00Z",
        "trihop.deadline.duration": 60.0,
        "trihop.deadline.remaining": 58.0,
        "trihop.operation.result": "success",
        "trihop.operation.polls": 2,
        "trihop.operation.segments": 1,
        "trihop.job.id": "job-1",
        "trihop.job.state": "succeeded",
    }


def test_no_deadline_leaves_no_trace_of_one(clock: VirtualClock, spans: SpanLog):
    """Without a deadline there is nothing to say of it."""
    run(in_turn(*TRIANGLE), clock, deadline=None)
    assert [name for name in said(spans.named("export")) if name.startswith("trihop.deadline")] == []


def test_the_deadline_is_told_as_rfc_3339(clock: VirtualClock, spans: SpanLog):
    """An instant in another zone is the same instant in UTC."""
    at = dt.datetime(2026, 3, 1, 14, 0, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    run(in_turn(*TRIANGLE), clock, deadline=at)
    root = said(spans.named("export"))
    assert (root["trihop.deadline.at"], root["trihop.deadline.duration"]) == ("2026-03-01T12:00:30Z", 30.0)


# ---- endings


def ended(clock: VirtualClock, *answers: Answer | Exception, **options: Any) -> str:
    """What a triangle raised."""
    with pytest.raises(trihop.TrihopError) as caught:
        run(in_turn(*answers), clock, **options)
    return type(caught.value).__name__


ENDINGS: dict[str, tuple[str, str, Sequence[Answer | Exception]]] = {
    "DeadlineExceeded": ("timeout", "poll", [ACCEPTED, running(Retry_After="3600")]),
    "PollBudgetExhausted": ("timeout", "poll", [ACCEPTED, running()]),
    "PollErrorsExhausted": ("timeout", "poll", [ACCEPTED, told(503)]),
    "JobFailed": ("failure", "poll", [ACCEPTED, told(200, {"status": "failed"})]),
    "JobExpired": ("failure", "poll", [ACCEPTED, told(200, {"status": "expired"})]),
    "JobCancelled": ("cancellation", "poll", [ACCEPTED, told(200, {"status": "cancelled"})]),
    "JobPartiallyFailed": ("partial", "poll", [ACCEPTED, told(200, {"status": "succeeded", "good": 1, "bad": 1})]),
    "SubmitRejected": ("failure", "submit", [told(400)]),
    "SubmitUncertain": ("error", "submit", [told(503)]),
    "StatusUnavailable": ("error", "poll", [ACCEPTED, told(403)]),
    "OutcomeAmbiguous": ("error", "poll", [ACCEPTED, told(200, {"status": "held"})]),
    "ResultUnavailable": ("error", "download", [ACCEPTED, done(), told(404), done()]),
    "ResultCorrupt": ("error", "download", [ACCEPTED, done(), CONTENT]),
}
EVERY_WORD = replace(
    COUNTING,
    poll=ReadState(
        "status",
        succeeded={"succeeded"},
        pending={"running"},
        failed={"failed"},
        cancelled={"cancelled"},
        expired={"expired"},
        ambiguous={"held"},
        results="result_url",
        bad_items="bad",
        good_items="good",
    ),
    budget=Budget(polls=6, consecutive_errors=5),
)


def _ended(name: str, clock: VirtualClock) -> None:
    _, _, answers = ENDINGS[name]
    with pytest.raises(getattr(trihop, name)), export(in_turn(*answers), clock, provider=EVERY_WORD) as op:
        op.submit("POST", f"{API}jobs")
        op.download(op.poll(), sha256="0" * 64)


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_has_its_result(name: str, clock: VirtualClock, spans: SpanLog):
    """The root and the hop it ended in carry the traceback's word and an error status; the other hops are clean."""
    result, ended_in, _ = ENDINGS[name]
    _ended(name, clock)
    root, hop = spans.named("export"), spans.named(f"{ended_in} export")
    assert (said(root)["trihop.operation.result"], said(root)["trihop.operation.ended_in"]) == (result, ended_in)
    assert (said(root)["error.type"], said(hop)["error.type"]) == (name, name)
    assert status(root)[0] == "ERROR"
    assert status(root) == status(hop)
    others = [span for span in spans.all if span not in (root, hop)]
    assert [(status(span), said(span).get("error.type")) for span in others] == [(("UNSET", None), None)] * len(others)
    assert [event.name for span in spans.all for event in span.events if event.name != "trihop.attempt"] == []


def test_a_success_leaves_no_error_anywhere(clock: VirtualClock, spans: SpanLog):
    """An error that a further attempt cured is on its attempt and nowhere above."""
    run(in_turn(ACCEPTED, told(503), running(), told(502), done(), told(503), CONTENT), clock)
    assert [(status(span), said(span).get("error.type")) for span in spans.all] == [(("UNSET", None), None)] * 4
    assert [attempt.get("error.type") for attempt in attempts(spans.named("poll export"))] == ["503", None, "502", None]
    assert [attempt.get("error.type") for attempt in attempts(spans.named("download export"))] == ["503", None]


def test_a_partial_result_that_was_allowed_is_no_error(clock: VirtualClock, spans: SpanLog):
    """`allow_partial=True` ends as partial, with the counts and without an error status."""
    answers = [ACCEPTED, done(good=9_997, bad=3), CONTENT]
    with export(in_turn(*answers), clock, provider=COUNTING) as op:
        op.run("POST", f"{API}jobs", allow_partial=True)
    root = said(spans.named("export"))
    assert root["trihop.operation.result"] == "partial"
    assert (root["trihop.job.items.total"], root["trihop.job.items.failed"]) == (10_000, 3)
    assert {status(span) for span in spans.all} == {("UNSET", None)}


@pytest.mark.parametrize(
    ("counts", "total", "failed"),
    [
        ({"total": 10, "completed": 8, "failed": 2}, 10, 2),
        ({"processing": 0, "succeeded": 5, "errored": 2, "canceled": 1, "expired": 1}, 9, 4),
        ({"numberRecordsProcessed": 7, "numberRecordsFailed": 1}, 7, 1),
        ({"failed": 3}, None, 3),
        ({"succeeded": 4}, None, None),
        ({"total": 4, "failed": "none"}, 4, None),
        (["not", "a", "mapping"], None, None),
    ],
)
def test_counts_are_read_in_the_usual_words(counts, total, failed, clock: VirtualClock, spans: SpanLog):
    """However the server words its counts, the root has how many items there were and how many did not succeed."""
    run(in_turn(ACCEPTED, done(counts=counts), CONTENT), clock)
    root = said(spans.named("export"))
    assert (root.get("trihop.job.items.total"), root.get("trihop.job.items.failed")) == (total, failed)


def test_an_interrupt_is_a_cancellation_and_no_error(clock: VirtualClock, spans: SpanLog):
    """Ctrl-C is not a failure of anything."""
    with pytest.raises(KeyboardInterrupt), export(in_turn(ACCEPTED, KeyboardInterrupt()), clock) as op:
        op.run("POST", f"{API}jobs")
    assert said(spans.named("export"))["trihop.operation.result"] == "cancellation"
    assert {status(span) for span in spans.all} == {("UNSET", None)}


def test_a_cancel_of_our_own_is_a_cancellation_and_no_error(clock: VirtualClock, spans: SpanLog):
    """Who asked for the cancel is not told that something went wrong, whether the job was polled afterwards or not."""
    answers = [ACCEPTED, told(204), told(200, {"status": "cancelled"})]
    with pytest.raises(trihop.JobCancelled), export(in_turn(*answers), clock, provider=CANCELLABLE) as op:
        op.submit("POST", f"{API}jobs")
        op.cancel()
        op.poll()
    with export(in_turn(*answers), clock, "other", provider=CANCELLABLE) as op:
        op.submit("POST", f"{API}jobs")
        op.cancel()
    assert said(spans.named("export"))["trihop.operation.result"] == "cancellation"
    assert said(spans.named("other"))["trihop.operation.result"] == "cancellation"
    assert {status(span) for span in spans.all} == {("UNSET", None)}


def test_an_error_that_was_got_over_is_not_the_ending(clock: VirtualClock, spans: SpanLog):
    """A caller that caught an error and went on to the result has a success."""
    with export(in_turn(ACCEPTED, told(403), done(), CONTENT), clock) as op:
        job = op.submit("POST", f"{API}jobs")
        with pytest.raises(trihop.StatusUnavailable):
            op.poll(job)
        op.download(op.poll(job))
    assert said(spans.named("export"))["trihop.operation.result"] == "success"
    assert status(spans.named("export"))[0] == "UNSET"


def test_a_failure_that_was_caught_is_still_the_ending(clock: VirtualClock, spans: SpanLog):
    """A failed job whose rest was fetched has failed, although nothing left the block."""
    partly = told(200, {"status": "failed", "result_url": f"{API}files/1"})
    with export(in_turn(ACCEPTED, partly, CONTENT), clock, provider=EVERY_WORD) as op:
        op.submit("POST", f"{API}jobs")
        with pytest.raises(JobFailed) as caught:
            op.poll()
        op.download(caught.value.ready)
    root = spans.named("export")
    assert (said(root)["trihop.operation.result"], status(root)[0]) == ("failure", "UNSET")
    assert "error.type" not in said(root)


class Unhappy(Exception):
    """The caller's own."""


def test_the_callers_own_exception_goes_by_its_full_name(clock: VirtualClock, spans: SpanLog):
    """What is not ours is named so that one can find it; a hop it happened in failed, another did not."""
    with pytest.raises(Unhappy), export(in_turn(*TRIANGLE), clock) as op:
        op.submit("POST", f"{API}jobs")
        raise Unhappy("the disk is full")
    root = spans.named("export")
    assert said(root)["error.type"] == f"{__name__}.Unhappy"
    assert status(root) == ("ERROR", "Unhappy: the disk is full")
    assert said(root)["trihop.operation.result"] == "error"
    assert status(spans.named("submit export"))[0] == "UNSET"


def test_a_surface_that_raises_fails_its_hop(clock: VirtualClock, spans: SpanLog):
    """An exception of the caller's own inside a hop is that hop's, too."""

    def poll(reply: object, job: object) -> object:
        raise Unhappy("what is this?")

    with pytest.raises(Unhappy), export(in_turn(*TRIANGLE), clock) as op:
        op.submit("POST", f"{API}jobs")
        op.poll(surface=poll)  # type: ignore[arg-type]
    assert said(spans.named("poll export"))["error.type"] == f"{__name__}.Unhappy"
    assert status(spans.named("poll export")) == ("ERROR", "Unhappy: what is this?")


def test_an_exception_that_cannot_be_printed_is_told_by_its_name(clock: VirtualClock, spans: SpanLog):
    """A `__str__` that fails does not take the place of the exception it belongs to."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(Mute), export(in_turn(*TRIANGLE), clock):
        raise Mute
    assert status(spans.named("export")) == ("ERROR", "Mute")


def test_the_servers_reason_is_on_the_root(clock: VirtualClock, spans: SpanLog):
    """Code and message as the server gave them, apart from each other."""
    error = {"code": "INVALID_FIELD", "message": "no such column: Foo"}
    assert ended(clock, ACCEPTED, told(200, {"status": "failed", "error": error})) == "JobFailed"
    root = said(spans.named("export"))
    assert root["trihop.job.error.code"] == "INVALID_FIELD"
    assert root["trihop.job.error.message"] == "no such column: Foo"
    assert root["trihop.job.state"] == "failed"


@pytest.mark.parametrize("phase", ["connect", "tls", "headers", "body", "wait"])
def test_the_root_says_in_which_phase_the_deadline_struck(phase, clock: VirtualClock, spans: SpanLog):
    """Where in an exchange the time ran out: connecting, shaking hands, before the reply, in its body, in a retry."""
    assert ended(clock, ACCEPTED, DeadlineCut(phase)) == "DeadlineExceeded"
    assert said(spans.named("export"))["trihop.deadline.phase"] == phase
    (attempt,) = attempts(spans.named("poll export"))
    assert attempt["error.type"] == "deadline"


def test_the_root_says_that_the_deadline_passed_between_requests(clock: VirtualClock, spans: SpanLog):
    """Time that the caller's own code took counts, and is told as time between."""
    with pytest.raises(DeadlineExceeded), export(in_turn(*TRIANGLE), clock) as op:
        op.submit("POST", f"{API}jobs")
        clock.advance(61)
        op.poll()
    root = said(spans.named("export"))
    assert (root["trihop.deadline.phase"], root["trihop.deadline.remaining"]) == ("between", -1.0)


# ---- hops


def test_a_refused_hint_is_on_the_poll(clock: VirtualClock, spans: SpanLog):
    """What the server asked for and did not get; a pause of our own that does not fit is not the server's."""
    assert ended(clock, ACCEPTED, running(Retry_After="3600")) == "DeadlineExceeded"
    assert said(spans.named("poll export"))["trihop.wait.refused"] == 3600.0
    assert said(spans.named("export"))["trihop.deadline.phase"] == "wait"
    spans.clear()
    provider = replace(generic.ACCEPTED, pacing=Pacing(first=40, cap=40))
    assert ended(clock, ACCEPTED, running(), provider=provider) == "DeadlineExceeded"
    assert "trihop.wait.refused" not in said(spans.named("poll export"))


def test_a_pause_that_took_too_long_is_seen(clock: VirtualClock, spans: SpanLog):
    """A machine that slept in a pause shows by how much, and the poll after it is marked late."""
    sleep, naps = clock.sleep, iter([0.0, 0.5, 2400.0, 0.0])
    clock.sleep = lambda seconds: sleep(seconds + next(naps))  # type: ignore[method-assign]
    run(in_turn(ACCEPTED, running(), running(), running(), done(), CONTENT), clock, deadline=7200)
    poll = spans.named("poll export")
    assert said(poll)["trihop.poll.wait_overrun_max"] == 2400.0
    assert marks(poll) == [None, None, "late", None]


def test_the_resends_of_a_request_are_counted(clock: VirtualClock, spans: SpanLog):
    """How often the same request went out again before the last answer came; nothing where it went out once."""
    with export(in_turn(told(503), told(503), ACCEPTED, done(), told(503), CONTENT), clock) as op:
        op.submit("POST", f"{API}jobs", retry=RetryPolicy(attempts=3))
        op.download(op.poll())
    assert [said(span).get("http.request.resend_count") for span in spans.children(spans.roots[0])] == [2, None, 1]


def test_polls_are_no_resends(clock: VirtualClock, spans: SpanLog):
    """A poll is a fresh question each time, and a fresh link is another request."""
    link, fresh = done(SIGNED + "one"), done(SIGNED + "two")
    run(in_turn(ACCEPTED, running(), told(503), link, told(403), fresh, CONTENT), clock)
    assert [said(span).get("http.request.resend_count") for span in spans.children(spans.roots[0])] == [None] * 3


def test_the_status_is_that_of_the_last_exchange(clock: VirtualClock, spans: SpanLog):
    """A hop whose last question was never answered has no status, whatever came before."""
    assert ended(clock, ACCEPTED, running(), requests.ConnectionError("reset")) == "PollErrorsExhausted"
    poll = spans.named("poll export")
    assert "http.response.status_code" not in said(poll)
    assert said(poll)["trihop.poll.statuses"] == ("200=1",)
    assert said(spans.named("submit export"))["http.response.status_code"] == 202


def test_urls_lose_their_secrets(clock: VirtualClock, spans: SpanLog):
    """A signed link, a key in a query and a password are not on any span."""
    link = f"{SIGNED}s3cr3t-signature"
    with export(in_turn(ACCEPTED, done(link), CONTENT), clock) as op:
        op.run("POST", "https://me:s3cr3t-password@api.example.com/jobs?api_key=s3cr3t-key")
    assert said(spans.named("submit export"))["url.full"] == (
        "https://REDACTED:REDACTED@api.example.com/jobs?api_key=REDACTED"
    )
    assert said(spans.named("download export"))["url.full"] == (
        "https://files.example.com/1.csv?X-Amz-Date=REDACTED&X-Amz-Signature=REDACTED"
    )
    assert b"s3cr3t" not in encode_spans(spans.all).SerializeToString()


def test_what_the_server_says_loses_its_secrets(clock: VirtualClock, spans: SpanLog):
    """A server that echoes a credential in its id, state, error, headers or transient reason does not get it traced."""
    secret = "Bearer s3cr3t-of-the-session"
    surface = ReadState("status", transient="oops", pending={"running"}, failed={"failed"}, error="error")
    session = in_turn(
        told(202, {"id": f"job {secret}"}, Location=f"{API}jobs/1"),
        told(200, {"status": f"waiting for {secret}"}),
        told(200, {"oops": f"no {secret}"}, X_Request_Id=secret),
        told(200, {"status": "failed", "error": {"code": secret, "message": f"not {secret}"}}),
    )
    session.headers["Authorization"] = secret
    with pytest.raises(JobFailed), export(session, clock, provider=replace(generic.ACCEPTED, poll=surface)) as op:
        op.run("POST", f"{API}jobs")
    assert b"s3cr3t" not in encode_spans(spans.all).SerializeToString()
    assert said(spans.named("export"))["trihop.job.error.message"] == "not REDACTED"


def test_half_a_character_does_not_cost_the_batch(clock: VirtualClock, spans: SpanLog):
    """JSON can smuggle in a lone surrogate, which no exporter can write; it is replaced wherever it may get in."""
    half = "\ud800"
    session = in_turn(
        told(202, {"id": half}, Location=f"{API}jobs/1"),
        running(half),
        told(200, {"status": "failed", "error": {"code": half, "message": half}}),
    )
    with pytest.raises(JobFailed):
        run(session, clock, f"export {half}", attributes={"note": half})
    encoded = encode_spans(spans.all).SerializeToString()
    assert b"export ?" in encoded


def test_a_long_name_is_cut(clock: VirtualClock, spans: SpanLog):
    """Names are for grouping: 64 characters of them are on spans."""
    run(in_turn(*TRIANGLE), clock, "n" * 100, provider=replace(generic.ACCEPTED, name="p" * 100))
    assert {span.name.rpartition(" ")[2] for span in spans.all} == {"n" * 64}
    assert [fault for span in spans.all for fault in faults(span)] == []


# ---- attempts


def test_each_exchange_is_an_attempt_with_its_pause(clock: VirtualClock, spans: SpanLog):
    """The attempts of a hop, told whole: the answer, what the surface made of it, the pause that followed and why."""
    run(in_turn(ACCEPTED, running(Retry_After="7"), told(503, X_Request_Id="req-1"), running(), done(), CONTENT), clock)
    assert attempts(spans.named("submit export")) == [
        {
            "trihop.attempt.number": 1,
            "trihop.attempt.duration": 0.0,
            "http.response.status_code": 202,
            "trihop.attempt.verdict": "accepted",
            "http.response.header.content-type": ("application/json",),
        }
    ]
    assert attempts(spans.named("poll export")) == [
        {
            "trihop.attempt.number": 1,
            "trihop.attempt.duration": 0.0,
            "http.response.status_code": 200,
            "trihop.job.state": "running",
            "trihop.wait.duration": 7.0,
            "trihop.wait.reason": "hint",
        },
        {
            "trihop.attempt.number": 2,
            "trihop.attempt.duration": 0.0,
            "http.response.status_code": 503,
            "error.type": "503",
            "trihop.attempt.verdict": "transient",
            "trihop.wait.duration": 1.0,
            "trihop.wait.reason": "backoff",
            "http.response.header.x-request-id": ("req-1",),
            "http.response.header.content-type": ("application/json",),
        },
        {
            "trihop.attempt.number": 3,
            "trihop.attempt.duration": 0.0,
            "http.response.status_code": 200,
            "trihop.job.state": "running",
            "trihop.wait.duration": 2.0,
            "trihop.wait.reason": "pacing",
        },
        {
            "trihop.attempt.number": 4,
            "trihop.attempt.duration": 0.0,
            "http.response.status_code": 200,
            "trihop.job.state": "succeeded",
            "trihop.attempt.verdict": "succeeded",
            "http.response.header.content-type": ("application/json",),
        },
    ]


def test_the_last_attempt_brings_its_headers_even_if_it_said_nothing_new(clock: VirtualClock, spans: SpanLog):
    """Whoever waits in vain has the id of the last reply to ask the server's people about."""
    assert ended(clock, ACCEPTED, running(X_Request_Id="req-1"), deadline=2.5) == "DeadlineExceeded"
    assert attempts(spans.named("poll export"))[-1]["http.response.header.x-request-id"] == ("req-1",)


def test_a_hint_that_nobody_can_read_is_marked_and_shown(clock: VirtualClock, spans: SpanLog):
    """`Retry-After: soon` is no hint, and the trace shows what was written."""
    run(in_turn(ACCEPTED, running(Retry_After="soon"), done(), CONTENT), clock)
    first, _ = attempts(spans.named("poll export"))
    assert first["trihop.attempt.mark"] == "hint_unreadable"
    assert first["http.response.header.retry-after"] == ("soon",)


def test_a_state_that_nobody_knows_is_marked_and_listed(clock: VirtualClock, spans: SpanLog):
    """An unlisted word is on its attempts and on the span."""
    run(in_turn(ACCEPTED, running("Napping"), running(), done(), CONTENT), clock)
    assert marks(spans.named("poll export")) == ["unknown_state", None, None]
    assert said(spans.named("poll export"))["trihop.poll.unknown_states"] == ("Napping",)


def test_a_state_that_comes_again_is_marked(clock: VirtualClock, spans: SpanLog):
    """A job that goes back to a state it had left has regressed."""
    run(in_turn(ACCEPTED, running("queued"), running(), running(), running("queued"), done(), CONTENT), clock)
    assert marks(spans.named("poll export")) == [None, None, None, "state_regressed", None]


def test_a_poll_that_brings_the_same_link_is_marked(clock: VirtualClock, spans: SpanLog):
    """A link ran out and a fresh poll gave it again: the poll says so, and the span how old the link was."""
    with (
        pytest.raises(ResultUnavailable),
        export(in_turn(ACCEPTED, done(SIGNED), told(403), done(SIGNED)), clock) as op,
    ):
        op.submit("POST", f"{API}jobs")
        ready = op.poll()
        clock.advance(42)
        op.download(ready)
    download = spans.named("download export")
    assert marks(download) == [None, "same_link"]
    assert said(download)["trihop.download.link_age"] == 42.0
    assert said(download)["trihop.download.link_refreshes"] == 1


def test_a_fresh_link_is_as_old_as_the_poll_that_brought_it(clock: VirtualClock, spans: SpanLog):
    """The age is that of the link that was used last."""
    answers = [ACCEPTED, done(SIGNED + "one"), told(403), done(SIGNED + "two"), CONTENT]
    with export(in_turn(*answers), clock) as op:
        op.submit("POST", f"{API}jobs")
        ready = op.poll()
        clock.advance(42)
        op.download(ready)
    download = spans.named("download export")
    assert marks(download) == [None, None, None]
    assert said(download)["trihop.download.link_age"] == 0.0
    assert said(download)["trihop.download.link_refreshes"] == 1


def test_a_link_that_is_not_signed_has_no_age(clock: VirtualClock, spans: SpanLog):
    """Only a link that carries its own permission runs out."""
    run(in_turn(*TRIANGLE), clock)
    assert "trihop.download.link_age" not in said(spans.named("download export"))


# ---- downloads


def test_a_download_tells_its_size_and_speed(clock: VirtualClock, spans: SpanLog, session: requests.Session):
    """Bytes, what was announced, and bytes a second over the transfer."""
    with ScriptedServer(clock=clock) as server:
        server.script(delayed(2, b"x" * 1_000))
        with operation("export", deadline=60, session=session, clock=clock) as op:
            op.download(f"{server.url}files/1", sha256=hashlib.sha256(b"x" * 1_000).hexdigest())
    told_of = said(spans.named("download export"))
    assert {name: value for name, value in told_of.items() if name.startswith("trihop.download")} == {
        "trihop.download.size": 1_000,
        "trihop.download.expected_size": 1_000,
        "trihop.download.pages": 1,
        "trihop.download.resumes": 0,
        "trihop.download.rate": 500.0,
        "trihop.download.sha256": hashlib.sha256(b"x" * 1_000).hexdigest(),
    }


def test_a_digest_that_was_not_verified_is_not_told(clock: VirtualClock, spans: SpanLog):
    """The attribute means that the bytes were those announced."""
    with pytest.raises(trihop.ResultCorrupt), export(in_turn(CONTENT), clock) as op:
        op.download(f"{API}files/1", sha256="0" * 64)
    told_of = said(spans.named("download export"))
    assert "trihop.download.sha256" not in told_of
    assert told_of["trihop.download.size"] == len(CONTENT[2])


# ---- what the server is told


class _Seen:
    """The requests of an operation of twelve polls, with the headers they carried."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.requests: list[requests.PreparedRequest] = []
        answers = iter([ACCEPTED, *[running()] * 11, done("https://files.example.com/1"), CONTENT])

        def answer(request: requests.PreparedRequest, _: int) -> Answer:
            self.requests.append(request)
            return next(answers)

        with tracing() as log:
            run(canned(answer), clock, deadline=3600, **options)
        self.spans = {span.name: span for span in log.get_finished_spans()}

    @property
    def parents(self) -> list[str | None]:
        return [request.headers.get("traceparent") for request in self.requests]

    def of(self, name: str) -> str:
        ids = self.spans[name].get_span_context()
        assert ids is not None
        return f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"


def test_the_server_learns_the_trace_from_the_first_eight_polls(clock: VirtualClock):
    """Submit and eight polls carry the hop's ids; more polls would flood the trace, a foreign origin gets none."""
    seen = _Seen(clock)
    assert seen.parents == [seen.of("submit export"), *[seen.of("poll export")] * 8, *[None] * 5]


def test_propagation_of_polls_can_be_switched(clock: VirtualClock):
    """`propagate=` is about the polls: all of them or none; the submit carries its ids in any case."""
    every, none = _Seen(clock, propagate=True), _Seen(clock, propagate=False)
    assert every.parents == [every.of("submit export"), *[every.of("poll export")] * 12, None]
    assert none.parents == [none.of("submit export"), *[None] * 13]


def test_an_origin_that_was_named_learns_the_trace(clock: VirtualClock):
    """`origins=` are trusted with the trace as with the credentials."""
    seen = _Seen(clock, origins=["https://files.example.com"])
    assert seen.parents[-1] == seen.of("download export")


def test_baggage_stays_at_home(clock: VirtualClock):
    """What the caller's own services pass on to each other is not the API's business."""
    token = context.attach(baggage.set_baggage("customer", "42"))
    try:
        seen = _Seen(clock)
    finally:
        context.detach(token)
    assert ["baggage" in request.headers for request in seen.requests] == [False] * 14
