"""A nightly export from cron: killed, re-run, redeployed, and submitted once."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import requests

from trihop import DeadlineExceeded, OperationTaken, Provider, ReadJob, ReadState, Store, operation

EXPORTS = Provider(
    "acme.exports",
    submit=ReadJob("id"),
    poll=ReadState("state", pending={"queued", "running"}, succeeded={"done"}, failed={"failed"}, results="result_url"),
    idempotency="Idempotency-Key",
)


def main(session: requests.Session, api: str, store: Store, day: date, folder: Path) -> int:
    """Export a day; the exit code for cron. `store` is `SQLStore("sqlite:////var/lib/exports/operations.db")`."""
    key = f"accounts-{day}"
    try:
        with operation(
            "nightly accounts", deadline=timedelta(hours=6), session=session, provider=EXPORTS, key=key, store=store
        ) as op:
            op.run("POST", f"{api}/exports", json={"day": f"{day}"}, to=folder / f"{key}.csv")
    except OperationTaken as taken:
        print(taken)  # last night's run is still at it
        return 0
    except DeadlineExceeded as late:
        print(late)  # the same command again waits on, with a new deadline
        return 75
    return 0
