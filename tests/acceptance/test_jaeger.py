"""Operations as real Jaeger shows them, through the shipped collector: one process of Jaeger's binary each.

Two Jaegers stand behind the collector, the second where Tempo would be.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import set_span_in_context

from acceptance.servers.jaeger import CONFIG, Collector, Jaeger, collecting, running, validate
from acceptance.test_collector_config import SPAN_METRICS, prometheus_name
from trihop._clock import SystemClock
from trihop._telemetry import semconv
from trihop.viewer import read, to_jaeger

SERVICE = "trihop-demo"


@dataclass(frozen=True)
class Ending:
    """What a demo is to end with, and what its trace is to show."""

    fail: str | None
    result: str
    error: str | None
    hops: tuple[str, ...]
    polls: int


ENDINGS = (
    Ending(None, "success", None, ("submit", "poll", "download"), 5),
    Ending("job", "failure", "JobFailed", ("submit", "poll"), 4),
    Ending("deadline", "timeout", "DeadlineExceeded", ("submit", "poll"), 4),
    Ending("budget", "timeout", "PollBudgetExhausted", ("submit", "poll"), 4),
    Ending("partial", "partial", "JobPartiallyFailed", ("submit", "poll"), 4),
)
NAMES = [ending.fail or "success" for ending in ENDINGS]


@dataclass(frozen=True)
class Demo:
    """A demo that was run: what was meant, and what it said and wrote."""

    ending: Ending
    trace_id: str
    said: str
    file: Path


@dataclass(frozen=True)
class Stack:
    """Collector, Jaeger, the Jaeger that stands in for Tempo, and the demos that went through them."""

    collector: Collector
    jaeger: Jaeger
    tempo: Jaeger
    demos: tuple[Demo, ...]

    def demo(self, fail: str | None) -> Demo:
        return next(demo for demo in self.demos if demo.ending.fail == fail)


def run_demo(ending: Ending, folder: Path, collector: Collector, jaeger: Jaeger) -> Demo:
    folder.mkdir()
    arguments = ["demo", "--file", str(folder / "t.jsonl"), *(["--fail", ending.fail] if ending.fail else [])]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "trihop.cli", *arguments],
        env={
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.otlp,
            "TRIHOP_TRACE_URL": f"{jaeger.url}/trace/{{trace_id}}",
            "PYTHONIOENCODING": "utf-8",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (trace_id,) = re.findall(r"^trace ([0-9a-f]{32})$", done.stdout, re.MULTILINE)
    return Demo(ending, trace_id, done.stdout, folder / "t.jsonl")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All of it, with the five demos already run."""
    folder = tmp_path_factory.mktemp("jaeger")
    (folder / "tempo").mkdir()
    with (
        running(folder) as jaeger,
        running(folder / "tempo") as tempo,
        collecting(folder, jaeger=jaeger, tempo=tempo) as collector,
        ThreadPoolExecutor(len(ENDINGS)) as pool,
    ):
        named = zip(ENDINGS, NAMES, strict=True)
        runs = [pool.submit(run_demo, ending, folder / name, collector, jaeger) for ending, name in named]
        demos = tuple(run.result() for run in runs)
        for demo in demos:
            jaeger.trace(demo.trace_id, spans=1 + len(demo.ending.hops))
        yield Stack(collector, jaeger, tempo, demos)


def tags(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in pairs}


def by_name(trace: dict[str, Any]) -> dict[str, dict[str, Any]]:
    named = {span["operationName"]: span for span in trace["spans"]}
    assert len(named) == len(trace["spans"])
    return named


@pytest.mark.parametrize("name", ["collector.yaml", "jaeger.yaml"])
def test_jaeger_takes_the_shipped_configuration(name: str):
    """Each component that it names is built from it."""
    validate(CONFIG / name)


