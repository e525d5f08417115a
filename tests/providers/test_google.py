"""Google: operations that say only whether they are done, and BigQuery jobs under ids of our own."""

import logging

import pytest

from trihop import (
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    Pending,
    PollErrorsExhausted,
    Reply,
    RetryPolicy,
    SubmitRejected,
    SubmitUncertain,
    Succeeded,
    SurfaceError,
    operation,
)
from trihop.providers import google
from trihop.testing import check_provider, reset

NAME = "projects/p/locations/eu/operations/42"
DONE = {"name": NAME, "done": True, "response": {"@type": "type.googleapis.com/x.Result", "uri": "gs://b/o"}}


def running(percent=None):
    return {"name": NAME, "metadata": {"@type": "type.googleapis.com/x.Meta", "progressPercent": percent}}


def ended(code, message):
    return {"name": NAME, "done": True, "error": {"code": code, "message": message}}


@pytest.fixture
def walk(server, clock):
    """The triangle of an operation: the response."""

    def walk(**options):
        provider = google.operations(server.url + "v1")
        with operation("recognize", deadline=3600, provider=provider, clock=clock, **options) as op:
            return op.poll(op.submit("POST", server.url + "v1/speech:longrunningrecognize", json={})).data

    return walk


def test_an_operation_is_asked_under_the_root_until_it_is_done(walk, server):
    """`name` is a path below the root, and `done` may be left out while it is false."""
    server.script(running(), running(10), {**running(60), "done": False}, DONE)
    percents = []

    assert walk(on_event=lambda event: percents.append(event.progress)) == DONE["response"]
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v1/speech:longrunningrecognize",
        *[f"GET /v1/{NAME}"] * 3,
    ]
    assert {10, 60} <= set(percents)


def test_an_operation_that_is_done_when_it_is_submitted_is_not_asked(walk, server):
    """The submit's answer is an operation like any other."""
    server.script(DONE)

    assert walk() == DONE["response"]
    assert len(server.calls) == 1


def test_an_operation_with_an_error_failed(walk, server):
    """`done` with an error is no success, and the status is the error."""
    server.script(running(), ended(3, "bad audio"))

    with pytest.raises(JobFailed, match="bad audio") as caught:
        walk()

    assert caught.value.error == {"code": 3, "message": "bad audio"}


def test_a_cancelled_operation_ends_with_code_1(server, clock):
    """Cancel is POST {name}:cancel, and the poll tells what came of it."""
    server.script(running(), {}, running(), ended(1, "cancelled by user"))

    with operation("recognize", deadline=600, provider=google.operations(server.url + "v1/"), clock=clock) as op:
        job = op.submit("POST", server.url + "v1/x")
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert (server.calls[1].method, server.calls[1].path) == ("POST", f"/v1/{NAME}:cancel")


def test_an_operation_that_was_forgotten_is_an_expired_job(walk, server):
    """A 404 after a good answer."""
    server.script(running(), running(), Reply(404, {"error": {"code": 404, "status": "NOT_FOUND"}}))

    with pytest.raises(JobExpired):
        walk()


def test_an_error_at_the_start_is_a_refusal(walk, server):
    """Errors before there is an operation come as HTTP errors."""
    server.script(Reply(400, {"error": {"code": 400, "message": "no audio", "status": "INVALID_ARGUMENT"}}))

    with pytest.raises(SubmitRejected, match="no audio"):
        walk()


def test_an_answer_without_a_name_is_no_operation(walk, server):
    """A 200 of another shape is not taken for a job."""
    server.script({"result": 1})

    with pytest.raises(SurfaceError):
        walk()


def test_operations_conform():
    """Nothing but `done` with a response or an error ends an operation."""
    check_provider(
        google.operations("https://speech.googleapis.com/v1"),
        pending=running(),
        succeeded=DONE,
        failed=ended(3, "bad audio"),
        cancelled=ended(1, "cancelled"),
    )


# ---- BigQuery

JOBS = "bigquery/v2/projects/acme/jobs"
ID = "nightly-0301"
MINE = Job(
    id=ID,
    status_url="https://bigquery.googleapis.com/bigquery/v2/projects/acme/jobs/nightly-0301?location=EU",
    submit_url="https://bigquery.googleapis.com/bigquery/v2/projects/acme/jobs",
    memo={"location": "EU"},
)


def job(state, *, location="EU", kind="query", **status):
    return {
        "kind": "bigquery#job",
        "jobReference": {"projectId": "acme", "jobId": ID, **({"location": location} if location else {})},
        "configuration": {"jobType": kind.upper(), kind: {}},
        "status": {"state": state, **status},
    }


def duplicate(message):
    error = {"message": message, "domain": "global", "reason": "duplicate"}
    return Reply(409, {"error": {"code": 409, "message": message, "errors": [error], "status": "ALREADY_EXISTS"}})


def rows(*values, token=None, complete=True):
    page = {"kind": "bigquery#getQueryResultsResponse", "jobComplete": complete, "totalRows": "3"}
    schema = {"fields": [{"name": "id", "type": "INTEGER"}, {"name": "who", "type": "STRING"}]}
    found = [{"f": [{"v": number}, {"v": who}]} for number, who in values]
    return {**page, "schema": schema, "rows": found, **({"pageToken": token} if token else {})}


