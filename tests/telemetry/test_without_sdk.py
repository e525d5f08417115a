"""With the OpenTelemetry API alone, as a library finds it where nobody set tracing up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EXTRAS = "opentelemetry.sdk opentelemetry.exporter opentelemetry.instrumentation opentelemetry.semconv"
REMOTE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@cache
def alone(**environment: str) -> dict[str, Any]:
    """What comes of `alone.py` in a process with these variables."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "alone.py")],
        env={**plain, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_everything_works_without_the_sdk():
    """The result is there, nothing of the SDK is, and there is no trace to speak of."""
    came = alone(HIDDEN=EXTRAS)
    assert came["content"] == "a,b\n"
    assert came["sdk"] is False
    assert came["trace_id"] is None
    assert came["error_trace_id"] is None
    assert came["traceparent"] == [None] * 6


def test_messages_say_that_there_is_no_tracing():
    """An error without a trace says why, has the operation's own id, and never shows zeros."""
    came = alone(HIDDEN=EXTRAS)
    assert "trace=none (no tracing configured)" in came["message"]
    assert "00000000" not in came["message"]
    assert re.fullmatch("[0-9a-f]{32}", came["id"])


def test_a_remote_parent_is_passed_on_without_the_sdk():
    """A service in the middle that traces nothing itself does not break the chain."""
    came = alone(HIDDEN=EXTRAS, REMOTE=REMOTE)
    assert came["trace_id"] == came["error_trace_id"] == REMOTE[3:35]
    assert came["traceparent"] == [REMOTE] * 6
    assert f"trace={REMOTE[3:35]}" in came["message"]


def test_a_disabled_sdk_is_as_good_as_none():
    """`OTEL_SDK_DISABLED=true` with an SDK set up: no spans, no trace id, and the result all the same."""
    came = alone(SDK="on", OTEL_SDK_DISABLED="true")
    assert (came["content"], came["trace_id"], came["spans"]) == ("a,b\n", None, [])
    assert "trace=none (no tracing configured)" in came["message"]


def test_a_sampler_from_the_environment_is_respected():
    """`OTEL_TRACES_SAMPLER=always_off`: no spans, and a valid trace id that the server is told."""
    came = alone(SDK="on", OTEL_TRACES_SAMPLER="always_off")
    assert (came["content"], came["spans"]) == ("a,b\n", [])
    assert [parent[3:35] for parent in came["traceparent"][:4]] == [came["trace_id"]] * 4


def test_a_propagator_that_is_not_installed_costs_the_header_alone():
    """`OTEL_PROPAGATORS` with a name nobody knows makes OpenTelemetry fail when it is asked; the job goes on."""
    came = alone(SDK="on", OTEL_PROPAGATORS="nonsense")
    assert came["content"] == "a,b\n"
    assert came["traceparent"] == [None] * 6
    assert came["trace_id"] is not None


def test_a_provider_that_is_not_installed_costs_the_trace_alone():
    """`OTEL_PYTHON_TRACER_PROVIDER` with a name nobody knows makes OpenTelemetry fail; the job goes on untraced."""
    came = alone(OTEL_PYTHON_TRACER_PROVIDER="nonsense", OTEL_PYTHON_METER_PROVIDER="nonsense")
    assert (came["content"], came["trace_id"]) == ("a,b\n", None)
