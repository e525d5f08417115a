"""A hundred exports at once: each with its own trace, deadline and record, by eight threads in all."""

from __future__ import annotations

from pathlib import Path

import requests

from trihop import Call, Fleet, JobFailed, Store, show
from trihop.providers import salesforce


def main(session: requests.Session, api: str, objects: list[str], folder: Path, store: Store) -> list[str]:
    """Export every object; those the server could not export. Interrupted and run again, it goes on."""
    failed = []
    with Fleet(session=session, provider=salesforce.QUERY, store=store, on_event=show) as fleet:
        for name in objects:
            query = Call(
                "POST", f"{api}/jobs/query", json={"operation": "query", "query": f"SELECT FIELDS(ALL) FROM {name}"}
            )
            fleet.start("export", query, key=f"export-{name}", deadline=7200, to=folder / f"{name}.csv")
        for outcome in fleet.outcomes():  # as they end
            if isinstance(outcome.error, JobFailed):
                failed.append(outcome.key)
            elif outcome.error is not None:
                raise outcome.error  # leaves the block; the others can be gone on with
    return failed
