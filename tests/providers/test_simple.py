"""The simple job API: an id from wherever it is, states that go back, a link that stays stale."""

import pytest

from trihop import (
    DeadlineExceeded,
    Job,
    JobFailed,
    Pending,
    Reply,
    ResultUnavailable,
    StatusUnavailable,
    SurfaceError,
    operation,
)
from trihop.providers import simple
from trihop.testing import ScriptedServer, check_provider

ID = "3f2a9c1e-8f0b-4c59-9a61-2f0f6f1f2d10"
JOBS = simple.jobs()
JOB = Job(id=ID, submit_url="https://tool.test/api/assessments/1/gaps")


def row(status, *, attempts=0, result=None, error=None, **fields):
    return {
        "id": ID,
        "type": "GAP_DETECTION",
        "status": status,
        "result": result,
        "error": error,
        "attempts": attempts,
        "maxAttempts": 3,
        **fields,
    }


@pytest.fixture
def run(server, clock):
    """The triangle, with 600 s."""

    def run(provider=JOBS, path="api/assessments/1/gaps", **options):
        with operation("gaps", deadline=600, provider=provider, clock=clock) as op:
            return op.run("POST", server.url + path, json={}, **options)

    return run


SUBMITS = {
    "documented: 202, wrapped": Reply(202, {"data": {"jobId": ID, "status": "PROCESSING"}}),
    "201, unwrapped": Reply(201, {"jobId": ID}),
    "201, a JSON string": Reply(201, ID),
    "201, a bare string": Reply(201, content=ID.encode(), headers={"Content-Type": "text/html; charset=utf-8"}),
    "200, id": Reply(200, {"id": ID}),
}


@pytest.mark.parametrize("submitted", SUBMITS.values(), ids=SUBMITS)
def test_the_id_is_taken_from_wherever_it_is(run, server, submitted):
    """What the documentation says and what services do are two things; the result is in the answer."""
    server.script(submitted, row("PROCESSING"), row("COMPLETED", result={"gapFieldsCreated": 7}))

    assert run().json() == {"gapFieldsCreated": 7}
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /api/assessments/1/gaps",
        f"GET /api/jobs/{ID}",
        f"GET /api/jobs/{ID}",
    ]


NO_IDS = {
    "a page": Reply(200, content=b"<html><body>Sign in</body></html>"),
    "nothing": Reply(200, content=b""),
    "no id in it": Reply(200, {"data": {"ok": True}}),
    "a sentence": Reply(201, content=b"job was accepted"),
    "true": Reply(200, content=b"true"),
}


@pytest.mark.parametrize("submitted", NO_IDS.values(), ids=NO_IDS)
def test_what_is_no_id_is_none(run, server, submitted):
    """A sign-in page is not asked for as a job."""
    server.script(submitted)

    with pytest.raises(SurfaceError, match="made no sense"):
        run()


def test_the_place_of_the_status_is_a_template(run, server):
    """Another service has its jobs elsewhere; beside the submit, or under another path."""
    server.script({"jobId": "a/b"}, row("COMPLETED", result=1))

    run(simple.jobs("../tasks/{id}/state", name="acme.tasks"), path="v2/exports/new")

    assert server.calls[-1].path == "/v2/tasks/a%2Fb/state"


def test_a_state_that_goes_back_is_marked_and_goes_on(run, server, spans):
    """PROCESSING, PENDING, PROCESSING: an attempt failed and another was made."""
    server.script(Reply(202, {"data": {"jobId": ID}}), row("PENDING"), row("PROCESSING", attempts=1))
    server.script(row("PENDING", attempts=1, error="model timed out"), row("PROCESSING", attempts=2))
    server.script(row("COMPLETED", attempts=2, result=[1]))

    assert run().json() == [1]

    marks = [event.attributes.get("trihop.attempt.mark") for event in spans.named("poll gaps").events]
    assert marks == [None, None, "state_regressed", "state_regressed", None]


def test_an_attempt_that_failed_is_told_while_it_is_pending():
    """Why a job is pending again is the message of the poll, with how many attempts are left."""
    verdict = JOBS.poll(Reply(200, row("PENDING", attempts=1, error="model timed out")), JOB)

    assert verdict == Pending("PENDING", message="attempt 1 of 3 failed: model timed out")


def test_a_job_that_nobody_takes_up_ends_with_the_deadline(run, server):
    """PENDING for ever after a failed attempt: the deadline says so, and which job it was."""
    server.script(Reply(202, {"data": {"jobId": ID}}), then_always=row("PENDING", attempts=1, error="x"))

    with pytest.raises(DeadlineExceeded, match="last state 'PENDING'") as caught:
        run()

    assert (caught.value.job_id, caught.value.state) == (ID, "PENDING")


def test_a_failed_job_says_why(run, server):
    """`error` is a text."""
    server.script({"jobId": ID}, row("FAILED", attempts=3, error="no such assessment"))

    with pytest.raises(JobFailed, match="no such assessment") as caught:
        run()

    assert caught.value.error == "no such assessment"


LINKS = ["downloadUrl", "reportUrl"]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_in_the_result_is_the_result(run, server, name, tmp_path):
    """As documented, and as the source has it."""
    with ScriptedServer() as storage:
        storage.script(b"%PDF-1.7")
        link = f"{storage.url}reports/1.pdf?X-Amz-Signature=abc"
        server.script({"jobId": ID}, row("COMPLETED", result={"assessmentId": "1", name: link}))

        run(to=tmp_path / "report.pdf")

    assert (tmp_path / "report.pdf").read_bytes() == b"%PDF-1.7"


def test_a_link_that_stays_stale_ends_after_one_fresh_poll(run, server, clock, spans):
    """It is signed once, for an hour, when the job completes: asking again gives the same one."""
    with ScriptedServer(clock=clock) as storage:
        storage.script(then_always=403)
        link = f"{storage.url}reports/1.pdf?X-Amz-Signature=abc123secret"
        server.script({"jobId": ID}, then_always=row("COMPLETED", result={"downloadUrl": link}))

        with pytest.raises(ResultUnavailable, match="a fresh poll gave the same link") as caught:
            run()

        assert (len(server.calls), len(storage.calls)) == (3, 1)
    assert "abc123secret" not in f"{caught.value} {spans.tree()}"


REFUSALS = {
    "another user's": Reply(403, {"statusCode": 403, "error": "Forbidden", "message": "not yours"}),
    "none": Reply(404, {"statusCode": 404, "error": "Not Found", "message": "Job not found"}),
    "malformed": Reply(400, {"statusCode": 400, "error": "Bad Request", "message": ["id must be a UUID"]}),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_job_that_is_not_ours_is_no_failed_job(run, server, refusal):
    """The status endpoint refused; nothing is known of the job's outcome."""
    server.script({"jobId": ID}, refusal)

    with pytest.raises(StatusUnavailable, match=r"not yours|Job not found|id must be a UUID"):
        run()


def test_polls_begin_at_three_seconds(run, server, clock):
    """As their documentation asks, then slower: up to 15 seconds."""
    server.script({"jobId": ID}, *[row("PROCESSING")] * 8, row("COMPLETED", result=1))

    run()

    assert (clock.sleeps[0], clock.sleeps[-1]) == (3.0, 15.0)


def test_conforms():
    """It keeps the rules that the engine relies on."""
    check_provider(
        JOBS, pending=row("PROCESSING"), succeeded=row("COMPLETED", result={"n": 1}), failed=row("FAILED"), job=JOB
    )
