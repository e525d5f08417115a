"""`trihop trace --jaeger`: the JSON that Jaeger's page reads. Compared with Jaeger's own in `tests/acceptance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from processes import Run
from scenes import START_NS, Pen, success, trace_id

from trihop.viewer import read, to_jaeger


def jaeger(text: bytes) -> dict[str, Any]:
    (trace,) = read(text.splitlines(keepends=True)).traces
    return to_jaeger(trace)["data"][0]


def tags(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in pairs}


def test_spans_stand_below_their_parents_and_follow_the_hop_before():
    """A parent is CHILD_OF, a link FOLLOWS_FROM."""
    spans = {span["operationName"]: span for span in jaeger(success())["spans"]}
    ids = {name: span["spanID"] for name, span in spans.items()}

    def below(*references: tuple[str, str]) -> list[dict[str, str]]:
        return [{"refType": sort, "traceID": trace_id(1), "spanID": ids[name]} for sort, name in references]

    assert spans["export"]["references"] == []
    assert spans["submit export"]["references"] == below(("CHILD_OF", "export"))
    assert spans["poll export"]["references"] == below(("CHILD_OF", "export"), ("FOLLOWS_FROM", "submit export"))


def test_times_are_microseconds_and_events_are_logs():
    """An attempt is a log with its own time, named by its field `event`."""
    poll = next(span for span in jaeger(success())["spans"] if span["operationName"] == "poll export")

    assert (poll["startTime"], poll["duration"]) == (START_NS // 1000 + 41_000, 6_059_000)
    assert [log["timestamp"] - START_NS // 1000 for log in poll["logs"]][:2] == [900_000, 2_000_000]
    assert tags(poll["logs"][2]["fields"])["event"] == "trihop.attempt"
    assert tags(poll["logs"][2]["fields"])["error.type"] == "503"


def test_a_failed_span_has_the_tags_that_jaeger_colours_by():
    """`error` as a boolean, the status and its description; a span that went well has none of them."""
    pen = Pen()
    pen.hop("submit", None, 0, 1, {"trihop.poll.statuses": ["200=1", "503=2"], "n": 7, "d": 0.5}, error="refused")
    (failed,) = jaeger(pen.lines)["spans"]
    well = jaeger(success())["spans"][0]

    assert {"key": "error", "type": "bool", "value": True} in failed["tags"]
    assert {"key": "n", "type": "int64", "value": 7} in failed["tags"]
    assert {"key": "d", "type": "float64", "value": 0.5} in failed["tags"]
    assert tags(failed["tags"]) | {
        "otel.status_code": "ERROR",
        "otel.status_description": "refused",
        "span.kind": "client",
        "trihop.poll.statuses": '["200=1","503=2"]',
    } == tags(failed["tags"])
    assert {"error", "otel.status_code"} & set(tags(well["tags"])) == set()


def test_a_service_is_a_process():
    """Spans of one resource share a process, which has the resource's other attributes."""
    trace = jaeger(success())

    assert {span["processID"] for span in trace["spans"]} == {"p1"}
    assert trace["processes"]["p1"]["serviceName"] == "nightly"
    assert "telemetry.sdk.name" in tags(trace["processes"]["p1"]["tags"])


def test_the_command_writes_both_files(run: Run, tmp_path: Path):
    """One command may write the page and Jaeger's JSON."""
    (tmp_path / "t.jsonl").write_bytes(success())
    done = run("trace", "t.jsonl", "--jaeger", "j.json", "--html", "p.html")

    assert (done.returncode, done.stderr) == (0, b"")
    assert [line.split(",")[0] for line in done.stdout.decode().splitlines()] == ["wrote p.html", "wrote j.json"]
    assert json.loads((tmp_path / "j.json").read_text())["data"][0]["traceID"] == trace_id(1)
