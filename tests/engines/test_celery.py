"""Celery: what the two tasks do, and what they are told to its workers as."""

import celery
import pytest

from engines.missing import said_without
from trihop import Reply
from trihop.engines.celery import install


@pytest.fixture
def app():
    """Its messages are not sent but run at once."""
    app = celery.Celery("exports", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    app.conf.task_eager_propagates = True
    return app


def test_the_dispatcher_has_a_step_taken_of_what_is_due(app, worker, submitted, server, clock, finished):
    """A tick is a message for each operation that is due, and each message one step."""
    _, dispatch = install(app, worker)
    submitted("one")
    server.script(
        Reply(200, {"state": "running"}, headers={"Retry-After": "40"}), {"state": "done", "result_url": "/f"}
    )
    server.on("GET", "/f", b"a,b\n")
    asked = []
    for pause_s in (0, 30, 10, 0, 60):
        clock.advance(pause_s)
        dispatch.delay()
        asked.append(len(server.calls))

    assert asked == [2, 2, 3, 4, 4]
    assert finished == [("one", b"a,b\n")]


def test_a_tick_sends_one_message_an_operation(app, worker, submitted, server, monkeypatch):
    """However often it ticks before they have come."""
    step, dispatch = install(app, worker)
    sent = []
    monkeypatch.setattr(
        type(step._get_current_object()), "apply_async", lambda self, args, kw, **how: sent.append((args, how))
    )
    submitted("one")
    submitted("two")
    for _ in range(3):
        dispatch.run()

    assert sent == [(("one",), {}), (("two",), {})]


def test_a_message_that_comes_twice_asks_nothing(app, worker, submitted, server):
    """Nor one that comes early, or for what is not known."""
    step, _ = install(app, worker)
    submitted("one")
    server.script({"state": "running"})
    for key in ("one", "one", "one", "unheard of"):
        step.delay(key)

    assert [call.method for call in server.calls] == ["POST", "GET"]


def test_a_step_is_acknowledged_when_it_is_over(app, worker):
    """Under names that `task_routes` can tell; nothing of it is kept as a result, and no delay is ever asked for."""
    step, dispatch = install(app, worker, every=0.5)

    assert (step.name, step.acks_late, step.ignore_result) == ("trihop.step", True, True)
    assert (dispatch.name, dispatch.ignore_result) == ("trihop.dispatch", True)
    assert app.conf.beat_schedule["trihop.dispatch"] == {
        "schedule": 0.5,
        "task": "trihop.dispatch",
        "args": (),
        "kwargs": {},
        "options": {"expires": 5.0},
    }


def test_a_set_up_that_comes_later_keeps_the_dispatcher(worker):
    """An application may read its settings after its tasks were made."""
    app = celery.Celery("exports", set_as_current=False)
    install(app, worker)
    app.config_from_object({"broker_url": "memory://", "timezone": "Europe/Berlin"})

    assert "trihop.dispatch" in app.conf.beat_schedule
    assert app.conf.timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"app": "exports"}, r"install\(app\) takes a Celery application, got str"),
        ({"worker": "exports"}, r"install\(worker\) takes a trihop\.Worker"),
    ],
)
def test_what_is_no_application_and_no_worker_is_refused(app, worker, given, said):
    """At once, and by name."""
    with pytest.raises(TypeError, match=said):
        install(**{"app": app, "worker": worker, **given})


@pytest.mark.parametrize("every", [0, -1.0, float("nan"), float("inf")])
def test_a_dispatcher_that_would_never_rest_or_never_look_is_refused(app, worker, every):
    """Seconds between two looks are more than none."""
    with pytest.raises(ValueError, match=r"install\(every=\) takes seconds, more than 0"):
        install(app, worker, every=every)


def test_an_application_has_one_worker(app, worker):
    """Celery would keep the first one's task under the name, and the second's operations wait for ever."""
    install(app, worker)
    with pytest.raises(ValueError, match="has its worker already"):
        install(app, worker)


def test_without_celery_the_error_has_the_line_that_installs_it():
    """Nothing else of trihop needs it."""
    assert said_without("celery") == (
        "ModuleNotFoundError: trihop.engines.celery needs celery: pip install 'trihop[celery]'"
    )
