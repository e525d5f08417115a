"""Exports over Procrastinate: queue, schedule and records are in one PostgreSQL.

The commands are in docs/engines.md.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta

import procrastinate
import requests

from trihop import Operation, OperationTaken, Provider, ReadJob, ReadState, Ready, SQLStore, Worker, operation
from trihop.engines.procrastinate import install

API = os.environ.get("EXPORTS_API", "http://127.0.0.1:8000")
DATABASE = os.environ.get("EXPORTS_STORE", "postgresql://127.0.0.1/exports")
EXPORTS = Provider(
    "acme.exports",
    submit=ReadJob("id", status_url=None),
    status="query/{id}",
    poll=ReadState(
        "state",
        pending={"UploadComplete", "InProgress"},
        succeeded={"JobComplete"},
        failed={"Failed"},
        results="resultUrl",
        error="errorMessage",
    ),
)
_mine = threading.local()

# A job is a row for each step: those that went well are of no use afterwards.
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=DATABASE),
    worker_defaults={"delete_jobs": "successful", "concurrency": 4},
)
store = SQLStore(DATABASE)


def session_for(provider: str) -> requests.Session:
    """One for each thread of each process."""
    if not hasattr(_mine, "session"):
        _mine.session = requests.Session()
        _mine.session.headers["Authorization"] = f"Bearer {os.environ.get('EXPORTS_TOKEN', '')}"
    session: requests.Session = _mine.session
    return session


def finish(op: Operation, ready: Ready) -> None:
    """What is done with the results; twice, if the worker dies in it."""
    op.download(ready, to=f"{op.key}.csv")


worker = Worker(store, session=session_for, providers=[EXPORTS], finish=finish)
step, dispatch = install(app, worker, rescue=["exports.start"])


@app.task(name="exports.start")
def start(*, day: str) -> None:
    """Submit, and leave the rest to whoever is free."""
    try:
        with operation(
            "accounts",
            deadline=timedelta(hours=6),
            session=session_for(EXPORTS.name),
            provider=EXPORTS,
            key=f"accounts-{day}",
            store=store,
        ) as op:
            op.submit("POST", f"{API}/jobs/query", json={"operation": "query", "query": "SELECT Id FROM Account"})
    except OperationTaken:
        pass  # the job was run twice
