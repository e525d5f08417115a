"""Finished spans, and their trace as a text."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

# Different at every run, or said already by the span's name and url.full.
_OMITTED = frozenset({"trihop.operation.id", "trihop.operation.name", "server.address", "server.port"})
_LOOPBACK_PORT = re.compile(r"\b(127\.0\.0\.1|localhost):\d+")


class SpanLog:
    """The spans that have ended since the log was begun or cleared."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[ReadableSpan] = []

    def add(self, spans: Iterable[ReadableSpan]) -> None:
        """Note spans that have ended."""
        with self._lock:
            self._spans.extend(spans)

    def clear(self) -> None:
        """Forget what was noted."""
        with self._lock:
            self._spans.clear()

    @property
    def all(self) -> list[ReadableSpan]:
        """Every span, in the order in which they ended."""
        with self._lock:
            return list(self._spans)

    def named(self, name: str) -> ReadableSpan:
        """The one span of this name.

        Raises:
            AssertionError: There is none, or more than one; it names all there are.
        """
        found = [span for span in self.all if span.name == name]
        if len(found) == 1:
            return found[0]
        names = ", ".join(repr(span.name) for span in self.all) or "none"
        raise AssertionError(
            f"{len(found) or 'no'} spans named {name!r}; in the order of their ends there are: {names}"
        )

    @property
    def roots(self) -> list[ReadableSpan]:
        """Spans whose parent is not in the log, by start."""
        spans = self.all
        known = {_id(span) for span in spans}
        return _by_start(span for span in spans if span.parent is None or span.parent.span_id not in known)

    def children(self, span: ReadableSpan) -> list[ReadableSpan]:
        """The spans right below this one, by start."""
        return _by_start(
            child
            for child in self.all
            if child.parent is not None
            and child.parent.span_id == _id(span)
            and child.parent.trace_id == _trace_id(span)
        )

    def tree(self, *, attributes: Collection[str] | None = None) -> str:
        """Every trace as a text: name, kind and status of each span, its attributes and events, its children below.

        Made for messages and snapshots: ids and the ports of loopback servers are
        left out, as is what a span's parent shows with the same value.

        Args:
            attributes: The attributes to show, on spans and events. None: all of them.
        """
        return "\n".join(line for root in self.roots for line in self._lines(root, {}, "", attributes))

    def _lines(
        self, span: ReadableSpan, above: Mapping[str, object], indent: str, wanted: Collection[str] | None
    ) -> Iterator[str]:
        yield f"{indent}{span.name} [{span.kind.name}]{_status(span)}"
        own = dict(span.attributes or {})
        for key, value in sorted(own.items()):
            if above.get(key) != value and (key not in _OMITTED if wanted is None else key in wanted):
                yield f"{indent}    {key}: {_shown(value)}"
        for event in span.events:
            fields = sorted((event.attributes or {}).items())
            told = [f" {key}={_shown(value)}" for key, value in fields if wanted is None or key in wanted]
            yield f"{indent}    * {event.name}{''.join(told)}"
        for child in self.children(span):
            yield from self._lines(child, {**above, **own}, indent + "  ", wanted)

    def __repr__(self) -> str:
        return f"SpanLog({', '.join(repr(span.name) for span in self.all)})"


def _id(span: ReadableSpan) -> int | None:
    return None if span.context is None else span.context.span_id


def _trace_id(span: ReadableSpan) -> int | None:
    return None if span.context is None else span.context.trace_id


def _by_start(spans: Iterable[ReadableSpan]) -> list[ReadableSpan]:
    return sorted(spans, key=lambda span: span.start_time or 0)


def _status(span: ReadableSpan) -> str:
    if span.status.status_code.name == "UNSET":
        return ""
    description = span.status.description
    return f" {span.status.status_code.name}" + (f": {_shown(description)}" if description else "")


def _shown(value: object) -> str:
    match value:
        case float():
            return f"{value:g}"
        case str():
            return _LOOPBACK_PORT.sub(r"\1", value)
        case tuple() | list():
            return f"[{', '.join(map(_shown, value))}]"
        case _:
            return str(value)
