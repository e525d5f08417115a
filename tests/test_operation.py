"""The whole triangle as one operation: its time, its trace, and the ways in which its block is left."""

import datetime as dt
import logging
from dataclasses import replace

import pytest
import requests
from opentelemetry import trace

from trihop import (
    Call,
    DeadlineExceeded,
    Event,
    JobFailed,
    JobPartiallyFailed,
    OperationTaken,
    PollErrorsExhausted,
    ReadState,
    Reply,
    SubmitRejected,
    operation,
)
from trihop._clock import SystemClock
from trihop.providers import generic
from trihop.testing import ScriptedServer, VirtualClock, accepted, done, failed, running

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)


def at_seconds(ns):
    """Seconds after noon."""
    return ns / 1e9 - NOON.timestamp()


def attributes(span, *names):
    return {name: span.attributes.get(name) for name in names}


def twenty_minutes(server, *, end=None):
    """A job that is polled five times, 300 s apart as the server asks."""
    server.script(accepted(), *[running(hint_s=300)] * 4, end or done(result_url="{url}files/1"))


# ---- one operation, one trace


def test_twenty_minutes_pass_in_milliseconds(clock, server, spans):
    """One submit, five polls at the server's own pace and one download are four spans of one trace."""
    twenty_minutes(server)
    server.on("GET", "/files/1", b"a,b\n1,2\n")
    real, begun_s = SystemClock(), SystemClock().monotonic()

    with operation("export", deadline=1800, clock=clock) as op:
        download = op.run("POST", f"{server.url}jobs", json={"query": "all"})

    assert real.monotonic() - begun_s < 1.0
    assert download.content == b"a,b\n1,2\n"
    assert [(call.method, call.path, call.at) for call in server.calls] == [
        ("POST", "/jobs", 0),
        *[("GET", "/jobs/1", 1 + 300 * n) for n in range(5)],
        ("GET", "/files/1", 1201),
    ]
    assert clock.sleeps == [1, 300, 300, 300, 300]
    [root] = spans.roots
    hops = spans.children(root)
    assert [(span.name, span.kind.name) for span in (root, *hops)] == [
        ("export", "INTERNAL"),
        ("submit export", "CLIENT"),
        ("poll export", "INTERNAL"),
        ("download export", "CLIENT"),
    ]
    assert {span.context.trace_id for span in spans.all} == {int(op.trace_id, 16)}
    assert [[link.context.span_id for link in hop.links] for hop in hops] == [
        [],
        [hops[0].context.span_id],
        [hops[1].context.span_id],
    ]
    assert [(at_seconds(span.start_time), at_seconds(span.end_time)) for span in (root, *hops)] == [
        (0, 1201),
        (0, 0),
        (0, 1201),
        (1201, 1201),
    ]
    poll = hops[1]
    assert attributes(poll, "trihop.poll.attempts", "trihop.poll.errors", "trihop.poll.wait_time") == {
        "trihop.poll.attempts": 5,
        "trihop.poll.errors": 0,
        "trihop.poll.wait_time": 1201.0,
    }
    assert [
        (event.name, at_seconds(event.timestamp), event.attributes["trihop.job.state"]) for event in poll.events
    ] == [
        *[("trihop.attempt", 1 + 300 * n, "running") for n in range(4)],
        ("trihop.attempt", 1201, "succeeded"),
    ]
    assert attributes(
        root, "trihop.operation.result", "trihop.operation.polls", "trihop.job.state", "trihop.deadline.remaining"
    ) == {
        "trihop.operation.result": "success",
        "trihop.operation.polls": 5,
        "trihop.job.state": "succeeded",
        "trihop.deadline.remaining": 599.0,
    }
    assert {span.status.status_code.name for span in spans.all} == {"UNSET"}


def test_the_server_sees_the_trace_of_each_hop(clock, server, spans):
    """Every request carries the trace id, and names the hop that sent it as its parent."""
    twenty_minutes(server)
    server.on("GET", "/files/1", b"x")

    with operation("export", deadline=1800, clock=clock) as op:
        op.run("POST", f"{server.url}jobs")

    ids = {span.context.span_id: span.name for span in spans.all}
    told = [call.headers["traceparent"].split("-") for call in server.calls]
    assert {parts[1] for parts in told} == {op.trace_id}
    assert [ids[int(parts[2], 16)] for parts in told] == ["submit export", *["poll export"] * 5, "download export"]


