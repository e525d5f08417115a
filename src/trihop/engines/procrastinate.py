"""Procrastinate's workers take the steps; its queue is in PostgreSQL, and the records may be in the same database.

What a killed worker was at stays marked as being done for ever, as nobody but it
would say otherwise. A step needs no more than to be tidied away, as the store offers
the operation again; a task that enters a block has to be run again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from trihop._arguments import expect, told
from trihop._worker import Worker
from trihop.engines import DISPATCH, STEP, require

require("procrastinate", extra="procrastinate")

if TYPE_CHECKING:
    from procrastinate import App, JobContext
    from procrastinate.jobs import Job
    from procrastinate.manager import JobManager
    from procrastinate.tasks import Task
    from procrastinate.types import JSONDict

log = logging.getLogger("trihop")

RESCUE = "trihop.rescue"
_RESCUE_EVERY_S = 10


def install(
    app: App,
    worker: Worker,
    *,
    every: int = 1,
    queue: str = "default",
    rescue: Collection[str] = (),
    stalled_after: float = 30.0,
) -> tuple[Task[..., None, ...], Task[..., None, ...]]:
    """Register the task that takes a step, the one that defers a job for each operation due, and the rescue.

        step, dispatch = install(app, worker, rescue=["exports.start"])

    `procrastinate --app=exports.app worker` takes the steps, on as many machines as
    there are; each worker runs what is periodic, and the database sees to it that it
    runs once. The tasks are called `trihop.step`, `trihop.dispatch` and `trihop.rescue`.

    Args:
        app: Yours.
        worker: Its store, providers, sessions and `finish`. Give it a function as
            `session=`, as a session serves one thread at a time.
        every: Seconds between two looks for what is due, a divisor of 60: how late a
            poll may be.
        queue: Where all three are deferred to.
        rescue: Names of tasks of yours that may be run again when their worker died:
            those that enter the block of an operation.
        stalled_after: Seconds without a sign of life after which a worker counts as
            dead; several of its `update_heartbeat_interval`.

    Raises:
        TypeError: An argument is not what it should be.
        ValueError: `every` does not divide a minute, or `stalled_after` is no time.
    """
    if not hasattr(app, "periodic"):
        raise TypeError(f"install(app) takes a procrastinate.App, got {told(app)}")
    expect(worker, Worker, "install(worker)", "a trihop.Worker")
    if expect(every, int, "install(every=)", "whole seconds") not in range(1, 31) or 60 % every:
        raise ValueError(f"install(every=) takes a divisor of 60 seconds up to 30, got {every}")
    expect(queue, str, "install(queue=)", "the name of a queue")
    tasks = "names of tasks, such as ['exports.start']"
    if isinstance(rescue, str) or not isinstance(rescue, Collection):  # a text is a collection of letters
        raise TypeError(f"install(rescue=) takes {tasks}, got {told(rescue)}")
    for name in rescue:
        expect(name, str, "install(rescue=)", tasks)
    if not expect(stalled_after, (int, float), "install(stalled_after=)", "seconds, more than 0") > 0:
        raise ValueError(f"install(stalled_after=) takes seconds, more than 0, got {stalled_after}")

    @app.task(name=STEP, queue=queue)
    def step(*, key: str) -> None:
        worker.step(key)

    @app.periodic(cron=f"* * * * * */{every}")
    @app.task(name=DISPATCH, queue=queue, queueing_lock=DISPATCH)
    def dispatch(timestamp: int) -> None:
        due: list[JSONDict] = [{"key": key} for key in worker.offer()]
        if due:
            step.batch_defer(*due)

    @app.periodic(cron=f"* * * * * */{_RESCUE_EVERY_S}")
    @app.task(name=RESCUE, queue=queue, queueing_lock=RESCUE, pass_context=True)
    async def tidy(context: JobContext, timestamp: int) -> None:
        manager = context.app.job_manager
        for name in (STEP, DISPATCH, RESCUE, *rescue):
            for job in await manager.get_stalled_jobs(task_name=name, seconds_since_heartbeat=stalled_after):
                await _tidy(manager, job, again=name in rescue)

    return step, dispatch


async def _tidy(manager: JobManager, job: Job, *, again: bool) -> None:
    """Have a stalled job run again, or take it away."""
    from procrastinate.exceptions import ConnectorException, UniqueViolation
    from procrastinate.jobs import Status

    try:
        if again:
            try:
                await manager.retry_job(job)
                return
            except UniqueViolation:  # one like it waits already, under the same queueing lock
                pass
        await manager.finish_job(job, Status.ABORTED, delete_job=True)
    except ConnectorException as error:
        log.info("trihop: the stalled job %s was not tidied away: %s", job.id, error)  # another worker was faster
