"""Requests that the caller's own code sends: outside an operation, and inside one against OpenTelemetry's own."""

from __future__ import annotations

import http.client
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import Any

import requests
import urllib3.connection
from opentelemetry import trace
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.bench.server import running
from tests.bench.triangle import Dropped, hand_written
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.util import Retry
from urllib3.util import connection as urllib3_connect
from urllib3.util.ssltransport import SSLTransport

from trihop import operation

Loop = Callable[[requests.Session, str], object]

# Where trihop puts its bounds, for the variant that is to have none of them.
_BOUNDED: tuple[tuple[Any, str], ...] = (
    (requests.Session, "send"),
    (HTTPConnectionPool, "_get_conn"),
    (urllib3_connect, "create_connection"),
    (urllib3.connection, "ssl_wrap_socket"),
    (SSLTransport, "_ssl_io_loop"),
    (HTTPConnection, "_tunnel"),
    (HTTPConnection, "putrequest"),
    (HTTPConnection, "putheader"),
    (HTTPConnection, "send"),
    (HTTPConnection, "getresponse"),
    (Retry, "increment"),
    (http.client, "parse_headers"),
)
_UNTOUCHED = [getattr(owner, name) for owner, name in _BOUNDED]


@contextmanager
def untouched() -> Iterator[None]:
    """requests and urllib3 as they were before trihop was there."""
    now = [getattr(owner, name) for owner, name in _BOUNDED]
    _put(_UNTOUCHED)
    try:
        yield
    finally:
        _put(now)


@contextmanager
def beside_an_operation() -> Iterator[None]:
    """With an operation open in another context, so that `Session.send` is wrapped, and nothing inside it."""
    block = operation("elsewhere", deadline=600)
    elsewhere = copy_context()
    elsewhere.run(block.__enter__)
    try:
        yield
    finally:
        elsewhere.run(block.__exit__, None, None, None)


@contextmanager
def instrumented() -> Iterator[None]:
    """OpenTelemetry's own instrumentation."""
    RequestsInstrumentor().instrument()
    try:
        yield
    finally:
        RequestsInstrumentor().uninstrument()


def _put(functions: list[Any]) -> None:
    for (owner, name), function in zip(_BOUNDED, functions, strict=True):
        setattr(owner, name, function)


def plain(count: int) -> Loop:
    """Requests that nothing is known of: of each its own span."""

    def loop(session: requests.Session, url: str) -> None:
        for number in range(count):
            assert session.get(f"{url}/results/{number}", timeout=30).content

    return loop


def polls(count: int) -> Loop:
    """A submit and a long row of polls: two spans."""

    def loop(session: requests.Session, url: str) -> None:
        job = session.post(f"{url}/jobs", timeout=30).json()["id"]
        for _ in range(count):
            session.get(f"{url}/status/{job}", timeout=30).json()

    return loop


Variant = tuple[AbstractContextManager[None], Callable[[], object]]


def cpu_times(variants: dict[str, Callable[[], Variant]], rounds: int) -> dict[str, float]:
    """Seconds of CPU that each takes, the median of rounds in which they take turns; setting up does not count."""
    seen: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        names = list(variants)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            around, run = variants[name]()
            with around:
                began = time.process_time()
                run()
                seen[name].append(time.process_time() - began)
    return {name: statistics.median(times[1:]) for name, times in seen.items()}


def report(*, rounds: int = 61) -> dict[str, float]:
    """Print the table; the ratios by name."""
    found: dict[str, float] = {}

    def show(title: str, ratio: float, reach: str) -> None:
        found[title] = ratio
        print(f"{title:<55} {ratio:6.2f}   ({reach})")

    with running() as url, requests.Session() as session:
        with operation("warm", deadline=60, session=session):
            session.get(f"{url}/status")
        outside = cpu_times(
            {
                "bare": lambda: (untouched(), lambda: plain(50)(session, url)),
                "outside": lambda: (beside_an_operation(), lambda: plain(50)(session, url)),
            },
            rounds * 2,
        )
        show("request outside an operation / bare", outside["outside"] / outside["bare"], "reach 1.02")

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Dropped()))
        trace.set_tracer_provider(provider)
        tracer = trace.get_tracer("bench")

        def inside(loop: Loop) -> None:
            with operation("bench", deadline=60, session=session):
                loop(session, url)

        def below_a_root(loop: Loop) -> None:
            with tracer.start_as_current_span("bench"):
                loop(session, url)

        for title, loop, reach in (
            ("loop of 300 polls", polls(300), "reach 0.50"),
            ("loop of 30 polls", polls(30), "to know"),
            ("triangle of 7 requests", hand_written, "to know"),
            ("10 plain requests", plain(10), "to know"),
        ):
            took = cpu_times(
                {
                    "bare": lambda loop=loop: (untouched(), lambda: loop(session, url)),  # type: ignore[misc]
                    "ours": lambda loop=loop: (nullcontext(), lambda: inside(loop)),  # type: ignore[misc]
                    "theirs": lambda loop=loop: (instrumented(), lambda: below_a_root(loop)),  # type: ignore[misc]
                },
                rounds // 3 if title.startswith("loop of 300") else rounds,
            )
            above = (took["ours"] - took["bare"]) / (took["theirs"] - took["bare"])
            show(f"{title}, overhead / that of otel's", above, reach)
        provider.shutdown()
    return found


if __name__ == "__main__":
    report()
