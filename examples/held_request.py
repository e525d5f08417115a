"""A job service in XML: created, then started by a second request, then polled by requests that the server holds."""

from __future__ import annotations

from pathlib import Path

import requests

from trihop import Call, LongPoll, Provider, ReadJob, ReadState, Reply, Result, header, operation, xml


def links(reply: Reply) -> list[Result]:
    """Each `result` element has an id and an XLink."""
    return [
        Result(value, name=element.get("id", "result"))
        for element in reply.xml().iter()
        if element.tag.rpartition("}")[2] == "result"
        for key, value in element.items()
        if key.endswith("href")
    ]


JOBS = Provider(
    "example.jobs",
    submit=ReadJob(status_url=header("Location")),  # a 303 is shown to us, not followed
    poll=ReadState(
        xml("phase"),
        pending={"PENDING", "QUEUED", "EXECUTING", "SUSPENDED", "UNKNOWN"},
        succeeded={"COMPLETED"},
        failed={"ERROR"},
        cancelled={"ABORTED"},
        expired={"ARCHIVED"},
        ambiguous={"HELD"},  # somebody has to look at it
        results=links,
        error=xml("message"),
    ),
    long_poll=LongPoll(seconds=60, params={"WAIT": "{seconds}", "PHASE": "{state}"}),
    cancel=Call("POST", "{status_url}/phase", data={"PHASE": "ABORT"}),
)


def main(session: requests.Session, tap: str, adql: str, to: Path) -> None:
    """Run an astronomer's query."""
    with operation("query", deadline=3600, session=session, provider=JOBS) as op:
        job = op.submit("POST", f"{tap}/async", data={"LANG": "ADQL", "QUERY": adql})

        def start() -> int:
            return session.post(f"{job.status_url}/phase", data={"PHASE": "RUN"}).status_code

        op.once("start", start)
        op.download(op.poll(job), to=to)