@pytest.mark.parametrize("ending", ENDINGS, ids=NAMES)
def test_a_demo_is_one_trace_of_a_root_and_the_hops_that_happened(stack: Stack, ending: Ending):
    """Hops hang from the root, each follows the one before, all lie within it, and nothing is warned of."""
    demo = stack.demo(ending.fail)
    trace = stack.jaeger.trace(demo.trace_id, spans=1 + len(ending.hops))
    spans = by_name(trace)
    root = spans["export"]
    hops = [spans[f"{hop} export"] for hop in ending.hops]

    assert len(spans) == 1 + len(ending.hops)
    assert root["references"] == []
    for hop, before in zip(hops, [None, *hops], strict=False):
        follows = [] if before is None else [("FOLLOWS_FROM", before["spanID"])]
        assert [(r["refType"], r["spanID"]) for r in hop["references"]] == [("CHILD_OF", root["spanID"]), *follows]
        assert {reference["traceID"] for reference in hop["references"]} == {demo.trace_id}
        assert root["startTime"] <= hop["startTime"]
        assert hop["startTime"] + hop["duration"] <= root["startTime"] + root["duration"]
    assert [span for span in trace["spans"] if span["warnings"]] == []
    assert not trace["warnings"]


@pytest.mark.parametrize("ending", ENDINGS, ids=NAMES)
def test_polls_are_events_on_one_span(stack: Stack, ending: Ending):
    """As many as were made, each at its own time within the span, one of them the outage that was made good."""
    trace = stack.jaeger.trace(stack.demo(ending.fail).trace_id, spans=1 + len(ending.hops))
    poll = by_name(trace)["poll export"]
    events = [tags(log["fields"]) for log in poll["logs"]]
    times = [log["timestamp"] for log in poll["logs"]]

    assert tags(poll["tags"])["trihop.poll.attempts"] == ending.polls
    assert [event["event"] for event in events] == ["trihop.attempt"] * ending.polls
    assert [event["trihop.attempt.number"] for event in events] == list(range(1, ending.polls + 1))
    assert [event.get("error.type") for event in events].count("503") == 1
    assert poll["startTime"] <= times[0] <= times[-1] <= poll["startTime"] + poll["duration"]
    assert times == sorted(times)


@pytest.mark.parametrize("ending", ENDINGS, ids=NAMES)
def test_the_root_and_the_hop_it_ended_in_are_in_error_and_no_other(stack: Stack, ending: Ending):
    """A success has no span in error, though one of its polls failed."""
    trace = stack.jaeger.trace(stack.demo(ending.fail).trace_id, spans=1 + len(ending.hops))
    failed = {name for name, span in by_name(trace).items() if tags(span["tags"]).get("error") is True}
    root = tags(by_name(trace)["export"]["tags"])

    assert failed == (set() if ending.error is None else {"export", "poll export"})
    assert (root["trihop.operation.result"], root.get("error.type")) == (ending.result, ending.error)


def test_a_search_by_job_result_or_error_finds_exactly_its_traces(stack: Stack):
    """What an operator has in hand, an id from a log or a word from an exception, leads to the trace."""
    every = {demo.trace_id for demo in stack.demos}
    for demo in stack.demos:
        trace = stack.jaeger.trace(demo.trace_id, spans=1 + len(demo.ending.hops))
        job = tags(by_name(trace)["export"]["tags"])["trihop.job.id"]
        assert stack.jaeger.find(SERVICE, {"trihop.job.id": job}) == {demo.trace_id}
    for key in ("result", "error"):
        for value in {getattr(ending, key) for ending in ENDINGS} - {None}:
            name = {"result": "trihop.operation.result", "error": "error.type"}[key]
            expected = {demo.trace_id for demo in stack.demos if getattr(demo.ending, key) == value}
            assert stack.jaeger.find(SERVICE, {name: value}) == expected
    assert stack.jaeger.find(SERVICE, {"error.type": "503"}) == every
    assert stack.jaeger.find(SERVICE, {"trihop.job.id": "none"}) == set()


def test_the_link_in_an_error_opens(stack: Stack):
    """The message of each bad ending leads to Jaeger's page of its trace; a success is told where it lies."""
    for demo in stack.demos:
        url = f"{stack.jaeger.url}/trace/{demo.trace_id}"
        if demo.ending.error is not None:
            (message,) = [line for line in demo.said.splitlines() if line.startswith(f"{demo.ending.error}: ")]
            assert message.endswith(f" Trace: {url}")
        assert demo.said.splitlines()[-1] == url
        page = requests.get(url, timeout=10)
        assert (page.status_code, page.headers["Content-Type"].partition(";")[0]) == (200, "text/html")


