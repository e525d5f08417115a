"""How far an answer goes, found out while it arrives, by the rules of http.client and urllib3."""

from __future__ import annotations

import re
from collections.abc import Generator
from itertools import repeat

Reading = Generator[bool, None, None]
"""Reads along with what arrives: a step while more is to come, the end where the answer ends.

A step tells whether it makes nothing of it: http.client and urllib3 may complain at
once, or take it in their own way, so they are to be asked.
"""


_STATUS = re.compile(rb"HTTP/1\.\d+[ \t]+(\d\d\d)\s")
_LENGTHS = re.compile(rb"\ncontent-length[ \t]*:(.*)", re.IGNORECASE)
_CODINGS = re.compile(rb"\ntransfer-encoding[ \t]*:(.*)")
_SIZE = re.compile(rb"[ \t]*(\d{1,18})[ \t]*\r?")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")
_INTERIM, _BODILESS = b"100", (b"1", b"204", b"304")


def reading(arrived: bytes | bytearray) -> Reading:
    """Read along with what is appended to `arrived`.

    >>> arrived = bytearray(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{")
    >>> along = reading(arrived)
    >>> next(along, "over")
    False
    >>> arrived += b"}"
    >>> next(along, "over")
    'over'
    """
    status, end = _INTERIM, 0
    while status == _INTERIM:  # http.client takes any other of these for the answer
        begin = end
        line = bytes(arrived[begin : (yield from _after(b"\n", arrived, begin))])
        found = _STATUS.match(line)
        if found is None:
            yield from repeat(True)
        assert found is not None
        status = found[1]
        while (end := _end_of_head(arrived, begin)) < 0:
            yield False
    head = bytes(arrived[begin:end])
    if b"chunked" in (coding.strip() for line in _CODINGS.findall(head.lower()) for coding in line.split(b",")):
        yield from _chunks(arrived, end)
    elif not status.startswith(_BODILESS):
        sizes = _LENGTHS.findall(head)
        size = _SIZE.fullmatch(sizes[0]) if len(sizes) == 1 else None
        if size is None:
            yield from repeat(bool(sizes))
        assert size is not None
        while len(arrived) < end + int(size[1]):
            yield False


def _end_of_head(arrived: bytes | bytearray, begin: int) -> int:
    ends = [at + len(mark) for mark in (b"\n\r\n", b"\n\n") if (at := arrived.find(mark, begin)) >= 0]
    return min(ends, default=-1)


def _chunks(arrived: bytes | bytearray, at: int) -> Reading:
    """RFC 9112 section 7.1."""
    while True:
        end = yield from _after(b"\n", arrived, at)
        digits = bytes(arrived[at:end]).partition(b";")[0].strip()
        if _HEX.fullmatch(digits) is None:
            yield from repeat(True)
        if int(digits, 16) == 0:
            break
        at = end + int(digits, 16) + 2
        while len(arrived) < at:
            yield False
    while bytes(arrived[at:end]) != b"\r\n":  # what follows the last one: trailers, and an empty line
        at, end = end, (yield from _after(b"\n", arrived, end))


def _after(mark: bytes, arrived: bytes | bytearray, begin: int) -> Generator[bool, None, int]:
    """Where the next `mark` ends."""
    while (at := arrived.find(mark, begin)) < 0:
        yield False
    return at + len(mark)
