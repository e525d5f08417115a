"""One triangle (1 submit, 5 polls, 1 download of 1 kB) and one poll, against the hand-written loop.

requests looks at all environment variables for each request, and trihop once an
operation: how many there are is part of the measurement, and the same everywhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import requests
from opentelemetry import trace
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from tests.bench.measure import ratios
from tests.bench.server import running

from trihop import Pacing, Provider, ReadJob, ReadState, operation

VARIABLES = 75  # as on a build machine or in a container of a larger cluster
PAUSE_S = 0.0001
PROVIDER = Provider(
    "bench.jobs",
    submit=ReadJob(id="id"),
    poll=ReadState("status", pending={"Running"}, succeeded={"Succeeded"}, results="result_url"),
    pacing=Pacing(first=PAUSE_S, cap=PAUSE_S, floor=0, jitter=False),
)


class Dropped(SpanExporter):
    """Takes spans and forgets them: the cost is that of making them."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def hand_written(session: requests.Session, url: str) -> bytes:
    """What people write."""
    submitted = session.post(f"{url}/jobs", json={"q": 1}, timeout=30)
    submitted.raise_for_status()
    status = url + submitted.headers["Location"]
    while True:
        time.sleep(PAUSE_S)
        polled = session.get(status, timeout=30)
        polled.raise_for_status()
        job = polled.json()
        if job["status"] == "Succeeded":
            break
    return session.get(url + job["result_url"], timeout=30).content


def by_trihop(session: requests.Session, url: str) -> bytes:
    """The same."""
    with operation("bench", deadline=60, session=session, provider=PROVIDER) as op:
        return op.run("POST", f"{url}/jobs", json={"q": 1}).content


def traced_by_hand(tracer: trace.Tracer, session: requests.Session, url: str) -> bytes:
    """A root span around the loop, the rest by instrumentation-requests."""
    with tracer.start_as_current_span("bench"):
        return hand_written(session, url)


def polls(session: requests.Session, url: str, count: int) -> Callable[[], None]:
    """Polls of one long operation, a number at a time."""

    def ask() -> None:
        for _ in range(count):
            session.get(f"{url}/status", timeout=30).json()

    return ask


def trihop_polls(session: requests.Session, url: str, count: int) -> Callable[[], None]:
    """The same number of polls, traced and under a deadline."""
    from trihop import Budget, PollBudgetExhausted

    def ask() -> None:
        try:
            with operation("bench", deadline=60, session=session, provider=PROVIDER) as op:
                op.poll(f"{url}/status", budget=Budget(polls=count))
        except PollBudgetExhausted:
            pass

    return ask


@contextmanager
def environment(size: int) -> Iterator[None]:
    """At least so many variables."""
    added = [f"TRIHOP_BENCH_{number}" for number in range(size - len(os.environ))]
    os.environ.update(dict.fromkeys(added, "some value, as they have"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def report(*, rounds: int = 15, repeats: int = 20) -> dict[str, float]:
    """Print the table; the ratios by name."""
    with environment(VARIABLES):
        return _report(rounds, repeats)


def _report(rounds: int, repeats: int) -> dict[str, float]:
    found: dict[str, float] = {}
    print(f"with {len(os.environ)} environment variables:")
    with running() as url, requests.Session() as session, requests.Session() as other, requests.Session() as third:
        no_sdk = ratios(
            {"hand loop": lambda: hand_written(session, url), "trihop, no SDK": lambda: by_trihop(other, url)},
            "hand loop",
            rounds=rounds,
            repeats=repeats,
        )
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Dropped()))
        trace.set_tracer_provider(provider)
        tracer = trace.get_tracer("bench")
        with_sdk = ratios(
            {"hand loop": lambda: hand_written(session, url), "trihop, traced": lambda: by_trihop(other, url)},
            "hand loop",
            rounds=rounds,
            repeats=repeats,
        )
        one_poll = ratios(
            {"Session.get": polls(session, url, 50), "trihop poll, traced": trihop_polls(other, url, 50)},
            "Session.get",
            rounds=rounds,
            repeats=2,
        )
        RequestsInstrumentor().instrument()
        against_otel = ratios(
            {
                "instrumentation-requests": lambda: traced_by_hand(tracer, third, url),
                "trihop, traced": lambda: by_trihop(other, url),
            },
            "instrumentation-requests",
            rounds=rounds,
            repeats=repeats,
        )
        RequestsInstrumentor().uninstrument()
        provider.shutdown()
    for title, table, limit in (
        ("triangle, no SDK / hand loop", no_sdk["trihop, no SDK"], 0.70),
        ("triangle, traced / hand loop", with_sdk["trihop, traced"], 0.80),
        ("poll, traced / Session.get", one_poll["trihop poll, traced"], 0.60),
        ("triangle, traced / instrumentation-requests + root", against_otel["trihop, traced"], 0.60),
    ):
        found[title] = table[0]
        print(f"{title:<55} {table[0]:6.2f}   (reach {limit:.2f})")
    return found


if __name__ == "__main__":
    report()
