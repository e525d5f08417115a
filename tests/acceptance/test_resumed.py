"""An operation that was killed while it polled and that another process went on with, as real Jaeger shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acceptance.servers.jaeger import TESTS, Jaeger, collecting, running
from durable.kills import RESULT, Jobs, serving
from trihop import SQLStore

_LONGEST_S = 60


@dataclass(frozen=True)
class Backend:
    """A Jaeger, and the two ways to it: straight, or through the shipped collector with its sampling."""

    jaeger: Jaeger
    otlp: dict[str, str]


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    folder = tmp_path_factory.mktemp("resumed")
    (folder / "tempo").mkdir()
    with (
        running(folder) as jaeger,
        running(folder / "tempo") as tempo,
        collecting(folder, jaeger=jaeger, tempo=tempo) as collector,
    ):
        yield Backend(jaeger, {"straight": jaeger.otlp, "collector": collector.otlp})


def walk(jobs: Jobs, folder: Path, otlp: str, *, sent_every_ms: int) -> subprocess.Popen[str]:
    """A process that walks the triangle under the key `nightly` with its record in SQLite, exporting over OTLP."""
    given = {
        "url": jobs.url,
        "key": "nightly",
        "store": f"sqlite:///{folder}/operations.db",
        "to": str(folder / "result.bin"),
        "spans": otlp,
        "keyed": True,
        "sampler": "collector",
        "die": "never",
    }
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "durable.victim", json.dumps(given)],
        cwd=TESTS,
        env={**os.environ, "OTEL_BSP_SCHEDULE_DELAY": str(sent_every_ms), "OTEL_METRICS_EXPORTER": "none"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def trace_id_of(folder: Path) -> str:
    store = SQLStore(f"sqlite:///{folder}/operations.db")
    try:
        stored = store.get("nightly")
        assert stored is not None
        trace_id: str = stored.record["trace"]["trace_id"]
        return trace_id
    finally:
        store.close()


def tags(span: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in span["tags"]}


# What a killed process had not sent yet is lost with it.
SENT = ["start export", "submit export"]
LATER = ["download export", "export", "poll export", "resume export"]


@pytest.mark.parametrize("way", ["straight", "collector"])
@pytest.mark.parametrize("sent", [True, False], ids=["sent before the kill", "lost with the process"])
def test_killed_in_mid_poll_and_resumed_is_one_trace_with_one_root(
    backend: Backend, tmp_path: Path, way: str, sent: bool
):
    """Whatever the first process had sent, its trace is ended by the second one, and nothing hangs in the air."""
    with serving() as jobs:
        first = walk(jobs, tmp_path, backend.otlp[way], sent_every_ms=1 if sent else 60_000)

        def at(event: str) -> None:
            """Dies at the third poll; at the earliest once Jaeger has the two spans that ended before it."""
            if event == "poll:3" and first.poll() is None:
                try:
                    if sent:
                        backend.jaeger.trace(trace_id_of(tmp_path), spans=2)
                finally:
                    first.kill()

        jobs.at = at  # type: ignore[method-assign]
        try:
            first.communicate(timeout=_LONGEST_S)
        finally:
            first.kill()
            first.wait()
        assert first.returncode == -signal.SIGKILL
        second = walk(jobs, tmp_path, backend.otlp[way], sent_every_ms=1)
        said, _ = second.communicate(timeout=_LONGEST_S)
    assert (second.returncode, said) == (0, "go\n")
    assert (tmp_path / "result.bin").read_bytes() == RESULT
    assert jobs.made["nightly"] == 1

    expected = sorted([*LATER, *(SENT if sent else ())])
    trace = backend.jaeger.trace(trace_id_of(tmp_path), spans=len(expected))
    spans = {span["operationName"]: span for span in trace["spans"]}
    root = spans["export"]

    assert sorted(span["operationName"] for span in trace["spans"]) == expected
    assert [span["operationName"] for span in trace["spans"] if not span["references"]] == ["export"]
    for span in trace["spans"]:
        assert not span["warnings"], span
        parents = [r["spanID"] for r in span["references"] if r["refType"] == "CHILD_OF"]
        assert parents == ([] if span is root else [root["spanID"]])
    assert not trace["warnings"]
    assert tags(root)["trihop.operation.resumed"] is True
    assert (tags(root)["trihop.operation.result"], tags(root)["trihop.operation.segments"]) == ("success", 2)
    numbers = [
        field["value"]
        for log in spans["poll export"]["logs"]
        for field in log["fields"]
        if field["key"] == "trihop.attempt.number"
    ]
    assert numbers == list(range(1, len(numbers) + 1))
    assert root["startTime"] <= min(span["startTime"] for span in trace["spans"])
    assert backend.jaeger.find("victim", {"trihop.operation.resumed": "true"}) >= {trace["traceID"]}
