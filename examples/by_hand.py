"""Hops by hand: an API that is asked by POST alone, so that nothing but the caller knows which request is which."""

from __future__ import annotations

import requests

from trihop import ReadState, operation

STATES = ReadState("state", pending={"QUEUED", "RUNNING"}, succeeded={"DONE"}, failed={"FAILED"}, error="reason")


def judged(session: requests.Session, api: str, sql: str) -> list[object]:
    """`hop.wait` judges each answer, sleeps until the next is due, and raises what the job came to."""
    with operation("query", deadline=600, session=session) as op:
        with op.hop("submit"):
            query = session.post(api, json={"do": "start", "sql": sql}).json()["id"]
        with op.hop("poll", surface=STATES) as hop:
            while hop.wait(session.post(api, json={"do": "state", "id": query})) is None:
                pass
        with op.hop("download"):
            rows: list[object] = session.post(api, json={"do": "rows", "id": query}).json()["rows"]
        return rows


def paced(session: requests.Session, api: str, sql: str) -> str:
    """A loop that judges by itself: its polls are one span all the same, and `op.sleep` keeps within the deadline."""
    with operation("query", deadline=600, session=session) as op:
        query = session.post(api, json={"do": "start", "sql": sql}).json()["id"]
        with op.hop("poll"):
            while (state := session.post(api, json={"do": "state", "id": query}).json()["state"]) in (
                "QUEUED",
                "RUNNING",
            ):
                op.sleep(10)
        return str(state)
