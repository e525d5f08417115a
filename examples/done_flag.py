"""Operations with a `done` flag, and the result or the error in the body that says so."""

from __future__ import annotations

import requests

from trihop import (
    Call,
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
    operation,
)

CANCELLED = 1  # a google.rpc.Code


def poll(reply: Reply, job: Job) -> PollVerdict:
    """Not done, done with an error, or done with a response that may be missing."""
    body = reply.json()
    if not body.get("done"):
        return Pending("running", progress=body.get("metadata", {}).get("progressPercent"))
    error = body.get("error")
    if error is not None:
        return (Cancelled if error["code"] == CANCELLED else Failed)("error", error=error)
    return Succeeded("done", results=[Result(data=body["response"])] if "response" in body else [])


def operations(root: str) -> Provider:
    """`root` is the service with its version, such as https://speech.example.com/v1."""
    return Provider(
        "example.operations",
        submit=ReadJob(id="name", status_url=lambda reply: f"{root}/{reply.json()['name']}"),
        poll=poll,
        cancel=Call("POST", "{status_url}:cancel"),
    )


def main(session: requests.Session, root: str, recording: str) -> object:
    """Have a recording transcribed."""
    with operation("transcribe", deadline=3600, session=session, provider=operations(root)) as op:
        job = op.submit("POST", f"{root}/speech:longrunningrecognize", json={"audio": {"uri": recording}})
        return op.poll(job).data
