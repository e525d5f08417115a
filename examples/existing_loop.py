"""Code that was there before: the block around it gives the trace and the deadline; a hop by hand judges as well."""

from __future__ import annotations

import time
from pathlib import Path

import requests

from trihop import ReadState, operation

STATES = ReadState("state", pending={"Queued", "InProgress"}, succeeded={"Done"}, failed={"Failed"}, results="file")


def untouched(session: requests.Session, api: str, query: dict[str, object]) -> bytes:
    """The loop as it was."""
    with operation("export", deadline=1800, session=session):
        accepted = session.post(f"{api}/jobs", json=query)
        status = accepted.headers["Location"]
        while session.get(status).json()["state"] in ("Queued", "InProgress"):
            time.sleep(5)
        return session.get(f"{status}/file").content


def by_hand(session: requests.Session, api: str, query: dict[str, object], to: Path) -> None:
    """The requests as they were; the pauses, the deadline and the endings are ours."""
    with operation("export", deadline=1800, session=session) as op:
        status = session.post(f"{api}/jobs", json=query).headers["Location"]
        with op.hop("poll", surface=STATES) as hop:
            ready = None
            while ready is None:
                ready = hop.wait(session.get(status))  # sleeps, or raises how it ended
        op.download(ready, to=to)
