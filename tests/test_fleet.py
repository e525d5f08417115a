"""Many operations at once: each its own, their steps in turns."""

import os
import random
import signal
import threading
from dataclasses import replace
from itertools import pairwise

import pytest
import requests

from trihop import (
    Budget,
    Call,
    DeadlineExceeded,
    Fleet,
    JobCancelled,
    JobFailed,
    MemoryStore,
    OperationTaken,
    Outcome,
    Pacing,
    PollErrorsExhausted,
    Provider,
    ReadJob,
    ReadState,
    Reply,
    SubmitUncertain,
    operation,
    wake,
)
from trihop._clock import SystemClock
from trihop.testing import ScriptedServer, VirtualClock, reset

JOBS = Provider(
    "jobs",
    submit=ReadJob(id="id", status_url=None),
    status="/jobs/{id}",
    poll=ReadState("state", pending={"running"}, succeeded={"done"}, failed={"failed"}, cancelled={"cancelled"},
                   results="file", error="error"),
    cancel=Call("DELETE", "/jobs/{id}"),
)  # fmt: skip


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


class Api:
    """Jobs that take some polls each, known by the name they were started with."""

    def __init__(self, server, *, polls=2, hint_s=None):
        self.polls, self.hint_s = polls, hint_s
        self.asked = {}
        self.cancelled = set()
        self.at = []
        self.lock = threading.Lock()
        self.url = server.url
        server.script(then_always=self.answer)

    def answer(self, call):
        with self.lock:
            self.at.append(call.at)
            _, what, *rest = call.path.split("/")
            if call.method == "POST":
                return Reply(202, {"id": call.json()["name"]}, headers=self.headers())
            name = rest[0]
            if call.method == "DELETE":
                self.cancelled.add(name)
                return 204
            if what == "files":
                return name.encode()
            self.asked[name] = self.asked.get(name, 0) + 1
            if name in self.cancelled:
                return {"state": "cancelled"}
            if self.asked[name] < self.polls:
                return Reply(200, {"state": "running"}, headers=self.headers())
            if name.startswith("bad"):
                return {"state": "failed", "error": "no such table"}
            return {"state": "done", "file": f"/files/{name}"}

    def headers(self):
        return {} if self.hint_s is None else {"Retry-After": str(self.hint_s)}

    def job(self, name):
        return Call("POST", f"{self.url}jobs", json={"name": name})


@pytest.fixture
def fleet(session, clock):
    """Makes fleets on the virtual clock."""

    def make(**options):
        return Fleet(**{"session": session, "provider": JOBS, "clock": clock, **options})

    return make


def by_key(outcomes):
    return {outcome.key: outcome for outcome in outcomes}


def test_each_job_ends_by_itself(fleet, server, tmp_path):
    """Results go where they were wanted, and a job that failed is a value among the outcomes."""
    api = Api(server)
    with fleet() as many:
        for name in ("one", "two", "bad"):
            many.start("export", api.job(name), key=name, deadline=60, to=tmp_path / name)
        outcomes = by_key(many.outcomes())

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"one": "one", "two": "two"}
    assert outcomes["one"] == Outcome("one", outcomes["one"].download)
    assert isinstance(outcomes["bad"].error, JobFailed)
    assert "no such table" in str(outcomes["bad"].error)
    assert api.asked == {"one": 2, "two": 2, "bad": 2}


def test_a_job_without_a_key_is_known_by_its_operation(fleet, server):
    """Its result is in memory, where no place was named."""
    api = Api(server)
    with fleet() as many:
        key = many.start("export", api.job("one"), deadline=60)
        (outcome,) = many.outcomes()

    assert (len(key), outcome.key, outcome.download.text) == (32, key, "one")


def test_the_block_waits_for_its_jobs(fleet, server):
    """Their outcomes are there afterwards, each of them once."""
    api = Api(server)
    with fleet() as many:
        many.start("export", api.job("one"), key="one", deadline=60)

    assert [outcome.key for outcome in many.outcomes()] == ["one"]
    assert list(many.outcomes()) == []


