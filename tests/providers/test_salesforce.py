"""Bulk API 2.0: pages of one CSV, an ingest in three steps, and errors that are arrays."""

from dataclasses import replace

import pytest
import requests

from trihop import (
    DeadlineExceeded,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    OutcomeAmbiguous,
    Reply,
    ResultUnavailable,
    StatusUnavailable,
    SubmitRejected,
    SubmitUncertain,
    operation,
)
from trihop.providers import salesforce
from trihop.testing import check_provider

ID = "7505g00000DdI2hAAF"
QUERIES = "services/data/v62.0/jobs/query"
INGESTS = "services/data/v62.0/jobs/ingest"


def job(state, **fields):
    return {"id": ID, "operation": "query", "object": "Account", "state": state, "apiVersion": 62.0, **fields}


def page(rows, locator="null"):
    headers = {"Content-Type": "text/csv", "Sforce-Locator": locator, "Sforce-NumberOfRecords": str(len(rows))}
    return Reply(200, content="\n".join(["Id,Name", *rows, ""]).encode(), headers=headers)


def refusal(status, code, message):
    return Reply(status, [{"errorCode": code, "message": message}])


@pytest.fixture
def query(server, clock):
    """The whole triangle of a query, in an operation of its own."""

    def query(provider=salesforce.QUERY, **options):
        with operation("accounts", deadline=7200, provider=provider, clock=clock) as op:
            body = {"operation": "query", "query": "SELECT Id, Name FROM Account"}
            return op.run("POST", server.url + QUERIES, json=body, **options)

    return query


# ---- query


def test_pages_become_one_csv_with_one_header_line(query, server, tmp_path):
    """Pages are asked for by locator until it is the word `null`; the header line is kept once."""
    server.script(job("UploadComplete"), job("UploadComplete"), job("InProgress"), job("JobComplete"))
    server.script(page(["1,A", "2,B"], "MTAw+/=="), page(["3,C"], "MjAw"), page(["4,D"]))

    download = query(to=tmp_path / "accounts.csv")

    assert (tmp_path / "accounts.csv").read_text() == "Id,Name\n1,A\n2,B\n3,C\n4,D\n"
    assert download.parts == 3
    assert [call.path.removeprefix("/services/data/v62.0/jobs/query") for call in server.calls[-3:]] == [
        f"/{ID}/results",
        f"/{ID}/results?locator=MTAw%2B%2F%3D%3D",
        f"/{ID}/results?locator=MjAw",
    ]


def test_a_page_size_goes_with_every_page(query, server):
    """`maxRecords` in the place of the result stays beside the locator."""
    small = replace(
        salesforce.QUERY,
        poll=replace(salesforce.QUERY.poll, results=[replace(_first_result(), at="query/{id}/results?maxRecords=1")]),
    )
    server.script(job("UploadComplete"), job("JobComplete"), page(["1,A"], "a"), page(["2,B"], "b"), page(["3,C"]))

    query(small)

    assert [call.query for call in server.calls[-3:]] == [
        {"maxRecords": "1"},
        {"maxRecords": "1", "locator": "a"},
        {"maxRecords": "1", "locator": "b"},
    ]


def _first_result():
    return salesforce.QUERY.poll.results[0]


def test_a_result_without_a_locator_is_one_page(query, server):
    """No `Sforce-Locator` at all is the end, too."""
    server.script(job("UploadComplete"), job("JobComplete"), "Id\n1\n")

    assert query().text == "Id\n1\n"


def test_a_page_that_failed_is_asked_again_and_not_the_ones_before(query, server):
    """A locator may be used again: a 503 on the second page costs one request, and no line is doubled."""
    server.script(job("UploadComplete"), job("JobComplete"), page(["1,A"], "x"), 503, page(["2,B"]))

    assert query().text == "Id,Name\n1,A\n2,B\n"


