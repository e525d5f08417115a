"""Traces as trihop writes them, made with OpenTelemetry's own SDK and file exporter at times of our choosing."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, set_span_in_context

START_NS = 1_772_366_400_000_000_000  # 2026-03-01 12:00:00Z
OPERATION_ID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
Values = Mapping[str, object]


class CountedIds(IdGenerator):
    """Ids one can foresee: the trace `aaaa…0001` for 1, its spans from 1 upwards."""

    def __init__(self, trace: int) -> None:
        self.trace, self.span = trace, 0

    def generate_span_id(self) -> int:
        self.span += 1
        return (self.trace << 32) + self.span

    def generate_trace_id(self) -> int:
        return (0xAAAA << 112) + self.trace


def trace_id(number: int = 1) -> str:
    return f"aaaa{number:028x}"


@dataclass
class Pen:
    """Writes the spans of one operation; times are seconds after the start of the trace."""

    name: str = "export"
    number: int = 1
    provider: str = "salesforce.query"
    job: str | None = "750xx001"
    operation_id: str = OPERATION_ID
    text: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        sdk = TracerProvider(
            resource=Resource.create({"service.name": "nightly"}),
            id_generator=CountedIds(self.number),
            shutdown_on_exit=False,
        )
        sdk.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=self.text)))
        self.tracer = sdk.get_tracer("trihop")
        self.shared: dict[str, object] = {
            "trihop.operation.name": self.name,
            "trihop.operation.id": self.operation_id,
            "trihop.provider": self.provider,
        }
        if self.job is not None:
            self.shared["trihop.job.id"] = self.job

    @property
    def lines(self) -> bytes:
        return self.text.getvalue().encode()

    @contextmanager
    def root(self, end: float, attributes: Values, *, error: str | None = None, start: float = 0.0) -> Iterator[Span]:
        span = self.tracer.start_span(self.name, start_time=at(start), attributes={**self.shared, **attributes})  # type: ignore[dict-item]
        yield span
        if error is not None:
            span.set_status(StatusCode.ERROR, error)
        span.end(at(end))

    def hop(
        self,
        hop: str,
        parent: Span | None,
        start: float,
        end: float,
        attributes: Values,
        *,
        attempts: Sequence[tuple[float, Values]] = (),
        follows: Span | None = None,
        error: str | None = None,
        url: str = "https://api.example.com/jobs/query",
    ) -> Span:
        own = {
            "trihop.hop": hop,
            "http.request.method": "POST" if hop == "submit" else "GET",
            "server.address": "api.example.com",
            "server.port": 443,
            "url.full": url,
        }
        return self.span(
            f"{hop} {self.name}",
            parent,
            start,
            end,
            {**self.shared, **own, **attributes},
            events=[(when, "trihop.attempt", told) for when, told in attempts],
            follows=follows,
            error=error,
            kind=SpanKind.INTERNAL if hop == "poll" else SpanKind.CLIENT,
        )

    def span(
        self,
        name: str,
        parent: Span | None,
        start: float,
        end: float,
        attributes: Values,
        *,
        events: Sequence[tuple[float, str, Values]] = (),
        follows: Span | None = None,
        error: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        span = self.tracer.start_span(
            name,
            context=None if parent is None else set_span_in_context(parent),
            kind=kind,
            start_time=at(start),
            attributes=attributes,  # type: ignore[arg-type]
            links=[] if follows is None else [Link(follows.get_span_context())],
        )
        for when, event, told in events:
            span.add_event(event, told, timestamp=at(when))  # type: ignore[arg-type]
        if error is not None:
            span.set_status(StatusCode.ERROR, error)
        span.end(at(end))
        return span


def at(seconds: float) -> int:
    return START_NS + round(seconds * 1e9)


def good(
    number: int, state: str = "InProgress", *, wait: float | None = 1.0, reason: str = "hint", **more: object
) -> Values:
    """An attempt that was answered; a further attribute is written with two underscores for its dots."""
    told: dict[str, object] = {
        "trihop.attempt.number": number,
        "trihop.attempt.duration": 0.012,
        "http.response.status_code": 200,
        "trihop.job.state": state,
    }
    if wait is not None:
        told |= {"trihop.wait.duration": wait, "trihop.wait.reason": reason}
    return told | {key.replace("__", "."): value for key, value in more.items()}


def bad(
    number: int,
    error: str = "503",
    *,
    status: int | None = 503,
    wait: float | None = 1.0,
    headers: Values | None = None,
) -> Values:
    """An attempt that failed."""
    told: dict[str, object] = {
        "trihop.attempt.number": number,
        "trihop.attempt.duration": 0.02,
        "error.type": error,
        "trihop.attempt.verdict": "transient",
    }
    if status is not None:
        told["http.response.status_code"] = status
    if wait is not None:
        told |= {"trihop.wait.duration": wait, "trihop.wait.reason": "backoff"}
    return told | {f"http.response.header.{name}": [value] for name, value in (headers or {}).items()}


def polled(attempts: int, *, errors: int = 0, waited: float, state: str, **more: object) -> Values:
    """The attributes of a poll span's end."""
    return {
        "trihop.poll.attempts": attempts,
        "trihop.poll.errors": errors,
        "trihop.poll.events_omitted": max(0, attempts - 48),
        "trihop.poll.statuses": [f"200={attempts - errors}", *([f"503={errors}"] if errors else [])],
        "trihop.poll.request_time": 0.012 * attempts,
        "trihop.poll.request_time_max": 0.02,
        "trihop.poll.wait_time": waited,
        "trihop.poll.wait_time_max": 1.08,
        "trihop.job.state": state,
        **{f"trihop.poll.{key}": value for key, value in more.items()},
    }


