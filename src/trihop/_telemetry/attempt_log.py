"""Attempts as log events, each as it happens: they outlive a process that is killed before its spans end.

For applications that have set a logger provider. That part of OpenTelemetry's
API is unstable, as its name `_logs` says, so nothing here imports it: whoever
has set a provider has.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from trihop._telemetry import semconv
from trihop._telemetry.fold import Attempt, fields
from trihop._telemetry.tracing import Attributes, TraceSpan, _encodable, _takes, quietly
from trihop._version import __version__

log = logging.getLogger("trihop")

_NOBODY = ("NoOpLoggerProvider", "ProxyLoggerProvider")


class AttemptLog:
    """Writes to one logger provider."""

    def __init__(self, logs: Any) -> None:
        severity = logs.SeverityNumber
        self._plain, self._changed, self._failed = severity.DEBUG, severity.INFO, severity.WARN
        self._emit = logs.get_logger(semconv.SCOPE, __version__, schema_url=semconv.SCHEMA_URL).emit

    def write(self, attempt: Attempt, attributes: Attributes, span: TraceSpan) -> None:
        """One event beside the span: WARN where it brought no answer, INFO where the state changed, else DEBUG.

        Those at DEBUG only where the logger `trihop` is at that level: a poll of hours makes many.
        """
        if attempt.error_type is not None:
            severity = self._failed
        elif attempt.changed:
            severity = self._changed
        elif log.isEnabledFor(logging.DEBUG):
            severity = self._plain
        else:
            return
        quietly(self._write, severity, attempt, attributes, span)

    def _write(self, severity: Any, attempt: Attempt, attributes: Attributes, span: TraceSpan) -> None:
        given = {name: _encodable(value) for name, value in attributes.items() if value is not None}
        self._emit(
            timestamp=attempt.at_ns + int(attempt.duration_s * 1e9),
            context=span._inside,
            severity_number=severity,
            severity_text=severity.name,
            body=_in_words(attempt, given),
            attributes={**given, **fields(attempt)},
            event_name=semconv.ATTEMPT,
        )


def _in_words(attempt: Attempt, attributes: Attributes) -> str:
    """What a list of log lines shows: "poll export, attempt 3: 503"."""
    what = attempt.error_type or attempt.state or attempt.verdict or attempt.status_code or "no answer"
    return f"{attributes[semconv.HOP]} {attributes[semconv.OPERATION_NAME]}, attempt {attempt.number}: {what}"


_log_of: tuple[object, AttemptLog | None] | None = None


def attempt_log() -> AttemptLog | None:
    """What events go to now; None where the application has set no provider, or one from before OpenTelemetry 1.38."""
    return quietly(_attempt_log)


def _attempt_log() -> AttemptLog | None:
    logs: Any = sys.modules.get("opentelemetry._logs")
    if logs is None:
        return None
    global _log_of
    provider = logs.get_logger_provider()
    if _log_of is None or _log_of[0] is not provider:
        wanted = type(provider).__name__ not in _NOBODY and _takes(logs.Logger.emit, "event_name")
        _log_of = (provider, AttemptLog(logs) if wanted else None)
    return _log_of[1]
