"""Spans under ids that an earlier process reserved: a copy of our own tracer that gives out those.

The SDK has no way to choose ids, but its tracer asks an id generator and a sampler
that are attributes of itself, from SDK 1.15 to 1.45 at least. A copy of our own tracer
is changed; nothing of anybody else's is. Other vendors' tracers have no such attributes,
and nothing is reserved with them: whoever asks checks what it got.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, NamedTuple


class Reserved(NamedTuple):
    """The ids of a span that was started and never ended, as integers; None for one that is to get its own.

    `sampled` is the decision that the trace began with, `state` its `tracestate`.
    """

    trace_id: int
    span_id: int | None
    sampled: bool = True
    state: Any = None


def tracer_for(tracer: Any, reserved: Reserved) -> Any:
    """A tracer whose next span has those ids, and which samples whatever it is asked for; None where there is none."""
    for wrapped in ("_tracer", "tracer"):  # the API's proxy, and logfire's
        tracer = getattr(tracer, wrapped, None) or tracer
    always = getattr(sys.modules.get("opentelemetry.sdk.trace.sampling"), "ALWAYS_ON", None)
    if always is None or not hasattr(tracer, "id_generator") or not hasattr(tracer, "sampler"):
        return None
    own = copy.copy(tracer)
    own.id_generator = _Ids(own.id_generator, reserved)
    own.sampler = _Kept(always, reserved.state)
    return own


class _Ids:
    """An id generator that gives out the reserved ids first."""

    def __init__(self, real: Any, reserved: Reserved) -> None:
        self._real = real
        self._trace_id = reserved.trace_id
        self._span_id = reserved.span_id

    def generate_trace_id(self) -> int:
        return self._trace_id

    def generate_span_id(self) -> int:
        span_id, self._span_id = self._span_id, None
        return int(self._real.generate_span_id()) if span_id is None else span_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Kept:
    """A sampler that keeps the decision of a trace that is sampled."""

    def __init__(self, always: Any, state: Any) -> None:
        self._always = always
        self._state = state

    def should_sample(self, *args: Any, **kwargs: Any) -> Any:
        result = self._always.should_sample(*args, **kwargs)
        if self._state is not None:
            result.trace_state = self._state
        return result

    def get_description(self) -> str:
        return "as the trace began"
