"""A server that chooses: it answers with the result at once, or with a job whose results may lag behind its success."""

from __future__ import annotations

import requests

from trihop import (
    Call,
    Content,
    DownloadVerdict,
    Gone,
    Pending,
    Provider,
    ReadJob,
    ReadState,
    Reply,
    Result,
    SubmitVerdict,
    Succeeded,
    accepts,
    header,
    operation,
)

read_job = ReadJob(
    id="jobID || id",
    status_url=lambda reply: header("Location")(reply) or f"/jobs/{reply.json().get('jobID') or reply.json()['id']}",
)


def submit(reply: Reply) -> SubmitVerdict:
    """200 is the result itself; `null` is a result too."""
    if reply.status_code == 200:
        return Succeeded("successful", results=[Result(data=reply.json())])
    return read_job(reply)


@accepts(403, 404)
def results(reply: Reply, result: Result) -> DownloadVerdict:
    """A refusal says in its `type` whether the results are not there yet, or not there any more."""
    if reply.status_code == 200:
        return Content()
    kind = str(reply.json().get("type", ""))
    return Pending("successful") if kind.endswith("/result-not-ready") else Gone(kind)


PROCESSES = Provider(
    "example.processes",
    submit=submit,
    poll=ReadState(
        "status",
        pending={"accepted", "running", "created"},
        succeeded={"successful"},
        failed={"failed"},
        cancelled={"dismissed"},
        results=[Result("{status_url}/results")],
        progress="progress",
        message="message",
        error="exception || message",
    ),
    download=results,
    cancel=Call("DELETE", "{status_url}"),
)


def main(session: requests.Session, api: str, process: str, inputs: dict[str, object]) -> object:
    """Execute a process, and return its outputs."""
    with operation("process", deadline=900, session=session, provider=PROCESSES) as op:
        return op.run(
            "POST",
            f"{api}/processes/{process}/execution",
            json={"inputs": inputs},
            headers={"Prefer": "respond-async;wait=10"},
        ).json()
