"""What OpenTelemetry's API may lack in older releases; this file runs on the oldest one that is supported.

It needs nothing but pytest, requests and the SDK beside the library itself.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import requests
from opentelemetry import context, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind, StatusCode

from trihop import JobFailed, operation
from trihop._telemetry import semconv
from trihop._telemetry import tracing as _tracing
from trihop.testing import ScriptedServer, SpanLog, VirtualClock, accepted, done, failed, running


def run(server: ScriptedServer, clock: VirtualClock, *, well: bool = True) -> None:
    """A triangle on sockets, to its end."""
    server.script(accepted(), running(), 503, done(result_url="{url}files/1") if well else failed("E1: no"), "a,b\n")
    with requests.Session() as session, operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", f"{server.url}jobs")


def test_a_triangle_is_four_linked_spans(clock: VirtualClock, server: ScriptedServer, spans: SpanLog):
    """Names, kinds, links, events at their own times: all that spans are asked for."""
    run(server, clock)
    (root,) = spans.roots
    hops = spans.children(root)
    assert [(span.name, span.kind, len(span.links), len(span.events)) for span in (root, *hops)] == [
        ("export", SpanKind.INTERNAL, 0, 0),
        ("submit export", SpanKind.CLIENT, 0, 1),
        ("poll export", SpanKind.INTERNAL, 1, 3),
        ("download export", SpanKind.CLIENT, 1, 1),
    ]
    assert [event.timestamp for event in hops[1].events] == sorted(event.timestamp for event in hops[1].events)


def test_a_failure_has_status_and_trace_id(clock: VirtualClock, server: ScriptedServer, spans: SpanLog):
    """The status of a span and the ids of its context are there."""
    with pytest.raises(JobFailed) as caught:
        run(server, clock, well=False)
    root = spans.named("export")
    assert root.context is not None
    assert caught.value.trace_id == format(root.context.trace_id, "032x")
    assert root.status.status_code is StatusCode.ERROR
    assert server.left == ["a,b\n"]


def test_the_server_is_told_the_trace(clock: VirtualClock, server: ScriptedServer, spans: SpanLog):
    """Every request of the triangle carries the hop's ids."""
    run(server, clock)
    told = [call.headers["traceparent"].split("-")[1:3] for call in server.calls]
    submit, poll, download = spans.children(spans.roots[0])
    sent_by = [submit, poll, poll, poll, download]
    contexts = [span.context for span in sent_by if span.context is not None]
    assert told == [[format(ids.trace_id, "032x"), format(ids.span_id, "016x")] for ids in contexts]


def test_measurements_arrive(clock: VirtualClock, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch):
    """All metrics of a triangle, in the buckets advised where the API takes advice."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", provider)
    run(server, clock)
    data = reader.get_metrics_data()
    assert data is not None
    found = {m.name: m for r in data.resource_metrics for scope in r.scope_metrics for m in scope.metrics}
    assert set(semconv.METRICS) - set(found) == {semconv.OPERATION_OVERDUE}
    makes = provider.get_meter("any").create_histogram
    if "explicit_bucket_boundaries_advisory" in inspect.signature(makes).parameters:
        for row in semconv.METRICS.values():
            for point in found[row.name].data.data_points if row.buckets else ():
                assert tuple(point.explicit_bounds) == row.buckets
    provider.shutdown()


class _Old:
    """Meters and instruments as they were before they took a context and bucket advice."""

    def __init__(self) -> None:
        self.recorded: dict[str, list[tuple[float, dict[str, Any]]]] = {}

    def get_meter(self, *_: Any) -> _Old:
        return self

    def create_histogram(self, name: str, unit: str = "", description: str = "") -> Any:
        recorded = self.recorded.setdefault(name, [])

        class Instrument:
            def record(self, amount: float, attributes: dict[str, Any] | None = None) -> None:
                recorded.append((amount, attributes or {}))

            add = record

        return Instrument()

    create_counter = create_up_down_counter = create_histogram


def test_instruments_that_take_no_context_are_used_without(
    clock: VirtualClock, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    """An API whose instruments know neither a context nor bucket advice still gets every measurement."""
    old = _Old()
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", old)
    run(server, clock)
    assert {name for name, measured in old.recorded.items() if measured} == set(semconv.METRICS) - {
        semconv.OPERATION_OVERDUE
    }
    assert [amount for amount, _ in old.recorded[semconv.OPERATION_ACTIVE]] == [1, -1]
    assert len(old.recorded[semconv.HTTP_CLIENT_REQUEST_DURATION]) == 5


def test_the_key_that_silences_other_instrumentations_is_theirs(clock: VirtualClock, server: ScriptedServer):
    """While we send, OpenTelemetry's own key is set, which the API keeps under a private name."""
    seen: list[object] = []

    class Session(requests.Session):
        def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
            seen.append(context.get_value(context._SUPPRESS_HTTP_INSTRUMENTATION_KEY))
            return super().send(request, **kwargs)

    assert _tracing._SUPPRESS_HTTP == context._SUPPRESS_HTTP_INSTRUMENTATION_KEY
    server.script(done())
    with Session() as session:
        with operation("export", deadline=60, session=session, clock=clock) as op:
            op.poll(f"{server.url}jobs/1")
        assert seen == [True]
        assert context.get_value(context._SUPPRESS_HTTP_INSTRUMENTATION_KEY) is None


def test_without_a_provider_the_trace_around_is_passed_on(
    clock: VirtualClock, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    """A service in the middle that traces nothing does not break the chain, whatever the API's own tracer does."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    remote = trace.SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=trace.TraceFlags(1))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(remote)))
    try:
        with pytest.raises(JobFailed) as caught:
            run(server, clock, well=False)
    finally:
        context.detach(token)
    assert caught.value.trace_id == f"{0xABC:032x}"
    assert {call.headers.get("traceparent") for call in server.calls} == {f"00-{0xABC:032x}-{0xDEF:016x}-01"}


def test_without_a_provider_there_is_no_trace(
    clock: VirtualClock, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    """The API alone gives spans of no effect, and none of them costs the caller anything but time."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", None)
    with pytest.raises(JobFailed, match="no tracing configured") as caught:
        run(server, clock, well=False)
    assert caught.value.trace_id is None
    assert server.left == ["a,b\n"]
