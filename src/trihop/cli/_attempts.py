"""The attempts of a hop as a compact table; a line for those that were folded away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from trihop._telemetry import semconv
from trihop.cli._paper import Glyphs, Line, Paper, Piece
from trihop.viewer import Attempt, Span, Trace, attempts, clock, counted, folded, seconds, told_apart, total_attempts

_AT_EACH_END = 32  # a span keeps 48; a file may come from elsewhere and hold any number
_NARROWEST_ANSWER = 8
_ROOM_FOR_REST = 18
_LONG_S = 60.0


def shape(glyphs: Glyphs, sort: str) -> str:
    """The glyph of a sort of attempt, the same on the bar and in the table."""
    return {"ok": glyphs.ok, "changed": glyphs.changed, "error": glyphs.error}[sort]


def table(span: Span, trace: Trace, paper: Paper) -> Iterator[Line]:
    """The attempts kept on a hop's span; nothing where there is only one and it went well."""
    kept = attempts(span)
    if not told_apart(span, kept):
        return
    total = total_attempts(span)
    if len(kept) > 2 * _AT_EACH_END:
        kept = (*kept[:_AT_EACH_END], *kept[-_AT_EACH_END:])
    errors = span.attributes.count(semconv.POLL_ERRORS) or 0
    failed = f", {counted(errors, 'error')}" if errors else ""
    columns = _Columns.of(kept, total, trace, paper)
    yield ()
    yield (Piece(paper.fit(f"{span.name}: {counted(total, 'attempt')}{failed}", paper.width).rstrip(), "title"),)
    yield (Piece(f"  {columns.figures('#', 'at', 'took')}{'answer':<{columns.answer}}  then", "dim"),)
    for row in folded(kept, total):
        if isinstance(row, int):
            yield (Piece(columns.indent), Piece(paper.text(f"… {row:,} more"), "dim"))
        else:
            yield from columns.row(row, trace, paper)


@dataclass(frozen=True, slots=True)
class _Columns:
    """How wide each column is, so that all rows of a table stand alike."""

    number: int
    at: int
    took: int
    answer: int

    @classmethod
    def of(cls, kept: Sequence[Attempt], total: int, trace: Trace, paper: Paper) -> _Columns:
        number = len(f"{total:,}")
        at = max(len("at"), *(len(_at(attempt, trace)) for attempt in kept))
        took = max(len("took"), *(len(_took(attempt)) for attempt in kept))
        answer = max(len("answer"), *(cell_len(paper.text(attempt.answer)) for attempt in kept))
        left = paper.width - (number + at + took + 10) - _ROOM_FOR_REST
        return cls(number, at, took, max(_NARROWEST_ANSWER, min(answer, left)))

    @property
    def indent(self) -> str:
        return " " * (self.number + 4)

    def figures(self, number: str, at: str, took: str) -> str:
        return f"{number:>{self.number}}  {at:>{self.at}}  {took:>{self.took}}  "

    def row(self, attempt: Attempt, trace: Trace, paper: Paper) -> Iterator[Line]:
        sort = attempt.sort
        figures = self.figures(f"{attempt.number:,}", _at(attempt, trace), _took(attempt))
        before = 2 + len(figures) + self.answer + 2
        then = ", ".join(part for part in (attempt.pause, *attempt.remarks) if part)
        headers = ", ".join(f"{name}={value}" for name, value in attempt.telling)
        together = ", ".join(part for part in (then, headers) if part)
        apart = bool(headers) and len(paper.wrap(together, paper.width - before)) > 1
        first, *rest = paper.wrap(then if apart else together, paper.width - before)
        yield (
            Piece(f"{shape(paper.glyphs, sort)} ", sort),
            Piece(figures),
            Piece(paper.fit(attempt.answer, self.answer), "" if sort == "ok" else sort),
            Piece(f"  {first}"),
        )
        for line in rest:
            yield (Piece(" " * before + line),)
        if apart:  # on lines of their own: an id that is to be quoted should not be broken
            for line in paper.wrap(headers, paper.width - len(self.indent)):
                yield (Piece(self.indent + line, "dim"),)


def _at(attempt: Attempt, trace: Trace) -> str:
    """When it began, after the start of the trace; all rows of a trace in one form."""
    after_s = (attempt.at_ns - trace.start_ns) / 1e9
    return f"+{clock(after_s) if trace.duration_s >= _LONG_S else seconds(after_s)}"


def _took(attempt: Attempt) -> str:
    return "" if attempt.duration_s is None else seconds(attempt.duration_s)
