"""Where the victims' spans go: lines of JSON, by way of the SDK, or of a tracer of another vendor's.

The latter chooses its own ids, and nobody can choose them for it.
"""

from __future__ import annotations

import json
import random
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags


class Lines:
    """An exporter of the SDK's, to a file: a line a span, written at once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Any) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        with open(self._path, "a", encoding="utf-8") as file:
            for span in spans:
                told = {
                    "name": span.name,
                    "trace_id": format(span.context.trace_id, "032x"),
                    "span_id": format(span.context.span_id, "016x"),
                    "parent": None if span.parent is None else format(span.parent.span_id, "016x"),
                    "start_ns": span.start_time,
                    "end_ns": span.end_time,
                }
                file.write(json.dumps(told) + "\n")
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class ForeignSpan(NonRecordingSpan):
    """Records, in a file of its own format."""

    def __init__(self, context: SpanContext, told: dict[str, Any], path: str) -> None:
        super().__init__(context)
        self._told, self._path = told, path

    def is_recording(self) -> bool:
        return True

    def end(self, end_time: int | None = None) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(self._told) + "\n")


class ForeignTracer(trace.Tracer):
    def __init__(self, path: str) -> None:
        self._path = path

    def start_span(self, name: str, context: Any = None, *args: Any, **kwargs: Any) -> trace.Span:  # type: ignore[override]
        parent = trace.get_current_span(context).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else random.getrandbits(128)
        ids = SpanContext(trace_id, random.getrandbits(64), False, TraceFlags(1))
        told = {
            "name": name,
            "trace_id": format(ids.trace_id, "032x"),
            "span_id": format(ids.span_id, "016x"),
            "parent": format(parent.span_id, "016x") if parent.is_valid else None,
        }
        return ForeignSpan(ids, told, self._path)

    def start_as_current_span(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class ForeignProvider(trace.TracerProvider):
    def __init__(self, path: str) -> None:
        self._path = path

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return ForeignTracer(self._path)
