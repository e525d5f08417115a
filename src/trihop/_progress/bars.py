"""Progress as bars, on a terminal or in a notebook: a line for the poll, one for the download; of many, one for all."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from trihop._progress.crowd import Crowd
from trihop._progress.lines import duration, line, printable, size

if TYPE_CHECKING:
    from trihop._events import Event

_SHORTEST_RATE_S = 0.5
_MOST_IN_ROWS = 8
_MOST_ENDINGS = 10


class _Told(ProgressColumn):
    """What the bar does not say."""

    max_refresh = 0.25

    def render(self, task: Task) -> Text:
        """State and polls; or bytes, rate and what is left."""
        if "crowd" in task.fields:
            return Text(printable(str(task.fields["crowd"])))
        return Text(", ".join(_of_download(task) if task.fields["of_bytes"] else _of_poll(task)))


def _of_poll(task: Task) -> list[str]:
    told = [printable(task.fields["state"])]
    if task.total is not None and not task.finished:
        told.append(f"{task.completed:.0f} %")
    if task.fields["polls"]:
        told.append(f"poll {task.fields['polls']}")
    return [*told, f"{duration(task.elapsed or 0.0)} elapsed"]


def _of_download(task: Task) -> list[str]:
    came = size(task.completed)
    told = [came if task.total is None or task.finished else f"{came} of {size(task.total)}"]
    seconds = task.elapsed or 0.0
    rate = task.completed / seconds if seconds >= _SHORTEST_RATE_S else None
    if rate:
        told.append(f"{size(rate)}/s")
    if task.finished:
        told.append(duration(seconds))
    elif rate and task.total is not None:
        told.append(f"{duration((task.total - task.completed) / rate)} left")
    return told


@dataclass(slots=True)
class _Rows:
    """The lines of one operation."""

    poll: TaskID
    download: TaskID | None = None


class Board:
    """The bars of all operations that are open in this process.

    Args:
        console: Where they are drawn.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._rows: dict[str, _Rows] = {}
        self._crowds: dict[str, Crowd] = {}
        self._lines: dict[str, TaskID] = {}
        self._open_ids: set[str] = set()
        self._progress: Progress | None = None

    def show(self, event: Event) -> None:
        """Bring the bars up to date."""
        with self._lock:
            self._crowds.setdefault(event.operation, Crowd()).take(event)
            if sum(crowd.seen for crowd in self._crowds.values()) > _MOST_IN_ROWS:
                self._show_crowd(event)
            elif event.kind in ("finished", "ended"):
                self._close(event)
            else:
                progress = self._open()
                rows = self._rows.get(event.operation_id)
                if rows is None:
                    rows = self._rows[event.operation_id] = _Rows(self._row(progress, event.operation, of_bytes=False))
                self._update(progress, rows, event)

    def _open(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(
                SpinnerColumn(finished_text="[green]✓"),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                _Told(),
                console=self._console,
            )
            self._progress.start()
        return self._progress

    def _show_crowd(self, event: Event) -> None:
        """One line for all operations of a name: more rows than a terminal has are none."""
        progress = self._open()
        if self._rows:
            self._open_ids = set(self._rows)
            for task in list(progress.task_ids):
                progress.remove_task(task)
            self._rows.clear()
        for name, crowd in self._crowds.items():
            if name not in self._lines:
                self._lines[name] = progress.add_task(name, total=crowd.seen, crowd=crowd)
        crowd = self._crowds[event.operation]
        progress.update(self._lines[event.operation], total=crowd.seen, completed=crowd.over)
        if event.kind in ("finished", "ended"):
            self._open_ids.discard(event.operation_id)
        else:
            self._open_ids.add(event.operation_id)
        if event.kind == "ended" and not event.left and crowd.badly <= _MOST_ENDINGS:
            self._tell_ending(event)
        if not self._open_ids:
            self._stop()

    def _stop(self) -> None:
        if self._progress is not None:
            for column in self._progress.columns:
                if isinstance(column, ProgressColumn):
                    column.max_refresh = None  # what is drawn last is how it stands, not how it stood a moment ago
            self._progress.stop()
        self._progress = None
        self._crowds.clear()
        self._lines.clear()

    def _tell_ending(self, event: Event) -> None:
        name = event.operation if event.key is None else f"{event.operation} {event.key}"
        self._console.print(printable(f"{name}: {line(event)}"), markup=False, highlight=False)

    @staticmethod
    def _row(progress: Progress, name: str, *, of_bytes: bool) -> TaskID:
        return progress.add_task(name, total=None, of_bytes=of_bytes, state="started", polls=0)

    def _update(self, progress: Progress, rows: _Rows, event: Event) -> None:
        if event.kind != "downloading":
            state = event.state or ("submitted" if event.kind == "submitted" else None)
            fields: dict[str, Any] = {} if state is None else {"state": state}
            total = None if event.progress is None else 100.0
            progress.update(rows.poll, total=total, completed=event.progress or 0.0, polls=event.polls, **fields)
            return
        if rows.download is None:
            self._end(progress, rows.poll)
            rows.download = self._row(progress, f"download {event.operation}", of_bytes=True)
        progress.update(rows.download, total=event.bytes_total, completed=event.bytes_done)

    @staticmethod
    def _end(progress: Progress, row: TaskID) -> None:
        task = progress.tasks[progress.task_ids.index(row)]
        done = task.completed if task.fields["of_bytes"] else 100.0
        progress.update(row, total=done, completed=done)
        progress.stop_task(row)

    def _close(self, event: Event) -> None:
        rows, progress = self._rows.pop(event.operation_id, None), self._progress
        if rows is not None and progress is not None:
            for row in (rows.poll, rows.download):
                if row is not None and event.kind == "finished":
                    self._end(progress, row)
                elif row is not None:
                    progress.stop_task(row)
        if not self._rows:
            self._stop()
        if event.kind == "ended":
            self._tell_ending(event)


_boards: list[Board] = []


def board() -> Board:
    """The one of this process."""
    if not _boards:
        _boards.append(Board(Console(stderr=True)))
    return _boards[0]