def test_a_failed_body_ends_it_on_the_first_terminal_poll(clock, server, spans):
    """The job's own failure is raised at once, and the rest of the time is left unspent."""
    server.script(accepted(), running(hint_s=300), failed("no such column", state="Failed"))

    with pytest.raises(JobFailed) as caught, operation("export", deadline=1800, clock=clock) as op:
        op.run("POST", f"{server.url}jobs")

    assert (caught.value.polls, caught.value.state, caught.value.error) == (2, "Failed", "no such column")
    assert clock.monotonic() == 301
    assert spans.named("export").attributes["trihop.deadline.remaining"] == 1499.0
    server.assert_done()


# ---- the deadline


def stops_at_ten_minutes(clock):
    """The same server under a deadline of ten minutes: two polls, then a third pause that cannot fit."""
    with ScriptedServer(clock=clock) as server:
        twenty_minutes(server)
        server.on("GET", "/files/1", then_always=b"x")
        with pytest.raises(DeadlineExceeded) as caught, operation("export", deadline=600, clock=clock) as op:
            op.run("POST", f"{server.url}jobs")
        error = caught.value
        assert (error.phase, error.asked, error.remaining, error.polls) == ("wait", 300, 299, 2)
        assert clock.sleeps == [1, 300]
        assert clock.monotonic() == 301


def test_a_deadline_of_ten_minutes_ends_it():
    """A pause that cannot fit is refused at once, saying what was asked and what is left."""
    stops_at_ten_minutes(VirtualClock())


def test_the_deadline_test_can_fail():
    """On a clock whose sleeps take no time at all the deadline never comes, and the test above says so."""

    class Stuck(VirtualClock):
        def sleep(self, seconds):
            self.sleeps.append(seconds)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        stops_at_ten_minutes(Stuck())


@pytest.mark.parametrize(
    "deadline",
    [
        60,
        60.0,
        dt.timedelta(minutes=1),
        NOON + dt.timedelta(minutes=1),
        (NOON + dt.timedelta(minutes=1)).astimezone(dt.timezone(dt.timedelta(hours=9))),
    ],
    ids=["int", "float", "timedelta", "utc", "tokyo"],
)
def test_a_deadline_may_be_seconds_a_timedelta_or_an_instant(clock, deadline, spans):
    """All these mean a minute from now, and the root says which instant that is."""
    with operation("export", deadline=deadline, clock=clock) as op:
        assert op.remaining() == 60

    root = spans.named("export")
    assert attributes(root, "trihop.deadline.at", "trihop.deadline.duration") == {
        "trihop.deadline.at": "2026-03-01T12:01:00Z",
        "trihop.deadline.duration": 60.0,
    }


def test_a_deadline_counts_from_the_entry_of_the_block(clock):
    """Time between the making of an operation and its block is not taken off a deadline in seconds."""
    made = operation("export", deadline=60, clock=clock)
    clock.sleep(30)

    with made as op:
        assert op.remaining() == 60


def test_no_deadline_is_written_out_and_waits_on(clock, server, spans):
    """With None a job of three days is waited for, and nothing is said of a deadline."""
    server.script(accepted(), *[running(hint_s=86400)] * 3, done())

    with operation("export", deadline=None, clock=clock) as op:
        assert op.remaining() == float("inf")
        op.run("POST", f"{server.url}jobs")

    assert clock.monotonic() == 1 + 3 * 86400
    assert not [name for name in spans.named("export").attributes if name.startswith("trihop.deadline")]


@pytest.mark.parametrize("deadline", [0, dt.timedelta(0), NOON - dt.timedelta(hours=1)])
def test_a_deadline_that_has_passed_sends_nothing(clock, server, deadline):
    """The first request raises before a byte leaves."""
    with (
        pytest.raises(DeadlineExceeded, match="before the next request") as caught,
        operation("export", deadline=deadline, clock=clock) as op,
    ):
        op.submit("POST", f"{server.url}jobs")

    assert (caught.value.phase, caught.value.hop, server.calls) == ("between", "submit", [])


