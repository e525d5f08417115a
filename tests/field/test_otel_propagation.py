"""Trace headers that went where they should not."""

from __future__ import annotations

import pytest
from opentelemetry import baggage, context
from opentelemetry.propagate import get_global_textmap

from field.jobs import state, submitted
from trihop import Reply, ResultUnavailable, operation


@pytest.fixture
def with_baggage():
    """Baggage in the caller's context, and a propagator that would send it: OpenTelemetry's default has one."""
    assert "baggage" in get_global_textmap().fields
    token = context.attach(baggage.set_baggage("customer", "secret"))
    yield
    context.detach(token)


def test_otel_04_no_propagation_switch(server, other, session, spans, fetch, clock, with_baggage):
    """`traceparent` goes to the API alone and can be switched off; a foreign host gets none, and nobody gets baggage.

    https://github.com/open-telemetry/opentelemetry-python-contrib/issues/344
    """
    server.script(submitted(), state("running"), state("done", results=f"{other.url}rows"))
    other.script(b"rows")
    fetch()
    assert all("traceparent" in call.headers for call in server.calls)
    assert "traceparent" not in other.calls[0].headers

    # A loop of the caller's own: what a reply handed out stays at home as well.
    server.script({"link": f"{other.url}more"})
    other.script(b"more")
    with operation("plain", deadline=60, session=session, clock=clock):
        session.get(session.get(server.url).json()["link"])
    assert "traceparent" in server.calls[-1].headers
    assert "traceparent" not in other.calls[-1].headers

    since = len(server.calls)
    server.script("x")
    with operation("plain", deadline=60, session=session, clock=clock, propagate=False):
        session.get(server.url)
    assert "traceparent" not in server.calls[since].headers
    assert not any("baggage" in call.headers for call in (*server.calls, *other.calls))


def test_otel_06_traceparent_breaks_signature(server, other, session, spans, fetch, clock):
    """Into a signed URL nothing is put; where one was signed with a header that only its maker sent, the error says so.

    https://github.com/open-telemetry/opentelemetry-go-contrib/issues/3368
    """
    refused = Reply(403, content=b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
    for signed_headers, answer in (("host", b"rows"), ("host%3Btraceparent", refused)):
        query = f"X-Amz-SignedHeaders={signed_headers}&X-Amz-Signature=ab"
        server.script(submitted(), state("done", results=f"{server.url}k?{query}"))
        server.on("GET", f"/k?{query}", then_always=answer)
        if answer == b"rows":
            assert fetch().content == b"rows"
            with operation("plain", deadline=60, session=session, clock=clock):
                session.get(f"{server.url}k?{query}")
        else:
            server.script(state("done", results=f"{server.url}k?{query}"))
            with pytest.raises(ResultUnavailable, match="its link was signed with traceparent, which only its maker"):
                fetch()

    signed = [call for call in server.calls if call.path.startswith("/k?")]
    assert len(signed) >= 3
    assert not any("traceparent" in call.headers for call in signed)
