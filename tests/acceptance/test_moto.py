"""AWS on moto, signed with SigV4 by the session's auth: seventeen cases, some by providers that a user would write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from acceptance.servers.moto import moto
from acceptance.servers.sigv4 import SigV4, presigned
from trihop import (
    Budget,
    Call,
    Job,
    JobCancelled,
    JobFailed,
    Operation,
    OperationError,
    Pacing,
    Pending,
    PollBudgetExhausted,
    PollVerdict,
    Provider,
    ReadJob,
    ReadState,
    Ready,
    Reply,
    Result,
    ResultUnavailable,
    Succeeded,
    accepts,
    header,
    operation,
)
from trihop.providers import aws, generic
from trihop.testing import VirtualClock

BEARER = "Bearer of-the-session"


class Moto:
    """The server, and what is done at it beside the operations."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Another origin for the same server, as S3 is for a real API.
        self.s3_url = url.replace("127.0.0.1", "localhost")
        self.states: list[str] = []

    def session(self, service: str) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.auth = SigV4(service)
        return session

    def ask(self, service: str, method: str, path: str, **options: Any) -> requests.Response:
        with self.session(service) as session:
            answer = session.request(method, self.url + path, timeout=30, **options)
        answer.raise_for_status()
        return answer

    def set_transition(self, model: str, **transition: Any) -> None:
        body = {"model_name": model, "transition": transition}
        requests.post(f"{self.url}/moto-api/state-manager/set-transition", json=body, timeout=30).raise_for_status()

    def operation(self, session: requests.Session, provider: Provider, **options: Any) -> Operation:
        """An operation that keeps the states it sees; in virtual time, unless the clock is given."""
        self.states.clear()

        def keep(event: Any) -> None:
            if event.kind in ("polled", "state_changed") and event.state is not None:
                self.states.append(event.state)

        options.setdefault("clock", VirtualClock())
        return operation("aws", deadline=120, session=session, provider=provider, on_event=keep, **options)

    def walk(self, service: str, provider: Provider, action: str, body: Any, version: str = "1.1") -> Ready:
        """Submit and poll."""
        with self.session(service) as session, self.operation(session, provider) as op:
            return op.poll(op.submit("POST", self.url + "/", headers=aws.action(action, version=version), json=body))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    with moto(tmp_path_factory.mktemp("moto")) as url:
        found = Moto(url)
        for bucket in ("out", "media"):
            found.ask("s3", "PUT", f"/{bucket}")
        yield found


@pytest.fixture
def check(table):
    def check(provider: Provider | str, case: str, *, expected: Any, got: Any) -> None:
        table.row(provider if isinstance(provider, str) else provider.name, case, expected=expected, got=got)

    return check


def told(error: OperationError) -> str:
    return f"{type(error).__name__}, {error.state or f'HTTP {error.status_code}'}"


def distinct(states: list[str]) -> list[str]:
    return [state for n, state in enumerate(states) if n == 0 or states[n - 1] != state]


# ---- Athena

START = "AmazonAthena.StartQueryExecution"
QUERY = {"QueryString": "select 1", "ResultConfiguration": {"OutputLocation": "s3://out/r/"}}


def next_rows(server: Moto, rows: list[list[str]], columns: list[str]) -> None:
    results = {
        "rows": [{"Data": [{"VarCharValue": value} for value in row]} for row in rows],
        "column_info": [
            {
                "CatalogName": "hive",
                "SchemaName": "",
                "TableName": "",
                "Name": name,
                "Label": name,
                "Type": "varchar",
                "Precision": 1,
                "Scale": 0,
                "Nullable": "UNKNOWN",
                "CaseSensitive": True,
            }
            for name in columns
        ],
    }
    url = f"{server.url}/moto-api/static/athena/query-results"
    requests.post(url, json={"results": [results]}, timeout=30).raise_for_status()


def csv_of(server: Moto, execution: Any) -> str:
    """A signed link to the CSV of a query."""
    place = execution["QueryExecution"]["ResultConfiguration"]["OutputLocation"].removeprefix("s3:/")
    return presigned(server.s3_url + place)


