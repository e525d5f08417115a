"""What an application has, whatever its engine: provider, store, sessions, worker, and the block that begins."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from durable.foreign import Lines
from trihop import Operation, OperationTaken, Provider, ReadJob, ReadState, Ready, SQLStore, Worker, operation
from trihop._clock import CorrectedClock, SystemClock

GIVEN: dict[str, Any] = json.loads(os.environ["TRIHOP_CROWD"])
"""api, store, folder; and clock_off_s, which is this process's alone."""
LEASE_S = 3.0

JOBS = Provider(
    "crowd.jobs",
    submit=ReadJob(id="id"),
    poll=ReadState("state", pending={"running"}, succeeded={"done"}, results="result_url"),
    idempotency="Idempotency-Key",
)
_clock = CorrectedClock(SystemClock(), float(os.environ.get("TRIHOP_CLOCK_OFF", 0)))
_mine = threading.local()


def session_for(provider: str) -> requests.Session:
    """A session for each thread of each process, which tells the server whom it would kill."""
    if getattr(_mine, "pid", None) != os.getpid():
        _mine.pid, _mine.session = os.getpid(), requests.Session()
        _mine.session.trust_env = False
        _mine.session.headers["X-Worker"] = str(os.getpid())
    session: requests.Session = _mine.session
    return session


def finish(op: Operation, ready: Ready) -> None:
    op.download(ready, to=f"{GIVEN['folder']}/{op.key}.bin")


def trace_to(path: str) -> None:
    """A line for each span, written as it ends: a killed process loses what has not ended, and nothing else."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines(path)))
    trace.set_tracer_provider(provider)


trace_to(f"{GIVEN['folder']}/spans.jsonl")
store = SQLStore(GIVEN["store"], lease=LEASE_S)
worker = Worker(store, session=session_for, providers=[JOBS], finish=finish, clock=_clock)


def begin(key: str) -> None:
    """The block: it submits, and leaves the rest to the workers. It may come twice."""
    try:
        with operation(
            "export",
            deadline=900,
            session=session_for(JOBS.name),
            provider=JOBS,
            key=key,
            store=store,
            store_payload=True,
            clock=_clock,
        ) as op:
            op.submit("POST", f"{GIVEN['api']}/jobs", json={"key": key})
    except OperationTaken:
        pass  # somebody is at it
