"""Attempts as log events, for applications that have set a logger provider."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import opentelemetry._logs as logs
import pytest
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from telling import ACCEPTED, CONTENT, done, export, in_turn, run, running, told, tracing

from trihop import OperationError
from trihop.testing import VirtualClock


@contextmanager
def logging_to(*processors: LogRecordProcessor) -> Iterator[InMemoryLogRecordExporter]:
    """A logger provider in place of the global one for the block; what it got."""
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    for processor in (*processors, SimpleLogRecordProcessor(exporter)):
        provider.add_log_record_processor(processor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs._internal, "_LOGGER_PROVIDER", provider)
        yield exporter


def records(exporter: InMemoryLogRecordExporter) -> list[Any]:
    return [found.log_record for found in exporter.get_finished_logs()]


def lines(exporter: InMemoryLogRecordExporter) -> Sequence[tuple[str, str]]:
    return [(record.severity_text, record.body) for record in records(exporter)]


OUTAGE = told(503, x_request_id="r-1")


def test_changes_and_errors_are_logged_as_they_happen(clock: VirtualClock):
    """An answer like the one before is not; nor is anything said twice."""
    session = in_turn(ACCEPTED, running("queued"), running("queued"), running(), OUTAGE, running(), done(), CONTENT)
    with logging_to() as exporter:
        run(session, clock)

    assert lines(exporter) == [
        ("INFO", "submit export, attempt 1: accepted"),
        ("INFO", "poll export, attempt 1: queued"),
        ("INFO", "poll export, attempt 3: running"),
        ("WARN", "poll export, attempt 4: 503"),
        ("INFO", "poll export, attempt 5: running"),
        ("INFO", "poll export, attempt 6: succeeded"),
        ("INFO", "download export, attempt 1: content"),
    ]
    assert {record.event_name for record in records(exporter)} == {"trihop.attempt"}


def test_they_are_there_before_the_span_ends(clock: VirtualClock):
    """So a process that is killed has told how far it had come."""
    seen = []
    session = in_turn(ACCEPTED, running(), lambda: (seen.extend(lines(exporter)), done())[1], CONTENT)
    with logging_to() as exporter, tracing() as spans:
        run(session, clock)

    assert seen[-1] == ("INFO", "poll export, attempt 1: running")
    assert len(spans.get_finished_spans()) == 4


def test_an_event_says_what_the_event_on_the_span_says_and_belongs_to_it(clock: VirtualClock):
    """The same names, those of the operation besides, and the ids of the hop's span."""
    session = in_turn(ACCEPTED, OUTAGE, done(), CONTENT)
    with logging_to() as exporter, tracing() as spans:
        op = run(session, clock)
    [outage] = [record for record in records(exporter) if record.severity_text == "WARN"]
    [poll] = [span for span in spans.get_finished_spans() if span.name == "poll export"]
    on_span = dict(poll.events[0].attributes or {})
    ours = dict(outage.attributes)

    assert (outage.trace_id, outage.span_id) == (poll.context.trace_id, poll.context.span_id)
    assert outage.timestamp == poll.events[0].timestamp + int(on_span["trihop.attempt.duration"] * 1e9)
    assert {name: ours.pop(name) for name in ("trihop.operation.name", "trihop.operation.id", "trihop.hop")} == {
        "trihop.operation.name": "export",
        "trihop.operation.id": op.id,
        "trihop.hop": "poll",
    }
    assert ours.pop("trihop.provider") == "generic.accepted"
    # The pause that follows is not known yet.
    assert ours == {name: value for name, value in on_span.items() if not name.startswith("trihop.wait.")}


def test_every_attempt_is_logged_where_the_logger_is_at_debug(clock: VirtualClock, caplog: pytest.LogCaptureFixture):
    """The switch that everybody knows."""
    caplog.set_level(logging.DEBUG, "trihop")
    session = in_turn(ACCEPTED, running(), running(), running(), done(), CONTENT)
    with logging_to() as exporter:
        run(session, clock)

    assert [line for line in lines(exporter) if line[0] == "DEBUG"] == [
        ("DEBUG", "poll export, attempt 2: running"),
        ("DEBUG", "poll export, attempt 3: running"),
    ]


def test_what_is_not_sampled_is_logged_all_the_same(clock: VirtualClock):
    """Logs are not sampled with spans; the flag says that there is no trace to look for."""
    with logging_to() as exporter, tracing(sampler=ALWAYS_OFF) as spans:
        run(in_turn(ACCEPTED, done(), CONTENT), clock)

    assert spans.get_finished_spans() == ()
    assert [record.trace_flags & 1 for record in records(exporter)] == [0, 0, 0]


def test_requests_of_the_callers_own_are_logged_too(clock: VirtualClock):
    """In a loop that names its hop."""
    session = in_turn(running("queued"), running(), done())
    with logging_to() as exporter, export(session, clock) as op, op.hop("poll") as hop:
        while hop.wait(session.get("https://api.example.com/jobs/1")) is None:
            pass

    assert [line[1] for line in lines(exporter)] == [
        "poll export, attempt 1: queued",
        "poll export, attempt 2: running",
        "poll export, attempt 3: succeeded",
    ]


def test_nothing_secret_is_logged(clock: VirtualClock):
    """A server that quotes the credentials it was sent is quoted without them."""
    session = in_turn(ACCEPTED, running("running for tok-4711-secret"), told(500, x_request_id="tok-4711-secret"))
    session.headers["Authorization"] = "Bearer tok-4711-secret"
    with logging_to() as exporter, pytest.raises(OperationError):
        run(session, clock)

    assert len(records(exporter)) > 2
    assert "4711" not in "".join(record.to_json() for record in exporter.get_finished_logs())


class Broken(LogRecordProcessor):
    def on_emit(self, log_record: Any) -> None:
        raise RuntimeError("broken")

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True


def test_a_logger_that_fails_costs_no_job(clock: VirtualClock):
    """It is told of once, and the operation goes on."""
    with logging_to(Broken()):
        assert run(in_turn(ACCEPTED, running(), done(), CONTENT), clock).job is not None


def test_without_a_provider_of_the_applications_nothing_is_emitted(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    """The API's own stand-in takes no events, so none are made."""
    asked = []
    monkeypatch.setattr(logs._internal.ProxyLoggerProvider, "get_logger", lambda *given, **_: asked.append(given))
    run(in_turn(ACCEPTED, done(), CONTENT), clock)

    assert asked == []


def test_an_older_api_has_no_log_events(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """Before 1.38 a logger could not be given an event's name."""
    with logging_to() as exporter:
        monkeypatch.setattr(logs.Logger, "emit", lambda self, record: None)
        run(in_turn(ACCEPTED, done(), CONTENT), clock)

    assert records(exporter) == []
