"""Progress in words: an event as a line, seconds, bytes and foreign texts as they can be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trihop._events import Event


def line(event: Event) -> str | None:
    """The event as a line; None where it is not worth one."""
    told = _told(event)
    return None if told is None else printable(told)


def _told(event: Event) -> str | None:
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
            return f"finished after {duration(event.elapsed)}, {polls(event.polls)}"
        case "ended" if event.left:
            still = "" if event.hop is None else "; the job may still finish"
            return f"left after {duration(event.elapsed)}{'; its key goes on with it' if event.resumable else still}"
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


def seconds_as(seconds: float) -> str:
    """Seconds by themselves, to the digits that matter.

    >>> [seconds_as(s) for s in (3600, 0.166019, 27.8402, 1234567.8, 0)]
    ['3600 s', '0.17 s', '27.8 s', '1234567.8 s', '0 s']
    """
    return f"{seconds:.{2 if seconds < 10 else 1}f}".rstrip("0").rstrip(".") + " s"


def polls(number: int) -> str:
    """So many polls.

    >>> polls(1), polls(12)
    ('1 poll', '12 polls')
    """
    return f"{number} poll{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """A foreign text in one line that a terminal shows and does not obey, and that every encoding has.

    >>> print(printable("run\\nning \\x1b[31m \\ud800 é"))
    run ning \\x1b[31m \\ud800 é
    """
    if text.isprintable():
        return text
    from unicodedata import category

    shown = (
        one if one.isprintable() or category(one) == "Zs" else one.encode("unicode_escape").decode() for one in text
    )
    return "".join(" " if one in ("\\n", "\\r", "\\t") else one for one in shown)


def command_line(verb: str, key: str) -> str:
    """What to type about the operation of that key.

    >>> print(command_line("forget", "nightly"), command_line("resume", "it's 1"), command_line("show", "-v"))
    `trihop forget nightly` `trihop resume 'it'"'"'s 1'` `trihop show -- -v`
    """
    from shlex import quote

    return f"`trihop {verb} {'-- ' if key.startswith('-') else ''}{quote(printable(key))}`"


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
