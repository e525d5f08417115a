"""The page of `trihop trace --html` in a browser: from a file, by keyboard, in both colour schemes, however large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.chromium import Page, chromium
from acceptance.servers import node_with
from acceptance.traces import SCENES, many_spans
from trihop._clock import SystemClock
from trihop.viewer import read, to_html

FOCUSED = "document.activeElement.querySelector('.name')?.textContent"
SHOWN = "[...document.querySelectorAll('.span:not([hidden]) .name')].map((name) => name.textContent)"
LEVELS = ["export", "submit export", "poll export", "download export"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


def write(folder: Path, lines: bytes) -> Path:
    (trace,) = read(lines.splitlines(keepends=True)).traces
    file = folder / "page.html"
    file.write_text(to_html(trace), encoding="utf-8")
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("scene", SCENES)
def test_a_page_has_no_fault_that_axe_finds(browser: Page, tmp_path: Path, scene: str, dark: bool):
    """Roles, names, contrast and structure, with a span's attributes open; nothing is asked for, nothing complains."""
    browser.open(write(tmp_path, SCENES[scene]()), dark=dark)
    browser.press("ArrowDown", "ArrowDown", "Enter")
    browser.ask((node_with("axe-core@4.14.1") / "axe.min.js").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = browser.ask("axe.run().then((found) => found.violations)")
    tested = browser.ask("axe.run().then((found) => found.passes.length)")

    assert [
        (fault["id"], fault["nodes"][0]["html"][:200], fault["nodes"][0]["failureSummary"]) for fault in found
    ] == []
    assert tested > 15
    assert browser.requested() == [(tmp_path / "page.html").as_uri()]
    assert browser.complaints() == []


def test_the_keyboard_reaches_everything(browser: Page, tmp_path: Path):
    """Arrows move and fold, Enter opens, e finds the next error, / searches, Escape comes back."""
    browser.open(write(tmp_path, SCENES["deadline"]()))
    moved = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "End", "Home", "ArrowDown", "ArrowLeft"):
        browser.press(key)
        moved.append(browser.ask(FOCUSED))
    assert moved == ["export", "submit export", "export", "poll export", "export", "submit export", "export"]

    browser.press("ArrowLeft")
    assert browser.ask(SHOWN) == ["export"]
    browser.press("ArrowRight", "ArrowRight")
    assert (browser.ask(SHOWN), browser.ask(FOCUSED)) == (LEVELS[:3], "submit export")

    browser.press("e")
    assert browser.ask(FOCUSED) == "poll export"
    browser.press("Enter")
    detail = browser.ask("document.activeElement.querySelector('.detail').textContent")
    assert "trihop.poll.wait_time" in detail
    assert "Spent in pauses." in detail
    browser.press("Enter")
    assert browser.ask("document.querySelectorAll('.detail').length") == 0

    browser.press("/", *"submit", "Enter")
    wait_for(browser, "document.getElementById('found').textContent", "2 spans")
    assert browser.ask(SHOWN) == LEVELS[:3]
    browser.press("/", "Escape")
    assert (browser.ask("document.getElementById('find').value"), len(browser.ask(SHOWN))) == ("", 3)


def wait_for(page: Page, script: str, value: Any) -> None:
    """Until an expression has that value; a bounded wait."""
    clock = SystemClock()
    for _ in range(100):
        if (got := page.ask(script)) == value:
            return
        clock.sleep(0.05)
    raise AssertionError(f"{script} stayed {got!r}")


def test_without_its_script_the_page_still_tells_all_but_attributes(browser: Page, tmp_path: Path):
    """Story, waterfall, notes and attempts are in the page itself."""
    file = write(tmp_path, SCENES["deadline"]())
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(file)
        text = browser.call("Runtime.evaluate", expression="1")  # the page is there, though its scripts are not run
        assert text["result"]["type"] in ("number", "undefined")
        document = browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        html = browser.call("DOM.getOuterHTML", nodeId=document)["outerHTML"]
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    for told in ("The job may still finish", "poll export", "waited", "503"):
        assert told in html


def test_ten_thousand_spans_do_not_hang(browser: Page, tmp_path: Path):
    """It loads, moves, folds and searches in moments; only what is in sight is laid out."""
    file = write(tmp_path, many_spans(10_000))
    clock = SystemClock()
    began_s = clock.monotonic()
    browser.open(file)
    loaded_s = clock.monotonic() - began_s
    browser.press("ArrowDown", "End", "Home", "ArrowLeft")
    assert len(browser.ask(SHOWN)) == 1
    browser.press("ArrowRight", "e", "/", *"thing/4999")
    wait_for(browser, "document.getElementById('found').textContent", "1 span")
    whole_s = clock.monotonic() - began_s

    assert browser.complaints() == []
    assert (loaded_s < 10, whole_s < 20) == (True, True), (loaded_s, whole_s)


@pytest.mark.parametrize("width", [360, 700, 1200, 2400])
def test_no_width_needs_scrolling_sideways(browser: Page, tmp_path: Path, width: int):
    """From a telephone to a wall; only the table of attempts scrolls in itself."""
    browser.open(write(tmp_path, SCENES["400 polls"]()), width=width)

    assert browser.ask("document.documentElement.scrollWidth") <= width


def test_hostile_text_runs_nothing(browser: Page, tmp_path: Path):
    """Markup in names, messages and attributes is shown as it came; its script does not run."""
    evil = "</script><script>window.owned=1</script><img src=x onerror='window.owned=1'>"
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": evil,
        "startTimeUnixNano": "5",
        "status": {"code": 2, "message": evil},
        "attributes": [{"key": evil, "value": {"stringValue": evil}}],
    }
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    browser.open(write(tmp_path, json.dumps(export).encode()))
    browser.press("ArrowDown", "Enter")

    assert browser.ask("window.owned === undefined")
    assert browser.ask("document.querySelector('.name').textContent") == evil
    assert evil in browser.ask("document.querySelector('.detail').textContent")
    assert browser.complaints() == []
