"""The twelve scenes: cause, hop, wait and next step from the trace alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Pen, bad, good, polled, success
from twelve import TWELVE

from trihop.viewer import notes, read, story


def told(text: bytes) -> str:
    (trace,) = read(text.splitlines(keepends=True)).traces
    return "\n".join(story(trace.operations[0]).lines)


@pytest.mark.parametrize(("scene", "expected"), TWELVE.items(), ids=[scene.__name__ for scene in TWELVE])
def test_a_scene_is_explained_by_its_trace(scene: Callable[[], bytes], expected: tuple[str, ...]):
    """Each of the words that explain the scene is in its two lines, and the second says what next."""
    text = told(scene())

    assert [words for words in expected if words not in text] == []
    assert text.splitlines()[1].startswith("Next: ")


def test_a_success_is_told_in_one_line():
    """Where all went well there is nothing to do next; a poll that was made good is mentioned."""
    assert told(success()).splitlines() == [
        "export succeeded in 6.42 s: 5 polls (one of them failed and was made good), 1.24 MB downloaded. "
        "It waited 5.80 s of the 6.06 s of polling."
    ]


def test_a_refused_pause_is_told_where_the_message_does_not():
    """What was asked for and what was left, from the attributes."""
    pen = Pen()
    told_at_end = {
        "trihop.operation.result": "timeout",
        "error.type": "DeadlineExceeded",
        "trihop.deadline.remaining": 900.0,
    }
    with pen.root(5.0, told_at_end, error="no result in time") as root:
        pen.hop("poll", root, 0, 5, polled(1, waited=4, state="Queued") | {"trihop.wait.refused": 3600.0})

    assert "asked for a pause of 1 h; 15 m were left" in told(pen.lines)


def test_the_servers_code_is_not_said_twice():
    """A message that begins with the code is told as it is."""
    pen = Pen()
    said = {"trihop.job.error.code": "INVALID_FIELD", "trihop.job.error.message": "INVALID_FIELD: no such column"}
    with pen.root(5.0, {"error.type": "JobFailed", **said}, error="failed"):
        pass

    assert told(pen.lines).count("INVALID_FIELD") == 1


def test_an_error_that_was_made_good_is_not_quoted():
    """The advice quotes the last reply only where that reply is what failed."""
    pen = Pen()
    attributes = {
        "trihop.operation.result": "timeout",
        "trihop.operation.ended_in": "poll",
        "error.type": "DeadlineExceeded",
    }
    events = [(1.0, bad(1, headers={"x-request-id": "r1"})), (2.0, good(2))]
    with pen.root(5.0, attributes, error="no result in time") as root:
        pen.hop("poll", root, 0, 5, polled(2, errors=1, waited=4, state="Queued"), attempts=events)

    assert "r1" not in told(pen.lines)


def test_without_its_root_an_operation_is_told_as_unfinished():
    """A file that ends before the root tells what was seen last, and that nothing is decided."""
    pen = Pen()
    pen.hop("poll", None, 0, 5, polled(4, waited=4, state="InProgress"), attempts=[(1.0, good(1))])

    assert "not in the file (last seen in poll export, state InProgress)" in told(pen.lines)


def test_an_interrupted_operation_is_no_failure():
    """Ctrl-C leaves the job at the server, which is what there is to say."""
    pen = Pen()
    with pen.root(2.0, {"trihop.operation.result": "cancellation", "trihop.operation.ended_in": "poll"}):
        pass

    assert "with cancellation" in told(pen.lines)
    assert "cancel it there" in told(pen.lines)


def test_the_callers_own_exception_is_named():
    """An exception from inside the block is the caller's to explain."""
    pen = Pen()
    attributes = {"trihop.operation.result": "error", "trihop.operation.ended_in": "poll", "error.type": "app.Oops"}
    with pen.root(2.0, attributes, error="nothing left"):
        pass

    assert "with app.Oops: nothing left" in told(pen.lines)
    assert "the caller's own" in told(pen.lines)


def test_an_error_is_noted_once_where_it_happened():
    """The root repeats its hop's error in its attributes; a reader sees it at the hop."""
    (trace,) = read(next(iter(TWELVE))().splitlines(keepends=True)).traces
    root, poll = trace.spans[0], trace.operations[0].hop("poll")
    assert poll is not None

    assert not any(note.text.startswith("JobFailed") for note in notes(root, trace))
    assert any(note.text.startswith("JobFailed") for note in notes(poll, trace))


def test_a_foreign_span_says_no_more_than_its_error_and_its_request():
    """Spans of other instrumentation are drawn, not interpreted."""
    pen = Pen()
    pen.span("SELECT", None, 0, 1, {"db.system": "postgresql", "http.request.method": "GET"}, error="x" * 9_000)
    (trace,) = read(pen.lines.splitlines(keepends=True)).traces

    assert [note.sort for note in notes(trace.spans[0], trace)] == ["error", "request"]
    assert len(notes(trace.spans[0], trace)[0].text) == 512