@pytest.fixture
def query(server, clock):
    """The triangle of a BigQuery job; its rows."""

    def query(**as_in_submit):
        with operation("nightly", deadline=3600, provider=google.BIGQUERY, clock=clock) as op:
            body = {"jobReference": {"jobId": ID}, "configuration": {"query": {"query": "SELECT 1"}}}
            ready = op.poll(op.submit("POST", server.url + JOBS, json=body, **as_in_submit))
            return list(op.download(ready).iter_rows())

    return query


def test_the_rows_of_a_query_come_page_by_page(query, server):
    """State, results and pages are asked for in the job's location, and rows have the schema's names."""
    server.script(job("PENDING"), job("RUNNING"), job("DONE"))
    server.script(rows(("1", "Ann"), ("2", None), token="BE+/="), rows(("3", "Cy")))

    assert query() == [{"id": "1", "who": "Ann"}, {"id": "2", "who": None}, {"id": "3", "who": "Cy"}]
    assert [call.path.removeprefix("/bigquery/v2/projects/acme/") for call in server.calls] == [
        "jobs",
        *[f"jobs/{ID}?location=EU"] * 2,
        f"queries/{ID}?location=EU",
        f"queries/{ID}?location=EU&pageToken=BE%2B%2F%3D",
    ]


def test_rows_that_are_not_there_yet_are_polled_for(query, server):
    """`jobComplete: false` is not ready, never an empty result."""
    server.script(job("RUNNING"), job("DONE"), rows(complete=False), job("DONE"), rows(("1", "Ann")))

    assert query() == [{"id": "1", "who": "Ann"}]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (f"Already Exists: Job acme:EU.{ID}", "EU"),
        (f"Already Exists: Job  acme:europe-west1.{ID}", "europe-west1"),
        (f"Already Exists: Job example.com:acme:EU.{ID}", "EU"),
        (f"Already Exists: Job acme:{ID}", "US"),
    ],
)
def test_a_submit_that_was_lost_adopts_the_job_that_is_there(query, server, message, place):
    """Sent again under the same id it is a duplicate: that job is ours, and no second one is made."""
    server.script(reset(), duplicate(message), job("DONE"), rows(("1", "Ann")))

    assert query(retry=RetryPolicy()) == [{"id": "1", "who": "Ann"}]
    assert server.calls[2].path == f"/bigquery/v2/projects/acme/jobs/{ID}?location={place}"


def test_a_lost_submit_is_not_sent_again_unless_it_is_permitted(query, server):
    """The engine does not know that the body names the job."""
    server.script(reset())

    with pytest.raises(SubmitUncertain):
        query()


@pytest.mark.parametrize(
    "answer", [duplicate("Already Exists: Dataset acme:sales"), Reply(409, {"error": "busy"}), 409]
)
def test_another_conflict_is_a_refusal(query, server, answer):
    """Only a job of that id is adopted."""
    server.script(answer)

    with pytest.raises(SubmitRejected):
        query()


def test_a_job_without_a_location_is_in_the_us(query, server):
    """The multi-region that the API documents as its default."""
    server.script(job("RUNNING", location=None), job("DONE", location=None), rows(("1", "Ann")))

    query()

    assert server.calls[1].path.endswith(f"jobs/{ID}?location=US")


def test_done_with_an_error_result_failed(query, server):
    """DONE carries no outcome; errorResult does."""
    why = {"reason": "invalidQuery", "message": "Syntax error at [1:8]"}
    server.script(job("RUNNING"), job("DONE", errorResult=why, errors=[why]))

    with pytest.raises(JobFailed, match="Syntax error") as caught:
        query()

    assert caught.value.error == why


def test_errors_that_were_got_over_are_no_failure(query, server):
    """`errors` without an errorResult are warnings."""
    server.script(job("RUNNING"), job("DONE", errors=[{"reason": "invalid"}]), rows(("1", "Ann")))

    assert len(query()) == 1


def test_a_job_that_was_stopped_was_cancelled(server, clock):
    """Cancel is a POST in the job's location, and ends as DONE with the reason `stopped`."""
    server.script(job("RUNNING"), {"job": job("RUNNING")}, job("DONE", errorResult={"reason": "stopped"}))

    with operation("nightly", deadline=600, provider=google.BIGQUERY, clock=clock) as op:
        inserted = op.submit("POST", server.url + JOBS, json={})
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(inserted)

    assert (server.calls[1].method, server.calls[1].path) == (
        "POST",
        f"/bigquery/v2/projects/acme/jobs/{ID}/cancel?location=EU",
    )


def test_a_load_leaves_no_rows():
    """Only a query has rows to fetch."""
    done = google.bigquery_state(Reply(200, job("DONE", kind="load")), MINE)

    assert done == Succeeded("DONE")


def test_a_state_never_seen_is_pending_and_marked():
    """PENDING, RUNNING and DONE are all there is."""
    assert google.bigquery_state(Reply(200, job("SUSPENDED")), MINE) == Pending("SUSPENDED", known=False)


def test_a_status_that_is_no_job_is_no_answer(query, server, caplog):
    """A 200 of another shape counts against the error budget."""
    caplog.set_level(logging.WARNING)
    server.script(job("RUNNING"), then_always={"kind": "bigquery#other"})

    with pytest.raises(PollErrorsExhausted):
        query()


def test_bigquery_conforms():
    """DONE alone is success only where there is no errorResult."""
    check_provider(
        google.BIGQUERY,
        pending=job("RUNNING"),
        succeeded=job("DONE"),
        failed=job("DONE", errorResult={"reason": "invalidQuery"}),
        cancelled=job("DONE", errorResult={"reason": "stopped"}),
        job=MINE,
    )
