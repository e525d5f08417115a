"""A process that walks the triangle under a key, and is killed where it was told to be.

Arguments as one JSON object: url, key, store, to, spans, keyed, sampler, die.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import requests

from trihop import OperationTaken, Pacing, Provider, ReadJob, ReadState, SQLStore, SubmitUncertain, configure, operation

UNCERTAIN, TAKEN = 3, 4


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """Dies at the n-th write: before it, or with it done."""

    def __init__(self, store: SQLStore, number: int, when: str) -> None:
        self._store, self._left, self._when = store, number, when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def save(self, *args: Any, **options: Any) -> None:
        self._left -= 1
        if self._left == 0 and self._when == "before":
            die()
        self._store.save(*args, **options)
        if self._left == 0:
            die()


def trace_to(path: str, sampler: str) -> None:
    """The set-up of this process's tracing."""
    if sampler == "otlp":
        configure(file=path, service="victim")
        return
    if sampler == "collector":
        configure(otlp=path, service="victim")
        return
    from opentelemetry import trace

    if sampler == "foreign":
        from durable.foreign import ForeignProvider

        trace.set_tracer_provider(ForeignProvider(path))
        return
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

    from durable.foreign import Lines

    provider = TracerProvider(sampler={"on": ALWAYS_ON, "off": ALWAYS_OFF}[sampler])
    provider.add_span_processor(SimpleSpanProcessor(Lines(path)))
    trace.set_tracer_provider(provider)


def main(given: dict[str, Any]) -> int:
    """The triangle; 0 where it was walked to its end."""
    trace_to(given["spans"], given["sampler"])
    provider = Provider(
        "victim.jobs",
        submit=ReadJob(id="id"),
        poll=ReadState("state", pending={"running"}, succeeded={"done"}, results="result_url"),
        idempotency="Idempotency-Key" if given["keyed"] else None,
        pacing=Pacing(first=0.03, cap=0.03, floor=0, jitter=False),
    )
    store: Any = SQLStore(given["store"])
    kind, *where = given["die"].split(":")
    if kind == "save":
        store = Mortal(store, int(where[0]), where[1])
    with requests.Session() as session:
        session.trust_env = False
        print("go", flush=True)
        if kind == "wait":
            sys.stdin.readline()
        try:
            key = given["key"]
            with operation("export", deadline=60, session=session, provider=provider, key=key, store=store) as op:
                op.run("POST", given["url"] + "jobs", json={"key": key}, to=given["to"])
        except (SubmitUncertain, OperationTaken) as error:
            print(error, flush=True)
            return UNCERTAIN if isinstance(error, SubmitUncertain) else TAKEN
    if kind == "end":
        die()
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
