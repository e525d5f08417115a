"""The tables of a page: the attempts of each hop, and what the script shows of a span when asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from trihop._telemetry import semconv
from trihop.viewer._attempts import Attempt, attempts, folded, told_apart, total_attempts
from trihop.viewer._lanes import Lanes
from trihop.viewer._model import Span, Trace, Value
from trihop.viewer._words import counted, plain, seconds

_AT_EACH_END = 200
_MOST_TABLES = 40
_HEAD = (
    '<thead><tr><th scope="col">#</th><th scope="col">at</th><th scope="col">took</th><th scope="col">answer</th>'
    '<th scope="col" colspan="2">pause after it</th><th scope="col">remarks</th></tr></thead>'
)
_KNOWN = {row.name: row for row in semconv.TABLE if row.kind == "attribute"}


def text(value: str) -> str:
    """Any text, as it may stand in HTML."""
    return escape(plain(value))


def tables(trace: Trace) -> Iterator[str]:
    """The attempts of each hop that made several."""
    lanes = Lanes(trace)
    hops = [(row.span, kept) for row in trace.rows if told_apart(row.span, kept := attempts(row.span))]
    for span, kept in hops[:_MOST_TABLES]:
        total = total_attempts(span)
        errors = span.attributes.count(semconv.POLL_ERRORS) or 0
        failed = f", {counted(errors, 'error')}" if errors else ""
        if len(kept) > 2 * _AT_EACH_END:
            kept = (*kept[:_AT_EACH_END], *kept[-_AT_EACH_END:])
        title = f"{span.name}: {counted(total, 'attempt')}{failed}"
        yield f'<section class="attempts"><h2>{text(title)}</h2><div class="scroll" tabindex="0" role="region" '
        yield f'aria-label="{text(title)}"><table>{_HEAD}<tbody>'
        longest_s = max((attempt.wait_s or 0.0 for attempt in kept), default=0.0)
        for attempt in folded(kept, total):
            if isinstance(attempt, int):
                more = f"{attempt:,} more, counted but not kept one by one"
                yield f'<tr class="more"><td></td><td colspan="6">{more}</td></tr>'
            else:
                yield _attempt(attempt, lanes, longest_s)
        yield "</tbody></table></div></section>"
    if len(hops) > _MOST_TABLES:
        yield f"<p>{len(hops) - _MOST_TABLES:,} further hops made several attempts.</p>"


def _attempt(attempt: Attempt, lanes: Lanes, longest_s: float) -> str:
    took = "" if attempt.duration_s is None else seconds(attempt.duration_s)
    share = 100 * (attempt.wait_s or 0.0) / longest_s if longest_s else 0.0
    pause = "" if attempt.wait_s is None else f"{seconds(attempt.wait_s)}"
    bar = f'<svg class="share" aria-hidden="true"><rect class="pause" width="{share:.1f}%" height="6" y="3"/></svg>'
    headers = "".join(f" <code>{text(name)}: {text(value)}</code>" for name, value in attempt.telling)
    reason = "" if attempt.wait_reason is None else f"{bar} {text(attempt.wait_reason)}"
    sort = attempt.sort
    glyph = f'<svg class="lane" aria-hidden="true"><use class="{sort}" href="#{sort}" x="7" y="10"/></svg>'
    return (
        f'<tr class="{sort}"><td>{attempt.number:,}</td><td>{lanes.after(attempt.at_ns)}</td><td>{took}</td>'
        f"<td>{glyph}{text(attempt.answer)}</td><td>{pause}</td><td>{reason}</td>"
        f"<td>{text(', '.join(attempt.remarks))}{headers}</td></tr>\n"
    )


def details(trace: Trace) -> dict[str, Any]:
    """What the script shows of a span when asked, a table of name and value by row; and what the names mean."""
    lanes = Lanes(trace)
    names = {name for span in trace.spans for name in span.attributes}
    return {
        "spans": [[[plain(name), value] for name, value in _of_span(row.span, lanes)] for row in trace.rows],
        "meanings": {name: row.meaning for name, row in _KNOWN.items() if name in names},
    }


def _of_span(span: Span, lanes: Lanes) -> Iterator[tuple[str, str]]:
    if span.description:
        yield "status", plain(span.description)
    for name, value in span.attributes.items():
        yield name, _value(value, _KNOWN[name].unit if name in _KNOWN else "")
    for event in span.events:
        if event.name != semconv.ATTEMPT:
            told = "; ".join(f"{name}={_value(value)}" for name, value in event.attributes.items())
            yield f"event at {lanes.after(event.at_ns)}", f"{plain(event.name)} {told}".rstrip()
    for link in span.links:
        yield "link", f"span {link.span_id} of trace {link.trace_id}"
    above = "" if span.parent_id is None else f", below {span.parent_id}"
    yield "span", plain(f"{span.span_id}, {span.kind}, began {lanes.after(span.start_ns)}{above}")
    for name, value in span.resource.items():
        yield f"resource: {name}", _value(value)


def _value(value: Value, unit: str = "") -> str:
    if isinstance(value, tuple):
        return ", ".join(_value(item) for item in value)
    if isinstance(value, int | float) and not isinstance(value, bool) and unit in ("s", "By"):
        return seconds(value) if unit == "s" else f"{value:,} B"
    return plain(json.dumps(value) if isinstance(value, bool) or value is None else str(value))
