"""Ten thousand polls in one operation: the bytes of their span, and what memory they leave behind."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from requests.adapters import BaseAdapter

from trihop import Budget, Event, Job, Pending, PollBudgetExhausted, Reply, operation
from trihop.testing import VirtualClock

POLLS = 10_000
WARM = 1_000


class Canned(BaseAdapter):
    """Answers by itself: a job that runs, its word another one each time, and every third poll a 503."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        self.asked += 1
        response = requests.Response()
        response.status_code = 200 if self.asked % 3 else 503
        response.url, response.request = request.url or "", request
        response.raw = io.BytesIO(json.dumps({"status": f"step {self.asked:040}"}).encode())
        return response

    def close(self) -> None:
        pass


def always_running(reply: Reply, _: Job) -> Pending:
    """Any word is one of a job that runs."""
    return Pending(reply.json()["status"])


def report() -> dict[str, float]:
    """Print the table; the values by name."""
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    at_bytes: dict[int, int] = {}
    clock = VirtualClock()

    def note(event: Event) -> None:
        if event.polls in (WARM, POLLS - 1):
            clock.sleeps.clear()  # a record of its own, which is the test's
            at_bytes[event.polls] = tracemalloc.get_traced_memory()[0]

    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", Canned())
        tracemalloc.start()
        try:
            with operation("bench", deadline=None, session=session, clock=clock, on_event=note) as op:
                op.poll("http://bench.example/jobs/1", surface=always_running, budget=Budget(polls=POLLS))
        except PollBudgetExhausted:
            pass
        finally:
            tracemalloc.stop()
    (span,) = [span for span in spans.get_finished_spans() if span.name.startswith("poll ")]
    found = {
        "10,000 polls: bytes of their span": len(encode_spans([span]).SerializeToString()),
        "10,000 polls: growth of memory after the first 1,000": at_bytes[POLLS - 1] - at_bytes[WARM],
    }
    for (title, value), limit in zip(found.items(), (16_384, 131_072), strict=True):
        print(f"{title:<55} {value:6.0f}   (reach {limit})")
    return {title: float(value) for title, value in found.items()}


if __name__ == "__main__":
    report()
