"""Google's long-running operations (AIP-151), and BigQuery jobs.

Operations:

- The answer to the submit is an `Operation {name, metadata, done, error | response}`; it may be done already. Its
  `name` below the service's root is where to ask. There is no word for the state: `done` is false (and then often left
  out) or true, with an `error` (a google.rpc.Status) or a `response`.
- `POST {name}:cancel` is best effort; a cancelled operation is done with the error code 1. `DELETE` only says that
  nobody is interested. What failed in part is in `metadata`, which differs from one API to the next.
- No idempotency key and no `Retry-After` are specified; google-api-core polls from 1 s to 20 s apart. An operation
  is forgotten some time after its end, 30 days by the guideline.

BigQuery:

- The client chooses the job's id (`jobReference.jobId`), so a submit may be sent again (`retry=RetryPolicy()`): where
  the first one arrived, the second is answered 409 `duplicate`, and the job that is there is taken for ours. The 409
  names it in its message alone. Choose ids that nobody else uses, such as a UUID.
- Status and results are asked for in the job's `location`, which the answer to the submit tells; US where it does not.
- `status.state` is PENDING, RUNNING or DONE, and DONE says nothing of the outcome: `errorResult` does. A job that was
  cancelled has the reason `stopped` there. `errors` without an `errorResult` were got over.
- A query's rows come in pages, by `pageToken`, under the names of the schema; values are as sent, mostly text. Other
  jobs leave their results where they were told to.

Sign in with a session such as google-auth's `AuthorizedSession`. Credentials go to the API's own origin.

Read November 2026: google.aip.dev/151; google/longrunning/operations.proto; jobs.insert, jobs.get, jobs.cancel and
jobs.getQueryResults in cloud.google.com/bigquery/docs/reference/rest.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadState, accepts
from trihop._values import JSON, Call, Job, Reply, Result
from trihop._verdicts import (
    Accepted,
    Cancelled,
    Content,
    DownloadVerdict,
    Ending,
    Failed,
    Pending,
    PollVerdict,
    SubmitVerdict,
    Succeeded,
    Transient,
)
from trihop.providers._paging import same_but

_RPC_CANCELLED = 1
_PATIENCE = Pacing(first=1.0, factor=1.5, cap=20.0)


def operations(root: str) -> Provider:
    """A provider for the operations of one service.

    Args:
        root: The service and its version, as in https://speech.googleapis.com/v1.

    States: none; `done` with `response`, or with `error`, of which code 1 is cancelled
    Result: `response`, at hand
    Deadline: as the method's documentation says
    Checked: exchanges as documented
    Source: https://google.aip.dev/151
    """

    def submit(reply: Reply) -> SubmitVerdict:
        verdict = operation_state(reply, Job())
        name = reply.json()["name"]
        return verdict if isinstance(verdict, Ending) else Accepted(name, f"{root.rstrip('/')}/{name}")

    return Provider(
        "google.operations",
        submit=submit,
        poll=operation_state,
        cancel=Call("POST", "{status_url}:cancel"),
        pacing=_PATIENCE,
    )


def operation_state(reply: Reply, job: Job) -> PollVerdict:
    """What an `Operation` says."""
    operation = reply.json()
    if operation.get("done") is not True:
        metadata = operation.get("metadata") or {}
        return (
            Pending("running", progress=metadata.get("progressPercent"))
            if "name" in operation
            else Transient("no_state")
        )
    if error := operation.get("error"):
        cancelled = error.get("code") == _RPC_CANCELLED
        return (Cancelled if cancelled else Failed)("done", error=error)
    return Succeeded("done", results=(Result(data=operation["response"]),) if "response" in operation else ())


# ---- BigQuery

_DUPLICATE = re.compile(r"Already Exists: Job\s+\S+?:(?:(?P<location>[\w-]+)\.)?(?P<id>[\w-]+)$")
_DEFAULT_LOCATION = "US"

_read_job = ReadState(
    "status.state",
    pending={"PENDING", "RUNNING"},
    succeeded={"DONE"},
    error="status.errorResult",
)


@accepts(409)
def bigquery_submit(reply: Reply) -> SubmitVerdict:
    """The job that was inserted, or the one that was there under its id."""
    if reply.status_code == 409:
        there = _DUPLICATE.search(reply.json()["error"]["message"])
        if there is None:
            raise ValueError("another conflict than that of a job's id")
        return _inserted(there["id"], there["location"])
    reference = reply.json()["jobReference"]
    return _inserted(reference["jobId"], reference.get("location"))


def bigquery_state(reply: Reply, job: Job) -> PollVerdict:
    """What a job's `status` says: DONE is read with its `errorResult`."""
    verdict = _read_job(reply, job)
    if not isinstance(verdict, Succeeded):
        return verdict
    if verdict.error is not None:
        stopped = verdict.error.get("reason") == "stopped"
        return (Cancelled if stopped else Failed)(verdict.state, error=verdict.error)
    if "query" not in reply.json().get("configuration", {}):
        return Succeeded(verdict.state)
    return Succeeded(
        verdict.state, results=(Result(f"../queries/{job.id}?location={job.memo['location']}", name="rows"),)
    )


def bigquery_rows(reply: Reply, result: Result) -> DownloadVerdict:
    """One page of a query's rows."""
    page = reply.json()
    if not page["jobComplete"]:
        return Pending("RUNNING")
    names = [field["name"] for field in page.get("schema", {}).get("fields", ())]
    token = page.get("pageToken")
    return Content(
        items=[_row(names, row) for row in page.get("rows", ())],
        next=same_but(reply.url, "pageToken", token) if token else None,
    )


def _inserted(job_id: str, location: str | None) -> Accepted:
    place = location or _DEFAULT_LOCATION
    return Accepted(job_id, f"jobs/{quote(job_id)}?location={quote(place)}", memo={"location": place})


def _row(names: list[str], row: JSON) -> dict[str, JSON]:
    return {name: cell["v"] for name, cell in zip(names, row["f"], strict=True)}


BIGQUERY = Provider(
    "google.bigquery",
    submit=bigquery_submit,
    poll=bigquery_state,
    download=bigquery_rows,
    cancel=Call("POST", "jobs/{id}/cancel?location={memo.location}"),
    pacing=_PATIENCE,
)
"""A job that was inserted with `POST …/projects/{project}/jobs`, under an id of the client's.

States: PENDING, RUNNING; DONE, where `errorResult` decides
Result: rows, one JSON object a line
Paging: `pageToken`
Idempotency: the job's id, with `retry=`; a 409 adopts the job that is there
Deadline: 6 hours, the longest that a query may run
Checked: exchanges as documented
Source: https://cloud.google.com/bigquery/docs/reference/rest/v2/jobs
"""