def test_a_deadline_of_many_centuries_is_one(clock, server):
    """A number beyond the calendar is a deadline that never comes, not an overflow."""
    server.script(accepted(), done())

    with operation("export", deadline=1e15, clock=clock) as op:
        assert op.run("POST", f"{server.url}jobs").json() == {"status": "succeeded"}


def test_the_deadline_passes_between_hops_of_the_callers_own_work(clock, server):
    """Work of the caller's own counts; the hop after it raises before anything is sent."""
    server.script(accepted(), done(result_url="{url}files/1"))

    with pytest.raises(DeadlineExceeded) as caught, operation("export", deadline=60, clock=clock) as op:
        ready = op.poll(op.submit("POST", f"{server.url}jobs"))
        clock.advance(60)
        op.download(ready)

    assert (caught.value.phase, caught.value.hop) == ("between", "download")
    assert [call.path for call in server.calls] == ["/jobs", "/jobs/1"]


def test_a_broad_handler_does_not_outlive_the_deadline(clock, server):
    """A loop that swallows request errors is ended all the same: DeadlineExceeded is none of them."""
    server.script(accepted(), then_always=running())
    polls = 0

    with pytest.raises(DeadlineExceeded), operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        for _ in range(1000):
            try:
                op.poll(job)
            except requests.RequestException:
                polls += 1

    assert polls == 0


def test_a_swallowed_deadline_is_raised_by_the_next_request(clock, server):
    """A handler as broad as Exception gains nothing: every further hop raises it again."""
    server.script(accepted(hint_s=40), running(hint_s=40))
    raised = []

    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        for _ in range(3):
            try:
                op.poll(job)
            except Exception as error:
                raised.append(type(error))
            clock.advance(20)

    assert raised == [DeadlineExceeded] * 3
    assert len(server.calls) == 2


def test_the_callers_own_pause_is_bounded(clock):
    """op.sleep() takes its time on the clock, and one that does not fit is not begun."""
    with (
        pytest.raises(DeadlineExceeded, match="45 s and 20 s are left"),
        operation("export", deadline=60, clock=clock) as op,
    ):
        op.sleep(40)
        assert op.remaining() == 20
        op.sleep(45)

    assert clock.sleeps == [40]


# ---- nested operations


def test_a_nested_operation_takes_the_smaller_deadline(clock, spans):
    """Within another it has no more time than that has left, and says so."""
    with operation("outer", deadline=100, clock=clock):
        clock.sleep(40)
        with operation("inner", deadline=300, clock=clock) as inner:
            assert inner.remaining() == 60
        with operation("shorter", deadline=10, clock=clock) as shorter:
            assert shorter.remaining() == 10
        with operation("endless", deadline=None, clock=clock) as endless:
            assert endless.remaining() == 60

    assert attributes(spans.named("inner"), "trihop.deadline.at", "trihop.deadline.duration") == {
        "trihop.deadline.at": "2026-03-01T12:01:40Z",
        "trihop.deadline.duration": 60.0,
    }


def test_nested_operations_nest_their_spans(clock, server, spans):
    """The inner root is a child of the outer one, in one trace, and outer hops after it are the outer's."""
    server.script(accepted(), done(), accepted(), done())

    with operation("outer", deadline=100, clock=clock) as outer:
        with operation("inner", deadline=100, clock=clock) as inner:
            inner.run("POST", f"{server.url}jobs")
        outer.run("POST", f"{server.url}jobs")

    root = spans.named("outer")
    assert [span.name for span in spans.children(root)] == [
        "inner",
        "submit outer",
        "poll outer",
        "download outer",
    ]
    assert [span.name for span in spans.children(spans.named("inner"))] == [
        "submit inner",
        "poll inner",
        "download inner",
    ]
    assert outer.trace_id == inner.trace_id
    assert outer.id != inner.id


