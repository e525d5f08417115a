"""A trace as plain values: what a picture, a page or an export of it is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trihop._telemetry import semconv

Scalar = str | int | float | bool | None
Value = Scalar | tuple[Scalar, ...]


class Attributes(Mapping[str, Value]):
    """Attributes by name, with readers that answer None where a value is missing or of another kind.

    A trace file may come from anywhere, so nothing about it is taken for granted.
    """

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Attributes({self._values!r})"

    def text(self, key: str) -> str | None:
        """The value as text, None where there is none; an empty text counts as none."""
        value = self._values.get(key)
        return None if value is None or isinstance(value, tuple) else str(value) or None

    def number(self, key: str) -> float | None:
        """The value where it is a number; NaN, infinities and booleans are none."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) < float("inf") else None

    def count(self, key: str) -> int | None:
        """The value where it is a number, as a whole one."""
        number = self.number(key)
        return None if number is None else int(number)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one, a missing value an empty list."""
        value = self._values.get(key)
        values = value if isinstance(value, tuple) else (value,)
        return tuple(str(item) for item in values if item is not None and item != "")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one instant of a span."""

    name: str
    at_ns: int
    attributes: Attributes = field(default_factory=Attributes)


@dataclass(frozen=True, slots=True)
class Link:
    """A pointer to another span, in this trace or elsewhere."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are lower-case hex, times nanoseconds since the epoch; `status` is unset, ok or error."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    kind: str = "internal"
    status: str = "unset"
    description: str = ""
    attributes: Attributes = field(default_factory=Attributes)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    dropped_events: int = 0
    resource: Attributes = field(default_factory=Attributes)
    scope: tuple[str, str] = ("", "")
    """The name and version of the library that made it; empty where the file does not say."""

    @property
    def service(self) -> str | None:
        """The service it was made in."""
        return self.resource.text("service.name")

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def hop(self) -> str | None:
        """submit, poll, download or request; None on spans that are no hop."""
        return self.attributes.text(semconv.HOP)

    @property
    def operation_id(self) -> str | None:
        """The operation this span tells of; None on spans that are not trihop's."""
        return self.attributes.text(semconv.OPERATION_ID)

    @property
    def is_root(self) -> bool:
        """Whether this is the span over a whole operation, which carries the operation's own name."""
        name = self.attributes.text(semconv.OPERATION_NAME)
        return name is not None and name == self.name and self.hop is None


@dataclass(frozen=True, slots=True)
class Row:
    """A span in its place in the tree; `last` says, per level, whether that ancestor has no sibling below it."""

    span: Span
    last: tuple[bool, ...]


@dataclass(frozen=True)
class Operation:
    """The spans of one operation. `root` is None where it was not written (yet)."""

    root: Span | None
    spans: tuple[Span, ...]

    @property
    def name(self) -> str:
        """The name the caller gave."""
        told = (span.attributes.text(semconv.OPERATION_NAME) for span in self.spans)
        return next((name for name in told if name is not None), self.spans[0].name)

    def hop(self, hop: str) -> Span | None:
        """The last span of that hop."""
        return next((span for span in reversed(self.spans) if span.hop == hop), None)

    @property
    def result(self) -> str | None:
        """success, partial, failure, timeout, cancellation or error; None without a root that says so."""
        return None if self.root is None else self.root.attributes.text(semconv.OPERATION_RESULT)


@dataclass(frozen=True)
class Trace:
    """All spans of one trace, by start. `spans` is never empty."""

    id: str
    spans: tuple[Span, ...]

    @cached_property
    def start_ns(self) -> int:
        """The first instant any of its spans tells of."""
        return min(span.start_ns for span in self.spans)

    @cached_property
    def end_ns(self) -> int:
        """The last instant any of its spans tells of."""
        return max(span.end_ns for span in self.spans)

    @property
    def duration_s(self) -> float:
        """Seconds from the first start to the last end."""
        return (self.end_ns - self.start_ns) / 1e9

    @cached_property
    def by_id(self) -> dict[str, Span]:
        """The spans under their ids."""
        return {span.span_id: span for span in self.spans}

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The operations told of, by their first span; usually one."""
        grouped: dict[str, list[Span]] = {}
        for span in self.spans:
            if span.operation_id is not None:
                grouped.setdefault(span.operation_id, []).append(span)
        return tuple(
            Operation(next((span for span in spans if span.is_root), None), tuple(spans)) for spans in grouped.values()
        )

    @property
    def name(self) -> str:
        """The first operation's name, else that of the topmost span."""
        return self.operations[0].name if self.operations else self.rows[0].span.name

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The tree, top down. A span whose parent is not in the file stands at the top; a circle of parents is cut."""
        children: dict[str | None, list[Span]] = {}
        for span in self.spans:
            known = span.parent_id in self.by_id and span.parent_id != span.span_id
            children.setdefault(span.parent_id if known else None, []).append(span)
        rows: list[Row] = []
        seen: set[str] = set()
        tops = children.get(None, [])
        # What no top leads to hangs in a circle; each such span is taken as a top if it is still unseen by then.
        waiting = [Row(span, ()) for span in reversed(self.spans)]
        waiting += [Row(span, ()) for span in reversed(tops)]
        while waiting:
            row = waiting.pop()
            if row.span.span_id in seen:
                continue
            seen.add(row.span.span_id)
            rows.append(row)
            below = children.get(row.span.span_id, [])
            waiting += [Row(span, (*row.last, span is below[-1])) for span in reversed(below)]
        return tuple(rows)
