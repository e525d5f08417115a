"""Each row of the recovery table, and a store that fails: the job goes on, and nothing that was written is lost."""

import logging
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from durable.lives import ADMITTED, JOBS, KEYED, Mortal
from trihop import (
    Budget,
    DeadlineExceeded,
    Job,
    OutcomeAmbiguous,
    PollErrorsExhausted,
    Reply,
    ResultUnavailable,
    StoreError,
    SubmitRejected,
    SubmitUncertain,
    operation,
    resume,
)
from trihop._durable.holder import new_holder, surely_dead
from trihop.testing import reset


def admitted():
    return Reply(202, ADMITTED)


def submits(server):
    return [call for call in server.calls if call.method == "POST"]


# ---- the table


def test_a_post_that_timed_out_is_repeated_under_its_key_by_the_next_visit(run, server):
    """Perhaps the server has it: the same key and body make one job of both."""
    server.script(*[reset()] * 3)
    with pytest.raises(SubmitUncertain, match="submit again with the same idempotency key"):
        run(provider=KEYED)
    server.script(admitted(), {"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"once")

    assert run(provider=KEYED).content == b"once"
    assert len({call.headers["Idempotency-Key"] for call in submits(server)}) == 1


def test_a_post_that_timed_out_without_a_key_is_marked_and_never_repeated(run, server, shelf):
    """A person must look; whoever enters the key again is told the same."""
    server.script(reset())
    for _ in range(2):
        with pytest.raises(SubmitUncertain, match="the submit was sent and the server never answered"):
            run()

    assert len(submits(server)) == 1
    assert (shelf.get("nightly").record["reconcile"], shelf.get("nightly").due_in_s) == (True, None)


def test_a_server_that_was_never_reached_is_submitted_to_by_the_next_visit(nightly, server):
    """There is no job, so asking anew is safe."""
    with pytest.raises(SubmitRejected, match="never reached"), nightly() as op:
        op.submit("POST", "http://127.0.0.1:9/jobs")
    server.script(admitted())

    with nightly() as op:
        assert op.submit("POST", server.url + "jobs").id == "j-1"


def test_polls_that_failed_leave_it_open(run, server):
    """The status endpoint is not the job."""
    server.script(admitted(), 503, 503)
    with pytest.raises(PollErrorsExhausted):
        run(provider=replace(JOBS, budget=Budget(consecutive_errors=2)))
    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"late")

    assert run().content == b"late"
    assert len(submits(server)) == 1


def test_an_ambiguous_outcome_is_marked_listed_and_never_submitted_again(run, server, shelf):
    """Reconcile it by hand."""
    server.script(admitted(), {"state": "open"})
    for _ in range(2):
        with pytest.raises(OutcomeAmbiguous):
            run()

    [stored] = shelf.list()
    assert (stored.record["reconcile"], stored.ended, len(server.calls)) == (True, True, 2)


def test_a_stale_link_is_asked_for_anew(run, nightly, server, shelf, clock):
    """Killed between the job's end and the download, the next process asks the monitor for a fresh link."""
    signed = "/f/{}?X-Amz-Signature=s3cr3t&X-Amz-Expires=900&X-Amz-Date=20260301T120000Z"
    server.script(admitted(), {"state": "done", "result_url": signed.format(1)})
    assert run(store=Mortal(shelf, dies_at=3)) is None
    clock.advance(61)
    server.script({"state": "done", "result_url": signed.format(2)})
    server.on("GET", "/f/2", b"fresh")

    assert run().content == b"fresh"
    assert shelf.get("nightly").record["polls"] == 2


def test_a_result_out_of_reach_leaves_it_open(run, server, shelf):
    """The job is over and paid for; the next visit asks for its result again."""
    server.script(admitted(), {"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", *[503] * 3, b"there again")
    with pytest.raises(ResultUnavailable):
        run()

    assert run().content == b"there again"
    assert (len(submits(server)), shelf.get("nightly").ended) == (1, True)


# ---- dead holders


def test_a_dead_process_of_this_machine_is_not_waited_for(run, nightly, server, shelf):
    """It is no more, so its lease has no meaning; one that lives is waited for."""
    code = "from trihop._durable.holder import new_holder; print(new_holder())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    dead = done.stdout.strip()

    assert [surely_dead(holder) for holder in (dead, new_holder(), "elsewhere/1/2/3/4", "nonsense")] == [
        os.path.exists("/proc/self/ns/pid"),
        False,
        False,
        False,
    ]


# ---- a store that fails


class Failing:
    """A store that cannot be written to from the n-th save on."""

    def __init__(self, store, *, at):
        self._store, self._left = store, at

    def __getattr__(self, name):
        return getattr(self._store, name)

    def save(self, *args, **options):
        self._left -= 1
        if self._left <= 0:
            raise StoreError("the disk that holds operations.db is full", then="Make room, then go on.")
        self._store.save(*args, **options)


def test_a_store_that_fails_before_the_submit_keeps_it_from_being_sent(nightly, server, shelf):
    """No intent, no submit."""
    with (
        pytest.raises(StoreError, match=r"is full \[operation=export key=nightly .*\]\. Make room, then go on\."),
        nightly(store=Failing(shelf, at=1)) as op,
    ):
        op.submit("POST", server.url + "jobs")

    assert server.calls == []


def test_a_store_that_fails_after_the_submit_leaves_the_job_alone(nightly, server, shelf):
    """The error has the job, and what was written before is there."""
    server.script(admitted())
    with pytest.raises(StoreError) as caught, nightly(store=Failing(shelf, at=2)) as op:
        op.submit("POST", server.url + "jobs")

    assert caught.value.job_id == "j-1"
    assert [(call.method, call.path) for call in server.calls] == [("POST", "/jobs")]
    assert shelf.get("nightly").record["phase"] == "submitting"


def test_a_store_that_fails_as_the_block_is_left_does_not_hide_what_was_raised(nightly, server, shelf, caplog):
    """The caller's own error is what the caller sees."""
    server.script(admitted())
    with caplog.at_level(logging.WARNING), pytest.raises(KeyError), nightly(store=Failing(shelf, at=3)) as op:
        op.submit("POST", server.url + "jobs")
        raise KeyError("the caller's own")

    assert "what became of it could not be written" in caplog.text


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"version": 99, "name": "export"}, r"of version 99, .*reads versions up to 1\. Upgrade trihop here"),
        ({"name": "export"}, r"it has no version\. The job, if there is one, goes on at the server"),
        ({"version": 1, "name": "export"}, r"missing .*required keyword-only arguments"),
    ],
)
def test_a_record_that_cannot_be_read_is_left_as_it_is(nightly, server, shelf, record, said):
    """The error says which, and what to do; nothing is sent."""
    claim = shelf.begin(record, key="nightly", holder="somebody", lease_s=60)
    shelf.release(claim)

    with pytest.raises(StoreError, match=said):
        nightly().__enter__()

    assert (shelf.get("nightly").record, shelf.get("nightly").holder, server.calls) == (record, None, [])
    with pytest.raises(StoreError):  # and the key is free again
        nightly().__enter__()


