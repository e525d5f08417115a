"""AWS: every question is POST / with its action in a header, signed afresh, and a 400 may only mean "not so fast"."""

import doctest

import pytest
import requests

from trihop import (
    Content,
    Gone,
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    PollErrorsExhausted,
    Reply,
    Result,
    ResultUnavailable,
    RetryPolicy,
    StatusUnavailable,
    SubmitRejected,
    Transient,
    operation,
)
from trihop._hops.judge import judge_download
from trihop.providers import aws
from trihop.testing import ScriptedServer, check_provider, reset

START = aws.action("AmazonAthena.StartQueryExecution")


def execution(state, **status):
    return {"QueryExecution": {"QueryExecutionId": "q1", "Status": {"State": state, **status}}}


def refusal(kind, message="no"):
    return Reply(400, {"__type": f"com.amazon.coral#{kind}", "message": message})


def rows(*values, token=None):
    found = [{"Data": [{"VarCharValue": value}]} for value in values]
    return {"ResultSet": {"Rows": found}, **({"NextToken": token} if token else {})}


class Signing(requests.auth.AuthBase):
    """Stands for SigV4: signs the body it sees, and counts."""

    def __init__(self):
        self.signed = 0

    def __call__(self, request):
        self.signed += 1
        request.headers["Authorization"] = f"AWS4-HMAC-SHA256 n={self.signed} body={len(request.body)}"
        return request


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        session.auth = Signing()
        yield session


@pytest.fixture
def query(server, clock, session):
    """The triangle of a query; its rows."""

    def query(**as_in_submit):
        with operation("athena", deadline=1800, session=session, provider=aws.ATHENA, clock=clock) as op:
            body = {"QueryString": "SELECT 1", "ClientRequestToken": "t" * 32}
            ready = op.poll(op.submit("POST", server.url, headers=START, json=body, **as_in_submit))
            return list(op.download(ready).iter_rows())

    return query


def actions(server):
    return [call.headers["X-Amz-Target"].rpartition(".")[2] for call in server.calls]


def test_the_examples_hold():
    """What the module shows is what it does."""
    assert doctest.testmod(aws).failed == 0


# ---- Athena


def test_each_request_is_a_post_of_its_action_signed_by_itself(query, server):
    """Submit, polls and pages all go to the same URL, each with a signature over its own body."""
    server.script({"QueryExecutionId": "q1"}, execution("QUEUED"), execution("RUNNING"), execution("SUCCEEDED"))
    server.script(rows("a", "b", token="T1"), rows("c", token="T2"), rows("d"))

    assert [row["Data"][0]["VarCharValue"] for row in query()] == ["a", "b", "c", "d"]
    assert actions(server) == ["StartQueryExecution", *["GetQueryExecution"] * 3, *["GetQueryResults"] * 3]
    assert {f"{call.method} {call.path} {call.headers['Content-Type']}" for call in server.calls} == {
        "POST / application/x-amz-json-1.1"
    }
    assert [call.json() for call in server.calls[3:]] == [
        {"QueryExecutionId": "q1"},
        {"QueryExecutionId": "q1"},
        {"QueryExecutionId": "q1", "NextToken": "T1"},
        {"QueryExecutionId": "q1", "NextToken": "T2"},
    ]
    signatures = [call.headers["Authorization"] for call in server.calls]
    assert len(set(signatures)) == len(server.calls)
    assert all(text.endswith(f"body={len(call.body)}") for text, call in zip(signatures, server.calls, strict=True))


def test_throttling_is_a_poll_that_failed(query, server):
    """A 400 that says "not so fast" counts as an error and is got over."""
    server.script({"QueryExecutionId": "q1"}, execution("RUNNING"), refusal("ThrottlingException"), refusal("SlowDown"))
    server.script(execution("SUCCEEDED"), rows("a"))

    assert len(query()) == 1


def test_throttling_for_ever_exhausts_the_errors(query, server):
    """The error budget bounds it, and the error names it."""
    server.script({"QueryExecutionId": "q1"}, then_always=refusal("TooManyRequestsException"))

    with pytest.raises(PollErrorsExhausted, match="TooManyRequestsException"):
        query()


@pytest.mark.parametrize("answer", [refusal("InvalidRequestException", "no such query"), 400, Reply(400, content=b"<")])
def test_any_other_400_refuses_the_poll(query, server, answer):
    """It is no state and no throttling: the status decides."""
    server.script({"QueryExecutionId": "q1"}, answer)

    with pytest.raises(StatusUnavailable) as caught:
        query()

    assert caught.value.status_code == 400
    if isinstance(answer, Reply) and answer.content != b"<":
        assert "no such query" in str(caught.value)


def test_a_query_that_failed_says_why(query, server):
    """StateChangeReason is the error."""
    server.script({"QueryExecutionId": "q1"}, execution("FAILED", StateChangeReason="SYNTAX_ERROR: line 1:8"))

    with pytest.raises(JobFailed, match="SYNTAX_ERROR"):
        query()