def execution(server: Moto, job: Job) -> Any:
    headers, body = aws.action("AmazonAthena.GetQueryExecution"), {"QueryExecutionId": job.id}
    return server.ask("athena", "POST", "/", headers=headers, json=body).json()


def test_an_athena_query(server, check):
    """Results too early are waited for, then there are rows, and the same as CSV by a signed link."""
    server.set_transition("athena::execution", progression="manual", times=2)
    next_rows(server, [["id", "name"], ["1", "Ann"]], ["id", "name"])
    with server.session("athena") as session, server.operation(session, aws.ATHENA) as op:
        job = op.submit("POST", server.url + "/", headers=aws.action(START), json=QUERY)
        early = Ready(job, "QUEUED", tuple(Result(call) for call in aws.ATHENA.result_calls(job)))
        too_early = list(op.download(early).iter_rows())
        rows = list(op.download(op.poll(job)).iter_rows())
        csv = op.download(csv_of(server, execution(server, job))).text

    expected = [{"Data": [{"VarCharValue": value} for value in row]} for row in (["id", "name"], ["1", "Ann"])]
    check(aws.ATHENA, "query: rows that were asked for too early", expected=expected, got=too_early)
    check(aws.ATHENA, "query: rows", expected=expected, got=rows)
    check(aws.ATHENA, "query: CSV by signed link", expected='"id","name"\n"1","Ann"\n', got=csv)


def test_the_states_of_an_athena_query(server, check):
    """Queued, running, succeeded; the CSV is there without the rows having been asked for."""
    server.set_transition("athena::execution", progression="manual", times=2)
    next_rows(server, [["z"]], [])
    ready = server.walk("athena", aws.ATHENA, START, QUERY)
    states = list(server.states)
    with requests.Session() as session, operation("csv", deadline=60, session=session) as op:
        csv = op.download(csv_of(server, execution(server, ready.job))).text

    check(aws.ATHENA, "states", expected=["QUEUED", "RUNNING", "RUNNING", "SUCCEEDED"], got=states)
    check(aws.ATHENA, "CSV before any GetQueryResults", expected='"z"\n', got=csv)


def test_an_athena_query_that_is_cancelled(server, check):
    """StopQueryExecution, and the poll says so."""
    with server.session("athena") as session, server.operation(session, aws.ATHENA) as op:
        job = op.submit("POST", server.url + "/", headers=aws.action(START), json=QUERY)
        taken = op.cancel()
        with pytest.raises(JobCancelled) as caught:
            op.poll(job)

    check(aws.ATHENA, "cancelled", expected=(True, "JobCancelled, CANCELLED"), got=(taken, told(caught.value)))


def test_an_athena_query_that_takes_its_time(server, check):
    """In real time, a second in each state."""
    server.set_transition("athena::execution", progression="time", seconds=1)
    provider = replace(aws.ATHENA, pacing=Pacing(first=0.3, cap=0.3, jitter=False))
    with server.session("athena") as session, server.operation(session, provider, clock=None) as op:
        op.poll(op.submit("POST", server.url + "/", headers=aws.action(START), json=QUERY))

    check(aws.ATHENA, "by time", expected=["QUEUED", "RUNNING", "SUCCEEDED"], got=distinct(server.states))


# ---- the other tables


def test_a_transcription(server, check):
    """Its transcript is a link into S3, at another origin; there is no such host here, so it is not followed."""
    server.set_transition("transcribe::transcriptionjob", progression="manual", times=2)
    body = {"TranscriptionJobName": "j1", "LanguageCode": "en-US", "Media": {"MediaFileUri": "s3://media/a.mp3"}}
    start = "com.amazonaws.transcribe.Transcribe.StartTranscriptionJob"
    ready = server.walk("transcribe", aws.TRANSCRIBE, start, {**body, "OutputBucketName": "out"})

    got = (server.states[-1], "IN_PROGRESS" in server.states, [(r.name, r.at) for r in ready.results])
    where = "https://s3.us-east-1.amazonaws.com/out/j1.json"
    check(aws.TRANSCRIBE, "job", expected=("COMPLETED", True, [("transcript", where)]), got=got)