def test_both_stores_get_every_trace(stack: Stack):
    """The collector sends spans to Jaeger and to what stands where Tempo would."""
    for demo in stack.demos:
        spans = 1 + len(demo.ending.hops)
        one, two = (store.trace(demo.trace_id, spans=spans) for store in (stack.jaeger, stack.tempo))
        assert by_name(one) == by_name(two)


@pytest.mark.parametrize("ending", ENDINGS, ids=NAMES)
def test_the_json_we_write_is_the_json_that_jaeger_writes(stack: Stack, ending: Ending):
    """`trihop trace --jaeger` and Jaeger itself make the same of one trace, whatever the order of tags."""
    demo = stack.demo(ending.fail)
    (trace,) = read(demo.file.read_bytes().splitlines(keepends=True)).traces
    (ours,) = to_jaeger(trace)["data"]
    theirs = stack.jaeger.trace(demo.trace_id, spans=1 + len(ending.hops))

    assert ordered(ours) == ordered(theirs)


def ordered(value: Any) -> Any:
    """The same with its lists in one order."""
    if isinstance(value, dict):
        return {key: ordered(inner) for key, inner in value.items()}
    return sorted(map(ordered, value), key=repr) if isinstance(value, list) else value


def test_jaeger_reads_our_file_as_otlp(stack: Stack):
    """Its own converter makes one trace of what the file exporter wrote, a line at a time."""
    demo = stack.demo(None)
    found = []
    for line in demo.file.read_bytes().splitlines():
        answer = requests.post(f"{stack.jaeger.url}/api/transform", data=line, timeout=10)
        assert answer.status_code == 200
        found += [span["operationName"] for trace in answer.json()["data"] for span in trace["spans"]]

    assert sorted(found) == ["download export", "export", "poll export", "submit export"]


