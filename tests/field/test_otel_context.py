"""Work that fell out of its trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from field.jobs import JOBS, state, submitted
from trihop import operation


def test_otel_08_thread_pool_context(server, session, spans, clock):
    """An operation opened in one thread and waited for in another is one trace; bound functions are in it as well.

    https://github.com/open-telemetry/opentelemetry-python-contrib/issues/1009
    """
    server.script(submitted(), state("running"), state("done", results="{url}rows"), b"rows", "page")

    with (
        ThreadPoolExecutor(1) as pool,
        operation("export", deadline=600, session=session, provider=JOBS, clock=clock) as op,
    ):
        job = op.submit("POST", server.url + "jobs", json={})
        ready = pool.submit(op.poll, job).result()
        assert pool.submit(op.download, ready).result().content == b"rows"
        assert pool.submit(op.bind(session.get), server.url + "page").result().text == "page"

    assert {span.context.trace_id for span in spans.all} == {int(op.trace_id, 16)}
    root = spans.named("export")
    assert [span.name for span in spans.children(root)] == ["submit export", "poll export", "download export", "GET"]
    assert {call.headers["traceparent"][3:35] for call in server.calls} == {op.trace_id}


def test_otel_10_lro_scopes(server, session, spans, fetch, clock):
    """However often it is asked, an operation is one span with one below it for each hop; so is a loop of one's own.

    https://github.com/Azure/autorest.csharp/issues/2136
    """
    replies = [submitted(), *[state("running")] * 30, state("done", results="{url}rows"), b"rows"]
    server.script(*replies)
    fetch(deadline=3600)
    [root] = spans.roots
    hops = ["submit export", "poll export", "download export"]
    assert [span.name for span in spans.children(root)] == hops
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 31

    spans.clear()
    server.script(submitted(), *[state("running")] * 30, state("done", results="/rows"), b"rows")
    with operation("export", deadline=600, session=session, clock=clock):
        status = server.url.rstrip("/") + session.post(server.url + "jobs").headers["Location"]
        while (answer := session.get(status).json())["state"] == "running":
            clock.sleep(5)
        session.get(server.url.rstrip("/") + answer["results"])
    [root] = spans.roots
    assert [span.name for span in spans.children(root)] == hops
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 31
