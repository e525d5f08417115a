"""OTLP JSON lines to plain values.

The format is what OpenTelemetry's file exporters write (Python's `FileSpanExporter`, the collector's
`file` exporter): one ExportTraceServiceRequest a line, ids in hex, 64-bit numbers as strings.

Source: OpenTelemetry protocol specification, "OTLP/JSON protobuf encoding" and "OTLP file exporter".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trihop.viewer._model import Attributes, Link, Span, SpanEvent, Trace, Value

_KINDS = ("internal", "internal", "server", "client", "producer", "consumer")
_STATUSES = ("unset", "ok", "error")
_SIGNALS = ("resourceSpans", "resourceMetrics", "resourceLogs")


@dataclass(frozen=True, slots=True)
class Fault:
    """A line, counted from one, that could not be read, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file held: its traces by start, and what could not be read of it."""

    traces: tuple[Trace, ...]
    faults: tuple[Fault, ...]


def read(lines: Iterable[bytes]) -> Reading:
    """The traces in OTLP JSON lines. Raises for no content whatever: what makes no sense becomes a `Fault`.

    A span that comes twice is taken as it came last. Lines of other signals are passed over.

    >>> read([b'{"resourceSpans": [']).faults
    (Fault(line=1, reason='cut off: its writer is still at it, or was stopped'),)
    """
    spans: dict[tuple[str, str], Span] = {}
    faults: list[Fault] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            cut = not line.endswith(b"\n")
            faults.append(Fault(number, "cut off: its writer is still at it, or was stopped" if cut else "no JSON"))
            continue
        if not any(signal in _object(request) for signal in _SIGNALS):
            faults.append(Fault(number, "JSON, but no OTLP export"))
            continue
        found, bad = _spans(_object(request))
        spans.update(((span.trace_id, span.span_id), span) for span in found)
        if bad:
            faults.append(Fault(number, f"{bad} span{'s' if bad > 1 else ''} without ids or start"))
    return Reading(_traces(spans.values()), tuple(faults))


def _traces(spans: Iterable[Span]) -> tuple[Trace, ...]:
    grouped: dict[str, list[Span]] = {}
    for span in spans:
        grouped.setdefault(span.trace_id, []).append(span)
    traces = (
        Trace(trace_id, tuple(sorted(group, key=lambda span: (span.start_ns, -span.end_ns))))
        for trace_id, group in grouped.items()
    )
    return tuple(sorted(traces, key=lambda trace: trace.start_ns))


def _spans(request: Mapping[str, Any]) -> tuple[list[Span], int]:
    found: list[Span] = []
    bad = 0
    for resource_spans in _objects(request.get("resourceSpans")):
        resource = _attributes(_object(resource_spans.get("resource")).get("attributes"))
        for scope_spans in _objects(resource_spans.get("scopeSpans")):
            scope = _object(scope_spans.get("scope"))
            made_by = _text(scope.get("name")), _text(scope.get("version"))
            for span in _objects(scope_spans.get("spans")):
                read_span = _span(span, resource, made_by)
                if read_span is None:
                    bad += 1
                else:
                    found.append(read_span)
    return found, bad


def _span(span: Mapping[str, Any], resource: Attributes, scope: tuple[str, str]) -> Span | None:
    trace_id, span_id, start_ns = (
        _id(span.get("traceId")),
        _id(span.get("spanId")),
        _whole(span.get("startTimeUnixNano")),
    )
    if not trace_id or not span_id or not start_ns:
        return None
    status = _object(span.get("status"))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(span.get("parentSpanId")) or None,
        name=_text(span.get("name")) or "(no name)",
        start_ns=start_ns,
        end_ns=max(start_ns, _whole(span.get("endTimeUnixNano"))),
        kind=_word(span.get("kind"), _KINDS, "SPAN_KIND_"),
        status=_word(status.get("code"), _STATUSES, "STATUS_CODE_"),
        description=_text(status.get("message")),
        attributes=_attributes(span.get("attributes")),
        events=tuple(
            SpanEvent(_text(event.get("name")), _whole(event.get("timeUnixNano")), _attributes(event.get("attributes")))
            for event in _objects(span.get("events"))
        ),
        links=tuple(Link(_id(link.get("traceId")), _id(link.get("spanId"))) for link in _objects(span.get("links"))),
        dropped_events=_whole(span.get("droppedEventsCount")),
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Any) -> Attributes:
    return Attributes({_text(pair.get("key")): _value(_object(pair.get("value"))) for pair in _objects(pairs)})


def _value(value: Mapping[str, Any]) -> Value:
    match value:
        case {"arrayValue": inner}:
            items = (_value(item) for item in _objects(_object(inner).get("values")))
            return tuple(json.dumps(item) if isinstance(item, tuple) else item for item in items)
        case {"stringValue": str(text)} | {"bytesValue": str(text)}:
            return text
        case {"boolValue": bool(flag)}:
            return flag
        case {"intValue": number}:
            return _whole(number)
        case {"doubleValue": number}:
            return _double(number)
        case {"kvlistValue": inner}:
            return json.dumps(inner)
    return None


def _double(number: Any) -> float | None:
    try:
        return float(number)  # "NaN", "Infinity" and "-Infinity" come as text
    except (TypeError, ValueError, OverflowError):
        return None


def _whole(number: Any) -> int:
    """An integer that may come as text; 0 for anything else, as protobuf has it for what is absent."""
    try:
        return int(number)
    except (TypeError, ValueError, OverflowError):
        return 0


def _word(code: Any, words: tuple[str, ...], prefix: str) -> str:
    """An enum by number or by name, as protobuf's JSON allows both."""
    if isinstance(code, str) and code.startswith(prefix):
        word = code.removeprefix(prefix).lower()
        return word if word in words else words[0]
    number = _whole(code)
    return words[number] if 0 <= number < len(words) else words[0]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _id(value: Any) -> str:
    return _text(value).lower()


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