def test_a_function_submits_in_steps_of_its_own(fleet, server, session, spans):
    """What it sends on the session is a part of its operation's trace."""
    api = Api(server)
    server.on("PUT", "/parts/1", 204)

    def submit(op):
        job = op.submit("POST", f"{server.url}jobs", json={"name": "one"})
        op.once("upload", lambda: session.put(f"{server.url}parts/1").status_code)
        return job

    with fleet() as many:
        many.start("load", submit, deadline=60)
        (outcome,) = many.outcomes()

    assert outcome.download.text == "one"
    names = [span.name for span in spans.children(spans.named("load"))]
    assert names == ["submit load", "poll load", "download load"]
    assert api.asked == {"one": 2}


def test_a_function_that_returns_no_job_is_told_so(fleet, server):
    """As an outcome: it ran in a thread of the fleet."""
    with fleet() as many:
        many.start("load", lambda op: None, deadline=60)
        (outcome,) = many.outcomes()

    assert isinstance(outcome.error, TypeError)
    assert "returned NoneType; it takes the operation and returns a Job" in str(outcome.error)


def test_a_function_that_wants_to_end_the_process_ends_its_job(fleet, server):
    """A thread of the fleet is not the place for it."""

    def leave(op):
        raise SystemExit(3)

    with fleet() as many:
        many.start("load", leave, deadline=60)
        (outcome,) = many.outcomes()

    assert str(outcome.error) == "SystemExit in a thread of the fleet: 3"


def test_each_job_has_a_trace_of_its_own_that_links_to_the_caller(fleet, server, spans):
    """The link sits on its `start` span, as one on a root would hide its timing."""
    from opentelemetry import trace

    api = Api(server)
    with trace.get_tracer("caller").start_as_current_span("nightly"), fleet() as many:
        for name in ("one", "two"):
            many.start("export", api.job(name), deadline=60)

    roots = [span for span in spans.all if span.name == "export"]
    nightly = spans.named("nightly")
    assert [root.parent for root in roots] == [None, None]
    assert len({root.context.trace_id for root in (*roots, nightly)}) == 3
    for root in roots:
        assert [span.name for span in spans.children(root)] == [
            "start export", "submit export", "poll export", "download export",
        ]  # fmt: skip
        assert [link.context.span_id for link in spans.children(root)[0].links] == [nightly.context.span_id]


def test_the_hops_of_each_job_are_linked_one_to_the_next(fleet, server, spans):
    """A poll follows its own submit, and a download its own poll, whichever jobs were served in between."""
    api = Api(server, polls=3)
    with fleet() as many:
        for name in ("one", "two", "three"):
            many.start("export", api.job(name), deadline=600)

    roots = [span for span in spans.all if span.name == "export"]
    assert len(roots) == 3
    for root in roots:
        submit, poll, download = spans.children(root)
        assert submit.links == ()
        assert [link.context for link in poll.links] == [submit.context]
        assert [link.context for link in download.links] == [poll.context]


def test_a_job_that_is_left_in_a_pause_tells_of_its_last_reply(fleet, server, spans):
    """Between its polls a job keeps nothing of them but what its span needs."""
    server.script(
        Reply(202, {"id": "one"}), then_always=Reply(200, {"state": "running"}, headers={"Retry-After": "30"})
    )
    waiting = threading.Event()

    def listen(event):
        if event.kind == "waiting" and event.polls:
            waiting.set()

    quick = replace(JOBS, pacing=Pacing(first=0.01, cap=0.01))
    with pytest.raises(KeyboardInterrupt), fleet(provider=quick, clock=SystemClock(), on_event=listen) as many:
        many.start("export", Call("POST", f"{server.url}jobs"), deadline=600)
        assert waiting.wait(10)
        raise KeyboardInterrupt

    poll = spans.named("poll export")
    (event,) = poll.events
    assert poll.attributes["http.response.status_code"] == 200
    assert event.attributes["http.response.header.retry-after"] == ("30",)


