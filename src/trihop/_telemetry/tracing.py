"""The only importer of OpenTelemetry, its API and never the SDK.

Spans get explicit times from the operation's clock. A fault in here never
reaches the caller: it is logged once and the operation goes on untraced.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from trihop._forks import in_the_child
from trihop._telemetry import semconv
from trihop._telemetry.fold import Attempt, fields
from trihop._telemetry.reserved import Reserved, tracer_for
from trihop._version import __version__

try:  # Private upstream, and the only way to keep an inner instrumentation from doubling our spans.
    from opentelemetry.context import _SUPPRESS_HTTP_INSTRUMENTATION_KEY as _SUPPRESS_HTTP
    from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as _SUPPRESS_ALL
except ImportError:  # pragma: no cover - every release from 1.15 on has them
    _SUPPRESS_HTTP = _SUPPRESS_ALL = "trihop-no-such-key"

Attributes = Mapping[str, Any]
Ids = trace.SpanContext
"""What a span can be linked to by; it costs nothing to keep, as the span that is linked has it too."""

T = TypeVar("T")

log = logging.getLogger("trihop")
_faults_told: set[str] = set()

_NO_HEADERS: dict[str, str] = {}
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


_process = os.getpid()


def _know_process() -> None:
    global _process
    _process = os.getpid()


in_the_child(_know_process)

_tracer_of: tuple[object, trace.Tracer] | None = None


def _tracer() -> trace.Tracer:
    """Ours, of the provider that is set now."""
    global _tracer_of
    provider = trace.get_tracer_provider()
    if _tracer_of is None or _tracer_of[0] is not provider:
        _tracer_of = (provider, trace.get_tracer(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL))
    return _tracer_of[1]


class Outside(NamedTuple):
    """What was current before a span of ours was, and how to go back to it."""

    context: otel_context.Context
    token: Any


class TraceSpan:
    """A span of ours: the root of an operation, or one of its hops.

    Args:
        span: As OpenTelemetry has it.
        missing: It stands for a span that could not be started, and for all below it.
        kept: It belongs to a trace that another process began: what is below it keeps that one's decision.
    """

    __slots__ = ("_headers", "_inner", "_kept", "_missing", "_process", "_quiet", "recording", "span")

    def __init__(self, span: Span, *, missing: bool = False, kept: bool = False) -> None:
        self.span = span
        self._kept = kept
        self._missing = missing
        self._process = _process
        self._headers: dict[str, str] | None = None
        self.recording = bool(quietly(span.is_recording))
        self._inner: otel_context.Context | None = None
        self._quiet: otel_context.Context | None = None

    @property
    def _ids(self) -> Ids | None:
        return quietly(self.span.get_span_context)

    @property
    def ids(self) -> Ids | None:
        """What a span after this one is linked to; None where this one is not recorded."""
        return self._ids if self.recording else None

    @property
    def _inside(self) -> otel_context.Context:
        """With this span as the current one; most spans never need it."""
        if self._inner is None:
            self._inner = trace.set_span_in_context(self.span)
        return self._inner

    def child(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        *,
        at_ns: int,
        after: Ids | None = None,
        span_id: str | None = None,
    ) -> TraceSpan:
        """Start a span below this one, linked to the one before it; under an id that was reserved for it, if any."""
        if self._missing:
            return self  # or it would become the root of a trace of its own
        links = None if after is None else [Link(after)]
        tracer = None
        if self._kept and (ids := self._ids) is not None:
            reserved = Reserved(ids.trace_id, None if span_id is None else int(span_id, 16))
            tracer = quietly(tracer_for, _tracer(), reserved)
        return _start(name, kind, attributes, at_ns=at_ns, context=self._inside, links=links, tracer=tracer)

    def moment(self, name: str, attributes: Attributes, *, at_ns: int, around: Any = None) -> None:
        """A span of zero length below this one, linked to a span that is around the operation."""
        if self._missing:
            return
        links = None if around is None or not around.is_valid else [Link(around)]
        tracer = None
        if self._kept and (ids := self._ids) is not None:
            tracer = quietly(tracer_for, _tracer(), Reserved(ids.trace_id, None))
        span = _start(name, INTERNAL, attributes, at_ns=at_ns, context=self._inside, links=links, tracer=tracer)
        span.end(at_ns + 1)  # Jaeger 2 takes no length at all for a negative one, and warns of it

    @property
    def trace_id(self) -> str | None:
        """32 hex digits, None without tracing."""
        ids = self._ids
        return format(ids.trace_id, "032x") if ids is not None and ids.is_valid else None

    @property
    def span_id(self) -> str | None:
        """16 hex digits, None without tracing."""
        ids = self._ids
        return format(ids.span_id, "016x") if ids is not None and ids.is_valid else None

    def reserved(self) -> dict[str, Any] | None:
        """What another process needs to go on in this trace, and to end this span; None without tracing."""
        ids = self._ids
        if ids is None or not ids.is_valid:
            return None
        return {
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "sampled": bool(ids.trace_flags & trace.TraceFlags.SAMPLED),
            "state": ids.trace_state.to_header() or None,
        }

    def set(self, attributes: Attributes) -> None:
        """Add attributes; None values are left out."""
        if self.recording:
            given = {name: _encodable(value) for name, value in attributes.items() if value is not None}
            quietly(self.span.set_attributes, given)

    def fail(self, error_type: str, description: str) -> None:
        """Mark the span as the one that ended the operation."""
        if self.recording:
            quietly(self.span.set_attribute, semconv.ERROR_TYPE, error_type)
            quietly(self.span.set_status, Status(StatusCode.ERROR, _encodable(description[:256])))

    def attempts(self, kept: Iterable[Attempt]) -> None:
        """Write the attempts that were kept, each as an event at its own time."""
        if self.recording:
            for attempt in kept:
                quietly(self.span.add_event, semconv.ATTEMPT, fields(attempt), attempt.at_ns)

    def end(self, at_ns: int) -> None:
        """End it, in the process that started it."""
        if not self.copied:
            quietly(self.span.end, at_ns)

    @property
    def copied(self) -> bool:
        """Whether this is what a fork has of it: ended twice, a span would be there twice."""
        return self._process != _process

    def make_current(self) -> Outside:
        """Make it the parent of what the caller's own code starts."""
        return Outside(otel_context.get_current(), otel_context.attach(self._inside))

    def carry(self) -> None:
        """The same, for good: in a context that is somebody's copy."""
        otel_context.attach(self._inside)

    def leave(self, outside: Outside) -> None:
        """Undo `make_current`; a block left in another context than it was entered (a generator) undoes nothing."""
        if otel_context.get_current() is self._inside or (self.recording and trace.get_current_span() is self.span):
            quietly(otel_context.detach, outside.token)

    def step_outside(self, outside: Outside) -> None:
        """Where a span that has ended is still the current one, go back to what was current before it."""
        if otel_context.get_current() is self._inside or (self.recording and trace.get_current_span() is self.span):
            otel_context.attach(outside.context)

    def rest(self) -> None:
        """Let go of what is quickly made again."""
        self._inner = self._quiet = self._headers = None

    def sending(self) -> _Sending:
        """Keep instrumentations of the HTTP libraries silent for the block."""
        if self._quiet is None:
            self._quiet = otel_context.set_value(_SUPPRESS_HTTP, True, self._inside)
        return _Sending(self._quiet)

    def headers(self) -> dict[str, str]:
        """What carries this span to the server; never baggage, whatever header a propagator keeps it in."""
        if self._headers is None:
            found: dict[str, str] = {}
            ids = self._ids
            if ids is not None and ids.is_valid:  # else there is nothing to carry, and much work in finding that out
                quietly(_inject, found, trace.set_span_in_context(self.span, otel_context.Context()))
            self._headers = found or _NO_HEADERS
        return dict(self._headers)