def test_a_query_is_stopped(server, clock, session):
    """StopQueryExecution, and the poll tells what came of it."""
    server.script({"QueryExecutionId": "q1"}, {}, execution("CANCELLED"))

    with operation("athena", deadline=600, session=session, provider=aws.ATHENA, clock=clock) as op:
        job = op.submit("POST", server.url, headers=START, json={})
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert actions(server)[1] == "StopQueryExecution"


def test_rows_that_are_not_there_yet_are_polled_for(query, server):
    """ "Query has not yet finished" is not ready; the state is asked again."""
    early = refusal("InvalidRequestException", "Query has not yet finished. Current state: RUNNING")
    server.script({"QueryExecutionId": "q1"}, execution("SUCCEEDED"), early, execution("SUCCEEDED"), rows("a"))

    assert len(query()) == 1


def test_rows_that_are_refused_are_not_asked_for_for_ever(query, server):
    """Another 400 is final, once a poll has named the same rows again."""
    gone = refusal("InvalidRequestException", "Query did not finish successfully")
    server.script({"QueryExecutionId": "q1"}, execution("SUCCEEDED"), gone, execution("SUCCEEDED"))

    with pytest.raises(ResultUnavailable, match="did not finish"):
        query()


def test_pages_are_judged_by_what_they_say():
    """Throttled again, refused, or a link of the caller's that comes as it is."""
    (call,) = aws.ATHENA.result_calls(Job(id="q1", submit_url="https://athena.test/"))
    page = aws.ATHENA.download

    assert judge_download(refusal("ThrottlingException"), Result(call), page) == Transient("ThrottlingException")
    assert judge_download(refusal("InvalidRequestException"), Result(call), page) == Gone("400")
    assert judge_download(Reply(200, content=b"a,b\n"), Result("https://s3.test/r.csv"), page) == Content()
    assert judge_download(Reply(400, content=b"<Error/>"), Result("https://s3.test/r.csv"), page) == Gone("400")


def test_a_lost_submit_is_sent_again_where_it_is_permitted(query, server):
    """With a ClientRequestToken in the body it is safe, and only the caller knows that it is there."""
    server.script(reset(), {"QueryExecutionId": "q1"}, execution("SUCCEEDED"), rows("a"))

    assert len(query(retry=RetryPolicy())) == 1
    assert server.calls[0].body == server.calls[1].body


def test_the_rows_in_s3_are_fetched_without_credentials(server, clock, session):
    """The CSV is at another origin, by a link that is signed already."""
    server.script({"QueryExecutionId": "q1"}, execution("SUCCEEDED"))
    with ScriptedServer(clock=clock) as s3:
        s3.script(b"a,b\n")
        with operation("athena", deadline=600, session=session, provider=aws.ATHENA, clock=clock) as op:
            op.poll(op.submit("POST", server.url, headers=START, json={}))
            csv = op.download(f"{s3.url}out/q1.csv?X-Amz-Signature=beef").content

    assert csv == b"a,b\n"
    assert "Authorization" not in s3.calls[0].headers
    assert s3.calls[0].path == "/out/q1.csv?X-Amz-Signature=beef"


# ---- the others


def walk(server, clock, session, provider, answers):
    server.script(*answers)
    with operation("aws", deadline=3600, session=session, provider=provider, clock=clock) as op:
        return op.poll(op.submit("POST", server.url, headers=aws.action("X.Start"), json={}))


def transcription(state, **more):
    return {"TranscriptionJob": {"TranscriptionJobName": "j1", "TranscriptionJobStatus": state, **more}}


def test_a_transcription_leaves_its_transcripts(server, clock, session):
    """The redacted one is a result of its own."""
    places = {"TranscriptFileUri": "https://s3.test/t.json", "RedactedTranscriptFileUri": "https://s3.test/r.json"}
    answers = [transcription("IN_PROGRESS"), transcription("QUEUED"), transcription("COMPLETED", Transcript=places)]

    ready = walk(server, clock, session, aws.TRANSCRIBE, answers)

    assert {result.name: result.at for result in ready.results} == {
        "transcript": "https://s3.test/t.json",
        "redacted": "https://s3.test/r.json",
    }
    assert server.calls[1].json() == {"TranscriptionJobName": "j1"}


def test_a_name_that_is_taken_is_a_refusal(server, clock, session):
    """ConflictException: there may be a job of that name, and it is not taken for ours."""
    with pytest.raises(SubmitRejected, match="ConflictException"):
        walk(server, clock, session, aws.TRANSCRIBE, [refusal("ConflictException", "a job of that name exists")])


def run(state, **more):
    return {"JobRun": {"Id": "jr_1", "JobRunState": state, **more}}


