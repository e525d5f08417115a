"""Progress in words: an event as a line, seconds and bytes as people say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trihop._events import Event


def line(event: Event) -> str | None:
    """The event as a line; None where it is not worth one."""
    match event.kind:
        case "started":
            return "started"
        case "submitted":
            return f"submitted, job {event.job_id}" if event.job_id else "submitted"
        case "polled" | "state_changed":
            parts = [event.state or "no answer"]
            if event.progress is not None:
                parts.append(f"{event.progress:g} %")
            parts.append(f"poll {event.polls}, {duration(event.elapsed)} elapsed")
            if event.message:
                parts.append(event.message)
            return ", ".join(parts)
        case "downloading":
            total = f" of {size(event.bytes_total)}" if event.bytes_total else ""
            return f"downloaded {size(event.bytes_done)}{total}"
        case "finished":
            return f"finished after {duration(event.elapsed)}, {event.polls} polls"
        case "ended":
            return f"ended after {duration(event.elapsed)}: {event.message}"
        case _:
            return None


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(7.25), duration(90), duration(7260)
    ('7.2 s', '1 min 30 s', '2 h 01 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def size(size_bytes: float | None) -> str:
    """Bytes as people say them.

    >>> size(999), size(1_500_000)
    ('999 B', '1.5 MB')
    """
    amount = float(size_bytes or 0)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
