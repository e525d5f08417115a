"""Operations without a block that waits: resumed, woken, and gone on with a step at a time."""

import itertools
import logging
import os
import signal
import threading

import pytest

from durable.lives import ADMITTED, JOBS, KEYED, Killed, Mortal
from trihop import (
    JobFailed,
    OperationTaken,
    Provider,
    Reply,
    Result,
    StoreError,
    SubmitUncertain,
    Succeeded,
    Worker,
    resume,
    wake,
)
from trihop._clock import CorrectedClock
from trihop.providers import generic
from trihop.stores import OFFERED, Claim


@pytest.fixture
def submit(nightly, server):
    """As a web handler does: submit, and answer before the job is over."""

    def submit(**options):
        server.script(Reply(202, ADMITTED))
        with nightly(**options) as op:
            op.submit("POST", server.url + "jobs", json={"query": "all"}, timeout=5)

    return submit


@pytest.fixture
def finished():
    return []


@pytest.fixture
def worker(shelf, session, clock, finished):
    def finish(op, ready):
        finished.append((op.key, op.download(ready).content))

    return Worker(shelf, session=session, finish=finish, providers=[JOBS], clock=clock)


# ---- resume


def test_an_operation_is_resumed_without_its_block(submit, server, shelf, session, clock, tmp_path):
    """The record has all it takes but provider and session."""
    submit()
    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")

    with resume("nightly", store=shelf, session=session, provider=JOBS, clock=clock) as op:
        assert (op.name, op.resumed, op.job.id, op.remaining()) == ("export", True, "j-1", 600)
        op.download(op.poll(), to=tmp_path / "out.csv")

    assert (tmp_path / "out.csv").read_bytes() == b"a,b\n"
    assert shelf.get("nightly").ended


def test_a_missing_record_is_an_error(shelf, server):
    """And never a silent fresh submit."""
    with pytest.raises(LookupError, match="there is no operation with the key 'nightly'"):
        resume("nightly", store=shelf)
    assert server.calls == []


def test_another_provider_is_refused(submit, shelf):
    """A record has its provider's name; whoever resumes brings the provider."""
    submit()
    with pytest.raises(ValueError, match=r"begun with the provider 'acme\.exports'; pass it as provider="):
        resume("nightly", store=shelf, provider=generic.ACCEPTED)


def test_a_deadline_that_has_passed_is_the_original_duration_again(submit, shelf, clock):
    """Whoever resumes by hand wants it to go on."""
    submit(deadline=600)
    clock.advance(700)
    with resume("nightly", store=shelf, provider=JOBS, clock=clock) as op:
        assert op.remaining() == 600


def test_a_given_deadline_counts(submit, shelf, clock):
    """Instead of the stored one."""
    submit(deadline=600)
    with resume("nightly", store=shelf, provider=JOBS, clock=clock, deadline=30) as op:
        assert op.remaining() == 30
    with resume("nightly", store=shelf, provider=JOBS, clock=clock) as op:
        assert op.remaining() == 30


def test_an_operation_that_was_never_submitted_needs_its_block(nightly, shelf, clock, server):
    """Only the block has the payload."""
    with nightly():
        pass
    again = "nothing was submitted under the key 'nightly' yet; run the block again"
    with resume("nightly", store=shelf, provider=JOBS, clock=clock) as op, pytest.raises(ValueError, match=again):
        op.poll()
    assert server.calls == []


def test_an_operation_killed_in_mid_submit_is_uncertain_without_its_block(run, shelf, clock, server):
    """It says so rather than guess."""
    assert run(provider=KEYED, store=Mortal(shelf, dies_at=1)) is None
    clock.advance(61)
    with (
        pytest.raises(SubmitUncertain, match="Run the block again, which has the payload"),
        resume("nightly", store=shelf, provider=KEYED, clock=clock) as op,
    ):
        op.poll()
    assert server.calls == []