def test_a_transcription_under_a_name_that_is_taken(server, check):
    """A submit that was sent twice shows itself."""
    body = {"TranscriptionJobName": "j2", "LanguageCode": "en-US", "Media": {"MediaFileUri": "s3://media/a.mp3"}}
    start = aws.action("com.amazonaws.transcribe.Transcribe.StartTranscriptionJob")
    with server.session("transcribe") as session, server.operation(session, aws.TRANSCRIBE) as op:
        op.submit("POST", server.url + "/", headers=start, json=body)
        with pytest.raises(OperationError) as caught:
            op.submit("POST", server.url + "/", headers=start, json=body)

    got = (told(caught.value), "ConflictException" in str(caught.value))
    check(aws.TRANSCRIBE, "duplicate name", expected=("SubmitRejected, HTTP 400", True), got=got)


def test_a_glue_job_run(server, check):
    """A run is known by its job's name and its own id."""
    server.set_transition("glue::job_run", progression="manual", times=2)
    job = {"Name": "g", "Role": "r", "Command": {"Name": "glueetl", "ScriptLocation": "s3://out/x.py"}}
    server.ask("glue", "POST", "/", headers=aws.action("AWSGlue.CreateJob"), json=job)
    server.walk("glue", aws.glue("g"), "AWSGlue.StartJobRun", {"JobName": "g"})

    check(aws.glue("g"), "job run", expected=["STARTING", "RUNNING", "SUCCEEDED"], got=distinct(server.states))


def machine(server: Moto, name: str, states: dict[str, Any], start: str) -> str:
    """Make a state machine that is really executed; its ARN."""
    config = {"stepfunctions": {"execute_state_machine": True}}
    requests.post(f"{server.url}/moto-api/config", json=config, timeout=30).raise_for_status()
    definition = json.dumps({"StartAt": start, "States": states})
    body = {"name": name, "roleArn": "arn:aws:iam::123456789012:role/r", "definition": definition}
    headers = aws.action("AWSStepFunctions.CreateStateMachine", version="1.0")
    return str(server.ask("states", "POST", "/", headers=headers, json=body).json()["stateMachineArn"])


def execute(server: Moto, arn: str) -> Ready:
    """In real time: the machine waits by the clock."""
    provider = replace(aws.STEP_FUNCTIONS, pacing=Pacing(first=0.3, cap=0.3, jitter=False))
    with server.session("states") as session, server.operation(session, provider, clock=None) as op:
        headers = aws.action("AWSStepFunctions.StartExecution", version="1.0")
        return op.poll(
            op.submit("POST", server.url + "/", headers=headers, json={"stateMachineArn": arn, "input": "{}"})
        )


def test_an_execution_of_step_functions(server, check):
    """Its output is JSON in a text in JSON."""
    wait = {"Type": "Wait", "Seconds": 2, "Next": "P"}
    done = {"Type": "Pass", "Result": {"answer": 42}, "End": True}
    ready = execute(server, machine(server, "ok", {"W": wait, "P": done}, "W"))

    got = (distinct(server.states), ready.data)
    check(aws.STEP_FUNCTIONS, "executed", expected=(["RUNNING", "SUCCEEDED"], {"answer": 42}), got=got)


def test_an_execution_that_fails(server, check):
    """Error and cause are in the document."""
    wait = {"Type": "Wait", "Seconds": 1, "Next": "F"}
    arn = machine(server, "bad", {"W": wait, "F": {"Type": "Fail", "Error": "Disk", "Cause": "on fire"}}, "W")
    with pytest.raises(JobFailed) as caught:
        execute(server, arn)

    got = (caught.value.state, caught.value.error)
    check(aws.STEP_FUNCTIONS, "failing", expected=("FAILED", {"code": "Disk", "message": "on fire"}), got=got)


def test_a_statement_that_never_ends(server, check):
    """It stays STARTED for ever: the budget ends the wait, and a cancel the statement."""
    start = aws.action("RedshiftData.ExecuteStatement")
    body = {"ClusterIdentifier": "c", "Database": "d", "DbUser": "u", "Sql": "select 1"}
    with server.session("redshift-data") as session, server.operation(session, aws.REDSHIFT_DATA) as op:
        job = op.submit("POST", server.url + "/", headers=start, json=body)
        with pytest.raises(PollBudgetExhausted) as waited:
            op.poll(job, budget=Budget(polls=4))
        op.cancel()
        with pytest.raises(JobCancelled) as caught:
            op.poll(job)

    expected = ("PollBudgetExhausted, STARTED", "JobCancelled, ABORTED")
    check(aws.REDSHIFT_DATA, "never ends", expected=expected, got=(told(waited.value), told(caught.value)))