def test_polls_of_many_jobs_share_what_was_prepared(fleet, server):
    """A submit in between does not change how they go out, and each asks for its own job."""
    api, ways, names = Api(server, polls=4), [], iter(("two", "three"))

    def start_another(event):
        ways.extend(job._kept.way for job in many._crew.jobs.values() if job._kept is not None)
        if event.kind in ("polled", "state_changed") and (name := next(names, None)) is not None:
            many.start("export", api.job(name), key=name, deadline=600)

    with fleet(workers=1, on_event=start_another) as many:
        many.start("export", api.job("one"), key="one", deadline=600)
        outcomes = by_key(many.outcomes())

    assert len(set(map(id, ways))) == 1
    assert api.asked == {"one": 4, "two": 4, "three": 4}
    assert {key: outcome.download.text for key, outcome in outcomes.items()} == {n: n for n in ("one", "two", "three")}


def test_without_a_span_around_there_is_none_to_link_to(fleet, server, spans):
    """The trace is that of an operation."""
    api = Api(server)
    with fleet() as many:
        many.start("export", api.job("one"), deadline=60)

    root = spans.named("export")
    assert [span.name for span in spans.children(root)] == ["submit export", "poll export", "download export"]


def test_each_job_has_its_own_deadline(fleet, server, clock):
    """The one that runs out of time does not take its sibling along."""
    api = Api(server, polls=5, hint_s=10)
    with fleet() as many:
        many.start("export", api.job("short"), key="short", deadline=25)
        many.start("export", api.job("long"), key="long", deadline=100)
        outcomes = by_key(many.outcomes())

    assert isinstance(outcomes["short"].error, DeadlineExceeded)
    assert "the server asked for 10 s and 5 s are left" in str(outcomes["short"].error)
    assert outcomes["long"].download.text == "long"


def test_each_job_has_its_own_budget(fleet, server):
    """Five errors in a row are one job's end."""
    server.on("POST", "/jobs", {"id": "1"}, {"id": "2"})
    server.on("GET", "/jobs/1", then_always=500)
    server.on("GET", "/jobs/2", then_always={"state": "done"})
    with fleet(provider=replace(JOBS, budget=Budget(consecutive_errors=2))) as many:
        for key in "ab":
            many.start("export", Call("POST", f"{server.url}jobs"), key=key, deadline=60)
        outcomes = list(many.outcomes())

    assert sorted(type(outcome.error) for outcome in outcomes if outcome.error) == [PollErrorsExhausted]


def test_one_that_asks_too_often_slows_its_siblings(fleet, server, clock):
    """A 429 with Retry-After holds the whole origin; the job itself goes on when it is over."""
    api = Api(server, polls=3)
    refused, after = [], []

    def answer(call):
        if call.path.startswith("/jobs/") and not refused:
            refused.append(call.at)
            return Reply(429, headers={"Retry-After": "30"})
        if refused:
            after.append(call.at)
        return api.answer(call)

    server.script(then_always=answer)
    with fleet(workers=1) as many:
        for name in ("one", "two", "three"):
            many.start("export", api.job(name), deadline=600)
        outcomes = list(many.outcomes())

    assert [outcome.error for outcome in outcomes] == [None, None, None]
    assert min(after) >= refused[0] + 30


def test_an_origin_that_is_held_does_not_hold_another(fleet, server, session, clock):
    """Its jobs wait for half a minute; those of the other are over by then."""
    with ScriptedServer(clock=clock) as other:
        held, free = Api(server), Api(other)
        server.on("GET", "/jobs/held", Reply(429, headers={"Retry-After": "30"}), then_always={"state": "done"})
        with fleet() as many:
            many.start("export", held.job("held"), key="held", deadline=600)
            many.start("export", free.job("free"), key="free", deadline=600)
            outcomes = [(outcome.key, outcome.error) for outcome in many.outcomes()]

    assert outcomes == [("free", None), ("held", None)]
    assert max(free.at) < 30 <= clock.monotonic()


