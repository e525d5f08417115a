"""Progress: what `on_event=` is told, and `show`, which draws or prints it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

from trihop._progress.lines import line

if TYPE_CHECKING:
    from trihop._progress.bars import Board

EventKind = Literal["started", "submitted", "polled", "state_changed", "waiting", "downloading", "finished", "ended"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in an operation.

    Args:
        kind: started, submitted, polled (same state as before: the heartbeat),
            state_changed, waiting, downloading, finished (well), ended (not well, or
            `left`). A plain text, so that code which knows a later kind is no type error.
        operation, operation_id, key: Which operation.
        hop: submit, poll or download; None outside of them.
        job_id, state: The server's part, as far as it is known.
        polls: How often the status monitor was asked.
        elapsed: Seconds since the operation began.
        next_poll_in: Seconds until the next poll, where one is planned.
        progress: Percent done, where the API says it.
        bytes_done, bytes_total: Of a download; the total where it was announced.
        message: What the server, or the error, says.
        left: Whether it ended neither well nor badly: the block was left, such as by
            Ctrl-C, and the job, if it was submitted, may go on.
        resumable: Whether it was left with a record, so that its key goes on with it.
    """

    kind: str
    operation: str
    operation_id: str
    key: str | None = None
    hop: str | None = None
    job_id: str | None = None
    state: str | None = None
    polls: int = 0
    elapsed: float = 0.0
    next_poll_in: float | None = None
    progress: float | None = None
    bytes_done: int = 0
    bytes_total: int | None = None
    message: str | None = None
    left: bool = False
    resumable: bool = False


def show(event: Event, *, to: TextIO | None = None) -> None:
    """Show how an operation goes, on standard error; for `on_event=`.

    On a terminal and in a notebook a line with a bar for the poll and one for the
    download, kept up to date; they need `rich`, of the extra `cli`. Elsewhere, in
    CI, on a pipe or without `rich`, plain lines; repeated polls in the same state
    are thinned out, so that a job of many hours does not fill a log.

    Args:
        event: What happened.
        to: Where plain lines go instead, wherever that is.
    """
    board = _board() if to is None else None
    if board is not None:
        board.show(event)
        return
    if event.kind == "polled" and event.polls > 10 and event.polls % 10:
        return
    told = line(event)
    if told is not None:
        print(f"{event.operation}: {told}", file=sys.stderr if to is None else to, flush=True)


def _board() -> Board | None:
    """Where bars can be drawn; None where they cannot."""
    if os.environ.get("CI") or os.environ.get("TERM") == "dumb":
        return None
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not is_terminal and "ipykernel" not in sys.modules:
        return None
    try:
        from trihop._progress.bars import board
    except ImportError:  # rich is an extra
        return None
    return board()
