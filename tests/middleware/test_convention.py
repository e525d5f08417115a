"""Switched on from outside, by OpenTelemetry's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trihop.testing import ScriptedServer, accepted, done, running

HERE = Path(__file__).parent


def instrumented(server: ScriptedServer, **environment: str) -> list[dict[str, Any]]:
    """The spans that `opentelemetry-instrument python app.py` writes to its console."""
    server.script("outside", accepted("jobs/J-1"), running(), running(), done())
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ran = subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, HERE / "app.py", server.url],
        env={
            **plain,
            "OTEL_TRACES_EXPORTER": "console",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    decoder, rest, spans = json.JSONDecoder(), ran.stdout.strip(), []
    while rest:
        span, end = decoder.raw_decode(rest)
        spans.append(span)
        rest = rest[end:].strip()
    return spans


def names(spans: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Each span's name, and whether it is a root."""
    return [(span["name"], span["parent_id"] is None) for span in spans]


@pytest.mark.parametrize("disabled", ["urllib3", ""], ids=["with requests", "with requests and urllib3"])
def test_opentelemetry_instrument_switches_it_on(server, disabled):
    """Every session is covered, beside the instrumentations of requests and urllib3, which tell what is outside."""
    spans = instrumented(server, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=disabled)

    assert names(spans) == [
        ("GET", True),
        ("submit export", False),
        ("poll export", False),
        ("export", True),
    ]
    assert [call.headers.get("traceparent", "")[3:35] for call in server.calls[1:]] == [
        spans[-1]["context"]["trace_id"].removeprefix("0x")
    ] * 4


def test_it_can_be_switched_off(server):
    """`OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=trihop`: the block is there, and covers no session it was not given."""
    spans = instrumented(server, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="trihop,urllib3")

    assert names(spans) == [
        ("GET", True),
        *[(method, False) for method in ("POST", "GET", "GET", "GET")],
        ("export", True),
    ]


def test_all_can_be_switched_off(server):
    """Only the block itself is left."""
    assert names(instrumented(server, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="*")) == [("export", True)]