def test_a_job_whose_turn_would_come_too_late_is_told_at_once(fleet, server, clock):
    """Its origin wants to be left alone for an hour, because of a sibling."""
    api = Api(server, polls=9)
    server.on("GET", "/jobs/first", Reply(429, headers={"Retry-After": "3600"}), then_always={"state": "done"})
    with fleet() as many:
        many.start("export", api.job("first"), key="first", deadline=7200)
        many.start("export", api.job("second"), key="second", deadline=600)
        outcomes = by_key(many.outcomes())

    assert outcomes["first"].error is None
    assert isinstance(outcomes["second"].error, DeadlineExceeded)
    assert outcomes["second"].error.elapsed < 60


def test_a_submit_that_comes_too_early_is_sent_again_when_it_may(fleet, server):
    """429 says that there are too many, not that this one is wrong; there is one job for each."""
    made = []

    def make(call):
        made.append(call.json()["name"])
        return {"id": made[-1]}

    server.on("POST", "/jobs", Reply(429, headers={"Retry-After": "20"}), then_always=make)
    server.on("GET", "/jobs/a", then_always={"state": "done"})
    server.on("GET", "/jobs/b", then_always={"state": "done"})
    with fleet() as many:
        for name in "ab":
            many.start("export", Call("POST", f"{server.url}jobs", json={"name": name}), deadline=600)
        outcomes = list(many.outcomes())

    assert [outcome.error for outcome in outcomes] == [None, None]
    assert sorted(made) == ["a", "b"]


def test_a_submit_that_may_have_made_a_job_is_not_sent_again(fleet, server):
    """Nobody answered: that is for the caller to look into."""
    server.script(reset())
    with fleet() as many:
        many.start("export", Call("POST", f"{server.url}jobs"), deadline=600)
        (outcome,) = many.outcomes()

    assert isinstance(outcome.error, SubmitUncertain)
    assert len(server.calls) == 1


def test_what_a_server_has_left_is_shared(fleet, server, clock):
    """Two requests for ten seconds: ten jobs there do not ask at once."""
    api = Api(server)

    def answer(call):
        reply = api.answer(call)
        if call.method == "POST" and len(api.at) == 10:
            return Reply(202, {"id": call.json()["name"]}, headers={"RateLimit": '"default";r=5;t=10'})
        return reply

    server.script(then_always=answer)
    with fleet(workers=1) as many:
        for number in range(10):
            many.start("export", api.job(str(number)), deadline=600)
        outcomes = list(many.outcomes())

    polls = api.at[10:14]
    assert [outcome.error for outcome in outcomes] == [None] * 10
    assert [round(later - sooner) for sooner, later in pairwise(polls)] == [2, 2, 2]


def test_jobs_that_started_together_do_not_poll_together(fleet, server, session):
    """All were told ten seconds; the polls of 200 are spread over as long a time again."""
    clock = VirtualClock(random=random.Random(7))
    with ScriptedServer(clock=clock) as other:
        api = Api(other, polls=8, hint_s=10)
        with fleet(clock=clock) as many:
            for number in range(200):
                many.start("export", api.job(str(number)), deadline=None)
            outcomes = list(many.outcomes())

    assert [outcome.error for outcome in outcomes] == [None] * 200
    seconds = [int(at) for at in api.at if 20 <= at < 60]
    assert max(seconds.count(second) for second in range(20, 60)) < 2 * len(seconds) / 40


def test_start_waits_while_there_are_too_many(fleet, server):
    """No more than `in_flight` at once."""
    api = Api(server)
    most = []
    with fleet(in_flight=2) as many:
        for number in range(6):
            many.start("export", api.job(str(number)), deadline=600)
            most.append(len(many._crew.jobs))
        outcomes = list(many.outcomes())

    assert len(outcomes) == 6
    assert max(most) <= 2


