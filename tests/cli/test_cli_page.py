"""`trihop trace --html`: what is in the page, and what no trace file can put there. Looked at in `tests/acceptance`."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import Run
from scenes import Pen, good, many_polls, polled, success, trace_id
from twelve import TWELVE

from trihop.viewer import attempts, read, story, to_html

EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;\x1b[31m\u202e"


def page(text: bytes) -> str:
    (trace,) = read(text.splitlines(keepends=True)).traces
    return to_html(trace)


class Elements(HTMLParser):
    """The elements of a page with their attributes, its text, and what stands in each script and style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.raw: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.raw if self.open and self.open[-1] in ("script", "style") else self.text).append(data)

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.found if name == tag)


def test_a_page_tells_the_story_that_the_terminal_tells():
    """Each scene's page has its two lines, word for word."""
    for scene in TWELVE:
        (trace,) = read(scene().splitlines(keepends=True)).traces
        told = "".join(Elements(to_html(trace)).text)
        assert [part for part in story(trace.operations[0]) if part not in told] == []


def test_every_span_is_a_row_and_every_attempt_kept_is_a_line():
    """Rows stand at their level in the tree; attempts are ticks on the poll's bar and lines of a table."""
    html = page(success())
    rows = [row for row in Elements(html).all("div") if row.get("role") == "row"]

    assert [row.get("aria-level") for row in rows] == [None, "1", "2", "2", "2"]
    assert [row["tabindex"] for row in rows[1:]] == ["0", "-1", "-1", "-1"]
    assert re.findall(r'<tr class="(\w+)"><td>(\d)</td>', html) == [
        ("ok", "1"),
        ("ok", "2"),
        ("error", "3"),
        ("ok", "4"),
        ("changed", "5"),
    ]
    assert len(re.findall(r'<use class="(?:ok|changed|error)"[^>]*><title>', html)) == 5


def test_polls_folded_away_are_counted_in_the_table():
    """Ten thousand polls are 48 lines, and the gaps between them say how many they stand for."""
    html = page(many_polls(10_000))
    kept = len(re.findall(r"<tr class=\"(?:ok|changed|error)\">", html))
    left_out = [int(number.replace(",", "")) for number in re.findall(r">([\d,]+) more, counted", html)]

    assert (kept, kept + sum(left_out)) == (48, 10_000)
    assert len(html) < 100_000


def test_attempts_that_fall_on_one_place_share_a_tick():
    """A span of another origin with thousands of events does not draw thousands of ticks: the most telling is seen."""
    pen = Pen()
    pen.hop("poll", None, 0, 3, polled(3000, waited=2, state="Running"), attempts=[(0.0, good(1))])
    export = json.loads(pen.lines)
    (span,) = export["resourceSpans"][0]["scopeSpans"][0]["spans"]
    (event,) = span["events"]
    span["events"] = [{**event, "timeUnixNano": str(int(event["timeUnixNano"]) + n * 10**6)} for n in range(3000)]
    (trace,) = read([json.dumps(export).encode()]).traces
    html = to_html(trace)

    assert len(attempts(trace.spans[0])) == 3000
    assert len(re.findall(r"<use class=\"\w+\"[^>]*><title>", html)) < 200


def test_a_page_asks_for_nothing_and_allows_nothing():
    """No address in any attribute but anchors of the page itself; the policy admits its own style and script alone."""
    elements = Elements(page(success()))
    addresses = [
        value
        for _, attributes in elements.found
        for name, value in attributes.items()
        if name in ("src", "href", "action", "srcset", "xlink:href", "style", "data") or name.startswith("on")
    ]
    (policy,) = (meta["content"] for meta in elements.all("meta") if meta.get("http-equiv"))
    digests = [f"'sha256-{base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode()}'" for raw in elements.raw]

    assert {value for value in addresses if not str(value).startswith("#")} == {"data:,"}
    assert policy == f"default-src 'none'; img-src data:; style-src {digests[0]}; script-src {digests[2]}"
    assert "url(" not in elements.raw[0]
    assert "@import" not in elements.raw[0]


def test_no_text_of_a_trace_becomes_markup():
    """Names, messages, states and attributes are text wherever they stand, and end no script."""
    pen = Pen(name=EVIL, provider=EVIL, job=EVIL)
    with pen.root(2, {"trihop.operation.result": EVIL, "error.type": EVIL, "k" + EVIL: EVIL}, error=EVIL) as root:
        events = [(1.0, good(1, EVIL, trihop__attempt__mark=EVIL, reason=EVIL))]
        pen.hop("poll", root, 0, 2, polled(1, waited=1, state=EVIL), attempts=events, error=EVIL, url=EVIL)
    html = page(pen.lines)
    elements = Elements(html)

    assert len(list(elements.all("script"))) == 2
    assert list(elements.all("img")) == []
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert any("<img src=x onerror=alert(1)>" in text for text in elements.text)
    assert any(EVIL[:20] in str(value) for row in json.loads(elements.raw[1])["spans"] for _, value in row)


@given(st.text(max_size=30), st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=4))
def test_no_name_and_no_attribute_breaks_a_page(name: str, attributes: dict[str, str]):
    """Whatever text a span has, the page's elements close in order and its data is read back."""
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": name,
        "startTimeUnixNano": "5",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    (trace,) = read([json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()]).traces
    elements = Elements(to_html(trace))

    assert len(json.loads(elements.raw[1])["spans"]) == 1


def test_a_trace_of_no_length_and_one_without_operations_have_pages():
    """A single instant, spans that are not trihop's: a waterfall all the same."""
    span = {"traceId": "a", "spanId": "b", "name": "alone", "startTimeUnixNano": "5", "endTimeUnixNano": "5"}
    (trace,) = read([json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()]).traces
    told = "".join(Elements(to_html(trace)).text)

    assert "alone" in told
    assert "no root" in told


@pytest.mark.parametrize(("duration", "shown"), [(6.5, True), (7200.0, False)])
def test_the_deadline_stands_on_the_axis_where_it_is_in_sight(duration: float, shown: bool):
    """A deadline just behind the end is drawn; one far off would shrink everything else."""
    pen = Pen()
    with pen.root(6.0, {"trihop.operation.result": "success", "trihop.deadline.duration": duration}):
        pass

    assert ('class="deadline"' in page(pen.lines)) is shown


def test_the_command_writes_a_private_page_and_draws_nothing(run: Run, tmp_path: Path):
    """The page of the trace that was asked for, readable by its owner alone."""
    (tmp_path / "t.jsonl").write_bytes(success(1, name="first") + success(2, name="second"))
    done = run("trace", "t.jsonl", trace_id(1), "--html", "page.html")
    written = tmp_path / "page.html"

    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(r"wrote page\.html, [\d.]+ kB\n", done.stdout.decode())
    assert "<title>first: success, 6.42 s</title>" in written.read_text(encoding="utf-8")
    assert os.name == "nt" or stat.S_IMODE(written.stat().st_mode) == 0o600


def test_a_page_that_cannot_be_written_says_so(run: Run, tmp_path: Path):
    """A missing folder is an exit code of 1 and a reason."""
    (tmp_path / "t.jsonl").write_bytes(success())
    done = run("trace", "t.jsonl", "--html", "gone/page.html")

    assert done.returncode == 1
    assert b"gone/page.html cannot be written: No such file or directory." in done.stderr
    assert b"Traceback" not in done.stderr