def _inject(carrier: dict[str, str], context: otel_context.Context) -> None:
    # Here, as the import itself fails where the environment names a propagator that is not installed.
    from opentelemetry import propagate

    propagate.inject(carrier, context)


class Silence:
    """Keeps instrumentations of the HTTP libraries silent, and leaves all else in the caller's context as it is.

    Remembers the context it saw last: a loop sends all its requests in the same one.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: tuple[otel_context.Context, otel_context.Context | None] | None = None

    def around(self) -> _Sending | None:
        """A block to send in; None where everybody is asked to be silent, as by exporters while they send."""
        context, seen = otel_context.get_current(), self._seen
        if seen is None or seen[0] is not context:
            quiet = None if context.get(_SUPPRESS_ALL) else otel_context.set_value(_SUPPRESS_HTTP, True, context)
            self._seen = seen = (context, quiet)
        return None if seen[1] is None else _Sending(seen[1])


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
    tracer: trace.Tracer | None = None,
) -> TraceSpan:
    given = {
        key: value if not isinstance(value, str) or value.isascii() else _encodable(value)
        for key, value in attributes.items()
        if value is not None
    }

    def start() -> Span:
        return (tracer if tracer is not None else _tracer()).start_span(
            _encodable(name), context=context, kind=kind, attributes=given, links=links, start_time=at_ns
        )

    span = None if otel_context.get_value(_SUPPRESS_ALL) else quietly(start)
    if span is not None and span is not trace.INVALID_SPAN:
        return TraceSpan(span, kept=tracer is not None)
    # Without a span of ours, what is around us is passed on; the tracer of an older API without an SDK does not do so.
    around = quietly(lambda: trace.get_current_span(context).get_span_context())
    if around is None or not around.is_valid:
        return TraceSpan(trace.INVALID_SPAN, missing=True)
    return TraceSpan(trace.NonRecordingSpan(around), missing=True)


def _encodable(value: T) -> T:
    """Without the lone surrogates that JSON can smuggle in: an exporter would lose its whole batch over one."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")  # type: ignore[return-value]
    return value


