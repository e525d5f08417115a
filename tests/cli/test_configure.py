"""`trihop.configure`, each time in a process of its own: what it sets is set for good."""

from __future__ import annotations

import gzip
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from processes import ENVIRONMENT

from trihop._clock import SystemClock
from trihop.viewer import read

RUN = """
import json, sys, time
import requests
import trihop
{before}
configured = trihop.configure(**json.loads(sys.argv[1]))
began = time.perf_counter()
with trihop.operation("nightly", deadline=60) as op:
    trace_id = op.trace_id
{after}
print(json.dumps([configured, trace_id, time.perf_counter() - began]))
"""


def app(
    before: str = "", *, env: Mapping[str, str] | None = None, after: str = "", **arguments: str
) -> subprocess.CompletedProcess[str]:
    """An application with one operation in it."""
    code = RUN.format(before=before, after=after)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, json.dumps(arguments)],
        env={**ENVIRONMENT, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def came(done: subprocess.CompletedProcess[str]) -> tuple[bool, str | None, float]:
    assert done.returncode == 0, done.stderr
    configured, trace_id, seconds = json.loads(done.stdout.splitlines()[-1])
    return configured, trace_id, seconds


class Collector(ThreadingHTTPServer):
    """Takes what is posted, by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.taken: dict[str, bytes] = {}


class _Taker(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.taken[self.path] = self.server.taken.get(self.path, b"") + plain
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as listening:
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        yield listening
        listening.shutdown()


@pytest.fixture
def closed() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_spans_go_to_a_private_file(tmp_path: Path):
    """The operation's trace is in it when the process has ended, under the service's name."""
    file = tmp_path / "t.jsonl"
    configured, trace_id, _ = came(app(file=str(file), service="nightly-batch"))
    (trace,) = read(file.read_bytes().splitlines(keepends=True)).traces

    assert configured is True
    assert (trace.id, trace.name, trace.spans[0].service) == (trace_id, "nightly", "nightly-batch")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_line_that_an_earlier_writer_left_unfinished_stays_alone(tmp_path: Path):
    """What is appended begins on a line of its own; a file that others could read no longer is."""
    file = tmp_path / "t.jsonl"
    file.write_text('{"resourceSpans":[')
    file.chmod(0o644)
    came(app(file=str(file)))
    reading = read(file.read_bytes().splitlines(keepends=True))

    assert [fault.line for fault in reading.faults] == [1]
    assert [trace.name for trace in reading.traces] == ["nightly"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_device_keeps_its_mode():
    """Only files are closed to others: as root, spans sent to /dev/null would close that to the whole machine."""
    before = os.stat(os.devnull).st_mode
    came(app(file=os.devnull))

    assert os.stat(os.devnull).st_mode == before


def test_spans_and_metrics_go_to_a_collector(collector: Collector, tmp_path: Path):
    """Both signals arrive before the process has ended, beside the file where both are named."""
    came(app(otlp=collector.url, file=str(tmp_path / "t.jsonl")))

    assert sorted(collector.taken) == ["/v1/metrics", "/v1/traces"]
    assert b"trihop.operation.name" in collector.taken["/v1/traces"]
    assert b"trihop.operation.duration" in collector.taken["/v1/metrics"]
    assert len(read((tmp_path / "t.jsonl").read_bytes().splitlines(keepends=True)).traces) == 1


def test_metrics_can_stay_at_home(collector: Collector):
    """OpenTelemetry's own variable says so, for a collector that takes traces only."""
    came(app(otlp=collector.url, env={"OTEL_METRICS_EXPORTER": "none"}))

    assert sorted(collector.taken) == ["/v1/traces"]


def test_the_environment_may_name_the_collector_and_the_service(collector: Collector):
    """OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_SERVICE_NAME are the operator's, and win over nothing and a name."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "theirs"}
    came(app(env=env, service="ours"))

    assert b"theirs" in collector.taken["/v1/traces"]
    assert b"ours" not in collector.taken["/v1/traces"]


def test_a_provider_that_is_set_is_left_alone(tmp_path: Path):
    """An application with a set-up of its own keeps it: nothing is added, nothing is written."""
    theirs = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider as T; mine = T(); "
    theirs += "trace.set_tracer_provider(mine)"
    done = app(theirs, after="assert trace.get_tracer_provider() is mine", file=str(tmp_path / "t.jsonl"))
    configured, trace_id, _ = came(done)

    assert configured is False
    assert trace_id is not None
    assert not (tmp_path / "t.jsonl").exists()


def test_a_second_call_changes_nothing(tmp_path: Path):
    """The first one set the provider."""
    second = "trihop.configure(file=json.loads(sys.argv[1])['file'] + '.first')"
    configured, _, _ = came(app(second, file=str(tmp_path / "t.jsonl")))

    assert configured is False
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl.first"]


def test_neither_file_nor_collector_is_refused():
    """A call that would send nothing anywhere says what to name."""
    done = app()

    assert done.returncode == 1
    assert "ValueError: name a file or a collector" in done.stderr


@pytest.mark.parametrize(
    ("hidden", "arguments", "extra"),
    [
        ("opentelemetry.sdk", {"file": "t.jsonl"}, "cli"),
        ("opentelemetry.sdk", {"otlp": "http://127.0.0.1:9"}, "otlp"),
        ("opentelemetry.exporter.otlp.json.file", {"file": "t.jsonl"}, "cli"),
        ("opentelemetry.exporter.otlp.proto.http", {"otlp": "http://127.0.0.1:9"}, "otlp"),
    ],
)
def test_a_missing_extra_is_named(hidden: str, arguments: dict[str, str], extra: str):
    """What to install stands in the error."""
    done = app(f"sys.modules[{hidden!r}] = None", **arguments)

    assert done.returncode == 1
    assert f"is not installed: pip install 'trihop[{extra}]'" in done.stderr.splitlines()[-1]


def test_a_collector_that_is_not_there_slows_nothing_and_holds_the_exit_as_long_as_its_variable_says(closed: str):
    """Emitting does not wait for it; the exit waits OTEL_EXPORTER_OTLP_TIMEOUT for each signal, here twice a second."""
    more = "for n in range(200):\n    with trihop.operation('nightly', deadline=60): pass"
    clock = SystemClock()
    began = clock.monotonic()
    came(app(after=more, otlp=closed, env={"OTEL_SDK_DISABLED": "true"}))
    idle = clock.monotonic() - began
    configured, trace_id, emitting = came(app(after=more, otlp=closed, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}))
    whole = clock.monotonic() - began - idle

    assert configured is True
    assert trace_id is not None
    assert emitting < 1.0
    assert whole < idle + 2 * 1 + 2.0
