"""The picture: what is in it at every width, in every encoding, with any text."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from scenes import Pen, good, many_polls, polled, success, trace_id
from twelve import TWELVE

from trihop._clock import SystemClock
from trihop.cli._paper import Paper
from trihop.cli._waterfall import draw
from trihop.viewer import read


def picture(text: bytes, width: int = 100, encoding: str = "utf-8") -> list[str]:
    (trace,) = read(text.splitlines(keepends=True)).traces
    return ["".join(piece.text for piece in line) for line in draw(trace, Paper(width, encoding))]


def row(lines: Sequence[str], name: str) -> str:
    """The row of a span: its name stands first behind the tree's lines."""
    return next(line for line in lines[2:] if line.lstrip("│├└|`- ").startswith(name))


@pytest.mark.parametrize("width", [60, 100, 160, 400])
def test_no_line_is_wider_than_the_paper(width: int):
    """Whatever is told, it is told within the columns there are."""
    for text in (success(), many_polls(), *(scene() for scene in TWELVE)):
        assert max(cell_len(line) for line in picture(text, width)) <= width


@pytest.mark.parametrize("width", [60, 100, 160])
def test_each_span_has_a_row_with_its_duration_and_bar(width: int):
    """Root, submit, poll and download stand in order; the bar of the root fills the axis."""
    lines = picture(success(), width)
    rows = [row(lines, name) for name in ("export", "submit export", "poll export", "download export")]

    assert [lines.index(line) for line in rows] == sorted(lines.index(line) for line in rows)
    assert [next(part for part in ("6.42 s", "41 ms", "6.06 s", "310 ms") if part in line) for line in rows] == [
        "6.42 s",
        "41 ms",
        "6.06 s",
        "310 ms",
    ]
    assert rows[0].count("━") == len(rows[0]) - rows[0].index("━") > width // 3
    assert rows[1].count("━") < rows[0].count("━") // 10 + 2
    assert rows[3].endswith("━")


@pytest.mark.parametrize("width", [60, 100, 160])
def test_attempts_are_ticks_on_the_poll_bar_told_apart_by_shape(width: int):
    """Good, failed, state changed: three shapes, in the order they happened."""
    bar = row(picture(success(), width), "poll export").split("6.06 s")[1]

    assert [tick for tick in bar if tick in "┼✗◆"] == ["┼", "┼", "✗", "┼", "◆"]


@pytest.mark.parametrize("width", [60, 100, 160])
def test_state_waits_links_and_result_stand_below_their_rows(width: int):
    """The facts of a span are told beside it, and wrapped rather than cut."""
    text = " ".join(line.strip("│ ") for line in picture(success(), width))

    for fact in (
        "job 750xx001 · state JobComplete",
        "JobComplete · 5 polls · 1 error · 200 x4, 503 x1",
        "waited 5.80 s of 6.06 s",
        "follows submit export",
        "1.24 MB at 4.00 MB/s",
        f"trace {trace_id()}",
    ):
        assert fact in text


def test_the_axis_is_common_and_round():
    """Its labels stand where their instants are on every bar."""
    lines = picture(success(), 100)
    axis, poll = lines[2], row(lines, "poll export")

    assert [label for label in ("╷0 s", "╷1 s", "╷6 s") if label in axis] == ["╷0 s", "╷1 s", "╷6 s"]
    assert axis.index("╷2 s") == poll.index("┼", poll.index("┼") + 1)  # the second poll, 2.00 s after the start


def test_the_attempts_table_gives_answer_wait_and_reason():
    """A row an attempt, in the shape it has on the bar."""
    lines = picture(success(), 100)
    third = next(line for line in lines if line.startswith("✗ 3"))

    assert "+3.10 s" in third
    assert "503" in third
    assert "wait 1.00 s (backoff)" in third
    assert any(line.startswith("◆ 5") and "JobComplete" in line and "succeeded" in line for line in lines)