def test_a_job_can_be_cancelled(fleet, server):
    """At the server too; its outcome is the server's word."""
    api = Api(server, polls=1000)
    seen = threading.Event()
    with fleet(on_event=lambda event: seen.set() if event.kind == "polled" else None) as many:
        many.start("export", api.job("one"), key="one", deadline=None)
        cancelled = threading.Thread(target=lambda: seen.wait(5) and many.cancel("one"))
        cancelled.start()
        (outcome,) = many.outcomes()
        cancelled.join()

    assert isinstance(outcome.error, JobCancelled)
    assert api.cancelled == {"one"}


def test_a_job_that_was_not_submitted_is_cancelled_here(fleet, server):
    """Nothing is sent for it."""
    gate, there = threading.Event(), threading.Event()

    def slow(call):
        there.set()
        gate.wait(5)
        return {"id": "slow"}

    server.on("POST", "/jobs", slow)
    server.on("GET", "/jobs/slow", {"state": "done"})
    with fleet(workers=1) as many:
        many.start("export", Call("POST", f"{server.url}jobs"), key="slow", deadline=60)
        there.wait(5)
        many.start("export", Call("POST", f"{server.url}jobs"), key="never", deadline=60)
        many.cancel("never")
        gate.set()
        outcomes = by_key(many.outcomes())

    assert isinstance(outcomes["never"].error, JobCancelled)
    assert "before it was submitted" in str(outcomes["never"].error)
    assert outcomes["slow"].error is None


def test_what_cannot_be_cancelled_is_refused(fleet, server):
    """A key that nobody knows, and an API without a way."""
    api = Api(server, polls=2)
    seen = threading.Event()
    told = {"submitted": seen.set}
    with fleet(provider=replace(JOBS, cancel=None), on_event=lambda event: told.get(event.kind, str)()) as many:
        with pytest.raises(LookupError, match="no job with the key 'other' is under way"):
            many.cancel("other")
        many.start("export", api.job("one"), key="one", deadline=60)
        seen.wait(5)
        with pytest.raises(ValueError, match="the job 'one' cannot be cancelled: jobs has no cancel="):
            many.cancel("one")


def test_one_key_is_for_one_job(fleet, server):
    """A second one under way with it is refused where it is started."""
    api = Api(server, polls=5)
    with fleet() as many:
        many.start("export", api.job("one"), key="one", deadline=60)
        with pytest.raises(OperationTaken):
            many.start("export", api.job("one"), key="one", deadline=60)


def test_one_file_is_for_one_job_at_a_time(fleet, server, tmp_path):
    """A loop that forgets to name its files is told, where the last result would replace all others."""
    api = Api(server)
    with fleet() as many:
        many.start("export", api.job("one"), key="one", deadline=60, to=tmp_path / "export.csv")
        with pytest.raises(ValueError, match="to= is where the result of the job 'one' goes, which is under way"):
            many.start("export", api.job("two"), key="two", deadline=60, to=f"{tmp_path}/./export.csv")
        with pytest.raises(OperationTaken):
            many.start("export", api.job("one"), key="one", deadline=60, to=tmp_path / "export.csv")
        assert [outcome.download.text for outcome in many.outcomes()] == ["one"]

        many.start("export", api.job("two"), key="two", deadline=60, to=tmp_path / "export.csv")
        assert [outcome.download.path.read_text() for outcome in many.outcomes()] == ["two"]


def test_an_exception_in_the_block_leaves_the_jobs_as_they_are(fleet, server, clock, caplog):
    """With a store, a fleet under the same keys goes on: one submit each."""
    api = Api(server, polls=3, hint_s=10)
    store = MemoryStore(clock=clock)
    with pytest.raises(KeyboardInterrupt), fleet(store=store) as many:
        for name in ("one", "two", "three"):
            many.start("export", api.job(name), key=name, deadline=600)
        raise KeyboardInterrupt
    before = len(server.calls)
    with fleet(store=store) as many:
        for name in ("one", "two", "three"):
            many.start("export", api.job(name), key=name, deadline=600)
        outcomes = by_key(many.outcomes())

    assert {key: outcome.download.text for key, outcome in outcomes.items()} == {n: n for n in ("one", "two", "three")}
    assert sum(call.method == "POST" for call in server.calls) == 3
    assert before <= 3
    assert "start them again under the same keys" in caplog.text


