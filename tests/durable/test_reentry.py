"""A key that is entered again, row by row."""

from dataclasses import replace

import pytest

from durable.lives import ADMITTED, JOBS, KEYED, Killed, Mortal
from trihop import (
    Budget,
    DeadlineExceeded,
    JobCancelled,
    JobFailed,
    JobPartiallyFailed,
    OperationTaken,
    OutcomeAmbiguous,
    PollBudgetExhausted,
    ReadState,
    Reply,
    SubmitRejected,
    SubmitUncertain,
)


def admitted():
    return Reply(202, ADMITTED)


def state(word, **more):
    return {"state": word, **more}


def submits(server):
    return [call for call in server.calls if call.method == "POST"]


def test_an_open_operation_goes_on_with_its_job(run, server, shelf, clock):
    """Killed in mid-poll, the next process asks for the same job, and nothing is submitted twice."""
    server.script(admitted(), state("queued"), state("running"), state("running"), state("done", result_url="/f/1"))
    server.on("GET", "/f/1", then_always=b"a,b\n")

    assert run(store=Mortal(shelf, dies_at=4)) is None
    clock.advance(61)
    download = run()

    assert download.content == b"a,b\n"
    assert [(call.method, call.path) for call in server.calls] == [
        ("POST", "/jobs"),
        *[("GET", "/jobs/1")] * 4,
        ("GET", "/f/1"),
    ]


def test_each_visit_tells_its_end(nightly, server):
    """Who shows progress learns when a block is over, and whether its operation is: left, finished, and found done."""
    server.script(admitted(), then_always=state("done", result=1))
    told = []
    for use in (
        lambda op: op.submit("POST", server.url + "jobs"),
        lambda op: op.run("POST", server.url + "jobs"),
        lambda op: op.submit("POST", server.url + "jobs"),
    ):
        events = []
        with nightly(on_event=events.append) as op:
            use(op)
        told.append((events[0].kind, events[-1].kind, events[-1].resumable))

    assert told == [("started", "ended", True), ("started", "finished", False), ("started", "finished", False)]


def test_the_stored_deadline_counts(nightly, server, shelf, clock):
    """An open operation has no more time for having been entered again."""
    server.script(admitted(), then_always=state("running"))
    with nightly(deadline=600) as op:
        op.submit("POST", server.url + "jobs")
    clock.advance(500)

    with nightly(deadline=600) as op:
        assert (op.resumed, op.remaining()) == (True, pytest.approx(100))


def test_a_timed_out_operation_goes_on_with_a_new_deadline(nightly, server):
    """The command that was too late waits on when it is run again."""
    server.script(admitted(), then_always=state("running"))
    advice = "`trihop resume nightly` waits on, `trihop cancel nightly` stops it"
    with pytest.raises(DeadlineExceeded, match=advice), nightly(deadline=60) as op:
        op.run("POST", server.url + "jobs")
    server.script(then_always=state("done", result_url="/f/1"))
    server.on("GET", "/f/1", b"late")

    with nightly(deadline=90) as op:
        assert op.remaining() == 90
        assert op.run("POST", server.url + "jobs").content == b"late"

    assert len(submits(server)) == 1


def test_an_operation_out_of_budget_goes_on_with_a_new_deadline(nightly, server, clock):
    """Asking too often is no ending of the job's."""
    server.script(admitted(), *[state("running")] * 2, state("done", result_url="/f/1"))
    server.on("GET", "/f/1", b"late")
    with pytest.raises(PollBudgetExhausted), nightly(provider=replace(JOBS, budget=Budget(polls=2))) as op:
        op.run("POST", server.url + "jobs")
    clock.advance(10_000)

    with nightly() as op:
        assert op.remaining() == 600
        assert op.run("POST", server.url + "jobs").content == b"late"


def test_a_done_operation_asks_nothing(run, server, tmp_path):
    """The file is there and unchanged: the recorded outcome is enough."""
    server.script(admitted(), state("done", result_url="/f/1"))
    server.on("GET", "/f/1", then_always=b"a,b\n")
    first = run(to=tmp_path / "out.csv")
    asked = len(server.calls)

    again = run(to=tmp_path / "out.csv")

    assert (len(server.calls), again.path, again.content) == (asked, first.path, b"a,b\n")


