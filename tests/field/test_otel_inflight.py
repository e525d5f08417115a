"""Operations that nothing was seen of until they ended."""

from __future__ import annotations

from field.jobs import JOBS, state, submitted
from trihop import MemoryStore, operation
from trihop.testing import dripped


def test_otel_16_invisible_until_end(server, session, clock, spans):
    """While an operation of many hours runs, its start and its submit are there to be seen, under its trace.

    https://github.com/open-telemetry/opentelemetry-python-contrib/issues/3564
    """
    seen = []

    def polled(call):
        seen.append([span.name for span in spans.all])
        return state("done")

    server.script(submitted(), polled)
    options = {"deadline": 86_400, "session": session, "provider": JOBS, "clock": clock}
    with operation("export", key="k", store=MemoryStore(clock=clock), **options) as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    assert seen == [["start export", "submit export"]]
    assert {span.context.trace_id for span in spans.all} == {spans.named("export").context.trace_id}


def test_otel_20_body_time_missing(server, fetch, spans):
    """The download's span lasts until the last byte is there, and says how many came and how fast.

    https://github.com/open-telemetry/opentelemetry-python-contrib/issues/1908
    """
    server.script(submitted(), state("done", results="/rows"), dripped(b"r" * 600, every=1.0, size=10))

    fetch()

    download = spans.named("download export")
    lasted_s = (download.end_time - download.start_time) / 1e9
    size, rate = download.attributes["trihop.download.size"], download.attributes["trihop.download.rate"]
    assert (size, lasted_s > 50, rate < 12) == (600, True, True)
