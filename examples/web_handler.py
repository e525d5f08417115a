"""A web handler answers 202 at once, a worker goes on, and a webhook makes the next poll happen now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests

from trihop import Operation, OperationError, Provider, ReadJob, ReadState, Ready, Store, Worker, operation, wake

EXPORTS = Provider(
    "acme.exports",
    submit=ReadJob("id"),
    poll=ReadState("state", pending={"queued", "running"}, succeeded={"done"}, failed={"failed"}, results="result_url"),
    idempotency="Idempotency-Key",
)


def post_export(session: requests.Session, api: str, store: Store, key: str) -> tuple[dict[str, str], int]:
    """The handler: with a store the block is a visit, and the operation goes on when it is left."""
    try:
        with operation("export", deadline=3600, session=session, provider=EXPORTS, key=key, store=store) as op:
            op.submit("POST", f"{api}/exports", json={"query": "all"}, timeout=5)
    except OperationError as error:
        return {"error": str(error), "trace": error.trace_id or ""}, 502
    return {"operation": key}, 202


def job_has_ended(store: Store, event: dict[str, Any]) -> tuple[str, int]:
    """The webhook, once its signature is verified; the poll stays the judge."""
    wake(store, job_id=event["job"]["id"])
    return "", 204


def worker(session: requests.Session, store: Store, folder: Path) -> Worker:
    """The worker of another process; `worker(…).run()`, or `trihop worker --app MODULE:WORKER`."""

    def finish(op: Operation, ready: Ready) -> None:
        op.download(ready, to=folder / f"{op.key}.csv")

    return Worker(store, session=session, finish=finish, providers=[EXPORTS])
