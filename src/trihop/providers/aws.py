"""Amazon Web Services: jobs of services that speak JSON, by POST to one URL.

- Each request is `POST /` with the action in `X-Amz-Target`, the polls included; the id goes in the body. Pass
  `headers=aws.action("AmazonAthena.StartQueryExecution")` with the submit. SigV4 is the session's own auth, any that
  `requests` takes: each request is prepared, and so signed, afresh.
- Errors are HTTP 400 with a `__type`. Throttling is one of them and is a poll that failed; any other refuses the poll.
  No `Retry-After` is documented; pacing is ours, slow enough for the rates that the services allow an account.
- Idempotency is a field of the body where there is one (`ClientRequestToken` for Athena, `ClientToken` for Redshift
  Data, the name for Step Functions): with it, `retry=RetryPolicy()` makes sending again safe. A name of Transcribe's
  that is taken is refused (ConflictException).
- Links into S3 are another origin and get no credentials; sign them yourself where they are not signed already. Real S3
  refuses a signed link with an `Authorization` beside it.

Read November 2026: docs.aws.amazon.com API references of Athena, Transcribe, Glue, Step Functions, Redshift Data and
CloudWatch Logs; the throttling errors are those that github.com/boto/botocore retries.
"""

from __future__ import annotations

import json
from dataclasses import replace

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import DownloadSurface, ReadJob, ReadState, accepts, reader, whole_body
from trihop._values import JSON, Call, Reply, Result
from trihop._verdicts import Content, DownloadVerdict, Pending, Transient

_THROTTLED = frozenset({"TooManyRequestsException", "RequestLimitExceeded", "LimitExceededException", "SlowDown"})
_PATIENCE = Pacing(first=1.0, factor=1.5, cap=20.0)


def action(target: str, *, version: str = "1.1") -> dict[str, str]:
    """The headers of a request.

    Args:
        target: The service's prefix and the action.
        version: Of the JSON protocol.

    >>> action("AWSGlue.StartJobRun")
    {'X-Amz-Target': 'AWSGlue.StartJobRun', 'Content-Type': 'application/x-amz-json-1.1'}
    """
    return {"X-Amz-Target": target, "Content-Type": f"application/x-amz-json-{version}"}


def throttled(reply: Reply) -> str | None:
    """The kind of a 400 that only says "not so fast"."""
    if reply.status_code != 400:
        return None
    kind = str(reply.json().get("__type", "")).rpartition("#")[2]
    return kind if "Throttl" in kind or kind in _THROTTLED else None


def _ask(target: str, body: JSON, version: str = "1.1") -> Call:
    return Call("POST", "{submit_url}", json=body, headers=action(target, version=version))


def _pages(items: str) -> DownloadSurface:
    """A download surface for the items at this path, in pages by `NextToken`."""
    read_items = reader(items, "aws")

    @accepts(400)
    def page(reply: Reply, result: Result) -> DownloadVerdict:
        asked = result.at
        if reply.status_code == 400:
            return _not_now(reply)
        if not isinstance(asked, Call):  # a link of the caller's, such as to the same rows in S3
            return whole_body(reply, result)
        body = reply.json()
        token = body.get("NextToken")
        return Content(
            items=read_items(reply), next=replace(asked, json={**asked.json, "NextToken": token}) if token else None
        )

    return page


def _not_now(reply: Reply) -> DownloadVerdict:
    if kind := throttled(reply):
        return Transient(kind)
    if "not yet finished" in str(reply.json()["message"]):
        return Pending("SUCCEEDED")
    raise ValueError("a refusal, which its status tells")


# ---- Athena


def _athena(name: str) -> Call:
    return _ask(f"AmazonAthena.{name}", {"QueryExecutionId": "{id}"})


ATHENA = Provider(
    "aws.athena",
    submit=ReadJob(id="QueryExecutionId", status_url=None),
    status=_athena("GetQueryExecution"),
    poll=ReadState(
        "QueryExecution.Status.State",
        pending={"QUEUED", "RUNNING"},
        succeeded={"SUCCEEDED"},
        failed={"FAILED"},
        cancelled={"CANCELLED"},
        results=[Result(_athena("GetQueryResults"), name="rows")],
        error="QueryExecution.Status.StateChangeReason",
        transient=throttled,
        accept=(400,),
    ),
    download=_pages("ResultSet.Rows"),
    cancel=_athena("StopQueryExecution"),
    pacing=_PATIENCE,
)
"""A query, submitted by `AmazonAthena.StartQueryExecution`.

The same rows are a CSV at `ResultConfiguration.OutputLocation`, in S3.

Result: rows as Athena has them, one a line; the first of a SELECT has the names
Paging: `NextToken` in the body
Cancel: `StopQueryExecution`
Idempotency: `ClientRequestToken` in the body
Deadline: 30 minutes, the service's own limit for a query
Checked: moto 5.2.5, real HTTP
Source: https://docs.aws.amazon.com/athena/latest/APIReference/API_QueryExecutionStatus.html
"""

# ---- Transcribe


def transcripts(reply: Reply) -> list[Result]:
    """The transcript, and the redacted one if it was asked for."""
    found = reply.json()["TranscriptionJob"].get("Transcript") or {}
    places = {"transcript": found.get("TranscriptFileUri"), "redacted": found.get("RedactedTranscriptFileUri")}
    return [Result(place, name=name) for name, place in places.items() if place]


