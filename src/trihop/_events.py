"""Progress: what `on_event=` is told, and `show`, which prints it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, TextIO

EventKind = Literal["started", "submitted", "polled", "state_changed", "waiting", "downloading", "finished", "ended"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in an operation.

    Args:
        kind: started, submitted, polled (same state as before: the heartbeat),
            state_changed, waiting, downloading, finished (well), ended (not well).
            A plain text, so that code which knows a later kind is no type error.
        operation, operation_id, key: Which operation.
        hop: submit, poll or download; None outside of them.
        job_id, state: The server's part, as far as it is known.
        polls: How often the status monitor was asked.
        elapsed: Seconds since the operation began.
        next_poll_in: Seconds until the next poll, where one is planned.
        progress: Percent done, where the API says it.
        bytes_done, bytes_total: Of a download; the total where it was announced.
        message: What the server, or the error, says.
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


def show(event: Event, *, to: TextIO | None = None) -> None:
    """Print an event as a plain line on standard error; for `on_event=`.

    Repeated polls in the same state are thinned out, so that a job of many hours
    does not fill a log.
    """
    if event.kind == "polled" and event.polls > 10 and event.polls % 10:
        return
    line = _line(event)
    if line is not None:
        print(f"{event.operation}: {line}", file=sys.stderr if to is None else to, flush=True)


def _line(event: Event) -> str | None:
    match event.kind:
        case "started":
            return "started"
        case "submitted":
            return f"submitted, job {event.job_id}" if event.job_id else "submitted"
        case "polled" | "state_changed":
            parts = [event.state or "no answer"]
            if event.progress is not None:
                parts.append(f"{event.progress:g} %")
            parts.append(f"poll {event.polls}, {_duration(event.elapsed)} elapsed")
            if event.message:
                parts.append(event.message)
            return ", ".join(parts)
        case "downloading":
            total = f" of {_size(event.bytes_total)}" if event.bytes_total else ""
            return f"downloaded {_size(event.bytes_done)}{total}"
        case "finished":
            return f"finished after {_duration(event.elapsed)}, {event.polls} polls"
        case "ended":
            return f"ended after {_duration(event.elapsed)}: {event.message}"
        case _:
            return None


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _size(size: int | None) -> str:
    amount = float(size or 0)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
