"""Requests that the caller's own code sends: outside an operation, and inside one against OpenTelemetry's own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
import urllib3.connection
from opentelemetry import metrics, trace
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.bench.measure import Variant, ratios
from tests.bench.server import running
from tests.bench.triangle import Dropped, hand_written
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.util import Retry
from urllib3.util import connection as urllib3_connect
from urllib3.util.ssltransport import SSLTransport

# Where trihop puts its bounds, for the variant that is to have none of them.
_BOUNDED: tuple[tuple[Any, str], ...] = (
    (requests.Session, "send"),
    (HTTPConnectionPool, "_get_conn"),
    (urllib3_connect, "create_connection"),
    (urllib3.connection, "ssl_wrap_socket"),
    (SSLTransport, "_ssl_io_loop"),
    (HTTPConnection, "_tunnel"),
    (HTTPConnection, "putrequest"),
    (HTTPConnection, "send"),
    (HTTPConnection, "getresponse"),
    (Retry, "increment"),
)
_UNTOUCHED = [getattr(owner, name) for owner, name in _BOUNDED]


@contextmanager
def untouched() -> Iterator[None]:
    """requests and urllib3 as they were before trihop was imported."""
    now = [getattr(owner, name) for owner, name in _BOUNDED]
    _put(_UNTOUCHED)
    try:
        yield
    finally:
        _put(now)


def _put(functions: list[Any]) -> None:
    for (owner, name), function in zip(_BOUNDED, functions, strict=True):
        setattr(owner, name, function)


def plain(session: requests.Session, url: str, count: int) -> None:
    """Requests that nothing is known of: of each its own span."""
    for number in range(count):
        assert session.get(f"{url}/results/{number}", timeout=30).content


def polled(session: requests.Session, url: str, count: int) -> None:
    """A long loop of polls: one span."""
    job = session.post(f"{url}/jobs", timeout=30).json()["id"]
    for _ in range(count):
        session.get(f"{url}/status/{job}", timeout=30).json()


def overheads(variants: dict[str, Variant], *, rounds: int, repeats: int) -> dict[str, float]:
    """What each variant costs above the first, as a share of what the last costs above it: the median over rounds."""
    names = list(variants)
    bare, theirs = names[0], names[-1]
    seen: dict[str, list[float]] = {name: [] for name in names}
    for variant in variants.values():
        variant()
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.process_time()
            for _ in range(repeats):
                variants[name]()
            seen[name].append(time.process_time() - began)
    base = statistics.median(seen[bare])
    above = {name: statistics.median(times) - base for name, times in seen.items()}
    return {name: above[name] / above[theirs] for name in names[1:-1]}


def report(*, rounds: int = 41, repeats: int = 20) -> dict[str, float]:
    """Print the table; the ratios by name."""
    from trihop import operation
    from trihop._middleware import instrument, uninstrument

    found: dict[str, float] = {}

    def show(title: str, ratio: float, limit: float) -> None:
        found[title] = ratio
        print(f"{title:<55} {ratio:6.3f}   (reach {limit:.2f})")

    with running() as url, requests.Session() as session, requests.Session() as other, requests.Session() as third:
        with operation("warm", deadline=60, session=session):
            session.get(f"{url}/status")
        instrument()

        def bare(loop: Callable[[requests.Session, str], object]) -> Variant:
            def run() -> None:
                with untouched():
                    loop(session, url)

            return run

        def few(session: requests.Session, url: str) -> None:
            plain(session, url, 50)

        outside = ratios(
            {"bare": bare(few), "instrumented": lambda: few(other, url)}, "bare", rounds=rounds, repeats=repeats // 10
        )
        show("outside an operation / bare", outside["instrumented"][0], 1.02)

        provider, meters = TracerProvider(), MeterProvider()
        provider.add_span_processor(BatchSpanProcessor(Dropped()))
        trace.set_tracer_provider(provider)
        tracer = trace.get_tracer("bench")
        for title, loop in (
            ("triangle", hand_written),
            ("30 polls", lambda session, url: polled(session, url, 30)),
            ("10 plain requests", lambda session, url: plain(session, url, 10)),
        ):

            def ours(loop: Callable[[requests.Session, str], object] = loop) -> None:
                with operation("bench", deadline=60, session=other):
                    loop(other, url)

            def theirs(loop: Callable[[requests.Session, str], object] = loop) -> None:
                RequestsInstrumentor().instrument()
                with tracer.start_as_current_span("bench"):
                    loop(third, url)
                RequestsInstrumentor().uninstrument()

            uninstrument()
            share = overheads({"bare": bare(loop), "ours": ours, "theirs": theirs}, rounds=rounds, repeats=repeats // 4)
            show(f"{title}: overhead / instrumentation-requests'", share["ours"], 0.5)
        provider.shutdown()
        meters.shutdown()
        _ = metrics
    return found


if __name__ == "__main__":
    report()
