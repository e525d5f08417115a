"""What the tests of this folder share: operations without sockets, and what their spans say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from requests.adapters import BaseAdapter

from trihop import operation
from trihop._triangle import Operation
from trihop.testing import VirtualClock

API = "https://api.example.com/"


# ---- a server that is a function


Answer = tuple[int, Mapping[str, str], bytes]


class Canned(BaseAdapter):
    """Answers requests without a socket, so that ten thousand polls take seconds."""

    def __init__(self, answer: Callable[[requests.PreparedRequest, int], Answer]) -> None:
        super().__init__()
        self.answer = answer
        self.count = 0

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        self.count += 1
        status, headers, body = self.answer(request, self.count)
        response = requests.Response()
        response.status_code, response.raw, response.url = status, io.BytesIO(body), str(request.url)
        response.headers.update(headers)
        response.request = request
        return response

    def close(self) -> None:
        pass


def told(status: int, body: object = None, **headers: str) -> Answer:
    """An answer with a JSON body, or with none; header names are written with underscores."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    content = b"" if body is None else json.dumps(body).encode()
    return status, {"Content-Type": "application/json", **fields}, content


def canned(answer: Callable[[requests.PreparedRequest, int], Answer]) -> requests.Session:
    """A session on which every request is answered by a function of the request and its number, from one."""
    session = requests.Session()
    session.trust_env = False
    session.mount("https://", Canned(answer))
    return session


def in_turn(*answers: Answer | BaseException | Callable[[], Answer]) -> requests.Session:
    """A session on which each request gets the next of these answers, and the last of them for ever."""

    def answer(_: requests.PreparedRequest, number: int) -> Answer:
        chosen = answers[min(number, len(answers)) - 1]
        if isinstance(chosen, BaseException):
            raise chosen
        return chosen() if callable(chosen) else chosen

    return canned(answer)


ACCEPTED = told(202, Location=f"{API}jobs/1")


def running(state: str = "running", **more: str) -> Answer:
    return told(200, {"status": state}, **more)


def done(url: str = f"{API}files/1", **fields: object) -> Answer:
    return told(200, {"status": "succeeded", "result_url": url, **fields})


CONTENT: Answer = (200, {"Content-Type": "text/csv", "Content-Length": "8"}, b"a,b\n1,2\n")


def export(session: requests.Session, clock: VirtualClock, name: str = "export", **options: Any) -> Operation:
    """An operation with a minute to go, if nothing else is said."""
    return operation(name, **{"deadline": 60, "session": session, "clock": clock, **options})


def run(session: requests.Session, clock: VirtualClock, name: str = "export", **options: Any) -> Operation:
    """A whole triangle."""
    with export(session, clock, name, **options) as op:
        op.run("POST", f"{API}jobs", json={"q": 1})
    return op


# ---- what spans say


def said(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def attempts(span: ReadableSpan) -> list[dict[str, Any]]:
    """The attributes of its attempts, in order."""
    return [dict(event.attributes or {}) for event in span.events if event.name == "trihop.attempt"]


def marks(span: ReadableSpan) -> list[str | None]:
    """The mark of each attempt."""
    return [attempt.get("trihop.attempt.mark") for attempt in attempts(span)]


def status(span: ReadableSpan) -> tuple[str, str | None]:
    """The word of its status, and the description."""
    return span.status.status_code.name, span.status.description


# ---- tracer and meter providers of a test's own


@contextmanager
def tracing(
    *, sampler: Sampler = ALWAYS_ON, processors: Sequence[SpanProcessor] = ()
) -> Iterator[InMemorySpanExporter]:
    """A tracer provider in place of the global one for the block; its finished spans.

    The processors come before the one that keeps the spans.
    """
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    for processor in (*processors, SimpleSpanProcessor(exporter)):
        provider.add_span_processor(processor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield exporter


class Meter:
    """What an in-memory reader has collected."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        self._reader = reader

    def metrics(self) -> dict[str, Any]:
        """Every metric of ours by name, as the SDK hands it to an exporter."""
        data = self._reader.get_metrics_data()
        resources = [] if data is None else data.resource_metrics
        scopes = [scope for resource in resources for scope in resource.scope_metrics if scope.scope.name == "trihop"]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self, name: str) -> list[Any]:
        """The points of one metric."""
        metric = self.metrics().get(name)
        return [] if metric is None else list(metric.data.data_points)


@contextmanager
def metering() -> Iterator[Meter]:
    """A meter provider in place of the global one for the block."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics._internal, "_METER_PROVIDER", provider)
        yield Meter(reader)
    provider.shutdown()
