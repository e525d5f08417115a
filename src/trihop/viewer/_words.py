"""Numbers and foreign text in a reader's words."""

from __future__ import annotations

import datetime as dt


def seconds(duration_s: float) -> str:
    """A length of time, to about three digits.

    >>> [seconds(s) for s in (0.0004, 0.312, 5.4, 42.34, 723, 7500, 100_000)]
    ['0.4 ms', '312 ms', '5.40 s', '42.3 s', '12 m 03 s', '2 h 05 m', '1 d 04 h']
    >>> [seconds(s) for s in (0, 1e-9, 60, 3600, -1.5)]
    ['0 s', '0 s', '1 m', '1 h', '-1.50 s']
    """
    if duration_s < 0:
        return f"-{seconds(-duration_s)}"
    if duration_s < 0.00995:
        return f"{duration_s * 1000:.1f} ms" if duration_s >= 0.00005 else "0 s"
    if duration_s < 0.9995:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 59.95:
        return f"{duration_s:.2f} s" if duration_s < 9.995 else f"{duration_s:.1f} s"
    for big, small, small_s, ratio, limit in (("m", "s", 1, 60, 60), ("h", "m", 60, 60, 24)):
        whole, rest = divmod(round(duration_s / small_s), ratio)
        if whole < limit:
            return f"{whole} {big} {rest:02} {small}" if rest else f"{whole} {big}"
    days, hours = divmod(round(duration_s / 3600), 24)
    return f"{days} d {hours:02} h" if hours else f"{days} d"


def clock(duration_s: float) -> str:
    """A length of time to the second, for columns.

    >>> clock(7019.6), clock(-3)
    ('1:56:59', '-0:00:03')
    """
    minutes, rest = divmod(int(abs(duration_s)), 60)
    return f"{'-' if duration_s < 0 else ''}{minutes // 60}:{minutes % 60:02}:{rest:02}"


def size(size_bytes: float) -> str:
    """A number of bytes in decimal units.

    >>> [size(n) for n in (0, 812, 1_240_000, 52e6, 3.2e12)]
    ['0 B', '812 B', '1.24 MB', '52.0 MB', '3.20 TB']
    """
    if size_bytes < 1000:
        return f"{size_bytes:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        size_bytes /= 1000
        if size_bytes < 999.5 or unit == "TB":
            break
    return f"{size_bytes:.{max(0, 2 - (size_bytes >= 9.995) - (size_bytes >= 99.95))}f} {unit}"


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "poll"), counted(10_000, "poll")
    ('1 poll', '10,000 polls')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def instant(at_ns: int) -> str:
    """A point in time, in UTC, to the second.

    >>> instant(1_772_366_405_600_000_000)
    '2026-03-01 12:00:05Z'
    """
    try:
        return f"{dt.datetime.fromtimestamp(at_ns // 10**9, tz=dt.timezone.utc):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return f"{at_ns} ns"


def plain(text: str) -> str:
    r"""Text from elsewhere on one line: white space as single spaces, all else that is not printable spelt out.

    A control sequence in a server's message must not reach a terminal.

    >>> plain("two\n lines, \x1b[31mred")
    'two lines, \\x1b[31mred'
    """
    words = " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in words)


def shortened(text: str, limit: int) -> str:
    """Text cut to so many characters, the cut marked by an ellipsis.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else f"{text[: max(limit - 1, 0)]}…"
