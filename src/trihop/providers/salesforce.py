"""Salesforce Bulk API 2.0: a query to CSV, and an ingest of CSV with a result for every row.

- Submits go to `…/services/data/vNN.N/jobs/query` or `…/jobs/ingest`; the answer is 200 with the job,
  no 202 and no `Location`.
- An ingest is three requests: create, `PUT …/batches` with the CSV, and `PATCH` to `UploadComplete`. Do the
  last two in `op.once`. A job that is polled and still `Open` was never closed, and waits for that for ever.
- `JobComplete` is no proof of success: rows that failed are counted in `numberRecordsFailed`. A failed query
  job may carry no `errorMessage`.
- Result pages are asked for by `Sforce-Locator`; the last one has the word `null` there. A locator may be used
  again while the job exists, with the API version it was created with (another one answers 409). Add
  `?maxRecords=` to a result's place for smaller pages.
- Errors are a JSON array of `{message, errorCode}`; an expired session is 401 `INVALID_SESSION_ID`.
- No `Retry-After` and no idempotency key are documented: a create that was lost may have made a job. Pacing is
  ours, slow because each poll counts against the organisation's daily requests. Results are kept for 7 days
  (said of Bulk 1.0).

Credentials go to the instance that was submitted to, and nowhere else.

Read November 2026: developer.salesforce.com/docs (Bulk API 2.0: job states, query results, get job info); the
sources of jsforce and simple-salesforce.
"""

from __future__ import annotations

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Call, Reply, Result
from trihop._verdicts import Content, DownloadVerdict
from trihop.providers._paging import same_but

_NO_MORE_PAGES = "null"  # the word, not JSON's
_PATIENCE = Pacing(first=2.0, factor=1.5, cap=30.0)


def page(reply: Reply, result: Result) -> DownloadVerdict:
    """One page of CSV; each has the header line, which is kept once."""
    locator = reply.headers.get("Sforce-Locator") or _NO_MORE_PAGES
    following = None if locator == _NO_MORE_PAGES else same_but(reply.url, "locator", locator)
    return Content(header_lines=1, next=following)


def _why_it_waits(reply: Reply) -> str | None:
    return "the job was never closed: PATCH it to UploadComplete" if reply.json().get("state") == "Open" else None


QUERY = Provider(
    "salesforce.query",
    submit=ReadJob(id="id", status_url=None),
    status="query/{id}",
    poll=ReadState(
        "state",
        pending={"UploadComplete", "InProgress"},
        succeeded={"JobComplete"},
        failed={"Failed"},
        cancelled={"Aborted"},
        results=[Result("query/{id}/results")],
        error="errorMessage",
        counts="{processed: numberRecordsProcessed}",
    ),
    download=page,
    cancel=Call("PATCH", "query/{id}", json={"state": "Aborted"}),
    pacing=_PATIENCE,
)
"""Bulk API 2.0 query, submitted to `…/jobs/query`.

Result: CSV at the same host
Paging: `Sforce-Locator`, until it says `null`
Deadline: 2 hours
Checked: exchanges as documented
Source: https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/api_asynch/query_get_job_results.htm
"""

INGEST = Provider(
    "salesforce.ingest",
    submit=ReadJob(id="id", status_url=None),
    status="ingest/{id}",
    poll=ReadState(
        "state",
        pending={"UploadComplete", "InProgress"},
        succeeded={"JobComplete"},
        failed={"Failed"},
        cancelled={"Aborted"},
        ambiguous={"Open"},
        results=[
            Result(f"ingest/{{id}}/{name}", name=name)
            for name in ("successfulResults", "failedResults", "unprocessedrecords")
        ],
        bad_items="numberRecordsFailed",
        counts="{total: numberRecordsProcessed, failed: numberRecordsFailed}",
        error="errorMessage",
        message=_why_it_waits,
    ),
    cancel=Call("PATCH", "ingest/{id}", json={"state": "Aborted"}),
    pacing=_PATIENCE,
)
"""Bulk API 2.0 ingest, submitted to `…/jobs/ingest`, then uploaded and closed in `op.once`.

Result: three CSV files at the same host: successfulResults, failedResults, unprocessedrecords
Deadline: 2 hours
Checked: exchanges as documented
Source: https://developer.salesforce.com/docs/platform/api-asynch/guide/bulk-api-2-job-states.md
"""
