"""A status monitor that answers with one word of plain text."""

from __future__ import annotations

import requests

from trihop import Provider, ReadState, Result, operation, text

PLAIN = Provider(
    "example.plain",
    status="{status_url}/state",
    poll=ReadState(
        text,
        pending={"queued", "running"},
        succeeded={"done"},
        failed={"failed"},
        results=[Result("{status_url}/result")],
    ),
)


def main(session: requests.Session, api: str) -> str:
    """Have a report written, and return its text."""
    with operation("report", deadline=600, session=session, provider=PLAIN) as op:
        return op.run("POST", f"{api}/reports").text