def test_the_operation_lies_below_the_callers_own_span(clock, spans):
    """Its root is a child of the span the caller is in, and the caller's spans inside are children of the root."""
    tracer = trace.get_tracer("caller")
    outside, inside = tracer.start_as_current_span("request"), tracer.start_as_current_span("inside")
    with outside, operation("export", deadline=60, clock=clock), inside:
        pass

    assert [span.name for span in spans.children(spans.named("request"))] == ["export"]
    assert [span.name for span in spans.children(spans.named("export"))] == ["inside"]
    assert trace.get_current_span() is trace.INVALID_SPAN


# ---- how the block is left


def test_a_handled_partial_failure_is_no_error(clock, server, spans):
    """JobPartiallyFailed, caught and downloaded, leaves the root without error and with the result partial."""
    provider = replace(
        generic.ACCEPTED,
        poll=ReadState("status", succeeded={"done"}, results="url", good_items="good", bad_items="bad"),
    )
    server.script(accepted(), {"status": "done", "url": "/files/1", "good": 7, "bad": 3}, b"seven rows")

    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        job = op.submit("POST", f"{server.url}jobs")
        try:
            ready = op.poll(job)
        except JobPartiallyFailed as failure:
            ready = failure.ready
        assert op.download(ready).content == b"seven rows"

    root = spans.named("export")
    assert root.status.status_code.name == "UNSET"
    assert attributes(root, "trihop.operation.result", "error.type", "trihop.job.items.failed") == {
        "trihop.operation.result": "partial",
        "error.type": None,
        "trihop.job.items.failed": 3,
    }
    assert spans.named("poll export").status.status_code.name == "ERROR"


