"""Celery's workers take the steps, on whatever broker it has.

Celery keeps a message that waits in a worker's memory, and a broker with a
visibility timeout (Redis, SQS) hands it out once more after that: a delay beyond
the timeout multiplies. So no message is sent before its step is due.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from weakref import WeakSet

from trihop._arguments import expect, told
from trihop._worker import Worker
from trihop.engines import DISPATCH, STEP, require

require("celery", extra="celery")

if TYPE_CHECKING:
    from celery import Celery, Task

_STALE_AFTER = 10
"""A tick of the dispatcher is dropped that many ticks later: those that a busy worker has not come to are of no use."""

_installed: WeakSet[Celery] = WeakSet()


def install(app: Celery, worker: Worker, *, every: float = 1.0) -> tuple[Task[[str], None], Task[[], None]]:
    """Register the task that takes a step, and the one that sends a message for each operation that is due.

        step, dispatch = install(app, worker)

    `celery -A exports worker` takes the steps, on as many machines as there are, and
    `celery -A exports beat` runs the dispatcher. A second beat does no harm.

    The tasks are called `trihop.step` and `trihop.dispatch`, for `task_routes`. A step
    is acknowledged when it is over (`acks_late`); what a killed worker was at goes on
    once its message has come again or its lease has passed, whichever is first.

    Args:
        app: Yours.
        worker: Its store, providers, sessions and `finish`. Give it a function as
            `session=`, as a session serves one process at a time.
        every: Seconds between two looks for what is due: how late a poll may be.

    Raises:
        TypeError: An argument is not what it should be.
        ValueError: `every` is no time to wait, or the application has a worker already.
    """
    if not hasattr(app, "add_periodic_task"):
        raise TypeError(f"install(app) takes a Celery application, got {told(app)}")
    expect(worker, Worker, "install(worker)", "a trihop.Worker")
    if not 0 < expect(every, (int, float), "install(every=)", "seconds, more than 0") < math.inf:
        raise ValueError(f"install(every=) takes seconds, more than 0, got {every}")
    if app in _installed:  # Celery keeps the first task of a name, and the second worker's would never run
        raise ValueError("install(app): this application has its worker already; one takes the steps of all providers")
    _installed.add(app)

    @app.task(name=STEP, acks_late=True, ignore_result=True)
    def step(key: str) -> None:
        worker.step(key)

    @app.task(name=DISPATCH, ignore_result=True)
    def dispatch() -> None:
        for key in worker.offer():
            step.delay(key)

    def schedule(**_: object) -> None:
        # By its name: a task that is looked at takes its options from the settings as they are then.
        app.add_periodic_task(every, app.signature(DISPATCH), name=DISPATCH, expires=_STALE_AFTER * every)

    schedule()
    app.on_after_configure.connect(schedule, weak=False)  # settings that are read later bring another schedule
    return step, dispatch
