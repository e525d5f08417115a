"""An API with one URL: each request is a POST whose header names the action, and pages are asked for by a token.

The session signs: `session.auth = AWS4Auth(key, secret, region, "athena")`, for example.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import requests

from trihop import (
    Call,
    Content,
    Download,
    DownloadVerdict,
    Pending,
    Provider,
    ReadJob,
    ReadState,
    Reply,
    Result,
    accepts,
    operation,
)

CONTENT_TYPE = "application/x-amz-json-1.1"


def headers(action: str) -> dict[str, str]:
    """What makes a POST this action."""
    return {"X-Amz-Target": f"AmazonAthena.{action}", "Content-Type": CONTENT_TYPE}


def about_the_job(action: str) -> Call:
    """A request about one query; the texts in it are filled in from the job."""
    return Call("POST", "{submit_url}", headers=headers(action), json={"QueryExecutionId": "{id}"})


@accepts(400)
def rows(reply: Reply, result: Result) -> DownloadVerdict:
    """A page of rows; 400 means that the query has not quite finished."""
    if reply.status_code == 400:
        return Pending("SUCCEEDED")
    body, here = reply.json(), result.at
    assert isinstance(here, Call)
    token = body.get("NextToken")
    following = replace(here, json={**here.json, "NextToken": token}) if token else None
    return Content(items=body["ResultSet"]["Rows"], next=following)


SQL = Provider(
    "example.sql",
    submit=ReadJob(id="QueryExecutionId", status_url=None),
    status=about_the_job("GetQueryExecution"),
    poll=ReadState(
        "QueryExecution.Status.State",
        pending={"QUEUED", "RUNNING"},
        succeeded={"SUCCEEDED"},
        failed={"FAILED"},
        cancelled={"CANCELLED"},
        results=[Result(about_the_job("GetQueryResults"))],
        error="QueryExecution.Status.StateChangeReason",
    ),
    download=rows,
    cancel=about_the_job("StopQueryExecution"),
)


def main(session: requests.Session, url: str, sql: str, to: Path) -> Download:
    """Run a query, and write its rows as JSON lines."""
    with operation("query", deadline=1800, session=session, provider=SQL) as op:
        return op.run("POST", url, headers=headers("StartQueryExecution"), json={"QueryString": sql}, to=to)
