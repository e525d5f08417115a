"""The attempts of a hop as a compact table; a line for those that were folded away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trihop import _semconv
from trihop.cli._paper import Glyphs, Line, Paper, Piece
from trihop.viewer import Attempt, Span, Trace, attempts, counted, folded, seconds, total_attempts

_AT_EACH_END = 32  # a span keeps 48; a file may come from elsewhere and hold any number
_NARROWEST_ANSWER = 8
_ROOM_FOR_REST = 18


def sort_of(attempt: Attempt) -> str:
    """error, changed or ok: which shape and style an attempt is drawn in."""
    return "error" if attempt.error else "changed" if attempt.changed else "ok"


def told_apart(span: Span, kept: Sequence[Attempt]) -> bool:
    """Whether a span's attempts are worth showing one by one: a single good exchange is the span itself."""
    return bool(kept) and (span.hop == "poll" or len(kept) > 1 or any(attempt.error for attempt in kept))


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
    errors = span.attributes.count(_semconv.POLL_ERRORS) or 0
    yield ()
    failed = f", {counted(errors, 'error')}" if errors else ""
    yield (Piece(paper.fit(f"{span.name}: {counted(total, 'attempt')}{failed}", paper.width).rstrip(), "title"),)

    at = {attempt.number: f"+{seconds((attempt.at_ns - trace.start_ns) / 1e9)}" for attempt in kept}
    took = {attempt.number: _seconds(attempt.duration_s) for attempt in kept}
    widths = (
        max(1, len(f"{total:,}")),
        max(len("at"), *map(len, at.values())),
        max(len("took"), *map(len, took.values())),
    )
    used = 2 + sum(widths) + 3 * 2 + 2
    answers = max(len("answer"), *(len(_answer(attempt)) for attempt in kept))
    answer_width = max(_NARROWEST_ANSWER, min(answers, paper.width - used - _ROOM_FOR_REST))

    head = f"  {'#':>{widths[0]}}  {'at':>{widths[1]}}  {'took':>{widths[2]}}  {'answer':<{answer_width}}  then"
    yield (Piece(head, "dim"),)
    for row in folded(kept, total):
        if isinstance(row, int):
            yield (Piece(" " * (widths[0] + 4)), Piece(paper.text(f"… {row:,} more"), "dim"))
            continue
        sort = sort_of(row)
        figures = f"{row.number:>{widths[0]},}  {at[row.number]:>{widths[1]}}  {took[row.number]:>{widths[2]}}"
        rest = paper.wrap(_then(row), paper.width - used - answer_width)
        yield (
            Piece(f"{shape(paper.glyphs, sort)} ", sort),
            Piece(f"{figures}  "),
            Piece(paper.fit(_answer(row), answer_width), "" if sort == "ok" else sort),
            Piece(f"  {rest[0]}"),
        )
        for line in rest[1:]:
            yield (Piece(" " * (used + answer_width) + line),)


def _answer(attempt: Attempt) -> str:
    status = None if attempt.status_code is None else str(attempt.status_code)
    error = None if attempt.error == status else attempt.error
    return " ".join(part for part in (status, attempt.state, error) if part) or "no answer"


def _then(attempt: Attempt) -> str:
    """What came of it: the verdict, or the pause after it; then what was remarkable."""
    wait = None
    if attempt.wait_s is not None:
        wait = f"wait {seconds(attempt.wait_s)}" + (f" ({attempt.wait_reason})" if attempt.wait_reason else "")
    headers = (f"{name}={value}" for name, value in attempt.telling)
    marks = (mark.replace("_", " ") for mark in attempt.marks)
    verdict = (
        None if attempt.error else attempt.verdict
    )  # a failed attempt is transient, and its row says error already
    return ", ".join(part for part in (verdict, wait, *marks, *headers) if part)


def _seconds(duration_s: float | None) -> str:
    return "" if duration_s is None else seconds(duration_s)
