"""Exports over Celery: no worker sleeps for a job, as each message is one submit, one poll or one download.

The commands are in docs/engines.md.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta

import requests
from celery import Celery

from trihop import Operation, OperationTaken, Provider, ReadJob, ReadState, Ready, SQLStore, Worker, operation
from trihop.engines.celery import install

API = os.environ.get("EXPORTS_API", "http://127.0.0.1:8000")
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

app = Celery("exports", broker=os.environ.get("EXPORTS_BROKER", "redis://127.0.0.1:6379/0"))
store = SQLStore(os.environ.get("EXPORTS_STORE", "sqlite:///exports.db"))


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
step, dispatch = install(app, worker)


@app.task(acks_late=True)
def start(day: str) -> None:
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
        pass  # the message came twice
