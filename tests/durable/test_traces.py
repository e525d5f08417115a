"""One trace over all the processes that an operation took."""

import pytest
from opentelemetry import trace

from durable.lives import ADMITTED, JOBS, Killed, Mortal
from trihop import DeadlineExceeded, OperationTaken, Reply, operation
from trihop.testing import VirtualClock


def seconds(ns, clock_start=1772366400):
    """Seconds after noon of the first of March 2026."""
    return ns / 1e9 - clock_start


@pytest.fixture
def killed(nightly, server, shelf, clock, spans):
    """A process killed in mid-poll; what it left on the way is no span, as its batch dies with it."""

    def killed(*answers, dies_at=3, **options):
        server.script(Reply(202, ADMITTED), *answers)
        with pytest.raises(Killed), nightly(store=Mortal(shelf, dies_at=dies_at), **options) as op:
            op.poll(op.submit("POST", server.url + "jobs"))

    return killed


def test_a_resumed_operation_is_one_trace_with_the_first_start(killed, run, nightly, server, clock, spans, tmp_path):
    """The root has the ids and the start that the first process reserved, and shows for how long nobody was there."""
    killed({"state": "running"})
    clock.advance(300)
    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")

    with nightly() as op:
        trace_id = op.trace_id
        op.download(op.poll(op.submit("POST", server.url + "jobs")))

    [root] = spans.roots
    assert {format(span.context.trace_id, "032x") for span in spans.all} == {trace_id}
    assert (seconds(root.start_time), root.attributes["trihop.operation.resumed"]) == (0, True)
    assert (root.attributes["trihop.operation.segments"], root.attributes["trihop.operation.polls"]) == (2, 2)
    assert root.links == ()
    resumed = spans.named("resume export")
    assert resumed.start_time + 1 == resumed.end_time
    assert {name: resumed.attributes[f"trihop.segment.{name}"] for name in ("number", "gap", "reason")} == {
        "number": 2,
        "gap": pytest.approx(300, abs=2),
        "reason": "lease_expired",
    }
    ended = root.end_time + 1  # on a clock that stands still
    assert all(root.start_time <= span.start_time <= span.end_time <= ended for span in spans.all)


def test_the_poll_span_goes_on_with_its_own_start_and_attempts(killed, nightly, server, clock, spans, shelf):
    """Its id is in the record, so that server spans of both processes' polls hang below one span."""
    killed({"state": "running"})
    reserved = shelf.get("nightly").record["poll"]
    spans.clear()
    clock.advance(300)
    server.script({"state": "running"}, {"state": "done"})

    with nightly() as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    poll = spans.named("poll export")
    assert (format(poll.context.span_id, "016x"), poll.start_time) == (reserved["span_id"], reserved["started_ns"])
    assert poll.attributes["trihop.poll.attempts"] == 3
    assert [event.attributes["trihop.attempt.number"] for event in poll.events] == [1, 2, 3]


def test_the_callers_own_span_is_linked_to_the_start(nightly, server, spans):
    """Not to the root, where a link hides the critical path; and the root is a root although there is a span around."""
    server.script(Reply(202, ADMITTED), {"state": "done"})
    tracer = trace.get_tracer("cron")
    with tracer.start_as_current_span("cron job") as around, nightly() as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    root, start = spans.named("export"), spans.named("start export")
    assert (root.parent, root.links) == (None, ())
    assert root.context.trace_id != around.get_span_context().trace_id
    assert [link.context.span_id for link in start.links] == [around.get_span_context().span_id]
    assert start.attributes["trihop.segment.number"] == 1


def test_a_timed_out_operation_has_no_root_yet(nightly, server, spans):
    """The poll says what happened; the root is for whoever ends the operation."""
    server.script(Reply(202, ADMITTED), then_always={"state": "running"})
    with pytest.raises(DeadlineExceeded), nightly(deadline=60) as op:
        op.run("POST", server.url + "jobs")
    assert sorted(span.name for span in spans.all) == ["poll export", "start export", "submit export"]
    assert spans.named("poll export").attributes["error.type"] == "DeadlineExceeded"
    server.script()
    server.on("GET", "/jobs/1", {"state": "done", "result_url": "/f/1"})


def test_an_operation_that_has_ended_is_not_ended_again(run, server, spans, tmp_path):
    """Whoever enters its key again adds nothing but what it fetched anew."""
    server.script(Reply(202, ADMITTED), {"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", then_always=b"a,b\n")
    run(to=tmp_path / "out.csv")
    before = [span.name for span in spans.all]

    run(to=tmp_path / "out.csv")
    assert [span.name for span in spans.all] == before

    (tmp_path / "out.csv").unlink()
    run(to=tmp_path / "out.csv")
    assert [span.name for span in spans.all] == [*before, "download export"]
    assert len(spans.roots) == 1


def test_a_fenced_holder_says_so_and_ends_nothing(nightly, server, shelf, clock, spans):
    """The poll and the root are the other holder's to end."""

    def stall(call):
        clock.advance(61)
        shelf.claim("nightly", holder="another", lease_s=60)
        return {"state": "running"}

    server.script(Reply(202, ADMITTED), stall)
    with pytest.raises(OperationTaken), nightly() as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    assert sorted(span.name for span in spans.all) == ["fenced export", "start export", "submit export"]


def test_what_began_without_tracing_goes_on_with_it(run, nightly, server, shelf, clock, spans):
    """There is nothing to reserve, so the trace begins where somebody traces."""
    server.script(Reply(202, ADMITTED), {"state": "running"})
    assert run(store=Mortal(shelf, dies_at=3)) is None
    clock.advance(61)
    claim = shelf.claim("nightly", holder="nobody", lease_s=60)
    shelf.save(claim, {**claim.record, "trace": None, "poll": {**claim.record["poll"], "span_id": None}}, release=True)
    spans.clear()
    server.script({"state": "done"})

    with nightly() as op:
        assert op.poll(op.submit("POST", server.url + "jobs", json={"query": "all"})).state == "done"

    [root] = spans.roots
    assert {span.context.trace_id for span in spans.all} == {root.context.trace_id}


def test_a_clock_that_is_behind_keeps_children_inside_the_root(killed, server, shelf, session, spans, clock):
    """Another machine's clock may say less than the first one's last word."""
    killed({"state": "running"})
    spans.clear()
    clock.advance(61)
    behind = VirtualClock()
    server.script({"state": "running"}, {"state": "done"})
    with operation(
        "export", deadline=600, provider=JOBS, key="nightly", store=shelf, session=session, clock=behind
    ) as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    [root] = spans.roots
    assert all(root.start_time <= span.start_time <= span.end_time <= root.end_time for span in spans.all)