# ---- what does not fit together


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"key": None}, ValueError, "store= needs a key="),
        ({"store": "sqlite:///x.db"}, TypeError, "store= takes a Store"),
        ({"store": None, "store_payload": True}, ValueError, "store_payload= needs a store="),
    ],
)
def test_what_a_store_needs_is_said_at_once(nightly, options, error, said):
    """When the operation is made."""
    with pytest.raises(error, match=said):
        nightly(**options)


def test_operations_without_a_store_have_no_record(server, clock, shelf):
    """And a key alone names an operation in this process."""
    server.script(admitted())
    with operation("export", deadline=60, provider=JOBS, clock=clock, key="nightly") as op:
        op.submit("POST", server.url + "jobs")
    assert (op.resumed, shelf.list()) == (False, [])


def test_a_job_that_was_found_by_hand_is_adopted(run, server, shelf, session, clock, spans):
    """Whoever reconciles says which job it is; the record goes on with that, and no root is there twice."""
    server.script(reset())
    with pytest.raises(SubmitUncertain):
        run()
    server.script({"state": "running"}, {"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"found")

    with resume("nightly", store=shelf, session=session, provider=JOBS, clock=clock) as op:
        download = op.download(op.poll(Job(id="j-7", status_url=server.url + "jobs/7")))

    record = shelf.get("nightly").record
    assert (download.content, len(spans.roots)) == (b"found", 1)
    assert (record["job_id"], record["reconcile"], record["outcome"]["result"]) == ("j-7", False, "success")


def test_a_job_that_is_only_polled_is_gone_on_with(nightly, server, shelf):
    """Somebody else has submitted it; its record begins with the first poll."""
    url = server.url + "jobs/7"
    server.script(then_always={"state": "running"})
    with pytest.raises(DeadlineExceeded), nightly(deadline=30) as op:
        op.poll(url)

    with nightly() as op:
        assert op.job.status_url == url


def test_a_process_that_is_told_to_go_leaves_the_job_running(nightly, server, shelf, caplog):
    """SIGTERM, where the application makes SystemExit of it: the record is open, its lease is given back."""
    server.script(admitted())
    events = []
    with pytest.raises(SystemExit), nightly(on_event=events.append) as op:
        op.submit("POST", server.url + "jobs")
        raise SystemExit(143)

    assert "`trihop resume nightly` waits on, `trihop cancel nightly` stops it" in caplog.text
    stored = shelf.get("nightly")
    assert (stored.ended, stored.holder, stored.due_in_s) == (False, None, 0)
    assert (events[-1].kind, events[-1].left, events[-1].resumable) == ("ended", True, True)
