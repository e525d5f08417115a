"""A trace as Jaeger's own JSON, which its page reads from a file.

Names, tags and references are those that Jaeger gives the same spans when they come to it as OTLP.
Source: opentelemetry.io, "OpenTelemetry to Jaeger Transformation".
"""

from __future__ import annotations

import json
from typing import Any

from trihop.viewer._model import Attributes, Span, SpanEvent, Trace, Value


def to_jaeger(trace: Trace) -> dict[str, Any]:
    """What Jaeger's API would answer for this trace: `{"data": [trace]}`, times in microseconds."""
    processes: dict[str, str] = {}
    spans = [_span(span, processes) for span in trace.spans]
    described = {key: json.loads(process) for process, key in processes.items()}
    return {"data": [{"traceID": trace.id, "spans": spans, "processes": described, "warnings": None}]}


def _span(span: Span, processes: dict[str, str]) -> dict[str, Any]:
    process = {"serviceName": span.service or "unknown", "tags": _tags(span.resource, without="service.name")}
    key = processes.setdefault(json.dumps(process), f"p{len(processes) + 1}")
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "operationName": span.name,
        "references": _references(span),
        "startTime": span.start_ns // 1000,
        "duration": (span.end_ns - span.start_ns) // 1000,
        "tags": [*_tags(span.attributes), *_told_otherwise(span)],
        "logs": [_log(event) for event in span.events],
        "processID": key,
        "warnings": None,
    }


def _references(span: Span) -> list[dict[str, str]]:
    """The parent, and what it follows. A link to the parent itself would take the parent's place, so there is none."""
    parent = [] if span.parent_id is None else [("CHILD_OF", span.trace_id, span.parent_id)]
    links = [
        ("FOLLOWS_FROM", link.trace_id, link.span_id)
        for link in span.links
        if (link.trace_id, link.span_id) != (span.trace_id, span.parent_id)
    ]
    return [{"refType": sort, "traceID": trace_id, "spanID": span_id} for sort, trace_id, span_id in (*parent, *links)]


def _told_otherwise(span: Span) -> list[dict[str, Any]]:
    """What OTLP has fields for and Jaeger has tags for."""
    name, version = span.scope
    told: dict[str, Value] = {"span.kind": span.kind}
    told |= {"otel.scope.name": name} if name else {}
    told |= {"otel.scope.version": version} if version else {}
    if span.status == "error":
        told |= {"otel.status_code": "ERROR", "error": True}
    elif span.status == "ok":
        told |= {"otel.status_code": "OK"}
    told |= {"otel.status_description": span.description} if span.description else {}
    return _tags(Attributes(told))


def _log(event: SpanEvent) -> dict[str, Any]:
    fields = _tags(event.attributes)
    if event.name:
        fields.insert(0, _tag("event", event.name))
    return {"timestamp": event.at_ns // 1000, "fields": fields}


def _tags(attributes: Attributes, *, without: str = "") -> list[dict[str, Any]]:
    return [_tag(key, value) for key, value in attributes.items() if key != without]


def _tag(key: str, value: Value) -> dict[str, Any]:
    """A tag by the kind of its value; a list goes as JSON text, as there is no such kind."""
    match value:
        case bool():
            return {"key": key, "type": "bool", "value": value}
        case int():
            return {"key": key, "type": "int64", "value": value}
        case float():
            return {"key": key, "type": "float64", "value": value}
        case tuple():
            return {"key": key, "type": "string", "value": json.dumps(list(value), separators=(",", ":"))}
    return {"key": key, "type": "string", "value": "" if value is None else value}