def test_an_error_that_was_got_over_is_no_result(clock, server, spans):
    """A poll that gave up and a later one that did not leave a success."""
    server.script(accepted(), *[503] * 5, done())

    with operation("export", deadline=600, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        with pytest.raises(PollErrorsExhausted):
            op.poll(job)
        op.download(op.poll(job))

    assert spans.named("export").attributes["trihop.operation.result"] == "success"


def test_an_error_handled_for_good_is_the_result_without_an_error(clock, server, spans):
    """A job that failed and was caught leaves `failure`, and no error on the root: the caller dealt with it."""
    server.script(accepted(), failed())

    with operation("export", deadline=600, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        with pytest.raises(JobFailed):
            op.poll(job)

    root = spans.named("export")
    assert attributes(root, "trihop.operation.result", "trihop.operation.ended_in", "error.type") == {
        "trihop.operation.result": "failure",
        "trihop.operation.ended_in": "poll",
        "error.type": None,
    }
    assert root.status.status_code.name == "UNSET"


class OwnError(Exception):
    """The caller's."""


def test_the_callers_own_exception_passes_through(clock, server, spans):
    """It is raised as it is; the root is an error under its qualified name, the hops are not."""
    server.script(accepted())
    mine = OwnError("mine alone")

    with pytest.raises(OwnError) as caught, operation("export", deadline=60, clock=clock) as op:
        op.submit("POST", f"{server.url}jobs")
        raise mine

    assert caught.value is mine
    root = spans.named("export")
    assert attributes(root, "trihop.operation.result", "error.type") == {
        "trihop.operation.result": "error",
        "error.type": f"{__name__}.OwnError",
    }
    assert (root.status.status_code.name, root.status.description) == ("ERROR", "OwnError: mine alone")
    assert spans.named("submit export").status.status_code.name == "UNSET"


def test_an_interrupt_is_a_cancellation(clock, server, spans):
    """Ctrl-C in a poll leaves the job alone and the spans without error."""
    server.script(accepted(), running())

    class Interrupted(VirtualClock):
        def sleep(self, seconds):
            if self.sleeps:
                raise KeyboardInterrupt
            super().sleep(seconds)

    with (
        pytest.raises(KeyboardInterrupt),
        operation("export", deadline=60, clock=Interrupted(), provider=CANCELLABLE) as op,
    ):
        op.run("POST", f"{server.url}jobs")

    root = spans.named("export")
    assert attributes(root, "trihop.operation.result", "trihop.operation.ended_in", "error.type") == {
        "trihop.operation.result": "cancellation",
        "trihop.operation.ended_in": "poll",
        "error.type": None,
    }
    assert {span.status.status_code.name for span in spans.all} == {"UNSET"}
    assert [call.method for call in server.calls] == ["POST", "GET"]


def cancellable(cancel):
    return replace(generic.ACCEPTED, cancel=cancel)


CANCELLABLE = cancellable(Call("DELETE", "{status_url}"))


def test_an_interrupt_cancels_the_job_where_it_was_asked_to(clock, server, spans):
    """With on_interrupt="cancel" the server's job is cancelled, although the deadline is all but over."""
    server.script(accepted(), 202)

    with (
        pytest.raises(KeyboardInterrupt),
        operation("export", deadline=60, clock=clock, provider=CANCELLABLE, on_interrupt="cancel") as op,
    ):
        op.submit("POST", f"{server.url}jobs")
        clock.advance(61)
        raise KeyboardInterrupt

    assert [(call.method, call.path) for call in server.calls] == [("POST", "/jobs"), ("DELETE", "/jobs/1")]
    assert spans.named("export").attributes["trihop.operation.result"] == "cancellation"
    assert {span.status.status_code.name for span in spans.all} == {"UNSET"}


@pytest.mark.parametrize(
    "provider",
    [generic.ACCEPTED, cancellable(Call("DELETE", "{submit_url}/{id}"))],
    ids=["no way to cancel", "no id to cancel by"],
)
def test_a_cancel_that_cannot_be_built_does_not_hide_the_interrupt(clock, server, caplog, provider):
    """What leaves the block is the interrupt; that the job goes on is logged."""
    server.script(accepted())

    with (
        pytest.raises(KeyboardInterrupt),
        operation("export", deadline=60, clock=clock, provider=provider, on_interrupt="cancel") as op,
    ):
        op.submit("POST", f"{server.url}jobs")
        raise KeyboardInterrupt

    assert [record.message.partition(":")[0] for record in caplog.records] == ["operation export"]
    assert "was not cancelled" in caplog.text


def test_an_interrupt_without_a_job_cancels_nothing(clock, server):
    """Before the submit there is nothing to cancel."""
    with (
        pytest.raises(KeyboardInterrupt),
        operation("export", deadline=60, clock=clock, provider=CANCELLABLE, on_interrupt="cancel"),
    ):
        raise KeyboardInterrupt

    assert server.calls == []


def test_a_generator_that_is_closed_ends_its_operation(clock, server, spans):
    """An operation inside a generator ends with it, as a cancellation and without error."""
    server.script(accepted(), done(result=[1, 2, 3]))

    def rows():
        with operation("export", deadline=60, clock=clock) as op:
            yield from op.run("POST", f"{server.url}jobs").json()

    generator = rows()
    assert next(generator) == 1
    generator.close()

    root = spans.named("export")
    assert root.attributes["trihop.operation.result"] == "cancellation"
    assert root.status.status_code.name == "UNSET"
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_an_operation_that_has_ended_bounds_no_other(clock, spans):
    """Generators may end operations in any order; one that is over takes no time from those after it."""

    def hold():
        with operation("held", deadline=10, clock=clock):
            yield

    held = hold()
    next(held)
    with operation("second", deadline=100, clock=clock):
        held.close()
    clock.sleep(10)

    with operation("third", deadline=100, clock=clock) as third:
        assert third.remaining() == 100
    assert [span.name for span in spans.roots] == ["held", "third"]


def test_a_return_from_the_block_is_a_success(clock, server, spans):
    """Leaving early by `return` is no error."""
    server.script(accepted())

    def submit_only():
        with operation("export", deadline=60, clock=clock) as op:
            return op.submit("POST", f"{server.url}jobs").status_url

    assert submit_only() == f"{server.url}jobs/1"
    assert [span.name for span in spans.all] == ["submit export", "export"]
    assert spans.named("export").attributes["trihop.operation.result"] == "success"


# ---- the block itself


def test_its_own_session_is_closed_and_the_callers_is_not(clock, server, monkeypatch):
    """A session that was handed in goes on afterwards; one of trihop's own is closed."""
    closed = []
    monkeypatch.setattr(requests.Session, "close", lambda self: closed.append(self))
    server.script(then_always=done())
    with requests.Session() as session:
        with operation("export", deadline=60, clock=clock, session=session) as op:
            op.run("POST", f"{server.url}jobs")
        assert closed == []
        with operation("export", deadline=60, clock=clock) as op:
            op.run("POST", f"{server.url}jobs")
        assert len(closed) == 1
        assert closed[0] is not session
    monkeypatch.undo()
    for one in closed:
        one.close()


def test_it_is_entered_once(clock):
    """A second entry is refused: each run is an operation of its own."""
    block = operation("export", deadline=60, clock=clock)
    with block:
        pass

    with pytest.raises(RuntimeError, match=r"'export' was entered before; make a new one"), block:
        pass


def test_outside_its_block_it_says_how_it_is_used(clock):
    """A hop of an operation that was never entered names the operation and the block."""
    op = operation("export", deadline=60, clock=clock)

    for use in (lambda: op.submit("POST", "https://api.example/jobs"), lambda: op.trace_id, op.remaining):
        with pytest.raises(RuntimeError, match=r"'export' is not open; use it as a block: with operation\('export'"):
            use()


def test_after_its_block_it_still_tells_and_sends_nothing(clock, server):
    """What is known stays readable; a hop after the end is refused."""
    server.script(accepted())
    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        by_hand = op.hop("poll")

    assert (op.job, len(op.id)) == (job, 32)
    for use in (
        lambda: op.submit("POST", f"{server.url}jobs"),
        lambda: op.poll(job),
        lambda: op.download(f"{server.url}files/1"),
        lambda: op.cancel(job),
        lambda: op.once("x", lambda: 1),
        lambda: op.hop("poll"),
        by_hand.__enter__,
    ):
        with pytest.raises(RuntimeError, match="'export' has ended"):
            use()
    assert len(server.calls) == 1


def test_two_operations_cannot_share_a_key(clock):
    """While one is open another with its key is refused; once it has ended, however it did, the key is free."""
    with operation("export", deadline=60, clock=clock, key="nightly"):
        with pytest.raises(OperationTaken, match=r"key 'nightly' is open.*operation=second key=nightly"):
            operation("second", deadline=60, clock=clock, key="nightly").__enter__()
        with operation("other", deadline=60, clock=clock, key="weekly"):
            pass
    with pytest.raises(OwnError), operation("export", deadline=60, clock=clock, key="nightly"):
        raise OwnError
    with operation("export", deadline=60, clock=clock, key="nightly") as op:
        assert op.key == "nightly"


def test_the_callers_attributes_are_on_the_root(clock, spans):
    """Attributes of the caller's own are on the root from its start, and ours are not overwritten by them."""
    with operation("export", deadline=60, clock=clock, attributes={"tenant": "acme", "trihop.operation.name": "mine"}):
        pass

    assert attributes(spans.named("export"), "tenant", "trihop.operation.name") == {
        "tenant": "acme",
        "trihop.operation.name": "export",
    }


def test_without_tracing_it_works_and_has_no_trace_id(clock, server, monkeypatch):
    """No SDK is needed: the triangle is the same, its trace id None, and errors carry the operation's id."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    server.script(accepted(), done(result={"n": 1}), 400)

    with operation("export", deadline=60, clock=clock) as op:
        assert op.run("POST", f"{server.url}jobs").json() == {"n": 1}
        assert op.trace_id is None
        with pytest.raises(SubmitRejected, match="trace=none") as caught:
            op.submit("POST", f"{server.url}jobs")

    assert (caught.value.trace_id, caught.value.operation_id) == (None, op.id)
    assert not [call for call in server.calls if "traceparent" in call.headers]


# ---- steps of a submit


def test_a_step_is_done_once(clock):
    """Its value comes back the second time without its being done again."""
    did = []

    def upload():
        did.append("upload")
        return {"file": 7}

    with operation("export", deadline=60, clock=clock) as op:
        assert op.once("upload", upload) == {"file": 7}
        assert op.once("upload", upload) == {"file": 7}
        assert op.once("activate", lambda: None) is None

    assert did == ["upload"]


def test_a_step_that_failed_is_done_again(clock):
    """An exception is the step's own, and nothing is noted of it."""
    answers = [OwnError("first"), 2]

    def step():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with operation("export", deadline=60, clock=clock) as op:
        with pytest.raises(OwnError):
            op.once("step", step)
        assert op.once("step", step) == 2


def test_the_value_of_a_step_is_json(clock):
    """A value that another process could not be given is refused, by name."""
    with (
        operation("export", deadline=60, clock=clock) as op,
        pytest.raises(TypeError, match=r"'export': once\('upload'\) returned Response, which is not JSON-able"),
    ):
        op.once("upload", requests.Response)


def test_a_step_is_not_begun_after_the_deadline(clock):
    """Once the deadline has passed, the step is not done."""
    with pytest.raises(DeadlineExceeded), operation("export", deadline=60, clock=clock) as op:
        clock.advance(60)
        op.once("upload", lambda: pytest.fail("it was done"))


# ---- cancel


@pytest.mark.parametrize(
    ("status", "taken"), [(202, True), (204, True), (404, True), (409, True), (410, True), (403, False), (500, False)]
)
def test_cancel_says_whether_the_server_took_it(clock, server, status, taken):
    """A job that is over or forgotten counts as cancelled; a refusal does not."""
    server.script(accepted(), status)

    with operation("export", deadline=60, clock=clock, provider=CANCELLABLE) as op:
        op.submit("POST", f"{server.url}jobs")
        assert op.cancel() is taken

    assert (server.calls[1].method, server.calls[1].path) == ("DELETE", "/jobs/1")


@pytest.mark.parametrize("late_s", [59.9, 61, 3600])
def test_a_cancel_is_sent_when_the_deadline_has_passed(clock, server, late_s):
    """Whoever catches DeadlineExceeded can cancel: it has ten seconds of its own, and nothing else has."""
    server.script(accepted(), 202)

    with operation("export", deadline=60, clock=clock, provider=CANCELLABLE) as op:
        op.submit("POST", f"{server.url}jobs")
        clock.advance(late_s)
        assert op.cancel()
        clock.advance(1)
        with pytest.raises(DeadlineExceeded):
            op.poll()

    assert [call.method for call in server.calls] == ["POST", "DELETE"]


def test_an_interrupt_cancels_no_job_that_is_over(clock, server):
    """A DELETE to a job that is over would delete what it left."""
    server.script(accepted(), done(result=1))

    with (
        pytest.raises(KeyboardInterrupt),
        operation("export", deadline=60, clock=clock, provider=CANCELLABLE, on_interrupt="cancel") as op,
    ):
        op.poll(op.submit("POST", f"{server.url}jobs"))
        raise KeyboardInterrupt

    assert [call.method for call in server.calls] == ["POST", "GET"]


def test_a_deadline_that_had_passed_at_the_start_says_that_nothing_was_sent(clock, server):
    """There is no job to look for."""
    with pytest.raises(DeadlineExceeded, match="Nothing was sent"), operation("export", deadline=0, clock=clock) as op:
        op.submit("POST", f"{server.url}jobs")

    assert server.calls == []


def test_a_cancel_is_a_plain_request_below_the_root(clock, server, spans):
    """It is no hop of the triangle: a DELETE span of its own, and no error on the root."""
    server.script(accepted(), 202)

    with operation("export", deadline=60, clock=clock, provider=CANCELLABLE) as op:
        op.submit("POST", f"{server.url}jobs")
        op.cancel()

    span = spans.named("DELETE")
    assert (span.kind.name, span.attributes["trihop.hop"], span.attributes["http.response.status_code"]) == (
        "CLIENT",
        "request",
        202,
    )
    assert span.parent.span_id == spans.named("export").context.span_id
    assert spans.named("export").status.status_code.name == "UNSET"


def test_a_cancel_as_a_bare_url_is_a_post(clock, server):
    """A GET would cancel nothing."""
    server.script(accepted(), 202)

    with operation("export", deadline=60, clock=clock, provider=cancellable("{status_url}/cancel")) as op:
        op.submit("POST", f"{server.url}jobs")
        op.cancel()

    assert (server.calls[1].method, server.calls[1].path) == ("POST", "/jobs/1/cancel")


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        (generic.ACCEPTED, "'export': cannot cancel the job: provider generic.accepted has no way to cancel"),
        (cancellable("{submit_url}/{id}/cancel"), "'export': cannot cancel the job: the job has no id"),
    ],
)
def test_a_cancel_that_cannot_be_built_says_why(clock, server, provider, told):
    """The message names the operation and what is missing."""
    server.script(accepted())

    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        with pytest.raises(ValueError, match="'export': there is no job to cancel"):
            op.cancel()
        op.submit("POST", f"{server.url}jobs")
        with pytest.raises(ValueError, match=told):
            op.cancel()