TRANSCRIBE = Provider(
    "aws.transcribe",
    submit=ReadJob(id="TranscriptionJob.TranscriptionJobName", status_url=None),
    status=_ask("com.amazonaws.transcribe.Transcribe.GetTranscriptionJob", {"TranscriptionJobName": "{id}"}),
    poll=ReadState(
        "TranscriptionJob.TranscriptionJobStatus",
        pending={"QUEUED", "IN_PROGRESS"},
        succeeded={"COMPLETED"},
        failed={"FAILED"},
        results=transcripts,
        error="TranscriptionJob.FailureReason",
        transient=throttled,
        accept=(400,),
    ),
    pacing=_PATIENCE,
)
"""A transcription, submitted by `com.amazonaws.transcribe.Transcribe.StartTranscriptionJob`; it cannot be cancelled.

Result: JSON in S3, named transcript and redacted; signed for a while unless it is in a bucket of your own
Idempotency: the name; taken twice it is refused
Deadline: 4 hours
Checked: moto 5.2.5, real HTTP
Source: https://docs.aws.amazon.com/transcribe/latest/APIReference/API_TranscriptionJob.html
"""

# ---- Glue


def glue(job_name: str) -> Provider:
    """A provider for the runs of one Glue job, submitted by `AWSGlue.StartJobRun`.

    Args:
        job_name: Its name; a run is known only together with it.

    Result: none; a run leaves what its script writes
    Cancel: `BatchStopJobRun`
    Deadline: the job's own `Timeout`, 48 hours unless it says otherwise
    Checked: moto 5.2.5, real HTTP
    Source: https://docs.aws.amazon.com/glue/latest/webapi/API_JobRun.html
    """
    return Provider(
        "aws.glue",
        submit=ReadJob(id="JobRunId", status_url=None),
        status=_ask("AWSGlue.GetJobRun", {"JobName": job_name, "RunId": "{id}"}),
        poll=ReadState(
            "JobRun.JobRunState",
            pending={"STARTING", "RUNNING", "STOPPING", "WAITING"},
            succeeded={"SUCCEEDED"},
            failed={"FAILED", "ERROR"},
            cancelled={"STOPPED"},
            expired={"TIMEOUT", "EXPIRED"},
            error="JobRun.ErrorMessage",
            transient=throttled,
            accept=(400,),
        ),
        cancel=_ask("AWSGlue.BatchStopJobRun", {"JobName": job_name, "JobRunIds": ["{id}"]}),
        pacing=replace(_PATIENCE, first=5.0, cap=60.0),
    )


# ---- Step Functions


def execution_output(reply: Reply) -> JSON:
    """What an execution put out: JSON in a text in JSON."""
    output = reply.json().get("output")
    return None if output is None else json.loads(output)


STEP_FUNCTIONS = Provider(
    "aws.step_functions",
    submit=ReadJob(id="executionArn", status_url=None),
    status=_ask("AWSStepFunctions.DescribeExecution", {"executionArn": "{id}"}, "1.0"),
    poll=ReadState(
        "status",
        pending={"RUNNING", "PENDING_REDRIVE"},
        succeeded={"SUCCEEDED"},
        failed={"FAILED"},
        cancelled={"ABORTED"},
        expired={"TIMED_OUT"},
        data=execution_output,
        error="(error || cause) && {code: error, message: cause}",
        transient=throttled,
        accept=(400,),
    ),
    cancel=_ask("AWSStepFunctions.StopExecution", {"executionArn": "{id}"}, "1.0"),
    pacing=_PATIENCE,
)
"""An execution of a standard workflow, submitted by `AWSStepFunctions.StartExecution` (version 1.0).

Result: the output, at hand
Cancel: `StopExecution`
Idempotency: `name` in the body
Deadline: as the workflow takes
Checked: moto 5.2.5, real HTTP
Source: https://docs.aws.amazon.com/step-functions/latest/apireference/API_DescribeExecution.html
"""

# ---- Redshift Data


def _redshift(name: str) -> Call:
    return _ask(f"RedshiftData.{name}", {"Id": "{id}"})


REDSHIFT_DATA = Provider(
    "aws.redshift_data",
    submit=ReadJob(id="Id", status_url=None),
    status=_redshift("DescribeStatement"),
    poll=ReadState(
        "Status",
        pending={"SUBMITTED", "PICKED", "STARTED"},
        succeeded={"FINISHED"},
        failed={"FAILED"},
        cancelled={"ABORTED"},
        results=[Result(_redshift("GetStatementResult"), name="records")],
        error="Error",
        transient=throttled,
        accept=(400,),
    ),
    download=_pages("Records"),
    cancel=_redshift("CancelStatement"),
    pacing=_PATIENCE,
)
"""A statement, submitted by `RedshiftData.ExecuteStatement`; kept for 24 hours.

Result: records as the API has them, one a line, where the statement has a result
Paging: `NextToken` in the body
Cancel: `CancelStatement`
Idempotency: `ClientToken` in the body
Deadline: 24 hours, the service's own limit
Checked: moto 5.2.5, real HTTP
Source: https://docs.aws.amazon.com/redshift-data/latest/APIReference/API_DescribeStatement.html
"""

# ---- CloudWatch Logs Insights

LOGS_INSIGHTS = Provider(
    "aws.logs_insights",
    submit=ReadJob(id="queryId", status_url=None),
    status=_ask("Logs_20140328.GetQueryResults", {"queryId": "{id}"}),
    poll=ReadState(
        "status",
        pending={"Scheduled", "Running", "Unknown"},
        succeeded={"Complete"},
        failed={"Failed"},
        cancelled={"Cancelled"},
        expired={"Timeout"},
        data="results",
        transient=throttled,
        accept=(400,),
    ),
    cancel=_ask("Logs_20140328.StopQuery", {"queryId": "{id}"}),
    pacing=_PATIENCE,
)
"""A query, submitted by `Logs_20140328.StartQuery`.

Result: the rows, at hand
Cancel: `StopQuery`
Deadline: 1 hour, the service's own limit
Checked: moto 5.2.5, real HTTP
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetQueryResults.html
"""
