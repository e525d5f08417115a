"""The examples of the middleware, run against a server that answers as theirs would."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

from trihop import JobFailed, Reply
from trihop.testing import ScriptedServer, SpanLog, VirtualClock, accepted, done, running

EXAMPLES = Path(__file__).parents[2] / "examples"
STATES = {"start": {"id": "q-1"}, "rows": {"rows": [1, 2]}}


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> Any:
    """A module of examples/ by its file's name; its operations run on the virtual clock."""

    def example(name: str) -> ModuleType:
        monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return example


def names(spans: SpanLog) -> list[str]:
    """The spans below the root."""
    return [span.name for span in spans.children(spans.roots[0])]


def test_by_hand(example, server: ScriptedServer, session: requests.Session, spans: SpanLog, clock: VirtualClock):
    """All is asked of one URL, and the trace shows the triangle."""
    answers = iter(["QUEUED", "RUNNING", "DONE"])
    server.script(then_always=lambda call: STATES.get(call.json()["do"]) or {"state": next(answers)})

    assert example("by_hand.py").judged(session, server.url, "SELECT 1") == [1, 2]
    assert names(spans) == ["submit query", "poll query", "download query"]
    assert spans.named("poll query").attributes["trihop.poll.attempts"] == 3
    assert clock.sleeps == [1, 2]


def test_a_failure_by_hand(example, server: ScriptedServer, session: requests.Session):
    """The job's own words for what went wrong."""
    server.script({"id": "q-1"}, {"state": "FAILED", "reason": "no such table"})

    with pytest.raises(JobFailed, match="no such table"):
        example("by_hand.py").judged(session, server.url, "SELECT 1")


def test_paced_by_hand(example, server: ScriptedServer, session: requests.Session, spans: SpanLog, clock: VirtualClock):
    """The loop's own judgement, our pauses."""
    server.script({"id": "q-1"}, {"state": "QUEUED"}, {"state": "RUNNING"}, {"state": "DONE"})

    assert example("by_hand.py").paced(session, server.url, "SELECT 1") == "DONE"
    assert (clock.sleeps, spans.named("poll query").attributes["trihop.poll.wait_time"]) == ([10, 10], 20)


@pytest.mark.parametrize("how", ["hop_by_hop", "in_one_line"])
def test_handed_over(example, server: ScriptedServer, session: requests.Session, spans: SpanLog, tmp_path: Path, how):
    """Either way the same requests, and the same trace."""
    server.script(
        Reply(202, headers={"Location": "/jobs/7"}),
        {"state": "InProgress"},
        {"state": "Done", "file": "7/file"},
        "rows",
    )

    download = getattr(example("handed_over.py"), how)(session, server.url.rstrip("/"), {}, tmp_path / "rows")

    assert download.path.read_text() == "rows"
    assert [call.path for call in server.calls] == ["/jobs", "/jobs/7", "/jobs/7", "/jobs/7/file"]
    assert names(spans) == ["submit export", "poll export", "download export"]


def test_threads(example, server: ScriptedServer, session: requests.Session, spans: SpanLog):
    """Four threads, one trace."""
    parts = [f"/parts/{number}" for number in range(8)]
    server.script(accepted(), running(), done(result={"parts": parts}), then_always=lambda call: call.path)

    fetched = example("threads.py").main(session, server.url.rstrip("/"), {})

    assert fetched == [part.encode() for part in parts]
    assert len({span.context.trace_id for span in spans.all}) == 1
    below = names(spans)
    assert (below[:2], len(below), {call.headers["traceparent"][3:35] for call in server.calls}) == (
        ["submit export", "poll export"],
        10,
        {f"{spans.roots[0].context.trace_id:032x}"},
    )
