"""Progress on a terminal: what the lines say, and when there are lines instead of bars."""

import io
import re
import sys

import pytest
from rich.console import Console

import trihop._events
from trihop import Event, show

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def screen():
    """A board on a terminal of 100 columns, and what it drew."""
    from trihop._progress.bars import Board

    paper = io.StringIO()
    board = Board(Console(file=paper, force_terminal=True, width=100, color_system=None))
    return board, lambda: ANSI.sub("", paper.getvalue())


def event(kind, **more):
    return Event(kind, "export", "0" * 32, **more)


def last_lines(drawn):
    """The last state of each line that was drawn, without its spinner and bar."""
    lines = [" ".join(line.split()) for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    return [re.sub(r"[━╸╺]+ ?", "", line) for line in lines]


def test_a_poll_and_a_download_are_a_line_each(screen):
    """State, polls and time of the poll; bytes of the download; both ticked off when all went well."""
    board, drawn = screen

    board.show(event("started"))
    board.show(event("state_changed", hop="poll", state="Running", polls=3, progress=40.0))
    board.show(event("downloading", hop="download", bytes_done=500, bytes_total=1000, state="done", polls=4))
    board.show(event("downloading", hop="download", bytes_done=1000, bytes_total=1000, state="done", polls=4))
    board.show(event("finished", hop="download", state="done", polls=4))

    poll, download = last_lines(drawn())[-2:]
    assert re.fullmatch(r"✓ export Running, poll 3, [\d.]+ s elapsed", poll)
    assert re.fullmatch(r"✓ download export 1.0 kB, [\d.]+ s", download)


def test_percent_is_told_where_the_api_gives_it(screen):
    """And bytes of how many while they come."""
    board, drawn = screen

    board.show(event("polled", state="Running", polls=3, progress=40.0))
    board._progress.refresh()
    assert "Running, 40 %, poll 3" in drawn()
    board.show(event("downloading", bytes_done=500, bytes_total=1000))
    board._progress.refresh()
    assert "500 B of 1.0 kB" in drawn()
    board.show(event("finished"))


def test_an_ending_says_why(screen):
    """The message stands below the bars, and its brackets are no markup."""
    board, drawn = screen

    board.show(event("started"))
    board.show(event("ended", elapsed=90.0, message="the job failed [bold]"))

    assert drawn().rstrip().endswith("export: ended after 1 min 30 s: the job failed [bold]")
    assert board._progress is None


def test_two_operations_share_the_screen(screen):
    """The bars go when the last of them has ended."""
    board, _ = screen

    board.show(Event("started", "a", "1"))
    board.show(Event("started", "b", "2"))
    board.show(Event("finished", "a", "1"))
    assert board._progress is not None
    board.show(Event("finished", "b", "2"))
    assert board._progress is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "bars"),
    [
        (Terminal, {}, True),
        (Terminal, {"CI": "true"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {}, False),
    ],
    ids=["a terminal", "CI", "a terminal that can only print", "a pipe"],
)
def test_bars_are_for_terminals(monkeypatch, stream, environment, bars):
    """Elsewhere there are plain lines."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stream())

    assert (trihop._events._board() is not None) is bars


def test_a_notebook_has_bars(monkeypatch):
    """Its standard error is no terminal, and draws them all the same."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    assert trihop._events._board() is not None


def test_without_rich_there_are_lines(monkeypatch):
    """It is an extra; nothing is missed but the bars."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setitem(sys.modules, "trihop._progress.bars", None)
    paper = Terminal()
    monkeypatch.setattr(sys, "stderr", paper)

    show(event("started"))

    assert paper.getvalue() == "export: started\n"