def test_a_glue_run_is_asked_and_stopped_under_its_jobs_name(server, clock, session):
    """Neither call works with the run's id alone."""
    server.script({"JobRunId": "jr_1"}, {}, run("STOPPING"), run("STOPPED"))

    with operation("etl", deadline=3600, session=session, provider=aws.glue("nightly"), clock=clock) as op:
        job = op.submit("POST", server.url, headers=aws.action("AWSGlue.StartJobRun"), json={"JobName": "nightly"})
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert [call.json() for call in server.calls[1:3]] == [
        {"JobName": "nightly", "JobRunIds": ["jr_1"]},
        {"JobName": "nightly", "RunId": "jr_1"},
    ]


@pytest.mark.parametrize(("state", "error"), [("TIMEOUT", JobExpired), ("ERROR", JobFailed), ("FAILED", JobFailed)])
def test_the_bad_ends_of_a_glue_run(server, clock, session, state, error):
    """A run that overran its own time expired."""
    answers = [{"JobRunId": "jr_1"}, run("STARTING"), run("WAITING"), run(state, ErrorMessage="it broke")]

    with pytest.raises(error, match="it broke"):
        walk(server, clock, session, aws.glue("nightly"), answers)


def test_the_output_of_an_execution_is_json_in_a_text(server, clock, session):
    """One more layer is taken off than the API does."""
    answers = [{"executionArn": "arn:e"}, {"status": "RUNNING"}, {"status": "SUCCEEDED", "output": '{"answer": 42}'}]

    assert walk(server, clock, session, aws.STEP_FUNCTIONS, answers).data == {"answer": 42}
    assert server.calls[1].headers["Content-Type"] == "application/x-amz-json-1.0"


def test_an_execution_that_failed_tells_error_and_cause(server, clock, session):
    """They are what the workflow put there."""
    answers = [{"executionArn": "arn:e"}, {"status": "FAILED", "error": "Disk", "cause": "on fire"}]

    with pytest.raises(JobFailed, match="Disk: on fire"):
        walk(server, clock, session, aws.STEP_FUNCTIONS, answers)


def test_records_of_a_statement_come_page_by_page(server, clock, session):
    """NextToken in the body, as at Athena."""
    server.script({"Id": "s1"}, {"Status": "PICKED"}, {"Status": "FINISHED"})
    server.script({"Records": [[{"longValue": 1}]], "NextToken": "T"}, {"Records": [[{"longValue": 2}]]})

    with operation("sql", deadline=600, session=session, provider=aws.REDSHIFT_DATA, clock=clock) as op:
        download = op.run("POST", server.url, headers=aws.action("RedshiftData.ExecuteStatement"), json={})

    assert [line for line in download.iter_lines() if line] == ['[{"longValue": 1}]', '[{"longValue": 2}]']


def test_the_rows_of_a_log_query_are_in_its_state(server, clock, session):
    """The same document has both; rows of a running query are not the result."""
    answers = [
        {"queryId": "q"},
        {"status": "Running", "results": [["half"]]},
        {"status": "Complete", "results": [["a"]]},
    ]

    assert walk(server, clock, session, aws.LOGS_INSIGHTS, answers).data == [["a"]]


GLUE = aws.glue("nightly")
SHAPES = [
    (aws.ATHENA, execution("RUNNING"), execution("SUCCEEDED"), execution("FAILED"), execution("CANCELLED")),
    (
        aws.TRANSCRIBE,
        transcription("IN_PROGRESS"),
        transcription("COMPLETED", Transcript={"TranscriptFileUri": "https://s3.test/t.json"}),
        transcription("FAILED", FailureReason="no speech"),
        None,
    ),
    (GLUE, run("RUNNING"), run("SUCCEEDED"), run("FAILED", ErrorMessage="it broke"), run("STOPPED")),
    (
        aws.STEP_FUNCTIONS,
        {"status": "RUNNING"},
        {"status": "SUCCEEDED", "output": "1"},
        {"status": "FAILED", "error": "Disk"},
        {"status": "ABORTED"},
    ),
    (aws.REDSHIFT_DATA, {"Status": "STARTED"}, {"Status": "FINISHED"}, {"Status": "FAILED"}, {"Status": "ABORTED"}),
    (
        aws.LOGS_INSIGHTS,
        {"status": "Running", "results": []},
        {"status": "Complete", "results": []},
        {"status": "Failed", "results": []},
        {"status": "Cancelled", "results": []},
    ),
]


@pytest.mark.parametrize(
    ("provider", "pending", "succeeded", "failed", "cancelled"), SHAPES, ids=lambda p: getattr(p, "name", "")
)
def test_the_providers_conform(provider, pending, succeeded, failed, cancelled):
    """Only the one word is success, wherever it stands."""
    check_provider(provider, pending=pending, succeeded=succeeded, failed=failed, cancelled=cancelled)
    assert provider.poll(refusal("ThrottlingException"), Job(id="1")) == Transient("ThrottlingException")
