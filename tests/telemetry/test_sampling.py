"""Sampled out, switched off, or broken: tracing is never the reason that a job is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import requests
from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from telling import ACCEPTED, API, CONTENT, Answer, canned, done, export, in_turn, run, running, tracing

from trihop import JobFailed
from trihop._telemetry import tracing as _tracing
from trihop._telemetry.fold import Attempt, Fold
from trihop.testing import VirtualClock

TRIANGLE = (ACCEPTED, running(), done(), CONTENT)
REMOTE = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def watched(*answers: Answer) -> tuple[requests.Session, list[str | None]]:
    """A session, and the `traceparent` of each request on it."""
    seen: list[str | None] = []

    def answer(request: requests.PreparedRequest, number: int) -> Answer:
        seen.append(request.headers.get("traceparent"))
        return answers[min(number, len(answers)) - 1]

    return canned(answer), seen


@pytest.fixture(autouse=True)
def _faults_are_told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault is logged once in a process; here, once in a test."""
    monkeypatch.setattr(_tracing, "_faults_told", set())


# ---- sampled out


def test_an_operation_that_is_sampled_out_works_and_has_a_trace_id(clock: VirtualClock):
    """No span is exported, the trace id is valid, and the server is told it with the flag of what is not sampled."""
    session, seen = watched(*TRIANGLE)
    with tracing(sampler=ALWAYS_OFF) as log:
        op = run(session, clock)
    assert log.get_finished_spans() == ()
    assert op.trace_id is not None
    assert re.fullmatch("[0-9a-f]{32}", op.trace_id)
    assert op.trace_id != "0" * 32
    found = [TRACEPARENT.fullmatch(parent or "") for parent in seen]
    assert {match and match[1] for match in found} == {op.trace_id}
    assert {int(match[3], 16) & TraceFlags.SAMPLED for match in found if match} == {0}


def test_an_error_that_was_sampled_out_carries_the_trace_id(clock: VirtualClock):
    """The id in the message is the one that the server's logs have."""
    failed: Answer = (200, {"Content-Type": "application/json"}, b'{"status": "failed"}')
    with (
        tracing(sampler=ALWAYS_OFF),
        pytest.raises(JobFailed) as caught,
        export(in_turn(ACCEPTED, failed), clock) as op,
    ):
        op.run("POST", f"{API}jobs")
    assert caught.value.trace_id == op.trace_id
    assert f"trace={op.trace_id}" in str(caught.value)


@pytest.mark.parametrize("sampled", [True, False])
def test_the_decision_of_whoever_called_us_is_kept(sampled: bool, clock: VirtualClock):
    """Under a remote parent the operation is in its trace, and sampled as that was."""
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    remote = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=flags)
    session, seen = watched(*TRIANGLE)
    with tracing(sampler=ParentBased(ALWAYS_ON)) as log:
        token = context.attach(trace.set_span_in_context(NonRecordingSpan(remote)))
        try:
            op = run(session, clock)
        finally:
            context.detach(token)
    assert op.trace_id == format(0xABC, "032x")
    assert len(log.get_finished_spans()) == (4 if sampled else 0)
    assert {int(parent[-2:], 16) & 1 for parent in seen if parent is not None} == {int(sampled)}


class _OnlyHops(Sampler):
    """Drops the root and would keep the rest."""

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *_: Any, **__: Any) -> SamplingResult:
        sampler = ALWAYS_OFF if name == "export" else ALWAYS_ON
        return sampler.should_sample(parent_context, trace_id, name)

    def get_description(self) -> str:
        return "only hops"


def test_hops_never_get_a_trace_of_their_own(clock: VirtualClock):
    """A sampler that drops the root alone leaves the hops in the one trace, whose id the operation has."""
    with tracing(sampler=_OnlyHops()) as log:
        op = run(in_turn(*TRIANGLE), clock)
    ids = {span.get_span_context().trace_id for span in log.get_finished_spans()}  # type: ignore[union-attr]
    assert {format(trace_id, "032x") for trace_id in ids} == {op.trace_id}


# ---- broken


class _Raising(SpanProcessor):
    def __init__(self, *, at: str) -> None:
        self.at = at

    def on_start(self, *_: Any, **__: Any) -> None:
        if self.at == "start":
            raise RuntimeError("a processor that fails")

    def on_end(self, *_: Any) -> None:
        if self.at == "end":
            raise RuntimeError("a processor that fails")


class _Exporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("an exporter that fails")


class _Sampler(Sampler):
    """Fails for the spans whose names begin so."""

    def __init__(self, beginning: str) -> None:
        self.beginning = beginning

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *_: Any, **__: Any) -> SamplingResult:
        if name.startswith(self.beginning):
            raise RuntimeError("a sampler that fails")
        return ALWAYS_ON.should_sample(parent_context, trace_id, name)

    def get_description(self) -> str:
        return "fails"


@pytest.mark.parametrize(
    "processor",
    [_Raising(at="start"), _Raising(at="end"), SimpleSpanProcessor(_Exporter())],
    ids=["at the start of a span", "at its end", "in the exporter"],
)
def test_a_processor_that_fails_fails_nothing_else(processor: SpanProcessor, clock: VirtualClock):
    """The operation ends as it would have, and the file is there."""
    with tracing(processors=[processor]):
        op = export(in_turn(*TRIANGLE), clock)
        with op:
            assert op.run("POST", f"{API}jobs").content == CONTENT[2]


