"""A resource is PUT, an operation URL is polled, and the result is the resource itself, asked for once more."""

from __future__ import annotations

from urllib.parse import urljoin

import requests

from trihop import (
    Cancelled,
    Failed,
    Job,
    Pending,
    PollVerdict,
    Provider,
    ReadJob,
    Reply,
    Result,
    Succeeded,
    header,
    operation,
)

monitor = header("Azure-AsyncOperation", "Operation-Location", "Location")


def poll(reply: Reply, job: Job) -> PollVerdict:
    """No status at all means finished; the monitor may move from one answer to the next."""
    body = reply.json() if reply.content else {}
    word = str(body.get("status", "running" if reply.status_code == 202 else "succeeded")).casefold()
    if word == "succeeded":
        final = job.submit_url if job.submit_method in ("PUT", "PATCH") else job.memo.get("location")
        return Succeeded(word, results=[Result(final)] if final else [])
    if word == "failed":
        return Failed(word, error=body.get("error"))
    if word == "canceled":
        return Cancelled(word, error=body.get("error"))
    moved = monitor(reply)
    return Pending(word, status_url=moved and urljoin(reply.url, moved))


RESOURCE = Provider(
    "example.resource",
    submit=ReadJob(status_url=monitor, memo={"location": header("Location")}),
    poll=poll,
)


def main(session: requests.Session, resource: str, wanted: dict[str, object]) -> object:
    """Bring a resource to the state that is wanted, and return it as the server then shows it."""
    with operation("provision", deadline=1800, session=session, provider=RESOURCE) as op:
        return op.run("PUT", resource, json=wanted).json()