@pytest.mark.parametrize("stored", [True, False], ids=["with a store", "without"])
def test_what_a_fleet_leaves_is_told_as_left(fleet, server, clock, stored):
    """It ended neither well nor badly; with a store its key goes on with it."""
    api, events = Api(server, polls=1000, hint_s=10), []
    store = MemoryStore(clock=clock) if stored else None
    with pytest.raises(KeyboardInterrupt), fleet(store=store, on_event=events.append) as many:
        for name in ("one", "two"):
            many.start("export", api.job(name), key=name, deadline=600)
        raise KeyboardInterrupt

    ended = sorted((told.key, told.left, told.resumable) for told in events if told.kind == "ended")
    assert ended == [("one", True, stored), ("two", True, stored)]


def test_a_recorded_result_is_fetched_again_only_if_it_is_missing(fleet, server, clock, tmp_path):
    """A fleet that is run twice with one store asks for nothing the second time."""
    api = Api(server)
    store = MemoryStore(clock=clock)
    for _ in range(2):
        with fleet(store=store) as many:
            many.start("export", api.job("one"), key="one", deadline=600, to=tmp_path / "one")
            (outcome,) = many.outcomes()
        assert outcome.download.path == tmp_path / "one"

    assert len(server.calls) == 4


def test_a_store_needs_keys(fleet):
    """Nobody could go on with a job that has none."""
    with fleet(store=MemoryStore()) as many, pytest.raises(ValueError, match="store= needs a key="):
        many.start("export", Call("POST", "http://127.0.0.1:9/jobs"), deadline=60)


def test_a_webhook_wakes_a_job_of_a_fleet(fleet, server, clock):
    """Within five seconds, however long its pause was to be."""
    api = Api(server, polls=2, hint_s=3000)
    store = MemoryStore(clock=clock)

    def woken(event):
        if event.kind == "waiting" and event.polls == 1:
            assert wake(store, key="one")

    with fleet(store=store, on_event=woken) as many:
        many.start("export", api.job("one"), key="one", deadline=None)
        (outcome,) = many.outcomes()

    assert outcome.error is None
    assert api.at[2] - api.at[1] <= 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, r"Fleet\(workers=\) takes a number, 1 or more, got 0"),
        ({"per_origin": "4"}, r"Fleet\(per_origin=\) takes a number, 1 or more, got str"),
        ({"session": None}, r"Fleet\(session=\) takes a requests.Session, got None"),
        ({"provider": "jobs"}, r"Fleet\(provider=\) takes a Provider, such as salesforce.QUERY, got str"),
        ({"store": "jobs.db"}, r"Fleet\(store=\) takes a Store, such as SQLStore\(.*\), got str"),
        ({"on_event": "show"}, r"Fleet\(on_event=\) takes a function of an Event, such as show, got str"),
    ],
)
def test_wrong_options_are_told_where_they_are_given(fleet, options, message):
    """Not when the first job is started."""
    with pytest.raises((TypeError, ValueError), match=message):
        fleet(**options)


def test_a_fleet_is_a_block_and_is_used_once(fleet, server):
    """Outside of it nothing is started."""
    many = fleet()
    with pytest.raises(RuntimeError, match="use it as a block"):
        many.start("export", Call("POST", server.url), deadline=60)
    with many:
        pass
    with pytest.raises(RuntimeError, match="was entered before"):
        many.__enter__()
    with fleet() as many, pytest.raises(TypeError, match="takes a Call, or a function of an operation, got str"):
        many.start("export", "POST", deadline=60)


