"""One operation in a process of its own; what came of it is printed as JSON.

HIDDEN names packages that this process cannot import, REMOTE a `traceparent` to
run below, INSTRUMENT what to instrument and when: "requests urllib3 before".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.abc import MetaPathFinder
from typing import Any


class Hidden(MetaPathFinder):
    """An import system without some packages."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> None:
        if any(name == hidden or name.startswith(f"{hidden}.") for hidden in self.names):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def instrument(names: Sequence[str]) -> None:
    """Activate OpenTelemetry's own instrumentations."""
    if "requests" in names:
        from opentelemetry.instrumentation.requests import RequestsInstrumentor

        RequestsInstrumentor().instrument()
    if "urllib3" in names:
        from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor

        URLLib3Instrumentor().instrument()


def exported() -> Callable[[], list[dict[str, Any]]]:
    """Set the SDK up, if it is to be; afterwards, the spans."""
    if os.environ.get("SDK") != "on":
        return list
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    log = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(log))
    trace.set_tracer_provider(provider)
    return lambda: [
        {
            "name": span.name,
            "scope": span.instrumentation_scope.name if span.instrumentation_scope is not None else "",
            "trace": format(span.context.trace_id, "032x"),
            "parent": None if span.parent is None else format(span.parent.span_id, "016x"),
            "id": format(span.context.span_id, "016x"),
        }
        for span in log.get_finished_spans()
    ]


def main() -> None:
    sys.meta_path.insert(0, Hidden(os.environ.get("HIDDEN", "").split()))
    names = os.environ.get("INSTRUMENT", "").split()
    spans = exported()
    if "before" in names:
        instrument(names)

    import requests

    from trihop import JobFailed, operation
    from trihop.testing import ScriptedServer, VirtualClock, accepted, done, failed, running

    clock = VirtualClock()
    came: dict[str, Any] = {}
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(clock=clock))
        session = stack.enter_context(requests.Session())
        session.trust_env = False
        if remote := os.environ.get("REMOTE"):
            from opentelemetry import context
            from opentelemetry.propagate import extract

            context.attach(extract({"traceparent": remote}))
        if "between" in names:  # trihop has put its bounds into urllib3 already
            with operation("first", deadline=60, session=session, clock=clock) as op:
                server.script(done())
                op.poll(f"{server.url}jobs/0")
        if "between" in names or "after" in names:
            instrument(names)
        server.script(
            accepted(),
            running(),
            done(result_url="{url}files/1"),
            "a,b\n",
            accepted(),
            failed("no such column"),
            "theirs",
            "theirs, inside",
            "theirs, afterwards",
        )
        before = len(server.calls)
        with operation("export", deadline=60, session=session, clock=clock) as op:
            came["content"] = op.run("POST", f"{server.url}jobs").text
            came["trace_id"], came["id"] = op.trace_id, op.id
        try:
            with operation("failing", deadline=60, session=session, clock=clock) as op:
                op.run("POST", f"{server.url}jobs")
        except JobFailed as error:
            came["message"], came["error_trace_id"] = str(error), error.trace_id
        came["traceparent"] = [call.headers.get("traceparent") for call in server.calls[before:]]
        session.get(f"{server.url}theirs")
        with operation("around", deadline=60, session=session, clock=clock):
            session.get(f"{server.url}inside")
        session.get(f"{server.url}afterwards")
    came["spans"] = spans()
    came["sdk"] = any(name.startswith("opentelemetry.sdk") for name in sys.modules)
    print(json.dumps(came))


if __name__ == "__main__":
    main()