def test_a_fault_of_tracing_is_told_once(clock: VirtualClock, caplog: pytest.LogCaptureFixture):
    """A log line names where it failed and how, without the message, which may hold anything; not one for each span."""
    with tracing(processors=[_Raising(at="end")]):
        run(in_turn(*TRIANGLE), clock)
        run(in_turn(*TRIANGLE), clock)
    (record,) = [record for record in caplog.records if record.name == "trihop"]
    assert "RuntimeError" in record.message
    assert "a processor that fails" not in record.message


@pytest.mark.parametrize(("beginning", "left"), [("", 0), ("export", 0), ("poll", 3), ("download", 3)])
def test_a_sampler_that_fails_fails_nothing_else(beginning: str, left: int, clock: VirtualClock):
    """A span that could not be started is missing; none below it becomes the root of another trace."""
    with tracing(sampler=_Sampler(beginning)) as log:
        op = run(in_turn(*TRIANGLE), clock)
    spans = log.get_finished_spans()
    assert len(spans) == left
    assert op._run.polls == 2
    assert {format(span.get_span_context().trace_id, "032x") for span in spans} <= {op.trace_id}  # type: ignore[union-attr]


def test_a_root_that_could_not_be_started_passes_on_what_is_around_it(clock: VirtualClock):
    """The caller's own trace goes to the server, as it would without us."""
    session, seen = watched(*TRIANGLE)
    token = context.attach(trace.set_span_in_context(NonRecordingSpan(REMOTE)))
    try:
        with tracing(sampler=_Sampler("export")):
            op = run(session, clock)
    finally:
        context.detach(token)
    assert op.trace_id == format(REMOTE.trace_id, "032x")
    assert set(seen) == {f"00-{REMOTE.trace_id:032x}-{REMOTE.span_id:016x}-01"}


def test_a_propagator_that_fails_fails_nothing_else(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """The request goes out without the header."""

    def inject(*_: Any, **__: Any) -> None:
        raise RuntimeError("a propagator that fails")

    monkeypatch.setattr(propagate, "inject", inject)
    session, seen = watched(*TRIANGLE)
    with tracing() as log:
        run(session, clock)
    assert seen == [None] * 4
    assert len(log.get_finished_spans()) == 4


def test_a_fault_in_the_folding_fails_nothing_else(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """A fault of our own costs what the span had to tell, and neither the span nor the job."""

    def kept(_: Fold) -> list[Attempt]:
        raise RuntimeError("a fold that fails")

    monkeypatch.setattr(Fold, "kept", kept)
    with tracing() as log:
        assert run(in_turn(*TRIANGLE), clock)._run.polls == 2
    assert len(log.get_finished_spans()) == 4


class _Vendor(trace.TracerProvider):
    """A tracer provider of another make, whose spans fail in one of their methods."""

    def __init__(self, method: str) -> None:
        self.method = method

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        if self.method == "get_tracer":
            raise RuntimeError
        return self

    def start_span(self, *_: Any, **__: Any) -> Any:
        class Span(NonRecordingSpan):
            def is_recording(self) -> bool:
                return True

        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError

        span = Span(REMOTE)
        setattr(span, self.method, fail)
        return span


@pytest.mark.parametrize(
    "method",
    ["get_tracer", "is_recording", "get_span_context", "set_attribute", "set_status", "add_event", "end"],
)
def test_a_tracer_of_another_make_may_fail_anywhere(method: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """Each call that we make to a span may raise, in success and in failure."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", _Vendor(method))
    assert run(in_turn(*TRIANGLE), clock)._run.polls == 2
    failed: Answer = (200, {"Content-Type": "application/json"}, b'{"status": "failed"}')
    with pytest.raises(JobFailed):
        run(in_turn(ACCEPTED, failed), clock)


# ---- switched off


def test_a_suppressed_context_silences_us(clock: VirtualClock):
    """What the SDK's exporters set around their own requests silences our spans, too."""
    from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

    with tracing() as log:
        token = context.attach(context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            op = run(in_turn(*TRIANGLE), clock)
        finally:
            context.detach(token)
        assert log.get_finished_spans() == ()
        assert op.trace_id is None
        assert run(in_turn(*TRIANGLE), clock).trace_id is not None


def test_the_sdk_can_be_disabled_by_the_environment(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """`OTEL_SDK_DISABLED` gives an operation without a trace, whose errors say so."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))
    session, seen = watched(ACCEPTED, (200, {"Content-Type": "application/json"}, b'{"status": "failed"}'))
    with pytest.raises(JobFailed, match=r"trace=none \(no tracing configured\)") as caught:
        run(session, clock)
    assert caught.value.trace_id is None
    assert seen == [None, None]


def test_a_provider_that_comes_later_is_used_from_then_on(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """The tracer is the one of the provider that is set when the operation begins."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    assert run(in_turn(*TRIANGLE), clock).trace_id is None
    with tracing() as log:
        assert run(in_turn(*TRIANGLE), clock).trace_id is not None
    assert len(log.get_finished_spans()) == 4


def test_leaving_a_block_puts_back_what_was_current(clock: VirtualClock):
    """With and without recording, the context after the block is the one before it, however the block ends."""
    providers: list[Callable[[], Any]] = [lambda: tracing(), lambda: tracing(sampler=ALWAYS_OFF)]
    for provider in providers:
        with provider():
            before = context.get_current()
            run(in_turn(*TRIANGLE), clock)
            assert context.get_current() is before
            with pytest.raises(JobFailed):
                run(in_turn(ACCEPTED, (200, {"Content-Type": "application/json"}, b'{"status": "failed"}')), clock)
            assert context.get_current() is before