# ---- progress


def test_progress_is_told_in_order(clock, server):
    """Started, submitted, each poll and wait, the download and the end, with what was known then."""
    server.script(accepted(), running(progress=10), running(progress=60), done(result_url="{url}files/1"))
    server.on("GET", "/files/1", b"12345")
    events = []

    with operation("export", deadline=60, clock=clock, on_event=events.append) as op:
        op.run("POST", f"{server.url}jobs")

    told = [(event.kind, event.state, event.polls, event.elapsed, event.next_poll_in) for event in events]
    assert told == [
        ("started", None, 0, 0, None),
        ("submitted", None, 0, 0, None),
        ("waiting", None, 0, 0, 1),
        ("state_changed", "running", 1, 1, 1),
        ("waiting", "running", 1, 1, 1),
        ("polled", "running", 2, 2, 2),
        ("waiting", "running", 2, 2, 2),
        ("state_changed", "succeeded", 3, 4, None),
        ("downloading", "succeeded", 3, 4, None),
        ("finished", "succeeded", 3, 4, None),
    ]
    assert [event.progress for event in events if event.kind in ("state_changed", "polled")] == [10, 60, None]
    assert [(e.bytes_done, e.bytes_total) for e in events if e.kind == "downloading"] == [(5, 5)]
    assert {(event.operation, event.operation_id) for event in events} == {("export", op.id)}
    assert all(isinstance(event, Event) for event in events)


