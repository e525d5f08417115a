"""A process that forks inside an operation: each span is told once, by the process that saw what it stands for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from trihop.testing import ScriptedServer, accepted, done, running

FORKED = Path(__file__).with_name("forked.py")

# That a fork beside threads is dangerous is what Python 3.12 says of every such fork.
PYTHON = (sys.executable, "-W", "ignore:This process:DeprecationWarning")


def forked(scenario: str, server: ScriptedServer) -> list[dict[str, Any]]:
    """The spans of both processes."""
    ran = subprocess.run(
        [*PYTHON, FORKED, scenario, server.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def told(spans: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Names, and whether by the parent; no span twice, and all below one root."""
    assert max(Counter(span["id"] for span in spans).values()) == 1
    roots = [span for span in spans if span["parent"] is None]
    assert {span["trace"] for span in spans} == {root["trace"] for root in roots}
    return sorted((span["name"], span["here"]) for span in spans)


def test_a_child_that_waits_for_the_job(server: ScriptedServer):
    """Its poll is told by it; the submit and the root are told by the parent, once."""
    server.script(accepted(), done())
    assert told(forked("by_the_engine", server)) == [
        ("export", True),
        ("poll export", False),
        ("submit export", True),
    ]


def test_a_loop_in_both_processes(server: ScriptedServer):
    """The parent tells of its two polls, the child of its three, and neither of the other's."""
    server.script(accepted("/jobs/J-1"), *[running()] * 5)
    spans = forked("by_a_loop", server)
    assert told(spans) == [
        ("export", True),
        ("poll export", False),
        ("poll export", True),
        ("submit export", True),
    ]
    assert {span["here"]: span["attempts"] for span in spans if span["name"] == "poll export"} == {True: 2, False: 3}


def test_a_child_that_ends_within_the_block(server: ScriptedServer):
    """What it sent carries the trace; the operation is the parent's to end."""
    server.script(accepted())
    spans = forked("out_of_the_block", server)
    assert told(spans) == [("export", True)]
    assert int(server.calls[0].headers["traceparent"][3:35], 16) == spans[0]["trace"]


def test_no_lock_is_held_across_a_fork(server: ScriptedServer):
    """A lock that another thread holds at the fork does not stop the child for ever."""
    server.script(accepted("/jobs/J-1"), running())
    assert told(forked("with_locks_held", server)) == [("GET", False), ("inner", False), ("outer", True)]
