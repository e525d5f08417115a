"""Procrastinate: what the three tasks do, on a queue in memory."""

import asyncio

import procrastinate
import pytest
from procrastinate.jobs import Status
from procrastinate.testing import InMemoryConnector

from engines.missing import said_without
from trihop import Reply
from trihop.engines.procrastinate import install


@pytest.fixture
def queue():
    """What is deferred, in memory."""
    return InMemoryConnector()


@pytest.fixture
def app(queue):
    """An application of its user's."""
    return procrastinate.App(connector=queue)


@pytest.fixture
def run(app):
    """Run what waits in the queue, and what that defers; nothing is periodic meanwhile."""

    def run():
        periodic, app.periodic_registry.periodic_tasks = app.periodic_registry.periodic_tasks, {}

        async def work():
            async with app.open_async():
                await app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=False)

        asyncio.run(work())
        app.periodic_registry.periodic_tasks = periodic

    return run


def names(queue):
    return [job["task_name"] for job in queue.jobs.values()]


def test_the_dispatcher_has_a_step_taken_of_what_is_due(app, run, worker, submitted, server, clock, finished):
    """A tick is a job for each operation that is due, and each job one step."""
    _, dispatch = install(app, worker)
    submitted("one")
    server.script(
        Reply(200, {"state": "running"}, headers={"Retry-After": "40"}), {"state": "done", "result_url": "/f"}
    )
    server.on("GET", "/f", b"a,b\n")
    asked = []
    for pause_s in (0, 30, 10, 0, 60):
        clock.advance(pause_s)
        dispatch.defer(timestamp=0)
        run()
        asked.append(len(server.calls))

    assert asked == [2, 2, 3, 4, 4]
    assert finished == [("one", b"a,b\n")]


def test_a_tick_defers_one_job_an_operation(app, queue, worker, submitted):
    """However often it ticks before they have run, and to the queue that was named."""
    _, dispatch = install(app, worker, queue="exports")
    submitted("one")
    submitted("two")
    for _ in range(3):
        dispatch(timestamp=0)

    assert [(job["task_name"], job["queue_name"], job["args"]) for job in queue.jobs.values()] == [
        ("trihop.step", "exports", {"key": "one"}),
        ("trihop.step", "exports", {"key": "two"}),
    ]
    assert all(job["scheduled_at"] is None for job in queue.jobs.values())


def test_one_tick_waits_at_a_time(app, worker):
    """Workers that are busy do not find a heap of them afterwards."""
    _, dispatch = install(app, worker)
    dispatch.defer(timestamp=0)
    with pytest.raises(procrastinate.exceptions.AlreadyEnqueued):
        dispatch.defer(timestamp=1)


@pytest.fixture
def stalled(app, queue):
    """Jobs that a worker fetched, and died."""

    def stalled(*tasks):
        for task in tasks:
            task.configure().defer(**({"key": "one"} if task.name == "trihop.step" else {}))

        async def die():
            async with app.open_async():
                worker_id = await app.job_manager.register_worker()
                while await app.job_manager.fetch_job(None, worker_id) is not None:
                    pass
                queue.workers[worker_id] = queue.workers[worker_id].replace(year=2000)

        asyncio.run(die())

    return stalled


@pytest.fixture
def rescue(app):
    """Run the rescue, outside the queue."""

    def rescue():
        async def go():
            async with app.open_async():
                context = procrastinate.JobContext(app=app, job=None, start_timestamp=0, abort_reason=lambda: None)
                await app.tasks["trihop.rescue"](context, timestamp=0)

        asyncio.run(go())

    return rescue


def test_the_rescue_takes_stalled_steps_away(app, queue, worker, stalled, rescue):
    """The store offers the operation again; a task that was named is run again, and one that was not is not ours."""
    step, _ = install(app, worker, rescue=["exports.start"])

    @app.task(name="exports.start")
    def start():
        pass

    @app.task(name="exports.other")
    def other():
        pass

    stalled(step, start, other)
    rescue()

    assert [(job["task_name"], job["status"]) for job in queue.jobs.values()] == [
        ("exports.start", Status.TODO.value),
        ("exports.other", Status.DOING.value),
    ]


def test_it_looks_every_second_or_as_often_as_it_is_told(app, worker):
    """And for stalled jobs every ten seconds."""
    install(app, worker, every=5)

    assert {name: task.cron for (name, _), task in app.periodic_registry.periodic_tasks.items()} == {
        "trihop.dispatch": "* * * * * */5",
        "trihop.rescue": "* * * * * */10",
    }


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"app": "exports"}, TypeError, r"install\(app\) takes a procrastinate\.App, got str"),
        ({"worker": "exports"}, TypeError, r"install\(worker\) takes a trihop\.Worker"),
        ({"every": 7}, ValueError, r"install\(every=\) takes a divisor of 60 seconds up to 30, got 7"),
        ({"every": 0.5}, TypeError, r"install\(every=\) takes whole seconds"),
        ({"queue": 3}, TypeError, r"install\(queue=\) takes the name of a queue, got 3"),
        ({"rescue": "exports.start"}, TypeError, r"install\(rescue=\) takes names of tasks, .*, got str"),
        ({"rescue": [print]}, TypeError, r"install\(rescue=\) takes names of tasks"),
        ({"stalled_after": 0}, ValueError, r"install\(stalled_after=\) takes seconds, more than 0, got 0"),
    ],
)
def test_what_cannot_be_is_refused(app, worker, given, error, said):
    """At once, and by name."""
    with pytest.raises(error, match=said):
        install(**{"app": app, "worker": worker, **given})


def test_without_procrastinate_the_error_has_the_line_that_installs_it():
    """Nothing else of trihop needs it."""
    assert said_without("procrastinate") == (
        "ModuleNotFoundError: trihop.engines.procrastinate needs procrastinate: pip install 'trihop[procrastinate]'"
    )
