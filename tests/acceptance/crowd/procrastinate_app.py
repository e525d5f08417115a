"""The application's module for Procrastinate; who gives no sign of life for three seconds counts as dead."""

from __future__ import annotations

import procrastinate

from acceptance.crowd.app import GIVEN, begin, worker
from trihop.engines.procrastinate import install

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=GIVEN["store"]),
    worker_defaults={
        "concurrency": 2,
        "delete_jobs": "successful",
        "fetch_job_polling_interval": 1.0,
        "update_heartbeat_interval": 0.5,
        "stalled_worker_timeout": 5.0,
    },
)

step, dispatch = install(app, worker, rescue=["crowd.start"], stalled_after=3.0)


@app.task(name="crowd.start")
def start(key: str) -> None:
    begin(key)