def test_ten_thousand_polls_are_folded_and_quick():
    """What was folded away is counted where it is missing; the picture comes in well under a second."""
    text, clock = many_polls(10_000), SystemClock()
    begin = clock.monotonic()
    lines = picture(text, 100)
    took = clock.monotonic() - begin

    assert "10,000 polls" in " ".join(lines)
    assert any(line.strip() == "… 391 more" for line in lines)
    assert "┈" in row(lines, "poll export")
    assert len(lines) < 100
    assert took < 0.5


def test_ten_thousand_events_on_one_span_are_cut_to_both_ends():
    """A span from elsewhere may hold any number; the table shows the first and the last."""
    pen = Pen()
    pen.hop("poll", None, 0, 1000, {}, attempts=[(n / 10, good(n)) for n in range(1, 129)])
    (trace,) = read(pen.lines.splitlines(keepends=True)).traces
    export = json.loads(pen.lines)
    span = export["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["events"] = [
        {
            "timeUnixNano": str(trace.start_ns + n),
            "name": "trihop.attempt",
            "attributes": [{"key": "trihop.attempt.number", "value": {"intValue": str(n)}}],
        }
        for n in range(1, 10_001)
    ]
    lines = picture(json.dumps(export).encode(), 100)

    assert any("… 9,936 more" in line for line in lines)
    assert len(lines) < 100


def test_a_good_exchange_alone_gets_no_table():
    """Submit and download were answered at once: the row says it all."""
    assert not any(line.startswith(("submit export:", "download export:")) for line in picture(success()))


@pytest.mark.parametrize("evil", ["[/bold]", "[red]x[/red]", "\x1b[31m", "a\nb", "名前" * 30, "👩‍👩‍👧 x", "{0}%s\\"])
def test_a_value_is_text_wherever_it_stands(evil: str):
    """Markup, control sequences, line breaks and wide characters neither break the picture nor act."""
    pen = Pen(evil, job=evil)
    with pen.root(
        5.0, {"error.type": "JobFailed", "trihop.job.error.message": evil, "trihop.job.state": evil}, error=evil
    ) as root:
        headers = {"x-request-id": evil}
        attempt = good(1, evil) | {"http.response.header.x-request-id": [headers["x-request-id"]]}
        pen.hop("poll", root, 0, 4, polled(2, waited=3, state=evil), attempts=[(1.0, attempt)], url=f"https://{evil}")
    lines = picture(pen.lines, 60)

    assert all(line.isprintable() for line in lines)
    assert max(cell_len(line) for line in lines) <= 60
    if evil.isprintable() and len(evil) < 20:
        assert any(evil in line for line in lines)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_poor_encoding_gets_ascii_shapes(encoding: str):
    """Where line drawing cannot be written, shapes of ASCII stand for it, still told apart."""
    lines = picture(success(name="Übung"), 100, encoding)
    bar = row(lines, "poll").split("6.06 s")[1]

    assert "\n".join(lines).encode(encoding)
    assert [tick for tick in bar if tick in "|xo"] == ["|", "|", "x", "|", "o"]


def test_a_row_of_no_length_is_an_instant():
    """Markers such as `resume export` are points on the axis."""
    lines = picture(TWELVE_BY_NAME["killed_and_resumed"](), 100)

    assert row(lines, "resume export").rstrip().endswith("◇")
    assert "nobody was there for 50 m" in "\n".join(lines)


def test_a_trace_of_several_operations_tells_each_story():
    """A root over two operations: one picture, a story each."""
    pen, other = Pen("first"), Pen("second", operation_id="f" * 32)
    other.tracer = pen.tracer
    parent = pen.tracer.start_span("request", start_time=0)
    for each in (pen, other):
        pen.span(each.name, parent, 0, 3, {**each.shared, "trihop.operation.result": "success"})
    lines = picture(pen.lines)

    assert any(line.startswith("first succeeded") for line in lines)
    assert any(line.startswith("second succeeded") for line in lines)


TWELVE_BY_NAME = {scene.__name__: scene for scene in TWELVE}