def test_a_failed_query_may_say_why(query, server):
    """`errorMessage` is quoted, and its code told apart."""
    server.script(job("UploadComplete"), job("Failed", errorMessage="INVALID_FIELD: No such column 'Nme'"))

    with pytest.raises(JobFailed, match="the job failed, state 'Failed': INVALID_FIELD: No such column 'Nme'"):
        query()


def test_a_failed_query_may_say_nothing(query, server):
    """A failed query without `errorMessage` is a failed job all the same."""
    server.script(job("UploadComplete"), job("Failed"))

    with pytest.raises(JobFailed, match=r"the job failed, state 'Failed' \[") as caught:
        query()

    assert caught.value.error is None


def test_a_job_that_somebody_aborted_is_cancelled(query, server):
    """`Aborted` is nobody's failure."""
    server.script(job("UploadComplete"), job("Aborted"))

    with pytest.raises(JobCancelled):
        query()


def test_abort_is_a_patch(server, clock):
    """`op.cancel()` patches the state of this one job."""
    server.script(job("UploadComplete"), job("Aborted"))

    with operation("accounts", deadline=60, provider=salesforce.QUERY, clock=clock) as op:
        op.submit("POST", server.url + QUERIES, json={"operation": "query", "query": "SELECT Id FROM Account"})
        assert op.cancel()

    abort = server.calls[-1]
    assert (abort.method, abort.path, abort.json()) == ("PATCH", f"/{QUERIES}/{ID}", {"state": "Aborted"})


def test_the_deadline_does_not_abort(query, server, clock):
    """A job that outlasts the deadline is left alone: nothing but polls was sent."""
    server.script(job("UploadComplete"), then_always=job("InProgress"))

    with pytest.raises(DeadlineExceeded, match="last state 'InProgress'"):
        query()

    assert {call.method for call in server.calls[1:]} == {"GET"}


def test_an_error_body_is_an_array(query, server):
    """The first of the errors is quoted, with its code."""
    server.script(refusal(400, "INVALID_TYPE", "sObject type 'Acount' is not supported"))

    with pytest.raises(SubmitRejected, match="HTTP 400: INVALID_TYPE: sObject type 'Acount' is not supported"):
        query()


def test_an_expired_session_is_no_failed_job(query, server):
    """401 on a poll is about the credentials; the job may go on."""
    server.script(job("UploadComplete"), refusal(401, "INVALID_SESSION_ID", "Session expired or invalid"))

    with pytest.raises(StatusUnavailable, match="HTTP 401: INVALID_SESSION_ID") as caught:
        query()

    assert caught.value.job_id == ID


def test_a_create_that_was_lost_is_not_repeated(query, server):
    """There is no idempotency key: a 500 may have made a job."""
    server.script(500)

    with pytest.raises(SubmitUncertain):
        query()

    assert len(server.calls) == 1


def test_a_job_that_was_deleted_is_lost(query, server):
    """404 after a good poll: results were removed, or their days are over."""
    server.script(job("UploadComplete"), job("InProgress"), refusal(404, "NOT_FOUND", "gone"))

    with pytest.raises(JobExpired):
        query()


def test_results_in_another_version_are_refused(query, server):
    """409: results must be asked with the version that the job was made with."""
    server.script(job("UploadComplete"), job("JobComplete"), refusal(409, "VERSION_MISMATCH", "created with v61.0"))
    server.script(job("JobComplete"))

    with pytest.raises(ResultUnavailable, match="VERSION_MISMATCH"):
        query()


# ---- ingest

CSV = b"Name\nA\nB\n"


@pytest.fixture
def ingest(server, clock, tmp_path):
    """Create, upload and close in one operation, then poll."""

    def ingest(**options):
        with (
            requests.Session() as session,
            operation("load", deadline=7200, provider=salesforce.INGEST, clock=clock, session=session) as op,
        ):
            jobs = server.url + INGESTS
            made = op.submit("POST", jobs, json={"object": "Account", "operation": "insert", "contentType": "CSV"})

            def upload():
                session.put(f"{jobs}/{made.id}/batches", data=CSV, headers={"Content-Type": "text/csv"})
                session.patch(f"{jobs}/{made.id}", json={"state": "UploadComplete"}).raise_for_status()

            op.once("upload", upload)
            op.once("upload", upload)
            return op.download(op.poll(made, **options), into=tmp_path)

    return ingest


