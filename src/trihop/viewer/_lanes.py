"""Bars on a time axis, as SVG that needs no style of its own: positions are shares of the lane's width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape

from trihop._telemetry import semconv
from trihop.viewer._attempts import Attempt, attempts, gaps, told_apart
from trihop.viewer._axis import axis_label, axis_step
from trihop.viewer._model import Span, Trace
from trihop.viewer._words import clock, plain, seconds

_MOST_MARKS = 8
_LONG_S = 60.0
_DEADLINE_IN_SIGHT = 1.2
_NARROWEST = 0.25
_FINEST = 0.7  # per cent of a lane: attempts closer than that share a place


@dataclass(frozen=True)
class Lanes:
    """The time axis that all bars of a trace share.

    It ends with the trace, or with the deadline of its first operation where that is not much later.
    """

    trace: Trace

    @cached_property
    def deadline_ns(self) -> int | None:
        """The deadline of the first operation, None where it has none or it is out of sight."""
        root = next((operation.root for operation in self.trace.operations), None)
        duration_s = None if root is None else root.attributes.number(semconv.DEADLINE_DURATION)
        if root is None or duration_s is None:
            return None
        at_ns = root.start_ns + round(duration_s * 1e9)
        length_ns = self.trace.end_ns - self.trace.start_ns
        return at_ns if at_ns <= self.trace.start_ns + _DEADLINE_IN_SIGHT * length_ns else None

    @cached_property
    def total_ns(self) -> int:
        """From the first start to the right edge."""
        return max(self.trace.end_ns, self.deadline_ns or 0) - self.trace.start_ns or 1

    def place(self, at_ns: float) -> float:
        """Where an instant stands, in per cent of the width."""
        return min(max((at_ns - self.trace.start_ns) * 100 / self.total_ns, 0.0), 100.0)

    def after(self, at_ns: int) -> str:
        """How long after the start of the trace; all times of a trace in one form."""
        after_s = (at_ns - self.trace.start_ns) / 1e9
        return f"+{clock(after_s) if self.trace.duration_s >= _LONG_S else seconds(after_s)}"

    def axis(self) -> str:
        """The marks, and the deadline where it is in sight."""
        total_s = self.total_ns / 1e9
        step_s = axis_step(total_s, _MOST_MARKS)
        marks = (step_s * number for number in range(int(total_s / step_s) + 1))
        told = [
            _text(place, axis_label(at_s))
            for at_s in marks
            if (place := self.place(self.trace.start_ns + at_s * 1e9)) < 95 and not self._is_deadline(place)
        ]
        if self.deadline_ns is not None:
            place = self.place(self.deadline_ns)
            told.append(f'<text class="deadline" x="{_number(place)}%" y="12" text-anchor="end">deadline</text>')
        return f'<svg class="lane axis" aria-hidden="true">{"".join(told)}</svg>'

    def lane(self, span: Span) -> str:
        """The bar of one span, with its attempts on it."""
        return f'<svg class="lane" aria-hidden="true">{"".join(self._drawn(span))}</svg>'

    def _is_deadline(self, place: float) -> bool:
        return self.deadline_ns is not None and 0 <= self.place(self.deadline_ns) - place < 14

    def _drawn(self, span: Span) -> Iterator[str]:
        if self.deadline_ns is not None:
            place = _number(self.place(self.deadline_ns))
            yield f'<line class="deadline" x1="{place}%" x2="{place}%" y1="0" y2="100%"/>'
        first, last = self.place(span.start_ns), self.place(span.end_ns)
        if span.start_ns == span.end_ns:
            yield _glyph("instant", first, span.name)
            return
        if span.hop != "poll":
            yield _bar("whole" if span.is_root else "error" if span.status == "error" else "bar", first, last, 6, 8)
        else:
            yield _bar("pause", first, last, 9, 2)
        yield from self._absences(span)
        kept = attempts(span)
        for begin_ns, end_ns in gaps(kept):
            left, right = _number(self.place(begin_ns)), _number(self.place(end_ns))
            yield f'<line class="folded" x1="{left}%" x2="{right}%" y1="10" y2="10"/>'
        if told_apart(span, kept):
            yield from self._attempts(kept)

    def _absences(self, span: Span) -> Iterator[str]:
        """The stretches of an operation in which no process was there."""
        if span.operation_id is None or not (span.is_root or span.hop == "poll"):
            return
        for other in self.trace.spans:
            gap_s = other.attributes.number(semconv.SEGMENT_GAP)
            if gap_s and other.operation_id == span.operation_id:
                yield _bar("absent", self.place(other.start_ns - gap_s * 1e9), self.place(other.start_ns), 3, 14)

    def _attempts(self, kept: tuple[Attempt, ...]) -> Iterator[str]:
        for attempt in kept:
            if attempt.duration_s:
                first, last = self.place(attempt.at_ns), self.place(attempt.at_ns + attempt.duration_s * 1e9)
                if last - first > _FINEST:
                    yield _bar("bar", first, last, 6, 8)
        shown: dict[int, Attempt] = {}
        for sort in ("ok", "changed", "error"):  # the most telling last: where several share a place, it is seen
            for attempt in kept:
                if attempt.sort == sort:
                    shown[round(self.place(attempt.at_ns) / _FINEST)] = attempt
        for attempt in shown.values():
            told = ", ".join(part for part in (attempt.answer, attempt.pause, *attempt.remarks) if part)
            label = f"{attempt.number:,} at {self.after(attempt.at_ns)}: {told}"
            yield _glyph(attempt.sort, self.place(attempt.at_ns), label)


def _bar(kind: str, first: float, last: float, top: int, height: int) -> str:
    width = max(last - first, _NARROWEST)
    left = _number(min(first, 100 - _NARROWEST))
    return f'<rect class="{kind}" x="{left}%" width="{_number(width)}%" y="{top}" height="{height}"/>'


def _glyph(sort: str, place: float, label: str) -> str:
    shape = "changed" if sort == "instant" else sort
    return (
        f'<use class="{sort}" href="#{shape}" x="{_number(place)}%" y="10"><title>{escape(plain(label))}</title></use>'
    )


def _text(place: float, label: str) -> str:
    return f'<text x="{_number(place)}%" y="12">{escape(label)}</text>'


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
