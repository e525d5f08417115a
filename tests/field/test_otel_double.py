"""Requests that were told twice, or not at all."""

from __future__ import annotations

import pytest
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor

from field.jobs import state, submitted
from trihop import Reply, operation


@pytest.fixture(params=["none", "requests", "urllib3", "both"])
def instrumented(request):
    """The instrumentations that applications have, active."""
    active = [
        instrumentor()
        for name, instrumentor in (("requests", RequestsInstrumentor), ("urllib3", URLLib3Instrumentor))
        if request.param in (name, "both")
    ]
    for instrumentor in active:
        instrumentor.instrument()
    yield request.param
    for instrumentor in active:
        instrumentor.uninstrument()


def test_otel_01_double_http_spans(server, session, spans, fetch, clock, instrumented):
    """One span for each hop and one for each request of the caller's, whoever else instruments the sending.

    https://github.com/Azure/azure-sdk-for-python/issues/19573
    """
    server.script(submitted(), state("running"), state("done", results="{url}rows"), b"rows", "mine", "put")

    fetch()
    with operation("plain", deadline=60, session=session, clock=clock):
        session.get(server.url)
        session.put(server.url, data=b"x")

    told = ["submit export", "poll export", "download export", "export", "GET", "PUT", "plain"]
    assert [span.name for span in spans.all] == told
    assert {span.instrumentation_scope.name for span in spans.all} == {"trihop"}


def test_otel_03_retries_redirects_unseen(server, session, spans, fetch, clock):
    """Each request on the wire is told with its number and status, resends and redirects included.

    https://github.com/open-telemetry/opentelemetry-python-contrib/issues/2000
    """
    server.script(submitted(), state("done", results="{url}rows"), 503, 503, b"rows")
    fetch()
    download = spans.named("download export")
    attempts = [dict(event.attributes) for event in download.events]
    assert [(one["trihop.attempt.number"], one["http.response.status_code"]) for one in attempts] == [
        (1, 503),
        (2, 503),
        (3, 200),
    ]
    assert download.attributes["http.request.resend_count"] == 2

    spans.clear()
    server.script(Reply(302, headers={"Location": "/b"}), "there")
    with operation("plain", deadline=60, session=session, clock=clock):
        session.get(server.url + "a")
    told = [(span.attributes["url.full"], span.attributes["http.response.status_code"]) for span in spans.all[:-1]]
    assert told == [(server.url + "a", 302), (server.url + "b", 200)]
