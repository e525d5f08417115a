"""The loop of existing_loop.py handed over: a table of words for the API, and the three hops in three lines, or one."""

from __future__ import annotations

from pathlib import Path

import requests

from trihop import Download, Provider, ReadState, operation

EXPORTS = Provider(
    "acme.exports",
    poll=ReadState("state", pending={"Queued", "InProgress"}, succeeded={"Done"}, failed={"Failed"}, results="file"),
)


def hop_by_hop(session: requests.Session, api: str, query: dict[str, object], to: Path) -> Download:
    """Where something is to happen in between."""
    with operation("export", deadline=1800, session=session, provider=EXPORTS) as op:
        job = op.submit("POST", f"{api}/jobs", json=query)
        ready = op.poll(job)
        return op.download(ready, to=to)


def in_one_line(session: requests.Session, api: str, query: dict[str, object], to: Path) -> Download:
    """Where nothing is."""
    with operation("export", deadline=1800, session=session, provider=EXPORTS) as op:
        return op.run("POST", f"{api}/jobs", json=query, to=to)