def success(number: int = 1, *, name: str = "export") -> bytes:
    """Five polls, the third a 503 that the fourth made good; then 1.2 MB."""
    pen = Pen(name, number)
    with pen.root(
        6.42,
        {
            "trihop.operation.result": "success",
            "trihop.operation.polls": 5,
            "trihop.deadline.duration": 30.0,
            "trihop.deadline.remaining": 23.58,
            "trihop.job.state": "JobComplete",
        },
    ) as root:
        submit = pen.hop("submit", root, 0.0, 0.041, {"http.response.status_code": 200})
        poll = pen.hop(
            "poll",
            root,
            0.041,
            6.1,
            polled(5, errors=1, waited=5.8, state="JobComplete") | {"http.response.status_code": 200},
            attempts=[
                (0.9, good(1)),
                (2.0, good(2)),
                (3.1, bad(3)),
                (4.7, good(4)),
                (6.1, good(5, "JobComplete", wait=None, trihop__attempt__verdict="succeeded")),
            ],
            follows=submit,
            url="https://api.example.com/jobs/query/750xx001",
        )
        pen.hop(
            "download",
            root,
            6.1,
            6.41,
            {
                "http.response.status_code": 200,
                "trihop.download.size": 1_240_000,
                "trihop.download.expected_size": 1_240_000,
                "trihop.download.rate": 4.0e6,
                "trihop.download.link_age": 0.01,
            },
            follows=poll,
            url="https://files.example.com/750xx001.csv?X-Amz-Signature=REDACTED",
        )
    return pen.lines


def many_polls(polls: int = 10_000) -> bytes:
    """The fold of ten thousand polls: the first eight, changes, the last sixteen."""
    pen = Pen()
    kept = [*range(1, 9), *(polls // 25 * n for n in range(1, 25)), *range(polls - 15, polls + 1)]
    events = [(n * 0.7, good(n, "Queued" if i % 2 else "Running")) for i, n in enumerate(kept)]
    with pen.root(polls * 0.7 + 2, {"trihop.operation.result": "success", "trihop.operation.polls": polls}) as root:
        submit = pen.hop("submit", root, 0.0, 0.1, {"http.response.status_code": 200})
        pen.hop(
            "poll",
            root,
            0.1,
            polls * 0.7 + 1,
            polled(polls, waited=polls * 0.68, state="Running"),
            attempts=events,
            follows=submit,
        )
    return pen.lines