def test_a_done_operations_data_is_asked_for_again(run, server):
    """What came in the body of a poll is not stored, and is nowhere else to be had."""
    provider = replace(JOBS, poll=ReadState("state", succeeded={"done"}, data="rows"))
    server.script(admitted(), then_always=state("done", rows=[1, 2]))
    assert run(provider=provider).json() == [1, 2]
    assert run(provider=provider).json() == [1, 2]
    assert len(submits(server)) == 1


@pytest.mark.parametrize("harm", ["missing", "changed"])
def test_a_done_operations_file_is_fetched_again_where_it_is_not_as_it_was(run, server, tmp_path, harm):
    """And nothing else is asked for: the link was no secret."""
    server.script(admitted(), state("done", result_url="/f/1"))
    server.on("GET", "/f/1", then_always=b"a,b\n")
    out = tmp_path / "out.csv"
    run(to=out)
    out.unlink() if harm == "missing" else out.write_bytes(b"something else")
    asked = len(server.calls)

    run(to=out)

    assert out.read_bytes() == b"a,b\n"
    assert [(call.method, call.path) for call in server.calls[asked:]] == [("GET", "/f/1")]


def test_a_signed_link_is_asked_for_anew(run, server, shelf, tmp_path):
    """No record keeps one, so the monitor gives a fresh one."""
    signed = "/f/1?X-Amz-Signature=s3cr3t&X-Amz-Expires=900&X-Amz-Date=20260301T120000Z"
    server.script(admitted(), then_always=state("done", result_url=signed))
    server.on("GET", "/f/1", then_always=b"a,b\n")
    out = tmp_path / "out.csv"
    run(to=out)
    out.unlink()
    asked = len(server.calls)

    run(to=out)

    assert out.read_bytes() == b"a,b\n"
    assert [(call.method, call.path.partition("?")[0]) for call in server.calls[asked:]] == [
        ("GET", "/jobs/1"),
        ("GET", "/f/1"),
    ]
    assert "s3cr3t" not in str(shelf.get("nightly"))


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (state("failed", error={"code": "E7", "message": "no such column"}), JobFailed),
        (state("cancelled"), JobCancelled),
        (state("open"), OutcomeAmbiguous),
        (state("done", failed_items=3, result_url="/f/1"), JobPartiallyFailed),
    ],
)
def test_a_job_that_ended_badly_raises_the_same_error(nightly, server, ending, kind):
    """By the hop that met it, with what the server said, and without asking again."""
    server.script(admitted(), ending)
    with pytest.raises(kind) as first, nightly() as op:
        op.run("POST", server.url + "jobs")
    asked = len(server.calls)

    with nightly() as op:
        job = op.submit("POST", server.url + "jobs")
        with pytest.raises(kind) as again:
            op.poll(job)

    assert len(server.calls) == asked
    assert (again.value.what, again.value.error) == (first.value.what, first.value.error)
    assert (again.value.ready.state, again.value.job_id) == (ending["state"], "j-1")


def test_a_refusal_that_leaves_the_block_is_its_ending(nightly, server):
    """And is raised again without asking."""
    server.script(Reply(400, {"error": {"code": "BAD", "message": "no such table"}}))
    for _ in range(2):
        with pytest.raises(SubmitRejected, match="no such table"), nightly() as op:
            op.submit("POST", server.url + "jobs")

    assert len(server.calls) == 1


def test_another_payload_is_refused(nightly, server):
    """A key stands for one request; headers, which change with each sign-in, are no part of it."""
    server.script(admitted())
    with nightly() as op:
        op.submit("POST", server.url + "jobs", json={"query": "all"}, headers={"Authorization": "Bearer one"})

    with nightly() as op:
        with pytest.raises(ValueError, match="the key 'nightly' stands for another request"):
            op.submit("POST", server.url + "jobs", json={"query": "some"})
        op.submit("POST", server.url + "jobs", json={"query": "all"}, headers={"Authorization": "Bearer two"})

    assert len(server.calls) == 1


def test_a_key_that_is_open_elsewhere_is_taken(nightly, server, shelf):
    """One works, the other is told who does and for how long at least."""
    shelf.begin({"version": 1, "name": "export"}, key="nightly", holder="web-1/12/3/elsewhere/x", lease_s=60)

    with pytest.raises(OperationTaken, match=r"'nightly' is held by process 12 on web-1 .*runs out in 60 s"):
        nightly().__enter__()
    assert server.calls == []