def test_an_ingest_is_made_filled_and_closed_once(ingest, server):
    """Create, upload, close, poll, and a file for each of the three result sets."""
    server.script(job("Open"), 201, job("UploadComplete"), job("InProgress"))
    server.script(job("JobComplete", numberRecordsProcessed=2, numberRecordsFailed=0))
    server.script('"sf__Id","Name"\n"1","A"\n', '"sf__Error"\n', '"Name"\n')

    files = ingest()

    assert {name: file.text for name, file in files.items()} == {
        "successfulResults": '"sf__Id","Name"\n"1","A"\n',
        "failedResults": '"sf__Error"\n',
        "unprocessedrecords": '"Name"\n',
    }
    assert [f"{call.method} {call.path.removeprefix(f'/{INGESTS}')}" for call in server.calls] == [
        "POST ",
        f"PUT /{ID}/batches",
        f"PATCH /{ID}",
        f"GET /{ID}",
        f"GET /{ID}",
        f"GET /{ID}/successfulResults",
        f"GET /{ID}/failedResults",
        f"GET /{ID}/unprocessedrecords",
    ]
    assert server.calls[1].body == CSV


def test_complete_with_failed_rows_is_partial(ingest, server, tmp_path):
    """`JobComplete` is no proof of success: the count of failed rows is looked at, and the rows can be fetched."""
    server.script(job("Open"), 201, job("UploadComplete"))
    server.script(job("JobComplete", numberRecordsProcessed=10_000, numberRecordsFailed=3))

    with pytest.raises(JobPartiallyFailed, match=r"failed items.*\(10000 total, 3 failed\)") as caught:
        ingest()

    assert [result.name for result in caught.value.ready.results] == [
        "successfulResults",
        "failedResults",
        "unprocessedrecords",
    ]


def test_failed_rows_can_be_taken_for_what_they_are(ingest, server):
    """With `allow_partial=True` the three files come without an error."""
    server.script(job("Open"), 201, job("UploadComplete"), job("JobComplete", numberRecordsFailed=1))
    server.script("sf__Id\n1\n", "sf__Error,Name\nDUPLICATE_VALUE,B\n", "Name\n")

    assert list(ingest(allow_partial=True)["failedResults"].iter_rows()) == [
        {"sf__Error": "DUPLICATE_VALUE", "Name": "B"}
    ]


def test_a_job_that_nobody_closed_waits_for_a_hand(server, clock):
    """`Open` while polling: it would wait for ever, so it is told at once, with what to do."""
    server.script(job("Open"), job("Open"))

    with (
        pytest.raises(OutcomeAmbiguous, match="never closed: PATCH it to UploadComplete") as caught,
        operation("load", deadline=7200, provider=salesforce.INGEST, clock=clock) as op,
    ):
        op.poll(op.submit("POST", server.url + INGESTS, json={"object": "Account", "operation": "insert"}))

    assert caught.value.job_id == ID


def test_conform():
    """Both keep the rules that the engine relies on."""
    known = {"pending": job("InProgress"), "failed": job("Failed"), "cancelled": job("Aborted")}
    check_provider(salesforce.QUERY, succeeded=job("JobComplete"), job=_known(QUERIES), **known)
    check_provider(
        salesforce.INGEST,
        succeeded=job("JobComplete", numberRecordsFailed=0),
        partial=job("JobComplete", numberRecordsFailed=1),
        job=_known(INGESTS),
        **known,
    )


def _known(path):
    from trihop import Job

    return Job(id=ID, submit_url=f"https://acme.my.salesforce.com/{path}")
