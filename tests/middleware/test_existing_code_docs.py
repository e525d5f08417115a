"""docs/existing-code.md: what it shows runs as it says."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import requests

import trihop
from trihop import Reply, operation
from trihop.testing import ScriptedServer, SpanLog, VirtualClock

PAGE = (Path(__file__).parents[2] / "docs" / "existing-code.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TRIANGLE = ["submit export", "poll export", "download export"]


@pytest.fixture
def run(
    session: requests.Session,
    server: ScriptedServer,
    clock: VirtualClock,
    spans: SpanLog,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Any:
    """Run a block; the spans below its root."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.chdir(tmp_path)

    def run(block: str) -> list[str]:
        names = {"session": session, "api": server.url.rstrip("/"), "query": {}, "time": time, "operation": operation}
        exec(compile(block, "existing-code.md", "exec"), names)
        return [span.name for span in spans.children(spans.roots[0])]

    yield run
    trihop.uninstrument()


def test_the_loop(run, server):
    """Unchanged, it is a triangle."""
    server.script(
        Reply(202, headers={"Location": "{url}jobs/7"}), *[{"state": "InProgress"}] * 2, {"state": "Done"}, "rows"
    )
    assert run(BLOCKS[0]) == TRIANGLE


def test_every_session(run, server):
    """`requests.get` is covered once instrumented."""
    server.script({"left": 7})
    assert run(BLOCKS[2]) == ["GET"]


def test_hops_by_hand(run, server, tmp_path):
    """An API by POST, with its parts named."""
    server.script({"id": "q-1"}, {"state": "QUEUED"}, {"state": "DONE", "file": "/file"}, "rows")
    assert run(BLOCKS[3]) == TRIANGLE
    assert (tmp_path / "export.csv").read_text() == "rows"


def test_tried_from_top_to_bottom(clock, spans, monkeypatch, tmp_path):
    """The page's own server, and the blocks of the page pasted behind it."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setattr(trihop, "configure", lambda file: None)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.chdir(tmp_path)
    loop, server, *others = BLOCKS
    names: dict[str, Any] = {}
    try:
        for block in (server, loop, *others):
            exec(compile(block, "existing-code.md", "exec"), names)
    finally:
        trihop.uninstrument()
        names["session"].close()
        names["server"].close()

    told = [[span.name for span in spans.children(root)] for root in spans.roots]
    assert sorted(told) == [["GET"], TRIANGLE, TRIANGLE]
    assert (names["data"], (tmp_path / "export.csv").read_bytes()) == (b"id,name\n7,Ada\n",) * 2


def test_nothing_else_is_shown():
    """Each block of the page is run by a test above."""
    assert len(BLOCKS) == 4
