"""An operation in a process that forks; spans go to standard output, a line each: `python forked.py SCENARIO URL`."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence

import requests
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from trihop import operation
from trihop._middleware import cover as _middleware


class Lines(SpanExporter):
    """Writes what it is given at once, so that two processes do not write into one another."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            told = {
                "name": span.name,
                "id": span.context.span_id,
                "trace": span.context.trace_id,
                "parent": span.parent and span.parent.span_id,
                "attempts": (span.attributes or {}).get("trihop.poll.attempts"),
                "here": os.getpid() == PARENT,
            }
            os.write(1, json.dumps(told).encode() + b"\n")
        return SpanExportResult.SUCCESS


PARENT = os.getpid()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(Lines()))
trace.set_tracer_provider(provider)


def leave(child: int) -> None:
    """The end of either process: the child's without any clean-up but its spans, as pools end theirs."""
    provider.force_flush(5000)
    if not child:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    provider.force_flush(5000)
    sys.exit(os.waitstatus_to_exitcode(status))


def by_the_engine(session: requests.Session, url: str) -> None:
    """A fork between submit and poll; the child waits for the job, and leaves its block like any other."""
    with operation("export", deadline=60, session=session) as op:
        job = op.submit("POST", f"{url}jobs")
        child = os.fork()
        if not child:
            op.poll(job)
    leave(child)


def by_a_loop(session: requests.Session, url: str) -> None:
    """The same with a loop of the caller's own, in both processes."""
    with operation("export", deadline=60, session=session):
        session.post(f"{url}jobs")
        session.get(f"{url}jobs/J-1")
        session.get(f"{url}jobs/J-1")
        child = os.fork()
        if child:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        else:
            session.get(f"{url}jobs/J-1")
            session.get(f"{url}jobs/J-1")
            session.get(f"{url}jobs/J-1")
    leave(child)


def out_of_the_block(session: requests.Session, url: str) -> None:
    """A child that ends within the block, as `multiprocessing` does."""
    with operation("export", deadline=60, session=session):
        child = os.fork()
        if not child:
            session.post(f"{url}jobs")
            leave(child)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    leave(child)


def with_locks_held(session: requests.Session, url: str) -> None:
    """A fork at the moment at which other threads hold our locks; the child opens an operation of its own."""
    held = threading.Event()
    forked = threading.Event()

    def hold() -> None:
        with _middleware._lock:
            held.set()
            forked.wait(30)

    with operation("outer", deadline=60, session=session) as op:

        def hold_the_watch() -> None:
            with op._watch._lock:
                hold()

        thread = threading.Thread(target=hold_the_watch)
        thread.start()
        held.wait(30)
        child = os.fork()
        forked.set()
        if not child:
            session.post(f"{url}jobs")
            with operation("inner", deadline=60, session=session):
                session.get(f"{url}jobs/J-1")
            leave(child)
        thread.join()
    leave(child)


if __name__ == "__main__":
    with requests.Session() as session:
        session.trust_env = False
        globals()[sys.argv[1]](session, sys.argv[2])