def test_an_ending_is_told_with_its_message(clock, server):
    """The last event of an operation that failed says why."""
    server.script(accepted(), failed("no such column"))
    events = []

    with pytest.raises(JobFailed), operation("export", deadline=60, clock=clock, on_event=events.append) as op:
        op.run("POST", f"{server.url}jobs")

    assert (events[-1].kind, events[-1].message) == ("ended", "the job failed, state 'failed': no such column")


@pytest.mark.parametrize(("on_interrupt", "left"), [("leave", True), ("cancel", False)])
def test_an_interrupt_is_told_as_left_unless_the_job_was_cancelled(clock, server, on_interrupt, left):
    """What goes on at the server has ended neither well nor badly; without a record no key goes on with it."""
    server.script(accepted(), 202)
    events = []

    with (
        pytest.raises(KeyboardInterrupt),
        operation(
            "export", deadline=60, clock=clock, provider=CANCELLABLE, on_event=events.append, on_interrupt=on_interrupt
        ) as op,
    ):
        op.submit("POST", f"{server.url}jobs")
        raise KeyboardInterrupt

    assert (events[-1].kind, events[-1].left, events[-1].resumable) == ("ended", left, False)


def test_a_listener_that_fails_is_heard_no_more(clock, server, caplog):
    """Its fault is logged once, and the operation goes on."""
    server.script(accepted(), running(), done(result=1))
    calls = []

    def listener(event):
        calls.append(event.kind)
        raise OwnError

    with (
        caplog.at_level(logging.ERROR, "trihop"),
        operation("export", deadline=60, clock=clock, on_event=listener) as op,
    ):
        assert op.run("POST", f"{server.url}jobs").json() == 1

    assert calls == ["started"]
    assert [record.getMessage() for record in caplog.records] == [
        "operation export: on_event failed; it is not called again"
    ]


def test_a_reply_may_be_anything_but_the_block_ends(clock, server, spans):
    """A reply in the block's own requests is the caller's affair: they are plain requests of the session."""
    server.script(Reply(418, content=b"teapot"))

    with requests.Session() as session, operation("export", deadline=60, clock=clock, session=session):
        assert session.get(f"{server.url}tea").status_code == 418

    assert spans.named("export").attributes["trihop.operation.result"] == "success"