def test_a_stored_payload_is_submitted_under_the_same_key(nightly, shelf, clock, server, session):
    """Whoever asked to have it stored may submit from anywhere."""
    try:
        with nightly(provider=KEYED, store=Mortal(shelf, dies_at=2, written=False), store_payload=True) as op:
            server.script(Reply(202, ADMITTED), Reply(202, ADMITTED), {"state": "done"})
            op.submit("POST", server.url + "jobs", json={"query": "all"})
    except Killed:
        clock.advance(61)

    with resume("nightly", store=shelf, provider=KEYED, session=session, clock=clock) as op:
        assert op.poll().state == "done"

    first, second = (call for call in server.calls if call.method == "POST")
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


# ---- a worker


def test_a_worker_goes_on_where_the_handler_left(submit, worker, server, shelf, clock, finished):
    """A step is one poll or one download, and says when the next one is due."""
    submit()
    server.script({"state": "queued"}, Reply(200, {"state": "running"}, headers={"Retry-After": "40"}))
    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")
    steps = []

    for _ in range(4):
        steps.append(worker.step("nightly"))
        clock.advance(steps[-1] or 0)

    assert steps == [1.0, 40.0, 0.0, None]
    assert finished == [("nightly", b"a,b\n")]
    assert [call.at for call in server.calls] == [0, 0, 1, 41, 41]
    assert shelf.get("nightly").record["outcome"] == {"result": "success", "hop": "download"}


def test_a_step_before_its_time_asks_nothing(submit, worker, server, clock):
    """An engine's message may come twice or early."""
    submit()
    server.script(Reply(200, {"state": "running"}, headers={"Retry-After": "40"}))
    worker.step("nightly")
    asked = len(server.calls)

    assert [worker.step("nightly"), worker.step(), worker.step("unheard of")] == [40.0, None, None]
    assert len(server.calls) == asked


def test_a_wake_makes_the_next_poll_due_now(submit, worker, server, shelf, clock, finished):
    """A webhook's word costs one early poll, and the poll is the judge."""
    submit()
    server.script(Reply(200, {"state": "running"}, headers={"Retry-After": "400"}), {"state": "done"})
    worker.step("nightly")

    assert wake(shelf, job_id="j-1")
    assert not wake(shelf, job_id="j-2")
    assert worker.step() == 0.0
    assert clock.sleeps == []


def test_a_wake_cuts_a_blocks_pause_short(nightly, server, shelf, clock):
    """Within five seconds."""
    server.script(Reply(202, ADMITTED), Reply(200, {"state": "running"}, headers={"Retry-After": "400"}))

    def woken(call):
        return {"state": "done"}

    server.script(woken)

    def listen(event):
        if event.kind == "waiting" and event.next_poll_in == 400:
            wake(shelf, key="nightly")

    with nightly(on_event=listen) as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    assert server.calls[-1].at <= 6


def test_a_failed_job_is_recorded_and_not_stepped_again(submit, worker, server, nightly, caplog, finished):
    """Its error is in the log, and is raised for whoever enters the key again."""
    submit()
    server.script({"state": "failed", "error": "no such column"})
    with caplog.at_level(logging.WARNING, logger="trihop"):
        assert [worker.step("nightly"), worker.step("nightly")] == [None, None]

    assert "no such column" in caplog.text
    assert finished == []
    with nightly() as op, pytest.raises(JobFailed, match="no such column"):
        op.poll(op.submit("POST", server.url + "jobs", json={"query": "all"}))


def test_a_finish_that_fails_is_called_again(submit, server, shelf, session, clock, caplog):
    """A minute later, until the deadline."""
    submit()
    server.script({"state": "done", "result_url": "/f/1"})
    calls = []

    def finish(op, ready):
        calls.append(ready.results[0].at)
        if len(calls) == 1:
            raise OSError("the disk is full")

    worker = Worker(shelf, session=session, finish=finish, providers=[JOBS], clock=clock)
    steps = [worker.step(), worker.step()]
    clock.advance(60)
    steps.append(worker.step())

    assert steps == [0.0, 60.0, None]
    assert len(calls) == 2
    assert shelf.get("nightly").ended