@pytest.fixture
def tracer(stack: Stack) -> Iterator[TracerProvider]:
    """An application of another make, that exports to the collector span by span."""
    provider = TracerProvider(resource=Resource.create({"service.name": "other"}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{stack.collector.otlp}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def test_credentials_of_others_do_not_reach_a_store(stack: Stack, tracer: TracerProvider):
    """Headers and secrets are deleted, a signed URL is replaced; what trihop redacted itself stays readable."""
    signed = "https://files.example.com/a.csv?X-Amz-Date=1&X-Amz-Signature=0f3a9c&x=1"
    redacted = "https://files.example.com/a.csv?X-Amz-Signature=REDACTED&sig=REDACTED"
    given = {
        "trihop.operation.name": "made-up",
        "http.request.header.authorization": ["Bearer s3cr3t"],
        "http.response.header.set_cookie": ["session=s3cr3t"],
        "http.request.header.x-api-key": ["s3cr3t"],
        "db.password": "s3cr3t",
        "client_secret": "s3cr3t",
        "http.url": signed,
        "url.query": "sig=s3cr3t&a=1",
        "http.request.header.x-request-id": ["kept"],
    }
    with tracer.get_tracer("x").start_as_current_span("a", attributes={**given, "url.full": signed}) as span:
        trace_id = format(span.get_span_context().trace_id, "032x")
        with tracer.get_tracer("x").start_as_current_span("b", attributes={"url.full": redacted}):
            pass
    trace = stack.jaeger.trace(trace_id, spans=2)
    spans = {name: tags(found["tags"]) for name, found in by_name(trace).items()}

    assert "s3cr3t" not in repr(trace)
    assert "0f3a9c" not in repr(trace)
    assert (spans["a"]["url.full"], spans["a"]["http.url"], spans["a"]["url.query"]) == ("REDACTED",) * 3
    assert spans["a"]["http.request.header.x-request-id"] == '["kept"]'
    assert spans["b"]["url.full"] == redacted
    assert given.keys() - spans["a"].keys() == {
        *("http.request.header.authorization", "http.response.header.set_cookie", "http.request.header.x-api-key"),
        *("db.password", "client_secret"),
    }


def test_every_operation_is_kept_and_a_tenth_of_the_rest(stack: Stack, tracer: TracerProvider):
    """Spans of an operation that come long after the decision are kept with it."""
    ours = tracer.get_tracer("trihop").start_span("slow", attributes={"trihop.operation.name": "slow"})
    trace_id = format(ours.get_span_context().trace_id, "032x")
    inside = set_span_in_context(ours)
    tracer.get_tracer("trihop").start_span("submit slow", inside, attributes={"trihop.operation.name": "slow"}).end()
    others = [tracer.get_tracer("x").start_span("other") for _ in range(60)]
    for other in others:
        other.end()
    stack.jaeger.trace(trace_id)  # so the decision has fallen
    SystemClock().sleep(2.5)
    tracer.get_tracer("x").start_span("of the caller", inside).end()
    ours.end()

    assert sorted(by_name(stack.jaeger.trace(trace_id, spans=3))) == ["of the caller", "slow", "submit slow"]
    kept = stack.jaeger.find("other", {}, operation="other")
    assert len(kept) < 30


APP = """
import sys, requests, trihop
from trihop.demo._provider import PROVIDER
from trihop.demo._server import DemoServer
assert trihop.configure(otlp=sys.argv[1], service="measured")
with DemoServer() as server, requests.Session() as session:
    session.trust_env = False
    session.headers["Authorization"] = f"Bearer {server.token}"
    store = trihop.MemoryStore()
    with trihop.operation("left", deadline=1, session=session, provider=PROVIDER, key="left", store=store) as op:
        op.submit("POST", f"{server.api}/jobs/query", json={"query": "SELECT Id FROM Account"})
    worker = trihop.Worker(store, session=session, providers=[PROVIDER], finish=print)
    worker.stop()
    worker.run()  # tells of the store from now on
    with trihop.operation("export", deadline=30, session=session, provider=PROVIDER) as op:
        op.run("POST", f"{server.api}/jobs/query", json={"query": "SELECT Id FROM Account"})
    print(op.trace_id)
"""


def scraped(collector: Collector) -> str:
    """What Prometheus would get, in the format in which exemplars travel."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    return requests.get(collector.metrics, headers=accept, timeout=10).text


def test_metrics_come_out_under_the_names_that_queries_use(stack: Stack):
    """What an application measures and what is counted from spans, with labels, buckets and exemplars."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", APP, stack.collector.otlp],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trace_id = done.stdout.strip()
    clock = SystemClock()
    until_s = clock.monotonic() + 20
    while "trihop_operation_duration_seconds_sum" not in (text := scraped(stack.collector)) or trace_id not in text:
        assert clock.monotonic() < until_s
        clock.sleep(0.3)
    series = {line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")}
    emitted = {row.name: prometheus_name(row) for row in semconv.METRICS.values()}
    expected = {
        f"{name}{part}"
        for metric, name in emitted.items()
        for part in (("_bucket", "_sum", "_count") if semconv.METRICS[metric].type == "histogram" else ("",))
    }

    assert expected - series == set()
    assert {SPAN_METRICS[0], *(f"{SPAN_METRICS[1]}_{part}" for part in ("bucket", "sum", "count"))} - series == set()
    for bound in semconv.METRICS[semconv.OPERATION_DURATION].buckets:
        assert re.search(rf'trihop_operation_duration_seconds_bucket{{[^}}]*le="{bound:.1f}"', text), bound
    assert re.search(r'traces_span_metrics_duration_seconds_bucket{[^}]*le="7200.0"', text)
    assert re.search(r'trihop_operation_overdue{[^}]*trihop_operation_name="left"[^}]*} 1', text)
    assert re.search(r'trihop_poll_wait_duration_seconds_sum{[^}]*trihop_wait_reason="hint"', text)
    for name in ("trihop_operation_duration_seconds", SPAN_METRICS[1]):
        assert re.search(rf'^{name}_bucket{{.*# {{.*trace_id="{trace_id}"', text, re.MULTILINE), name
    assert "job_id" not in text


def test_endings_are_counted_once_each_across_processes(stack: Stack):
    """Five demos in five processes are one series for each result: a root span is counted, a hop is not."""
    counted: dict[str, float] = {}
    for line in scraped(stack.collector).splitlines():
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if line.startswith(f"{SPAN_METRICS[0]}{{") and labels["service_name"] == SERVICE:
            result = labels.get("trihop_operation_result")
            if result is not None:
                counted[result] = counted.get(result, 0) + float(line.split("} ")[1].split()[0])

    assert counted == {"success": 1, "failure": 1, "timeout": 2, "partial": 1}
