"""A trace as a waterfall: a row a span on one time axis, then the attempts, then the story. Draws, decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from trihop.cli._attempts import shape, table
from trihop.cli._paper import Glyphs, Line, Paper, Piece
from trihop.viewer import (
    Row,
    Span,
    Trace,
    attempts,
    axis_label,
    axis_step,
    gaps,
    instant,
    notes,
    seconds,
    story,
    told_apart,
)

_COLUMNS_A_MARK = 11
_STYLE_OF = {"error": "error", "result": "result", "state": "", "wait": "", "request": "dim", "link": "dim"}


def draw(trace: Trace, paper: Paper) -> Iterator[Line]:
    """The whole picture of one trace, line by line, no line wider than the paper."""
    rows = trace.rows
    names = max(cell_len(_tree(row, paper.glyphs) + paper.text(row.span.name)) for row in rows)
    names = max(12, min(names, max(20, paper.width // 3)))
    times = max(len(seconds(row.span.duration_s)) for row in rows)
    scale = _Scale(trace.start_ns, max(trace.end_ns - trace.start_ns, 1), paper.width - names - times - 2)

    yield from _heading(trace, paper)
    yield (Piece(" " * (names + times + 2)), Piece(_axis(scale, paper.glyphs), "dim"))
    used: set[str] = set()
    for row, following in zip(rows, (*rows[1:], None), strict=True):
        bar = _bar(row.span, scale, paper.glyphs)
        used |= {piece.text[0] for piece in bar if piece.text.strip()}
        failed = row.span.status == "error"
        yield (
            Piece(_tree(row, paper.glyphs), "dim"),
            Piece(paper.fit(row.span.name, names - 2 * len(row.last)), "error" if failed else "title"),
            Piece(f" {seconds(row.span.duration_s):>{times}} "),
            *bar,
        )
        has_children = following is not None and len(following.last) > len(row.last)
        yield from _notes(row, trace, paper, has_children=has_children)
    yield from _legend(used, paper)
    for row in rows:
        yield from table(row.span, trace, paper)
    yield from _stories(trace, paper)


def _heading(trace: Trace, paper: Paper) -> Iterator[Line]:
    result = next((operation.result for operation in trace.operations), None)
    services = list(dict.fromkeys(span.service for span in trace.spans if span.service))
    parts = (trace.name, result, seconds(trace.duration_s), instant(trace.start_ns), ", ".join(services))
    for line in paper.wrap(" · ".join(part for part in parts if part), paper.width):
        yield (Piece(line, "title"),)
    yield ()


@dataclass(frozen=True, slots=True)
class _Scale:
    start_ns: int
    total_ns: int
    width: int

    def column(self, at_ns: int) -> int:
        column = (at_ns - self.start_ns) * self.width // self.total_ns
        return max(0, min(column, self.width - 1))


def _axis(scale: _Scale, glyphs: Glyphs) -> str:
    total_s = scale.total_ns / 1e9
    step_s = axis_step(total_s, scale.width / _COLUMNS_A_MARK)
    line = ""
    at_s = 0.0
    while at_s < total_s:
        column = scale.column(scale.start_ns + round(at_s * 1e9))
        label = glyphs.tick + axis_label(at_s)
        if column + len(label) > scale.width:
            break
        line = line.ljust(column) + label
        at_s += step_s
    return line


def _tree(row: Row, glyphs: Glyphs) -> str:
    if not row.last:
        return ""
    above = "".join("  " if last else glyphs.pipe for last in row.last[:-1])
    return above + (glyphs.corner if row.last[-1] else glyphs.branch)


def _bar(span: Span, scale: _Scale, glyphs: Glyphs) -> tuple[Piece, ...]:
    first, last = scale.column(span.start_ns), scale.column(span.end_ns)
    if span.start_ns == span.end_ns:
        return (Piece(" " * first), Piece(glyphs.instant, "changed"))
    body = Piece(glyphs.pause, "pause") if span.hop == "poll" else Piece(glyphs.bar, "bar")
    cells = [body] * (last - first + 1)

    def put(column: int, piece: Piece) -> None:
        if first <= column <= last:
            cells[column - first] = piece

    kept = attempts(span)
    for begin_ns, end_ns in gaps(kept):
        for column in range(scale.column(begin_ns) + 1, scale.column(end_ns)):
            put(column, Piece(glyphs.folded, "pause"))
    if told_apart(span, kept):
        for sort in ("ok", "changed", "error"):  # the most telling last: where several share a column, it is seen
            for attempt in kept:
                if attempt.sort == sort:
                    put(scale.column(attempt.at_ns), Piece(shape(glyphs, sort), sort))
    return (Piece(" " * first), *_runs(cells))


def _runs(cells: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one style as one piece."""
    run, style = "", ""
    for cell in cells:
        if cell.style != style and run:
            yield Piece(run, style)
            run = ""
        run, style = run + cell.text, cell.style
    yield Piece(run, style)


def _notes(row: Row, trace: Trace, paper: Paper, *, has_children: bool) -> Iterator[Line]:
    glyphs = paper.glyphs
    indent = "".join("  " if last else glyphs.pipe for last in row.last) + (glyphs.pipe if has_children else "  ")
    indent = indent[: paper.width // 2]
    for sort, text in notes(row.span, trace):
        mark = f"{glyphs.error} " if sort == "error" else ""
        for number, line in enumerate(paper.wrap(mark + text, paper.width - len(indent) - 2)):
            yield (Piece(indent, "dim"), Piece(line if number == 0 else f"  {line}", _STYLE_OF[sort]))


def _legend(used: set[str], paper: Paper) -> Iterator[Line]:
    glyphs = paper.glyphs
    meanings = {
        glyphs.ok: "attempt",
        glyphs.changed: "state changed",
        glyphs.error: "error",
        glyphs.folded: "attempts folded away",
        glyphs.instant: "instant",
    }
    told = [f"{glyph} {meaning}" for glyph, meaning in meanings.items() if glyph in used]
    if told:
        yield ()
        for line in paper.wrap(", ".join(told), paper.width):
            yield (Piece(line, "dim"),)


def _stories(trace: Trace, paper: Paper) -> Iterator[Line]:
    for operation in trace.operations:
        yield ()
        for text in story(operation).lines:
            for line in paper.wrap(text, paper.width):
                yield (Piece(line),)
    yield ()
    yield (Piece(f"trace {paper.text(trace.id)}", "dim"),)
