"""What `on_event=` is told, in which order."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from telling import ACCEPTED, API, CONTENT, Answer, done, export, in_turn, run, running, told

import trihop
import trihop._hops.run
from trihop import Event, JobFailed
from trihop.testing import VirtualClock

NAMED = told(202, {"id": "job-1"}, Location=f"{API}jobs/1")


def telling(clock: VirtualClock, answers: Sequence[Answer | BaseException], **options: Any) -> list[Event]:
    """The events of a triangle."""
    events: list[Event] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trihop._hops.run.uuid, "uuid4", lambda: _Id())
        with suppress(trihop.TrihopError):
            run(in_turn(*answers), clock, on_event=events.append, **options)
    return events


class _Id:
    hex = "0" * 32


def event(kind: Any, hop: str | None = None, elapsed: float = 0.0, **more: Any) -> Event:
    """An event of the operation `export`, whose id is all zeros."""
    return Event(kind, "export", "0" * 32, hop=hop, elapsed=elapsed, **more)


def test_a_triangle_is_told_from_start_to_finish(clock: VirtualClock):
    """Each step once, in order, with what is known by then: job, state, the pause to come, percent and bytes."""
    half = told(200, {"status": "running", "progress": 50, "message": "halfway"})
    answers = [NAMED, running(Retry_After="7"), told(503), half, done(message="there"), CONTENT]
    of: dict[str, Any] = {"job_id": "job-1"}
    now = {**of, "state": "running"}
    over = {**of, "state": "succeeded"}
    assert telling(clock, answers) == [
        event("started"),
        event("submitted", "submit", **of),
        event("waiting", "poll", next_poll_in=1.0, **of),
        event("state_changed", "poll", 1.0, polls=1, next_poll_in=7.0, **now),
        event("waiting", "poll", 1.0, polls=1, next_poll_in=7.0, **now),
        event("polled", "poll", 8.0, polls=2, next_poll_in=1.0, message="no answer (503)", **now),
        event("waiting", "poll", 8.0, polls=2, next_poll_in=1.0, **now),
        event("polled", "poll", 9.0, polls=3, next_poll_in=2.0, progress=50.0, message="halfway", **now),
        event("waiting", "poll", 9.0, polls=3, next_poll_in=2.0, progress=50.0, **now),
        event("state_changed", "poll", 11.0, polls=4, message="there", **over),
        event("downloading", "download", 11.0, polls=4, bytes_done=8, bytes_total=8, **over),
        event("finished", "download", 11.0, polls=4, **over),
    ]


def test_a_failure_is_told_as_the_end(clock: VirtualClock):
    """The last event is the ending, with what happened."""
    events = telling(clock, [NAMED, told(200, {"status": "failed", "error": "E1: no such column"})])
    assert [told_of.kind for told_of in events] == ["started", "submitted", "waiting", "state_changed", "ended"]
    assert events[-1] == event(
        "ended",
        "poll",
        1.0,
        job_id="job-1",
        state="failed",
        polls=1,
        message="the job failed, state 'failed': E1: no such column",
    )


def test_an_operation_that_never_reached_the_server_has_an_end_too(clock: VirtualClock):
    """Started and ended, and nothing made up in between."""
    assert [told_of.kind for told_of in telling(clock, [told(400)])] == ["started", "ended"]


def test_a_listener_that_fails_is_heard_no_more(clock: VirtualClock, caplog: pytest.LogCaptureFixture):
    """Its fault is logged once, and the operation goes on."""
    heard: list[str] = []

    def fail(told_of: Event) -> None:
        heard.append(told_of.kind)
        raise RuntimeError("a listener that fails")

    run(in_turn(ACCEPTED, running(), done(), CONTENT), clock, on_event=fail)
    assert heard == ["started"]
    assert [record.message for record in caplog.records] == [
        "operation export: on_event failed; it is not called again"
    ]


def test_the_key_is_told(clock: VirtualClock):
    """Whoever listens to many operations can tell them apart by the caller's own key."""
    events: list[Event] = []
    with export(in_turn(ACCEPTED), clock, key="nightly", on_event=events.append):
        pass
    assert {told_of.key for told_of in events} == {"nightly"}


def test_secrets_are_not_told(clock: VirtualClock):
    """A message of the server's that echoes a credential is redacted before anybody hears it."""
    session = in_turn(NAMED, told(200, {"status": "failed", "error": "bad token s3cr3t-token-of-ours"}))
    session.headers["X-Api-Key"] = "s3cr3t-token-of-ours"
    events: list[Event] = []
    with pytest.raises(JobFailed):
        run(session, clock, on_event=events.append)
    assert "s3cr3t" not in repr(events)


def test_show_prints_a_line_for_each_step(clock: VirtualClock, capsys: pytest.CaptureFixture[str]):
    """The ready-made listener: a line on standard error for each step, and none for a pause."""
    run(in_turn(NAMED, running(), done(), CONTENT), clock, on_event=trihop.show)
    assert capsys.readouterr().err.splitlines() == [
        "export: started",
        "export: submitted, job job-1",
        "export: running, poll 1, 1.0 s elapsed",
        "export: succeeded, poll 2, 2.0 s elapsed",
        "export: downloaded 8 B of 8 B",
        "export: finished after 2.0 s, 2 polls",
    ]


def test_show_thins_out_what_does_not_change(clock: VirtualClock):
    """A night of polls in one state does not fill a log: the first ten, then each tenth."""
    paper = io.StringIO()

    def listen(told_of: Event) -> None:
        trihop.show(told_of, to=paper)

    run(in_turn(NAMED, *[running()] * 100, done(), CONTENT), clock, on_event=listen, deadline=None)
    lines = paper.getvalue().splitlines()
    assert len([line for line in lines if "running" in line]) == 10 + 9
