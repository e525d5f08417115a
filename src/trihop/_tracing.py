"""The only importer of OpenTelemetry, its API and never the SDK.

Spans get explicit times from the operation's clock. A fault in here never
reaches the caller: it is logged once and the operation goes on untraced.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from trihop import _semconv as semconv
from trihop._fold import Fold, fields
from trihop._version import __version__

try:  # Private upstream, and the only way to keep an inner instrumentation from doubling our spans.
    from opentelemetry.context import _SUPPRESS_HTTP_INSTRUMENTATION_KEY as _SUPPRESS_HTTP
    from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as _SUPPRESS_ALL
except ImportError:  # pragma: no cover - every release from 1.15 on has them
    _SUPPRESS_HTTP = _SUPPRESS_ALL = "trihop-no-such-key"

Attributes = Mapping[str, Any]
T = TypeVar("T")

log = logging.getLogger("trihop")
_faults_told: set[str] = set()

INTERNAL, CLIENT = SpanKind.INTERNAL, SpanKind.CLIENT


def quietly(do: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
    """What `do` returns, or None where it fails: telemetry is never the reason that a job is lost."""
    try:
        return do(*args, **kwargs)
    except Exception as fault:
        where = getattr(do, "__qualname__", repr(do))
        if where not in _faults_told:
            _faults_told.add(where)
            log.warning("tracing failed in %s (%s); the operation goes on without it", where, type(fault).__name__)
        return None


_tracer_of: tuple[object, trace.Tracer] | None = None


def _tracer() -> trace.Tracer:
    global _tracer_of
    provider = trace.get_tracer_provider()
    if _tracer_of is None or _tracer_of[0] is not provider:
        _tracer_of = (provider, trace.get_tracer(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL))
    return _tracer_of[1]


class TraceSpan:
    """A span of ours: the root of an operation, or one of its hops."""

    __slots__ = ("_inside", "_sending", "recording", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.recording = span.is_recording()
        self._inside = trace.set_span_in_context(span)
        self._sending = otel_context.set_value(_SUPPRESS_HTTP, True, self._inside)

    @property
    def trace_id(self) -> str | None:
        """32 hex digits, None without tracing."""
        context = self.span.get_span_context()
        return format(context.trace_id, "032x") if context.is_valid else None

    def child(
        self, name: str, kind: SpanKind, attributes: Attributes, *, at_ns: int, after: TraceSpan | None = None
    ) -> TraceSpan:
        """Start a span below this one, linked to the one before it."""
        links = [Link(after.span.get_span_context())] if after is not None and after.recording else None
        return _start(name, kind, attributes, at_ns=at_ns, context=self._inside, links=links)

    def set(self, attributes: Attributes) -> None:
        """Add attributes; None values are left out."""
        if self.recording:
            for name, value in attributes.items():
                if value is not None:
                    quietly(self.span.set_attribute, name, value)

    def fail(self, error_type: str, description: str) -> None:
        """Mark the span as the one that ended the operation."""
        if self.recording:
            quietly(self.span.set_attribute, semconv.ERROR_TYPE, error_type)
            quietly(self.span.set_status, Status(StatusCode.ERROR, description[:256]))

    def attempts(self, fold: Fold) -> None:
        """Write the attempts that were kept, each as an event at its own time."""
        if self.recording:
            for attempt in fold.kept():
                quietly(self.span.add_event, semconv.ATTEMPT, fields(attempt), attempt.at_ns)

    def end(self, at_ns: int) -> None:
        """End it."""
        quietly(self.span.end, at_ns)

    def make_current(self) -> Any:
        """Make it the parent of what the caller's own code starts."""
        return otel_context.attach(self._inside)

    def leave(self, token: Any) -> None:
        """Undo `make_current`; a block left in another context than it was entered (a generator) undoes nothing."""
        if trace.get_current_span() is self.span:
            quietly(otel_context.detach, token)

    def sending(self) -> _Sending:
        """Keep instrumentations of the HTTP libraries silent for the block."""
        return _Sending(self._sending)

    def headers(self) -> dict[str, str]:
        """What carries this span to the server; never baggage."""
        from opentelemetry import propagate

        carrier: dict[str, str] = {}
        quietly(propagate.inject, carrier, self._inside)
        carrier.pop("baggage", None)
        return carrier


class _Sending:
    __slots__ = ("_context", "_token")

    def __init__(self, context: otel_context.Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = otel_context.attach(self._context)

    def __exit__(self, *_: object) -> None:
        otel_context.detach(self._token)


def _start(
    name: str,
    kind: SpanKind,
    attributes: Attributes,
    *,
    at_ns: int,
    context: otel_context.Context | None = None,
    links: list[Link] | None = None,
) -> TraceSpan:
    given = {key: value for key, value in attributes.items() if value is not None}
    span = None
    if not otel_context.get_value(_SUPPRESS_ALL):
        span = quietly(
            _tracer().start_span, name, context=context, kind=kind, attributes=given, links=links, start_time=at_ns
        )
    return TraceSpan(trace.INVALID_SPAN if span is None else span)


def start_operation(name: str, attributes: Attributes, *, at_ns: int) -> TraceSpan:
    """Start the root of an operation, below whatever span the caller is in."""
    return _start(name, INTERNAL, attributes, at_ns=at_ns)


# ---- metrics


class _Instruments:
    """Made once; the API's proxies follow a provider that is set later."""

    def __init__(self) -> None:
        meter = metrics.get_meter(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL)
        makers: dict[str, Callable[..., Any]] = {
            "histogram": meter.create_histogram,
            "counter": meter.create_counter,
            "updowncounter": meter.create_up_down_counter,
        }
        self.record: dict[str, Callable[..., None]] = {}
        for row in semconv.METRICS.values():
            make = makers.get(row.type)
            if make is None:
                continue
            advice = (
                {"explicit_bucket_boundaries_advisory": row.buckets}
                if row.buckets and _takes(make, "explicit_bucket_boundaries_advisory")
                else {}
            )
            instrument = make(row.name, unit=row.unit, description=row.meaning, **advice)
            self.record[row.name] = instrument.record if row.type == "histogram" else instrument.add
        self.with_context = all(_takes(record, "context") for record in self.record.values())


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    return parameter in inspect.signature(function).parameters


_instruments: _Instruments | None = None


def measure(name: str, value: float, attributes: Attributes, root: TraceSpan) -> None:
    """Record one measurement; its exemplar carries the operation's trace."""
    quietly(_measure, name, value, attributes, root)


def _measure(name: str, value: float, attributes: Attributes, root: TraceSpan) -> None:
    global _instruments
    if _instruments is None:
        _instruments = _Instruments()
    given = {key: found for key, found in attributes.items() if found is not None}
    if _instruments.with_context:
        _instruments.record[name](value, given, context=root._inside)
    else:
        _instruments.record[name](value, given)
