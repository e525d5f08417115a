"""An export whose end is a manifest of many files, some of them behind the API's own sign-in."""

from __future__ import annotations

from pathlib import Path

import requests

from trihop import (
    Call,
    Download,
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


def poll(reply: Reply, job: Job) -> PollVerdict:
    """202 while it goes on; then a manifest that says which files there are, and whether they want the token."""
    if reply.status_code == 202:
        return Pending("in-progress", message=reply.headers.get("X-Progress"))
    manifest = reply.json()
    signed_in = manifest.get("requiresAccessToken")
    return Succeeded(
        "complete",
        results=[
            Result(
                Call("GET", entry["url"], credentials="always" if signed_in else "never"),
                name=f"{kind}-{entry['type']}",
            )
            for kind in ("output", "deleted", "error")
            for entry in manifest.get(kind, [])
        ],
    )


EXPORT = Provider(
    "example.export",
    submit=ReadJob(status_url=header("Content-Location")),
    status=Call("GET", "{status_url}", headers={"Accept": "application/json"}),
    poll=poll,
    cancel=Call("DELETE", "{status_url}"),
)


def main(session: requests.Session, base: str, into: Path) -> dict[str, Download]:
    """Export all patients into a folder: output-Patient.ndjson, output-Patient-2.ndjson and so on."""
    with operation("export", deadline=6 * 3600, session=session, provider=EXPORT) as op:
        job = op.submit(
            "GET",
            f"{base}/Patient/$export",
            headers={"Accept": "application/fhir+json", "Prefer": "respond-async"},
        )
        return op.download(op.poll(job), into=into)
