"""All benchmarks, a ratio a line; each is measured against its base in the same run.

Ends with 1 where a figure is far beyond what it was: room for a noisy machine,
and none for a change that doubles the cost of a poll.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.bench import download, durable, fleet, imports, many_polls, middleware, triangle

# Not what is to be reached, which each line shows.
AT_MOST = {
    "import trihop / import requests": 1.50,
    "triangle, no SDK / hand loop": 0.90,
    "triangle, traced / hand loop": 1.00,
    "poll, traced / Session.get": 0.70,
    "triangle, traced / instrumentation-requests + root": 0.95,
    "request outside an operation / bare": 1.10,
    "loop of 300 polls, overhead / that of otel's": 0.90,
    "memory of a job, no SDK, in kB": 6,
    "memory of a job with open spans, in kB": 16,
    "10,000 polls: bytes of their span": 16_384,
    "10,000 polls: growth of memory after the first 1,000": 131_072,
}


def alone(report: Callable[[], dict[str, float]]) -> dict[str, float]:
    """A report in a process of its own: a tracer provider is set once and for all."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(report).result()


def main() -> int:
    """Run them all; 1 where one is beyond its limit."""
    found = {"import trihop / import requests": imports.report()}
    for report in (triangle.report, middleware.report, many_polls.report, download.report, durable.report):
        found |= alone(report)
    found |= alone(fleet.report) | alone(fleet.traced)
    beyond = {title: limit for title, limit in AT_MOST.items() if found[title] > limit}
    for title, limit in beyond.items():
        print(f"too much: {title} is {found[title]:g}, at most {limit:g}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