def test_inside_an_operation_its_deadline_counts_too(fleet, server, session, clock):
    """The smaller of the two, as for any operation within another."""
    api = Api(server, polls=9, hint_s=10)
    with operation("night", deadline=30, session=session, clock=clock), fleet() as many:
        many.start("export", api.job("one"), deadline=600)
        (outcome,) = many.outcomes()

    assert isinstance(outcome.error, DeadlineExceeded)


def test_a_listener_that_wants_to_end_the_process_ends_no_thread(fleet, server, caplog):
    """It is told and heard no more, as one that raises anything; its job ends as it would have."""
    api = Api(server)

    def leave(event):
        if event.kind == "finished":
            raise SystemExit("enough")

    with fleet(on_event=leave) as many:
        for name in ("one", "two", "three"):
            many.start("export", api.job(name), key=name, deadline=60)
        outcomes = by_key(many.outcomes())

    assert {key: outcome.download.text for key, outcome in outcomes.items()} == {n: n for n in ("one", "two", "three")}
    assert "on_event failed; it is not called again" in caplog.text
    assert "SystemExit in a thread of the fleet: enough" in caplog.text


def test_a_thread_of_the_fleet_does_not_wait_for_room_that_it_would_have_to_make(fleet, server):
    """A listener, or a function that submits, may start another job although there are `in_flight`."""
    api = Api(server)

    def submit(op):
        many.start("export", api.job("inner"), key="inner", deadline=60)
        return op.submit("POST", f"{api.url}jobs", json={"name": "outer"})

    with fleet(in_flight=1, workers=1) as many:
        many.start("export", submit, key="outer", deadline=60)
        outcomes = by_key(many.outcomes())

    assert {key: outcome.error for key, outcome in outcomes.items()} == {"outer": None, "inner": None}


def test_a_thread_of_the_fleet_cannot_wait_for_outcomes(fleet, server):
    """Its own job would be among them: told, where it would wait for ever."""
    api = Api(server)

    def submit(op):
        next(many.outcomes())

    with fleet() as many:
        many.start("export", submit, deadline=60)
        many.start("export", api.job("one"), key="one", deadline=60)
        outcomes = by_key(many.outcomes())

    assert outcomes.pop("one").error is None
    (told,) = outcomes.values()
    assert isinstance(told.error, RuntimeError)
    assert "cannot wait for its own jobs" in str(told.error)


def test_who_waits_in_another_thread_is_let_go_when_the_fleet_is_left(fleet, server):
    """For outcomes there are no more of, or for room where nothing is started any more."""
    api = Api(server, polls=99, hint_s=10)
    told = []

    def start():
        with pytest.raises(RuntimeError, match="was left while a job was started"):
            many.start("export", api.job("two"), key="two", deadline=600)
        told.append("start")

    def consume():
        assert list(many.outcomes()) == []
        told.append("outcomes")

    waiting = [threading.Thread(target=start), threading.Thread(target=consume)]
    with pytest.raises(KeyboardInterrupt), fleet(in_flight=1, clock=SystemClock()) as many:
        many.start("export", api.job("one"), key="one", deadline=600)
        for thread in waiting:
            thread.start()
        for _ in range(1000):
            if many._crew._waiting == len(waiting):
                break
            threading.Event().wait(0.01)
        raise KeyboardInterrupt
    for thread in waiting:
        thread.join(10)

    assert sorted(told) == ["outcomes", "start"]
    with operation("export", deadline=60, key="two"):
        pass


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_leaves_the_fleet_to_its_process(fleet, server, session):
    """It has none of the threads: nothing is started or waited for there, and its block is simply left."""
    api = Api(server, polls=3, hint_s=10)
    with fleet() as many:
        many.start("export", api.job("one"), key="one", deadline=60)
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            code = 1
            try:
                with pytest.raises(RuntimeError, match="belongs to the process that was forked"):
                    many.start("export", api.job("two"), key="two", deadline=60)
                with pytest.raises(RuntimeError, match="belongs to the process that was forked"):
                    next(many.outcomes())
                many.__exit__(None, None, None)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        (outcome,) = many.outcomes()

    assert status == 0
    assert outcome.error is None
