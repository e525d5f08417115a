"""Jaeger, built from its own source, as a store and as a collector: one binary runs both configurations."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from acceptance.servers import CACHE, free_port, serving
from trihop._clock import SystemClock

TESTS = Path(__file__).resolve().parents[2]
MODULE = TESTS / "jaeger"
CONFIG = TESTS.parent / "collector-config"
_FOUND_WITHIN_S = 20.0


def binary() -> Path:
    """Jaeger's binary, built once for each state of `tests/jaeger`; that takes some ten minutes on two cores.

    Raises:
        RuntimeError: Go is missing or the build failed; the message has the end of what it said.
    """
    pinned = hashlib.sha256((MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes()).hexdigest()
    program = CACHE / f"jaeger-{pinned[:12]}" / "jaeger"
    if not program.exists():
        print("building Jaeger; this takes some minutes the first time", file=sys.stderr, flush=True)
        fresh = program.with_suffix(".fresh")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(fresh)]
        _said([*command, "github.com/jaegertracing/jaeger/cmd/jaeger"], cwd=MODULE)
        fresh.rename(program)
    return program


def validate(config: Path) -> None:
    """Have the binary build every component of a configuration. Raises RuntimeError with its complaint."""
    _said([str(binary()), "validate", "--config", str(config)])


def _said(command: list[str], cwd: Path | None = None) -> None:
    finished = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {(finished.stdout + finished.stderr)[-2000:]}")


@dataclass(frozen=True)
class Jaeger:
    """A Jaeger that runs.

    Attributes:
        url: Of its API and page.
        otlp: Of its OTLP receiver over HTTP.
        otlp_grpc: Host and port of its OTLP receiver over gRPC.
        pid: Of its process.
    """

    url: str
    otlp: str
    otlp_grpc: str
    pid: int

    def trace(self, trace_id: str, *, spans: int = 1) -> dict[str, Any]:
        """A trace as Jaeger tells it, once so many spans of it have come.

        Raises:
            AssertionError: They did not come in time.
        """
        clock = SystemClock()
        until_s = clock.monotonic() + _FOUND_WITHIN_S
        told: dict[str, Any] = {"spans": []}
        while clock.monotonic() < until_s:
            answer = requests.get(f"{self.url}/api/traces/{trace_id}", timeout=10)
            if answer.status_code == 200:
                (told,) = answer.json()["data"]
                if len(told["spans"]) >= spans:
                    return told
            clock.sleep(0.2)
        raise AssertionError(f"{len(told['spans'])} of {spans} spans of trace {trace_id} came")

    def find(self, service: str, tags: Mapping[str, str], **query: str) -> set[str]:
        """The ids of the traces of a service that have these tags."""
        asked = {"service": service, "tags": json.dumps(dict(tags)), "limit": "1000", "lookback": "1h", **query}
        answer = requests.get(f"{self.url}/api/traces", params=asked, timeout=10)
        answer.raise_for_status()
        return {found["traceID"] for found in answer.json()["data"]}


@contextmanager
def running(folder: Path, *, keep: bool = False) -> Iterator[Jaeger]:
    """Jaeger with the shipped `jaeger.yaml` on free ports of 127.0.0.1; its log goes into the folder."""
    names = ("QUERY_HTTP", "QUERY_GRPC", "HEALTH", "OTLP_GRPC", "OTLP_HTTP")
    ports = {name: free_port() for name in names}
    environment = {f"JAEGER_{name}_PORT": str(port) for name, port in ports.items()}
    command = [binary(), "--config", CONFIG / "jaeger.yaml"]
    url = f"http://127.0.0.1:{ports['QUERY_HTTP']}"
    ready, log = f"{url}/api/services", folder / "jaeger.log"
    with serving(command, ready=ready, log=log, environment=environment, keep=keep) as process:
        http, grpc = (f"127.0.0.1:{ports[f'OTLP_{name}']}" for name in ("HTTP", "GRPC"))
        yield Jaeger(url, f"http://{http}", grpc, process.pid)


@dataclass(frozen=True)
class Collector:
    """A collector that runs: where it takes OTLP over HTTP, and where Prometheus would scrape it."""

    otlp: str
    metrics: str


@contextmanager
def collecting(folder: Path, *, jaeger: Jaeger, tempo: Jaeger) -> Iterator[Collector]:
    """The shipped `collector.yaml`, run by Jaeger's binary in front of two stores; it decides after a second."""
    http, grpc, prometheus = (f"127.0.0.1:{free_port()}" for _ in range(3))
    environment = {
        "COLLECTOR_OTLP_HTTP": http,
        "COLLECTOR_OTLP_GRPC": grpc,
        "COLLECTOR_PROMETHEUS": prometheus,
        "COLLECTOR_DECISION_WAIT": "1s",
        "COLLECTOR_FLUSH": "1s",
        "JAEGER_OTLP": jaeger.otlp_grpc,
        "TEMPO_OTLP": tempo.otlp_grpc,
        "no_proxy": os.environ.get("no_proxy", "127.0.0.1,localhost"),
    }
    command = [binary(), "--config", CONFIG / "collector.yaml"]
    metrics = f"http://{prometheus}/metrics"
    with serving(command, ready=metrics, log=folder / "collector.log", environment=environment):
        yield Collector(f"http://{http}", metrics)
