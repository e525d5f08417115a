"""The application's module for Celery; what a message waits longer for is handed out once more."""

from __future__ import annotations

import celery

from acceptance.crowd.app import GIVEN, begin, worker
from trihop.engines.celery import install

app = celery.Celery("crowd", broker=GIVEN["broker"])
app.conf.broker_transport_options = {"visibility_timeout": 4}
app.conf.broker_connection_retry_on_startup = True

step, dispatch = install(app, worker, every=0.5)


@app.task(name="crowd.start", acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def start(key: str) -> None:
    begin(key)