@pytest.mark.parametrize("failing", [lambda name: {}[name], lambda name: None], ids=["raises", "gives none"])
def test_a_session_that_cannot_be_had_is_asked_for_again(submit, server, shelf, session, clock, caplog, failing):
    """A minute later, and it is told: not all the time, and not in silence."""
    submit()
    sessions = iter([failing, lambda name: session])
    worker = Worker(shelf, session=lambda name: next(sessions)(name), finish=print, providers=[JOBS], clock=clock)
    assert [worker.step(), worker.step()] == [60.0, None]
    assert "session= failed for the operation nightly" in caplog.text

    clock.advance(60)
    server.script({"state": "running"})
    worker.step()
    assert len(server.calls) == 2


def test_a_record_that_cannot_be_read_is_looked_at_again(submit, worker, server, shelf, clock, caplog):
    """A minute later: by then a worker of the release that wrote it may have gone on with it."""
    submit()
    claim = shelf.claim("nightly", holder="newer", lease_s=60)
    newer = {**claim.record, "version": 99}
    shelf.save(claim, newer, due_in_s=0, lease_s=60, release=True)
    assert [worker.step(), worker.step()] == [60.0, None]
    assert "it is of version 99" in caplog.text
    assert shelf.get("nightly").record == newer
    assert len(server.calls) == 1


def test_a_worker_has_a_thread_at_least(shelf, session):
    """Told where it is made, not where it runs."""
    with pytest.raises(ValueError, match=r"Worker\(workers=\) takes a number of threads, 1 or more, got 0"):
        Worker(shelf, session=session, finish=print, workers=0)


def test_a_step_that_is_cut_short_is_told(submit, worker, shelf, monkeypatch, caplog):
    """Such as by a store that goes away meanwhile: a thread that ends in silence tells nobody."""
    submit()

    def gone(*_, **__):
        worker.stop()
        raise StoreError("the database is gone")

    monkeypatch.setattr(worker, "_take", gone)
    worker.run()
    assert "a step was cut short: StoreError: the database is gone" in caplog.text


def test_what_a_worker_was_not_given_is_left_to_others(submit, server, shelf, session, clock, caplog):
    """It has no provider by that name, and imports none."""
    submit()
    worker = Worker(shelf, session=session, finish=lambda op, ready: None, clock=clock)
    assert [worker.step(), worker.step()] == [None, None]
    assert "is of the provider 'acme.exports', which this worker was not given" in caplog.text
    assert len(server.calls) == 1


