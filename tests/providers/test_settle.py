"""Settle and reconcile: an ending counts once it is settled, and an ambiguous one is left to people."""

import pytest
import requests

from trihop import (
    DeadlineExceeded,
    Job,
    JobFailed,
    OutcomeAmbiguous,
    Pending,
    Reply,
    SubmitRejected,
    Succeeded,
    operation,
)
from trihop.providers import settle
from trihop.testing import check_provider, reset

INFERENCE = settle.jobs("acme.inference")
JOB = Job(id="job-1", status_url="https://api.acme.test/jobs/1", submit_url="https://api.acme.test/jobs")
ADMITTED = {"job_id": "job-1", "status_url": "/jobs/1"}


def job(status, *, settled=False, **fields):
    return {"job_id": "job-1", "status": status, "billing": {"settled": settled, "amount": 3}, **fields}


@pytest.fixture
def run(server, clock):
    """Submit and poll."""

    def run(provider=INFERENCE, **options):
        with operation("infer", deadline=600, provider=provider, clock=clock) as op:
            return op.poll(op.submit("POST", f"{server.url}jobs", json={"prompt": "hello"}, **options))

    return run


UNSETTLED = ["succeeded", "ready", "failed", "rejected"]


@pytest.mark.parametrize("word", UNSETTLED)
@pytest.mark.parametrize("settled", [False, None, "true", 1])
def test_an_ending_is_none_until_it_is_settled(word, settled):
    """Nothing but `true` settles."""
    assert INFERENCE.poll(Reply(200, job(word, settled=settled)), JOB) == Pending(f"{word}, not settled")


def test_a_reply_without_a_bill_is_not_settled():
    """No field is no settlement."""
    assert INFERENCE.poll(Reply(200, {"status": "succeeded"}), JOB) == Pending("succeeded, not settled")


def test_the_result_comes_once_it_is_settled(run, server, clock):
    """Terminal is state and settlement; polls go from one second to fifteen."""
    server.script(Reply(202, ADMITTED), job("queued"), job("running"), job("running"), job("running"), job("succeeded"))
    server.script(job("succeeded", settled=True, result={"text": "hi"}))

    ready = run()

    assert (ready.state, ready.data, settle.needs_activation(ready)) == ("succeeded", {"text": "hi"}, False)
    assert clock.sleeps == [1.0, 1.0, 2.0, 4.0, 8.0, 15.0]


def test_what_never_settles_ends_with_the_deadline(run, server):
    """And the message says that it was not settled."""
    server.script(Reply(202, ADMITTED), then_always=job("succeeded", result={}))

    with pytest.raises(DeadlineExceeded, match="last state 'succeeded, not settled'"):
        run()


@pytest.mark.parametrize("word", ["failed", "rejected"])
def test_a_settled_failure_is_a_failed_job(run, server, word):
    """Known and completed outcomes."""
    server.script(Reply(202, ADMITTED), job(word, settled=True, error={"code": "CONTENT", "message": "refused"}))

    with pytest.raises(JobFailed, match="CONTENT: refused"):
        run()


def test_a_candidate_needs_an_activation_check_once(server, clock):
    """`ready` is a success that must not be used before the check, which is made once."""
    server.script(ADMITTED, job("ready", settled=True, result={"candidate": 7}), 204)

    with (
        requests.Session() as session,
        operation("infer", deadline=600, provider=INFERENCE, session=session, clock=clock) as op,
    ):
        ready = op.poll(op.submit("POST", f"{server.url}jobs", json={}))
        assert settle.needs_activation(ready)
        for _ in range(2):
            op.once("activate", lambda: session.post(f"{ready.job.status_url}/activation").status_code)

    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /jobs",
        "GET /jobs/1",
        "POST /jobs/1/activation",
    ]


@pytest.mark.parametrize("settled", [False, True])
def test_a_job_to_reconcile_is_left_alone(run, server, settled):
    """Neither success nor failure nor pending, settled or not: one submit, and no poll after it is known."""
    server.script(Reply(202, ADMITTED), job("running"), job("reconciliation_required", settled=settled))

    with pytest.raises(OutcomeAmbiguous, match="never submitted again") as caught:
        run()

    assert caught.value.job_id == "job-1"
    assert [call.method for call in server.calls] == ["POST", "GET", "GET"]


def test_a_lost_admission_is_asked_for_under_the_same_key(run, server):
    """Same key, same body; the job is one."""
    server.script(reset(), Reply(409, {"error": "still running"}), Reply(202, ADMITTED), job("succeeded", settled=True))

    run()

    posts = server.calls[:3]
    assert len({call.headers["Idempotency-Key"] for call in posts}) == 1
    assert [call.json() for call in posts] == [{"prompt": "hello"}] * 3


def test_another_payload_under_a_key_is_refused(run, server):
    """422 is the server's word for it; nothing is sent again."""
    server.script(Reply(422, {"error": "key was used with another payload"}))

    with pytest.raises(SubmitRejected, match="another payload"):
        run(idempotency_key="intent-1")

    assert [call.headers["Idempotency-Key"] for call in server.calls] == ["intent-1"]


def test_there_is_no_cancel(server, clock):
    """To stop is only to stop looking."""
    server.script(ADMITTED)

    with operation("infer", deadline=600, provider=INFERENCE, clock=clock) as op:
        op.submit("POST", f"{server.url}jobs", json={})
        with pytest.raises(ValueError, match="no way to cancel"):
            op.cancel()


def test_header_and_fields_are_arguments(run, server):
    """Another service names all of it otherwise."""
    other = settle.jobs(
        "other.inference",
        idempotency="X-Intent",
        id="admission.id",
        status_url="admission.href",
        state="job.phase",
        settled="job.final",
        data="job.output",
        error="job.reason",
        pending={"WAITING"},
        succeeded={"DONE"},
        failed={"NO"},
        ambiguous={"UNKNOWN"},
    )
    server.script({"admission": {"id": "7", "href": "/a/7"}}, {"job": {"phase": "WAITING", "final": False}})
    server.script({"job": {"phase": "DONE", "final": True, "output": [1, 2]}})

    assert run(other).data == [1, 2]
    assert "X-Intent" in server.calls[0].headers


def test_a_wrong_path_is_told_when_the_provider_is_made():
    """Not by the first poll."""
    with pytest.raises(ValueError, match="not valid JMESPath"):
        settle.jobs("acme.inference", settled="billing.")


def test_conforms():
    """It keeps the rules that the engine relies on."""
    check_provider(
        INFERENCE,
        pending=job("running"),
        succeeded=job("succeeded", settled=True, result={"text": "hi"}),
        failed=job("failed", settled=True),
        job=JOB,
    )
    assert isinstance(INFERENCE.poll(Reply(200, job("ready", settled=True)), JOB), Succeeded)
