"""A bulk query whose result comes in pages of CSV: the status URL is built from the id, the next page from a header."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import requests

from trihop import Call, Content, DownloadVerdict, Provider, ReadJob, ReadState, Reply, Result, operation

NO_MORE_PAGES = "null"


def page(reply: Reply, result: Result) -> DownloadVerdict:
    """Each page repeats the header line; the last one says so in `Sforce-Locator`."""
    locator = reply.headers.get("Sforce-Locator", NO_MORE_PAGES)
    following = None if locator == NO_MORE_PAGES else f"?locator={locator}"  # relative to this page
    return Content(next=following, header_lines=1)


BULK_QUERY = Provider(
    "example.bulk_query",
    submit=ReadJob(id="id", status_url=None),
    status="query/{id}",  # against the URL that was submitted to
    poll=ReadState(
        "state",
        pending={"UploadComplete", "InProgress"},
        succeeded={"JobComplete"},
        failed={"Failed"},
        cancelled={"Aborted"},
        results=[Result("query/{id}/results")],
        error="errorMessage",
    ),
    download=page,
    cancel=Call("PATCH", "query/{id}", json={"state": "Aborted"}),
)


def main(session: requests.Session, api: str, soql: str, to: Path) -> int:
    """Run a query, and return how many bytes of CSV it came to."""
    with operation("accounts", deadline=timedelta(hours=2), session=session, provider=BULK_QUERY) as op:
        job = op.submit("POST", f"{api}/jobs/query", json={"operation": "query", "query": soql})
        ready = op.poll(job)
        return op.download(ready, to=to).size_bytes
