"""Spans that were lost with their process, and processes that could not end because of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from trihop._clock import SystemClock
from trihop.testing import accepted, done

EXITING = Path(__file__).with_name("exiting.py")

# That a fork beside threads is dangerous is what Python 3.12 says of every such fork.
PYTHON = (sys.executable, "-W", "ignore:This process:DeprecationWarning")


def run(scenario, server):
    """What a process of its own writes."""
    ran = subprocess.run(
        [*PYTHON, EXITING, scenario, server.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return [line.split(" ", 3) for line in ran.stdout.splitlines()]


def test_otel_11_fork_batch_processor(server):
    """A fork between submit and poll: the child's poll is told below the same root, and no span is there twice.

    https://github.com/open-telemetry/opentelemetry-python/issues/1567
    """
    server.script(accepted(), done())
    spans = run("forks_between_submit_and_poll", server)

    assert len({trace for trace, *_ in spans}) == 1
    assert max(Counter(span_id for _, span_id, *_ in spans).values()) == 1
    [root] = [span_id for _, span_id, parent, _ in spans if parent == "-"]
    assert sorted((name, parent == root) for *_, parent, name in spans) == [
        ("export", False),
        ("poll export", True),
        ("submit export", True),
    ]


def test_otel_13_celery_recycle(server):
    """Every span has ended when its block is left: a bounded flush after a task gets all of them out.

    https://github.com/open-telemetry/opentelemetry-python-contrib/issues/4916
    """
    server.script(*[accepted(), done(result_url="{url}files/1"), "rows"] * 10)
    spans = run("is_recycled", server)

    hops = ("submit export", "poll export", "download export", "export")
    assert Counter(name for *_, name in spans) == dict.fromkeys(hops, 10)
    assert len({trace for trace, *_ in spans}) == 10


def test_otel_15_exit_hang(server):
    """With a collector that never answers, the block is left and the process ends: nothing of ours waits for it.

    https://github.com/PostHog/posthog/pull/70964
    """
    server.script(accepted(), done(result_url="{url}files/1"), "rows")
    began_s = SystemClock().monotonic()
    [[trace_id]] = run("has_no_collector", server)

    assert len(trace_id) == 32
    assert SystemClock().monotonic() - began_s < 20
