"""Processes that end right after an operation, or fork in one: `python exiting.py SCENARIO URL`; spans as lines."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

import requests
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from trihop import operation


class Lines(SpanExporter):
    """One line for each span, written at once."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write them."""
        for span in spans:
            parent = "-" if span.parent is None else f"{span.parent.span_id:016x}"
            os.write(1, f"{span.context.trace_id:032x} {span.context.span_id:016x} {parent} {span.name}\n".encode())
        return SpanExportResult.SUCCESS


class Unreachable(SpanExporter):
    """A collector that is down: nothing accepts, and nobody gives up."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait for an answer that never comes."""
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            bound.listen(1)
            bound.accept()
        return SpanExportResult.FAILURE


def traced(exporter: SpanExporter) -> TracerProvider:
    """The SDK, set up as applications do."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def forks_between_submit_and_poll(session: requests.Session, url: str) -> None:
    """The child polls and is gone; the parent ends the operation."""
    provider = traced(Lines())
    with operation("export", deadline=60, session=session) as op:
        job = op.submit("POST", url + "jobs")
        child = os.fork()
        if not child:
            op.poll(job)
            provider.force_flush(5000)
            os._exit(0)
        os.waitpid(child, 0)
    provider.force_flush(5000)


def is_recycled(session: requests.Session, url: str) -> None:
    """Ten tasks, and the process is ended as a pool ends its workers, a bounded flush after each task."""
    provider = traced(Lines())
    for _ in range(10):
        with operation("export", deadline=60, session=session) as op:
            op.run("POST", url + "jobs")
        provider.force_flush(1000)
    os._exit(0)


def has_no_collector(session: requests.Session, url: str) -> None:
    """The collector is down; the application ends without waiting for it."""
    traced(Unreachable())
    with operation("export", deadline=60, session=session) as op:
        op.run("POST", url + "jobs")
    print(op.trace_id, flush=True)


if __name__ == "__main__":
    with requests.Session() as session:
        session.trust_env = False
        globals()[sys.argv[1]](session, sys.argv[2])