def start_operation(name: str, attributes: Attributes, *, at_ns: int) -> TraceSpan:
    """Start the root of an operation, below whatever span the caller is in."""
    return _start(name, INTERNAL, attributes, at_ns=at_ns)


def around() -> Any:
    """The ids of whatever span the caller is in."""
    return quietly(lambda: trace.get_current_span().get_span_context())


def start_durable(name: str, attributes: Attributes, *, at_ns: int) -> TraceSpan:
    """Start the root of an operation that may outlive the process, and any span around it: in a trace of its own."""
    return _start(name, INTERNAL, attributes, at_ns=at_ns, context=trace.set_span_in_context(trace.INVALID_SPAN))


def resume_operation(name: str, attributes: Attributes, *, at_ns: int, reserved: Mapping[str, Any]) -> TraceSpan:
    """The root that another process started and did not end, under its ids and with its start.

    A trace that was not sampled stays so. Where ids cannot be chosen, as with
    other vendors' tracers, a span of the same trace below the lost root.
    """
    found = quietly(_resumed, name, attributes, at_ns, reserved)
    return found if found is not None else start_durable(name, attributes, at_ns=at_ns)


def _resumed(name: str, attributes: Attributes, at_ns: int, reserved: Mapping[str, Any]) -> TraceSpan:
    sampled, state = bool(reserved["sampled"]), trace.TraceState.from_header([reserved.get("state") or ""])
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if sampled else trace.TraceFlags.DEFAULT)
    trace_id, span_id = int(reserved["trace_id"], 16), int(reserved["span_id"], 16)
    lost = trace.NonRecordingSpan(trace.SpanContext(trace_id, span_id, True, flags, state))
    if not sampled:
        return TraceSpan(lost, missing=True)
    tracer = quietly(tracer_for, _tracer(), Reserved(trace_id, span_id, sampled, state))
    if tracer is not None:
        outside = trace.set_span_in_context(trace.INVALID_SPAN)
        root = _start(name, INTERNAL, attributes, at_ns=at_ns, context=outside, tracer=tracer)
        ids = root._ids
        if root.recording and ids is not None and (ids.trace_id, ids.span_id) == (trace_id, span_id):
            return root
    below = _start(name, INTERNAL, attributes, at_ns=at_ns, context=trace.set_span_in_context(lost))
    return below if below.recording else TraceSpan(lost, missing=True)


# ---- metrics


class Instruments:
    """The instruments of `_semconv.METRICS`, of one provider."""

    def __init__(self) -> None:
        meter = metrics.get_meter(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL)
        makers: dict[str, Callable[..., Any]] = {
            "histogram": meter.create_histogram,
            "counter": meter.create_counter,
            "updowncounter": meter.create_up_down_counter,
        }
        self._record: dict[str, Callable[..., None]] = {}
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
            self._record[row.name] = instrument.record if row.type == "histogram" else instrument.add
        self._with_context = all(_takes(record, "context") for record in self._record.values())

    def record(self, name: str, value: float, attributes: Attributes, root: TraceSpan) -> None:
        """Record one measurement; its exemplar carries the operation's trace. None values are left out."""
        quietly(self._put, name, value, attributes, root)

    def _put(self, name: str, value: float, attributes: Attributes, root: TraceSpan) -> None:
        given = {key: _encodable(found) for key, found in attributes.items() if found is not None}
        if self._with_context:
            self._record[name](value, given, context=root._inside)
        else:
            self._record[name](value, given)


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    return parameter in inspect.signature(function).parameters


def observe_overdue(count: Callable[[], Mapping[str, int]]) -> None:
    """Report how many operations of a store are past their deadline without an ending, whenever somebody collects."""
    row = semconv.METRICS[semconv.OPERATION_OVERDUE]
    told: dict[str, int] = {}

    def observe(_: metrics.CallbackOptions) -> list[metrics.Observation]:
        found = quietly(count)
        if found is None:
            return []
        told.update(
            {**dict.fromkeys(told, 0), **found}
        )  # a name that went unsaid would keep its last value for a while
        return [metrics.Observation(number, {semconv.OPERATION_NAME: name[:64]}) for name, number in told.items()]

    meter = metrics.get_meter(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL)
    quietly(meter.create_observable_gauge, row.name, [observe], unit=row.unit, description=row.meaning)


_instruments_of: tuple[object, Instruments | None] | None = None
_NOBODY = ("NoOpMeterProvider", "_ProxyMeterProvider")


def instruments() -> Instruments | None:
    """What measurements go to now; None where nobody collects any, so that none is taken."""
    return quietly(_instruments)


def _instruments() -> Instruments | None:
    global _instruments_of
    provider = metrics.get_meter_provider()
    if _instruments_of is None or _instruments_of[0] is not provider:
        _instruments_of = (provider, None if type(provider).__name__ in _NOBODY else Instruments())
    return _instruments_of[1]