def test_many_steps_are_one_poll_span(submit, worker, server, spans, clock, finished):
    """However many processes ask in turn: one root, one poll, all attempts on it."""
    submit()
    server.script(*[{"state": "running"}] * 5, {"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")
    for _ in range(7):
        clock.advance(worker.step("nightly") or 0)

    assert finished == [("nightly", b"a,b\n")]
    [root] = spans.roots
    assert [span.name for span in spans.children(root)] == [
        "start export",
        "submit export",
        "poll export",
        "download export",
    ]
    poll = spans.named("poll export")
    assert poll.attributes["trihop.poll.attempts"] == 6
    assert root.attributes["trihop.operation.polls"] == 6


def test_a_result_that_has_to_be_asked_for_again_is_asked_for_on_the_same_poll_span(
    submit, worker, server, spans, shelf, finished
):
    """A signed link is in no record: the step that downloads polls once more for it."""
    submit()
    server.script({"state": "done", "result_url": "/f/1?X-Amz-Signature=one"})
    server.script({"state": "done", "result_url": "/f/1?X-Amz-Signature=two"})
    server.on("GET", "/f/1", b"a,b\n")
    steps = [worker.step("nightly"), worker.step("nightly")]

    assert (steps, finished) == ([0.0, None], [("nightly", b"a,b\n")])
    [root] = spans.roots
    names = [span.name for span in spans.children(root)]
    assert names == ["start export", "submit export", "poll export", "download export"]
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 2
    assert shelf.get("nightly").record["poll"] is None


def test_a_job_that_failed_behind_a_signed_link_ends_its_poll_span(submit, worker, server, spans, shelf):
    """What ends the operation ends the poll, whatever it left."""
    submit()
    server.script({"state": "done", "failed_items": 3, "result_url": "/f/1?X-Amz-Signature=one"})

    assert worker.step("nightly") is None
    assert spans.named("poll export").attributes["error.type"] == "JobPartiallyFailed"
    assert len(spans.roots) == 1


def test_a_holder_that_stalled_is_fenced_off(nightly, server, shelf, session, clock):
    """Once its lease has run out and another has taken over, it writes nothing and ends nothing."""
    server.script(Reply(202, ADMITTED))
    other = []

    def stall(call):
        clock.advance(61)
        other.append(shelf.claim("nightly", holder="another", lease_s=60))
        return {"state": "running"}

    server.script(stall)
    with pytest.raises(OperationTaken, match="another holder took the operation over"), nightly() as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    assert shelf.get("nightly").holder == "another"
    assert shelf.get("nightly").record["state"] is None


def test_a_holder_that_was_replaced_learns_it_at_the_end_of_its_block_at_the_latest(nightly, server, shelf, clock):
    """Two processes never both believe that they have finished."""
    server.script(Reply(202, ADMITTED), {"state": "done"})
    with pytest.raises(OperationTaken, match="another holder took the operation over"), nightly() as op:
        op.poll(op.submit("POST", server.url + "jobs"))
        clock.advance(61)
        shelf.claim("nightly", holder="another", lease_s=60)

    assert not shelf.get("nightly").ended


def test_a_worker_comes_back_to_an_operation_whose_store_failed(submit, worker, server, shelf, monkeypatch, caplog):
    """A lost connection to the store is no reason to leave the operation to people."""
    submit()
    server.script({"state": "running"}, {"state": "running"})
    real, failures = shelf.save, []

    def save(*given, **options):
        if not failures:
            failures.append(1)
            raise StoreError("the connection was lost", then="See whether the server is up.")
        real(*given, **options)

    monkeypatch.setattr(shelf, "save", save)
    worker.step("nightly")

    assert "the connection was lost" in caplog.text
    assert (shelf.get("nightly").holder, shelf.get("nightly").due_in_s) == (None, 0)


# ---- writes


class Noting:
    """A store that notes what it is asked for, but for signs of life."""

    def __init__(self, store):
        self._store = store
        self.asked = []

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name == "renew" or not callable(found):
            return found

        def noting(*given, **options):
            self.asked.append(name)
            return found(*given, **options)

        return noting


def test_a_step_that_polls_is_a_claim_and_one_write(submit, server, shelf, session, clock):
    """The record and the lease go back together, by whichever way the step was come to."""
    noting = Noting(shelf)
    worker = Worker(noting, session=session, finish=lambda op, ready: None, providers=[JOBS], clock=clock)
    submit()
    server.script(then_always={"state": "running"})
    worker.step()
    clock.advance(60)
    worker.step("nightly")

    assert noting.asked == ["claim_due", "save", "get", "claim", "save"]
    assert shelf.get("nightly").lease_left_s is None


def test_an_operation_that_ends_with_its_block_gives_its_lease_back_as_it_says_so(nightly, server, shelf):
    """No write after the one that has the ending."""
    noting = Noting(shelf)
    server.script(Reply(202, ADMITTED), {"state": "failed"})
    with pytest.raises(JobFailed), nightly(store=noting) as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    assert noting.asked[-2:] == ["save", "save"]
    assert (shelf.get("nightly").ended, shelf.get("nightly").lease_left_s) == (True, None)


def test_a_block_with_nothing_to_write_gives_its_lease_back(nightly, submit, server, shelf):
    """It was entered for what had ended before, or its last write was refused."""
    server.script(Reply(202, ADMITTED), {"state": "done", "result": 1})
    with nightly() as op:
        op.run("POST", server.url + "jobs")
    noting = Noting(shelf)
    with nightly(store=noting):
        pass

    assert noting.asked == ["begin", "release"]
    assert shelf.get("nightly").lease_left_s is None


def test_a_sign_of_life_that_comes_late_takes_nothing_back(nightly, server, shelf):
    """The thread that renews leases may be about to as the block is left: the lease stays given back."""
    server.script(Reply(202, ADMITTED))
    with nightly() as op:
        op.submit("POST", server.url + "jobs")
    op._run.visit.renew()

    assert shelf.get("nightly").lease_left_s is None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_sign_of_life_during_a_fork_locks_nobody_out_of_the_child(nightly, shelf, monkeypatch):
    """The thread that was giving it is not there to let go of anything."""
    during, over, real = threading.Event(), threading.Event(), shelf.renew

    def slowly(*given, **options):
        during.set()
        over.wait(10)
        real(*given, **options)

    monkeypatch.setattr(shelf, "renew", slowly)
    with nightly() as op:
        renewing = threading.Thread(target=op._run.visit.renew)
        renewing.start()
        assert during.wait(10)
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            code = 1
            try:
                op._run.visit.step_done("step", 1)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        over.set()
        renewing.join(10)

    assert status == 0


# ---- blocks that come twice, and results that nobody has seen


def test_a_block_that_comes_twice_leaves_the_results_to_the_worker(submit, worker, server, shelf, finished):
    """An engine may run a task twice: the block that only submits does not end what is still to be fetched."""
    submit()
    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")
    worker.step()
    submit()

    assert not shelf.get("nightly").ended
    assert (worker.step(), finished) == (None, [("nightly", b"a,b\n")])
    assert [call.method for call in server.calls].count("POST") == 1


def test_a_job_that_was_over_at_once_is_left_to_the_worker(nightly, server, shelf, session, clock, finished):
    """The submit brought the result, and the block is left without looking at it."""
    quick = Provider("acme.quick", submit=lambda reply: Succeeded("done", results=(Result(data=reply.json()),)))
    server.script({"rows": 3})
    with nightly(provider=quick) as op:
        op.submit("POST", server.url + "jobs")

    def finish(op, ready):
        finished.append(op.download(ready).json())

    worker = Worker(shelf, session=session, finish=finish, providers=[quick], clock=clock)
    assert (worker.step(), finished) == (None, [{"rows": 3}])
    assert shelf.get("nightly").ended


# ---- messages


def test_what_is_offered_is_taken_by_its_key_alone(submit, worker, server, shelf, clock):
    """It is not offered again while its message is on the way, and `claim_due` passes it by."""
    submit()
    server.script({"state": "running"})
    offered = [worker.offer(), worker.offer(), worker.step()]

    assert offered == [["nightly"], [], None]
    assert shelf.get("nightly").holder == OFFERED
    assert worker.step("nightly") == 1.0
    assert shelf.get("nightly").holder is None
    assert [worker.offer(), clock.advance(1), worker.offer()] == [[], None, ["nightly"]]


def test_what_was_offered_in_vain_is_offered_again(submit, worker, clock):
    """Once the lease has passed: the message was lost with its broker, or with the worker that had fetched it."""
    submit()
    offered = [worker.offer(), clock.advance(59), worker.offer(), clock.advance(2), worker.offer()]

    assert offered == [["nightly"], None, [], None, ["nightly"]]


@pytest.fixture
def many_due(shelf, clock):
    """1,200 operations, due one after the other."""
    keys = [f"nightly-{number:04}" for number in range(1_200)]
    for key in keys:
        record = {"version": 1, "name": "export", "job_id": None, "deadline_at": None}
        shelf.release(shelf.begin(record, key=key, holder="one", lease_s=60))
        clock.advance(1)
    return keys


def test_all_that_are_due_are_offered_the_longest_due_first(worker, many_due):
    """However many that is."""
    assert worker.offer() == many_due
    assert worker.offer() == []


def test_no_more_are_offered_than_asked_for(worker, many_due):
    """The others are the next call's."""
    assert [worker.offer(0), worker.offer(700), worker.offer(500), worker.offer(500)] == [
        [],
        many_due[:700],
        many_due[700:],
        [],
    ]


def test_an_offer_of_what_comes_due_as_fast_as_it_is_taken_has_an_end(worker, shelf, monkeypatch):
    """A call has an end whatever the store has: ten thousand."""
    due, asked = itertools.count(), []

    def claim_due(*, holder, lease_s, limit):
        asked.append(limit)
        return [Claim(f"{next(due)}", 1, {}) for _ in range(limit)]

    monkeypatch.setattr(shelf, "claim_due", claim_due)

    assert len(worker.offer()) == 10_000
    assert asked == [500] * 20


def test_what_was_offered_before_the_store_failed_is_not_lost(worker, shelf, many_due, monkeypatch):
    """It is set aside for its messages, which are to be sent; the next call says what is wrong with the store."""
    real, calls = shelf.claim_due, itertools.count(1)

    def claim_due(**given):
        if next(calls) > 1:
            raise StoreError("the connection was lost", then="See whether the server is up.")
        return real(**given)

    monkeypatch.setattr(shelf, "claim_due", claim_due)

    assert worker.offer() == many_due[:500]
    with pytest.raises(StoreError, match="the connection was lost"):
        worker.offer()


def test_an_offer_keeps_nobody_out(submit, nightly, worker, server, shelf, spans):
    """The block under that key goes on at once, and its trace tells of no crash."""
    submit()
    worker.offer()
    server.script({"state": "done"})
    with nightly() as op:
        op.poll(op.submit("POST", server.url + "jobs", json={"query": "all"}))

    assert shelf.get("nightly").ended
    assert spans.named("resume export").attributes["trihop.segment.reason"] == "visited_again"


def test_messages_that_come_twice_make_one_poll(submit, worker, server, shelf, clock, monkeypatch):
    """The second one has seen that a poll is due, and finds it made when its turn comes."""
    submit()
    server.script({"state": "running"})
    real = shelf.get

    def slowly(key):
        found = real(key)
        monkeypatch.undo()
        worker.step("nightly")  # the other message, between the look and the claim
        return found

    monkeypatch.setattr(shelf, "get", slowly)

    assert worker.step("nightly") == 1.0
    assert [call.method for call in server.calls] == ["POST", "GET"]
    assert shelf.get("nightly").holder is None


def test_a_message_for_what_somebody_else_is_at_is_dropped(submit, worker, server, shelf):
    """Its holder lives."""
    submit()
    shelf.claim("nightly", holder="another", lease_s=60)

    assert worker.step("nightly") is None
    assert [call.method for call in server.calls] == ["POST"]


@pytest.mark.parametrize("hours", [1, -1])
def test_a_worker_whose_clock_is_wrong_changes_nothing(submit, worker, server, shelf, session, clock, spans, hours):
    """An hour ahead it takes nothing for late, an hour behind it makes nothing wait; the trace has the store's time."""
    submit(deadline=1800)
    server.script(Reply(200, {"state": "running"}, headers={"Retry-After": "40"}), {"state": "running"})
    server.script({"state": "done"})
    wrong = CorrectedClock(clock, hours * 3600.0)
    other = Worker(shelf, session=session, finish=lambda op, ready: None, providers=[JOBS], clock=wrong)
    steps = []
    for one in (worker, other, worker, other):
        steps.append(one.step("nightly"))
        clock.advance(steps[-1] or 0)

    assert steps == [40.0, 2.0, 0.0, None]
    [root] = spans.roots
    assert (root.end_time - root.start_time) / 1e9 == pytest.approx(42, abs=3)


def test_a_session_that_takes_its_time_is_no_wrong_clock(submit, server, shelf, session, clock, spans):
    """What is compared is the moment of the claim; signing in may come after it."""

    def sign_in(provider):
        clock.advance(10)
        return session

    submit()
    server.script({"state": "done"})
    worker = Worker(shelf, session=sign_in, finish=lambda op, ready: None, providers=[JOBS], clock=clock)
    worker.step()
    worker.step()

    [root] = spans.roots
    assert root.end_time == clock.time_ns()


@pytest.mark.parametrize("hours", [1, -1])
def test_a_block_whose_clock_is_wrong_gives_its_deadline_to_others(nightly, server, shelf, session, clock, hours):
    """A deadline of half an hour is half an hour wherever the next step is taken."""
    server.script(Reply(202, ADMITTED), {"state": "running"})
    with nightly(deadline=1800, clock=CorrectedClock(clock, hours * 3600.0)) as op:
        op.submit("POST", server.url + "jobs")
    clock.advance(100)

    with resume("nightly", store=shelf, provider=JOBS, session=session, clock=clock) as op:
        assert op.remaining() == pytest.approx(1700, abs=3)