def test_a_query_of_logs(server, check):
    """The rows are in the same document as the state."""
    group = {"logGroupName": "lg"}
    server.ask("logs", "POST", "/", headers=aws.action("Logs_20140328.CreateLogGroup"), json=group)
    query = {**group, "startTime": 0, "endTime": 9999999999, "queryString": "fields @message"}
    ready = server.walk("logs", aws.LOGS_INSIGHTS, "Logs_20140328.StartQuery", query)

    check(aws.LOGS_INSIGHTS, "query", expected=("Complete", []), got=(ready.state, ready.data))


# ---- providers as a user would write them

GLACIER = Provider(
    "aws.glacier",
    submit=ReadJob(id=header("x-amz-job-id"), status_url=None),
    status="jobs/{id}",
    poll=ReadState(
        "StatusCode",
        pending={"InProgress"},
        succeeded={"Succeeded"},
        failed={"Failed"},
        results=[Result("jobs/{id}/output")],
    ),
    pacing=Pacing(first=0.4, cap=0.4, jitter=False),
)


class Recorder(BaseAdapter):
    """Keeps the requests that go to a host that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[requests.PreparedRequest] = []

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        self.requests.append(request)
        raise requests.ConnectionError("there is no such host")

    def close(self) -> None:
        pass


def test_a_retrieval_from_glacier(server, check):
    """REST with ids in the path, in real time; its Location names another host, where no credentials go."""
    server.ask("glacier", "PUT", "/-/vaults/v1")
    version = {"x-amz-glacier-version": "2012-06-01"}
    archive = server.ask("glacier", "POST", "/-/vaults/v1/archives", data=b"hello glacier", headers=version)
    body = {"Type": "archive-retrieval", "ArchiveId": archive.headers["x-amz-archive-id"], "Tier": "Expedited"}
    jobs = server.url + "/-/vaults/v1/jobs"
    with server.session("glacier") as session, server.operation(session, GLACIER, clock=None) as op:
        content = op.run("POST", jobs, json=body).content
    states = distinct(server.states)
    by_location, elsewhere = replace(GLACIER, submit=ReadJob(), status="{status_url}"), Recorder()
    with server.session("glacier") as session, server.operation(session, by_location) as op:
        session.mount("http://vaults", elsewhere)
        with pytest.raises(OperationError) as caught:
            op.poll(op.submit("POST", jobs, json=body))

    check(GLACIER, "retrieval", expected=(["InProgress", "Succeeded"], b"hello glacier"), got=(states, content))
    sent = {request.headers.get("Authorization") for request in elsewhere.requests}
    got = (type(caught.value).__name__, sent)
    check(GLACIER, "a Location on another host", expected=("PollErrorsExhausted", {None}), got=got)


def restored(reply: Reply) -> str | None:
    """The state of a restore is in a header of the object."""
    return header("x-amz-restore")(reply)


RESTORE = Provider(
    "aws.s3_restore",
    submit=lambda reply: Pending("accepted"),
    status=lambda job: Call("HEAD", (job.submit_url or "").partition("?")[0]),
    poll=lambda reply, job: (
        Succeeded("restored", results=(Result(reply.url),))
        if 'ongoing-request="false"' in (restored(reply) or "")
        else Pending("ongoing")
    ),
)


def test_a_restore_that_is_polled_by_head(server, check):
    """The state is in a header, and the object is its own result."""
    server.set_transition("s3::keyrestore", progression="manual", times=2)
    server.ask("s3", "PUT", "/out/cold.txt", data=b"cold data", headers={"x-amz-storage-class": "GLACIER"})
    with server.session("s3") as session, server.operation(session, RESTORE) as op:
        with pytest.raises(ResultUnavailable) as before:
            op.download(f"{server.url}/out/cold.txt")
        body = b"<RestoreRequest><Days>1</Days></RestoreRequest>"
        content = op.run("POST", f"{server.url}/out/cold.txt?restore", data=body).content

    got = ("InvalidObjectState" in str(before.value), distinct(server.states), content)
    check(RESTORE, "restore", expected=(True, ["ongoing", "restored"], b"cold data"), got=got)


@accepts(404)
def object_there(reply: Reply, job: Job) -> PollVerdict:
    return (
        Pending("not there") if reply.status_code == 404 else Succeeded("there", results=(Result(data=reply.json()),))
    )


def test_a_result_that_appears_in_s3(server, check):
    """No status API: the object itself is asked for by a signed link."""
    place = header("X-Amzn-SageMaker-OutputLocation")
    provider = Provider(
        "aws.sagemaker_async",
        submit=ReadJob(status_url=lambda reply: presigned(server.s3_url + place(reply).removeprefix("s3:/"))),
        poll=object_there,
    )
    with server.session("sagemaker") as session, server.operation(session, provider) as op:
        headers = {"X-Amzn-SageMaker-InputLocation": "s3://out/in.json"}
        ready = op.poll(op.submit("POST", f"{server.url}/endpoints/e/async-invocations", headers=headers))

    check(provider, "async endpoint", expected={"default": "response"}, got=ready.data)


def test_a_text_detection(server, check):
    """Textract, as a table."""
    detection = Call(
        "POST",
        "{submit_url}",
        json={"JobId": "{id}"},
        headers=aws.action("Textract.GetDocumentTextDetection"),
    )
    provider = Provider(
        "aws.textract",
        submit=ReadJob(id="JobId", status_url=None),
        status=detection,
        poll=ReadState("JobStatus", pending={"IN_PROGRESS"}, succeeded={"SUCCEEDED"}, failed={"FAILED"}, data="Blocks"),
    )
    server.ask("s3", "PUT", "/out/d.pdf", data=b"%PDF")
    body = {"DocumentLocation": {"S3Object": {"Bucket": "out", "Name": "d.pdf"}}}
    ready = server.walk("textract", provider, "Textract.StartDocumentTextDetection", body)

    check(provider, "detection", expected=("SUCCEEDED", []), got=(ready.state, ready.data))


# ---- signed links


@pytest.mark.parametrize("credentials", ["none", "bearer", "sigv4"])
def test_a_signed_link_at_another_origin_gets_no_credentials(server, check, credentials):
    """Whatever the session carries stays at home; moto would answer 404 to the signature of another service."""
    server.ask("s3", "PUT", "/out/secret.csv", data=b"a,b\n1,2\n")
    sent: list[str | None] = []
    with requests.Session() as session:
        session.trust_env = False
        if credentials == "bearer":
            session.headers["Authorization"] = BEARER
        elif credentials == "sigv4":
            session.auth = SigV4("athena")
        session.hooks["response"].append(lambda r, **_: sent.append(r.request.headers.get("Authorization")))
        with server.operation(session, generic.ACCEPTED) as op:
            # What the caller submits to is home; a GET there is enough to say so.
            op.submit("GET", f"{server.url}/moto-api/data.json", surface=lambda reply: Succeeded("there"))
            content = op.download(presigned(f"{server.s3_url}/out/secret.csv")).content
            call = Call("GET", presigned(f"{server.s3_url}/out/secret.csv"), headers={"Range": "bytes=4-"})
            rest = op.download(call).content

    got = (content, rest, [value for value in sent[1:] if value])
    check("signed links", f"session with {credentials}", expected=(b"a,b\n1,2\n", b"1,2\n", []), got=got)


@pytest.mark.parametrize(("place", "code"), [("out/none", "NoSuchKey"), ("nobucket-x/none", "NoSuchBucket")])
def test_a_signed_link_to_nothing(server, check, place, code):
    """The XML of the refusal is quoted, the signature is not."""
    link = presigned(f"{server.s3_url}/{place}")
    with (
        server.session("athena") as session,
        server.operation(session, generic.ACCEPTED) as op,
        pytest.raises(ResultUnavailable) as caught,
    ):
        op.download(link)

    signature = link.partition("X-Amz-Signature=")[2]
    got = (told(caught.value), code in str(caught.value), signature in f"{caught.value!r} {caught.value}")
    check("signed links", code, expected=("ResultUnavailable, HTTP 404", True, False), got=got)
