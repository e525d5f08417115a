"""A trace as one HTML page that needs nothing besides itself: no network, no server, no script to be read.

The story, the waterfall and the attempts are there without the script, which adds folding, finding, keys and the
attributes of a span. Whatever the file says is text: nothing of it can become markup, style or script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trihop._telemetry import semconv
from trihop.viewer._lanes import Lanes
from trihop.viewer._model import Row, Span, Trace
from trihop.viewer._notes import notes
from trihop.viewer._page_tables import details, tables, text
from trihop.viewer._story import story
from trihop.viewer._words import instant, seconds

_MOST_STORIES = 40
_MOST_TOLD_IN_PLACE = 200
_DEEPEST_INDENT = 12
_GLYPHS = (
    '<svg class="glyphs" aria-hidden="true"><defs>'
    '<path id="ok" d="M0-6V6"/>'
    '<path id="changed" d="M0-6 6 0 0 6-6 0z"/>'
    '<path id="error" d="M-5-5 5 5M5-5-5 5"/>'
    "</defs></svg>"
)
_LEGEND = (
    ('<use class="ok"', ' href="#ok" x="8" y="10"/>', "attempt"),
    ('<use class="changed"', ' href="#changed" x="8" y="10"/>', "state changed"),
    ('<use class="error"', ' href="#error" x="8" y="10"/>', "error"),
    ('<use class="instant"', ' href="#changed" x="8" y="10"/>', "instant"),
    ('<rect class="bar"', ' width="18" y="6" height="8"/>', "working"),
    ('<rect class="pause"', ' width="18" y="9" height="2"/>', "waiting"),
    ('<line class="folded"', ' x2="18" y1="10" y2="10"/>', "attempts folded away"),
    ('<rect class="absent"', ' width="18" y="3" height="14"/>', "nobody was there"),
)


def to_html(trace: Trace) -> str:
    """The whole page."""
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{text(f"{trace.name}: {_result(trace)}, {seconds(trace.duration_s)}")}</title>
<style>{style}</style>
</head>
<body>
{_GLYPHS}
<header>{"".join(_heading(trace))}</header>
<main>
{"".join(_stories(trace))}
{"".join(_waterfall(trace))}
{"".join(tables(trace))}
</main>
<footer>Written by trihop from an OTLP trace. Times are UTC. Polls that stand close share a mark.</footer>
<script type="application/json" id="spans">{_json(details(trace))}</script>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """JSON that ends no script element."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _result(trace: Trace) -> str:
    return next((operation.result for operation in trace.operations if operation.result), "no root")


def _heading(trace: Trace) -> Iterator[str]:
    result = _result(trace)
    known = result if result in semconv.RESULTS else "open"
    yield f'<h1>{text(trace.name)} <span class="result {known}">{text(result)}</span></h1>'
    first = trace.operations[0] if trace.operations else None
    root = None if first is None else first.root
    told = None if root is None else root.attributes
    facts: list[tuple[str, str | None]] = [("took", seconds(trace.duration_s)), ("started", instant(trace.start_ns))]
    if told is not None:
        given, left = told.number(semconv.DEADLINE_DURATION), told.number(semconv.DEADLINE_REMAINING)
        rest = "" if left is None else f", {seconds(max(left, 0.0))} left"
        facts.append(("deadline", None if given is None else f"{seconds(given)}{rest}"))
        facts += [("job", told.text(semconv.JOB_ID)), ("state", told.text(semconv.JOB_STATE))]
        facts.append(("provider", told.text(semconv.PROVIDER)))
    facts.append(("service", ", ".join(dict.fromkeys(span.service for span in trace.spans if span.service))))
    facts.append(("trace", trace.id))
    yield "<dl>"
    for name, value in facts:
        if value:
            mark = ' class="id"' if name in ("job", "trace") else ""
            yield f"<div><dt>{name}</dt><dd{mark}>{text(value)}</dd></div>"
    yield "</dl>"


def _stories(trace: Trace) -> Iterator[str]:
    for operation in trace.operations[:_MOST_STORIES]:
        cause, wait, then = story(operation)
        name = f"<h3>{text(operation.name)}</h3>" if len(trace.operations) > 1 else ""
        yield f'<section class="story" aria-label="What became of it">{name}<p>{text(f"{cause} {wait}")}</p>'
        yield f'<p class="then"><b>Next</b> {text(then)}</p></section>' if then else "</section>"


def _waterfall(trace: Trace) -> Iterator[str]:
    lanes, rows = Lanes(trace), trace.rows
    parents = {row.span.parent_id for row in rows}
    in_place = len(rows) <= _MOST_TOLD_IN_PLACE
    drawn = "".join(
        _row(row, number, lanes, has_children=row.span.span_id in parents, in_place=in_place)
        for number, row in enumerate(rows)
    )
    yield '<section class="waterfall"><h2>Waterfall</h2>'
    yield f'<p class="legend">{"".join(_legend(drawn))}</p>'
    yield '<div class="finder" hidden><label>Find <input type="search" id="find" autocomplete="off"></label>'
    yield '<output id="found" for="find"></output><span class="keys">'
    keys = (("↑ ↓", "move"), ("← →", "fold"), ("Enter", "attributes"), ("e", "next error"), ("/", "find"))
    yield " ".join(f"<kbd>{key}</kbd> {what}" for key, what in keys)
    yield f'</span></div><div role="treegrid" aria-label="Spans" aria-rowcount="{len(rows) + 1}">'
    yield '<div role="row" class="head" aria-rowindex="1"><div role="columnheader">span</div>'
    yield '<div role="columnheader">took</div><div role="columnheader"><span class="unseen">time</span>'
    yield f"{lanes.axis()}</div></div>"
    yield f"{drawn}</div></section>"


def _legend(drawn: str) -> Iterator[str]:
    """What the shapes mean that are to be seen."""
    for shape, rest, meaning in _LEGEND:
        if shape in drawn:
            under = '<rect class="pause" width="18" y="9" height="2"/>' if "folded" in shape else ""
            yield f'<span><svg class="lane" aria-hidden="true">{under}{shape}{rest}</svg>{meaning}</span>'


def _row(row: Row, number: int, lanes: Lanes, *, has_children: bool, in_place: bool) -> str:
    span = row.span
    level = len(row.last) + 1
    indent = min(level - 1, _DEEPEST_INDENT)
    opens = ' aria-expanded="true"' if has_children else ""
    failed = " failed" if span.status == "error" else ""
    told = "".join(_told(span, lanes.trace)) if in_place or span.status == "error" else ""
    return (
        f'<div role="row" class="span{failed}" tabindex="{-1 if number else 0}" aria-rowindex="{number + 2}" '
        f'aria-level="{level}"{opens}><div role="rowheader" class="name in{indent}">{text(span.name)}</div>'
        f'<div role="gridcell" class="took">{seconds(span.duration_s)}</div>'
        f'<div role="gridcell" class="time">{lanes.lane(span)}{told}</div></div>\n'
    )


def _told(span: Span, trace: Trace) -> Iterator[str]:
    in_heading = span.is_root and len(trace.operations) == 1
    told = [note for note in notes(span, trace) if note.sort == "error" or not in_heading]
    lines = [f'<li class="{note.sort}">{text(note.text)}</li>' for note in told]
    if lines:
        yield f'<ul class="notes">{"".join(lines)}</ul>'