def test_a_step_is_not_done_twice(nightly, server, shelf, clock):
    """What it returned is in the record."""
    done = []
    server.script(admitted())

    def upload():
        done.append(1)
        return {"etag": "e1"}

    with nightly() as op:
        op.submit("POST", server.url + "jobs")
        assert op.once("upload", upload) == {"etag": "e1"}
    with nightly() as op:
        op.submit("POST", server.url + "jobs")
        assert op.once("upload", upload) == {"etag": "e1"}

    assert done == [1]


# ---- killed in mid-submit


def test_a_submit_that_may_have_gone_out_is_repeated_under_its_key(run, server, shelf, clock):
    """With the same idempotency key and body, so that the server makes one job of both."""
    server.script(admitted(), admitted(), state("done", result_url="/f/1"))
    server.on("GET", "/f/1", b"once")

    assert run(provider=KEYED, store=Mortal(shelf, dies_at=2, written=False)) is None
    clock.advance(61)
    assert run(provider=KEYED).content == b"once"

    first, second = submits(server)
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.body == second.body == b'{"query": "all"}'


def test_without_a_key_it_is_not_repeated(run, nightly, server, shelf, clock):
    """Perhaps there is a job: the error says what to look for, and every later one the same."""
    assert run(store=Mortal(shelf, dies_at=1)) is None
    clock.advance(61)

    for _ in range(2):
        with pytest.raises(SubmitUncertain, match=r"POST .*/jobs at 2026-03-01T12:00:00Z.*look for one"):
            run()

    assert server.calls == []
    assert shelf.get("nightly").record["reconcile"] is True


def put(nightly, server, **options):
    """A job whose place the client chose; None where the process was killed."""
    provider = replace(JOBS, status="{submit_url}")
    try:
        with nightly(provider=provider, **options) as op:
            return op.submit("PUT", server.url + "jobs/mine")
    except Killed:
        return None


def test_a_job_whose_place_the_client_chose_is_adopted(nightly, server, shelf, clock):
    """A PUT names its job: the monitor knows it already."""
    server.on("GET", "/jobs/mine", state("running"))
    assert put(nightly, server, store=Mortal(shelf, dies_at=1)) is None
    clock.advance(61)

    assert put(nightly, server).submit_url == server.url + "jobs/mine"
    assert [(call.method, call.path) for call in server.calls] == [("GET", "/jobs/mine")]


def test_a_job_that_is_not_where_the_client_chose_is_put_there(nightly, server, shelf, clock):
    """A PUT may be sent again."""
    server.script(Reply(404), Reply(201, state("queued")))
    assert put(nightly, server, store=Mortal(shelf, dies_at=1)) is None
    clock.advance(61)

    assert put(nightly, server).submit_url == server.url + "jobs/mine"
    assert [(call.method, call.path) for call in server.calls] == [("GET", "/jobs/mine"), ("PUT", "/jobs/mine")]


def test_a_key_that_is_still_being_worked_on_is_asked_again(run, server, shelf, clock):
    """409 after a crash: the server has the first one still in hand (draft-ietf-httpapi-idempotency-key-header)."""
    server.script(admitted(), Reply(409), admitted(), state("done", result_url="/f/1"))
    server.on("GET", "/f/1", b"once")
    assert run(provider=KEYED, store=Mortal(shelf, dies_at=2, written=False)) is None
    clock.advance(61)

    assert run(provider=KEYED).content == b"once"
    assert len({call.headers["Idempotency-Key"] for call in submits(server)}) == 1


def test_a_key_that_stands_for_another_request_at_the_server_is_no_refusal(run, server, shelf, clock):
    """422 after a crash: there is something under that key, so perhaps there is a job; the record stays open."""
    server.script(admitted(), Reply(422, {"error": "key reused"}))
    assert run(provider=KEYED, store=Mortal(shelf, dies_at=2, written=False)) is None
    clock.advance(61)

    with pytest.raises(SubmitUncertain, match="answered HTTP 422: key reused"):
        run(provider=KEYED)
    assert not shelf.get("nightly").ended
