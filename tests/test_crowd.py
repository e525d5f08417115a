"""Many operations in one line."""

import io
import re

import pytest
from rich.console import Console

from trihop import Event
from trihop._progress.bars import Board
from trihop._progress.crowd import Crowd


def events(kind, numbers, **more):
    return [Event(kind, "export", str(number), key=f"k{number}", **more) for number in numbers]


def test_a_crowd_is_counted_by_state():
    """What is over, what did not end well, and the commonest states of the others."""
    crowd = Crowd()
    told = [
        *events("started", range(20)),
        *events("polled", range(10), state="running"),
        *events("state_changed", range(10, 13), state="queued"),
        *events("downloading", [13], state="done"),
        *events("polled", [14], state="paused"),
        *events("finished", range(3), state="done"),
        *events("ended", [3], state="failed"),
    ]
    for event in told:
        crowd.take(event)

    assert str(crowd) == "4 of 20 over, 1 not well, 6 running, 5 started, 3 queued, 2 in other states"


def test_what_was_left_is_neither_well_nor_badly_over():
    """It is counted by itself, and what a record goes on with apart from what is merely left."""
    crowd = Crowd()
    told = [
        *events("started", range(10)),
        *events("finished", range(3), state="done"),
        *events("ended", [3], state="failed"),
        *events("ended", range(4, 8), left=True, resumable=True),
        *events("ended", [8], left=True),
    ]
    for event in told:
        crowd.take(event)

    assert (crowd.over, str(crowd)) == (4, "4 of 10 over, 1 not well, 4 can be gone on with, 1 left, 1 started")


@pytest.fixture
def screen():
    paper = io.StringIO()
    board = Board(Console(file=paper, force_terminal=True, width=120, color_system=None))
    return board, lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", paper.getvalue())


def test_more_than_eight_operations_share_a_line(screen):
    """The rows of the first ones give way to it; the board closes with the last of them."""
    board, drawn = screen
    for event in [*events("started", range(12)), *events("polled", range(12), state="running")]:
        board.show(event)
    board._progress.refresh()
    assert len(board._progress.tasks) == 1
    for event in events("finished", range(12)):
        board.show(event)

    assert board._progress is None
    last = [line for line in re.split(r"[\r\n]+", drawn()) if line.strip()][-1]
    assert last.split()[:2] == ["✓", "export"]
    assert last.rstrip().endswith("12 of 12 over")


def test_of_many_failures_the_first_are_told_by_their_keys(screen):
    """The others are counted."""
    board, drawn = screen
    for event in [*events("started", range(30)), *events("ended", range(30), message="the job failed")]:
        board.show(event)

    assert len(re.findall(r"export k\d+: ended after 0.0 s: the job failed", drawn())) == 10
    assert "30 of 30 over, 30 not well" in drawn()


def test_of_what_was_left_none_is_told_by_its_key(screen):
    """A crowd that is left is one line; a failure among it is told."""
    board, drawn = screen
    left = events("ended", range(1, 30), left=True, resumable=True)
    for event in [*events("started", range(30)), *left, *events("ended", [0], message="the job failed")]:
        board.show(event)

    assert re.findall(r"export k\d+: .*", drawn()) == ["export k0: ended after 0.0 s: the job failed"]
    assert "1 of 30 over, 1 not well, 29 can be gone on with" in drawn()
    assert board._progress is None


def test_the_last_that_is_drawn_is_how_it_stands(screen):
    """Also where all are left at once, a moment after the line was drawn, and none is over."""
    board, drawn = screen
    for event in [*events("started", range(12)), *events("polled", range(12), state="running")]:
        board.show(event)
    board._progress.refresh()
    for event in events("ended", range(12), left=True, resumable=True):
        board.show(event)

    last = [line for line in re.split(r"[\r\n]+", drawn()) if line.strip()][-1]
    assert last.rstrip().endswith("0 of 12 over, 12 can be gone on with")


def test_few_that_are_left_are_told_by_their_keys(screen):
    """And what comes of it: the key goes on with it, or it may have been submitted, or there is nothing of it."""
    board, drawn = screen
    for event in [
        *events("started", range(3)),
        *events("ended", [0], left=True, resumable=True),
        *events("ended", [1], left=True, hop="poll"),
        *events("ended", [2], left=True),
    ]:
        board.show(event)

    assert re.findall(r"export k\d+: .*", drawn()) == [
        "export k0: left after 0.0 s; its key goes on with it",
        "export k1: left after 0.0 s; the job may still finish",
        "export k2: left after 0.0 s",
    ]


def test_the_board_starts_afresh_when_all_are_over(screen):
    """Two operations after a crowd have rows again."""
    board, _ = screen
    for event in [*events("started", range(9)), *events("finished", range(9)), *events("started", range(2))]:
        board.show(event)

    assert len(board._progress.tasks) == 2
    for event in events("finished", range(2)):
        board.show(event)
