"""Credentials and signed links, which are written down nowhere."""

from __future__ import annotations

import logging

import pytest
from opentelemetry.instrumentation.requests import RequestsInstrumentor

from field.jobs import JOBS, state, submitted
from trihop import ResultUnavailable, StatusUnavailable, SubmitRejected, operation

CANARY = "c4n4ry"


@pytest.fixture
def instrumented():
    """The instrumentation of `requests` that many users have, active."""
    RequestsInstrumentor().instrument()
    yield
    RequestsInstrumentor().uninstrument()


def test_sec_01_xamz_not_redacted(server, other, spans, fetch, instrumented):
    """Of a signed link our span keeps the names alone, and no instrumentation below adds a span that keeps more.

    https://github.com/aws-observability/aws-otel-python-instrumentation/pull/840
    """
    query = f"X-Amz-Signature={CANARY}1&X-Amz-Credential={CANARY}2%2Fs3&X-Amz-Security-Token={CANARY}3"
    server.script(submitted(), state("done", results=f"{other.url}k?{query}"))
    other.script(b"rows")

    assert fetch().content == b"rows"
    assert spans.named("download export").attributes["url.full"] == (
        f"{other.url}k?X-Amz-Signature=REDACTED&X-Amz-Credential=REDACTED&X-Amz-Security-Token=REDACTED"
    )
    assert [span.name for span in spans.all] == ["submit export", "poll export", "download export", "export"]
    assert CANARY not in "".join(span.to_json() for span in spans.all)


def test_sec_03_record_exception(server, spans, fetch, told, dead_port):
    """A failure below is told in redacted words, and no span has an event that holds the exception itself.

    https://github.com/deslicer/mcp-for-splunk/pull/204
    """
    link = f"http://127.0.0.1:{dead_port}/rows?X-Amz-Signature={CANARY}"
    server.script(submitted(), state("done", results=link))

    with pytest.raises(ResultUnavailable, match="connect_refused") as unreachable:
        fetch()
    assert "X-Amz-Signature=REDACTED" in str(unreachable.value.cause)
    assert {event.name for span in spans.all for event in span.events} == {"trihop.attempt"}
    assert CANARY not in told(unreachable.value)


def test_sec_05_backend_safe_keys(server, session, spans, wait_for, told):
    """A key in a query is redacted where the span is written, and in texts that quote it, with no scrubber behind us.

    The job keeps the link it was given, to be polled again, and nothing that the session adds to it.

    https://github.com/pydantic/logfire/issues/1504
    """
    session.params = {"code": f"{CANARY}/+1"}
    server.script(
        submitted(Location=f"/jobs/J1?key={CANARY}2"), state("", status=400, message=f"no such code {CANARY}/+1")
    )

    with pytest.raises(StatusUnavailable, match="no such code REDACTED") as refused:
        wait_for()
    assert [call.query for call in server.calls[1:]] == [{"key": f"{CANARY}2", "code": f"{CANARY}/+1"}]
    assert spans.named("poll export").attributes["url.full"] == f"{server.url}jobs/J1?key=REDACTED"
    assert CANARY not in told(refused.value)
    assert (refused.value.job.submit_url, refused.value.job.status_url) == (
        server.url + "jobs",
        f"{server.url}jobs/J1?key={CANARY}2",
    )


def test_sec_07_upload_url_in_logs(session, clock, told, caplog, dead_port):
    """An error that the caller logs with its traceback shows no link, though `requests` raised one.

    https://github.com/cp2004/OctoPrint-OneDrive-Backup/issues/178
    """
    upload = f"http://127.0.0.1:{dead_port}/up/session?tempauth={CANARY}"

    with (
        pytest.raises(SubmitRejected, match="never reached") as unreachable,
        operation("upload", deadline=60, session=session, provider=JOBS, clock=clock) as op,
    ):
        op.submit("PUT", upload, data=b"backup")
    logging.getLogger("app").error("upload failed", exc_info=unreachable.value)

    assert "tempauth=REDACTED" in str(unreachable.value.cause)
    assert "SubmitRejected" in caplog.text
    assert CANARY not in "".join(caplog.handler.format(r) for r in caplog.records if not r.name.startswith("urllib3"))
    assert CANARY not in told(unreachable.value)
