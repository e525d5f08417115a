"""The body of a streamed answer: its bytes as they are on the wire, quickly, and with their coding undone."""

from __future__ import annotations

import http.client
import io
import socket
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import requests
from urllib3 import HTTPResponse

from trihop._wire.network import BodyTruncated, check_length

Move = Callable[[int, int], int]

CHUNK_BYTES = 256 * 1024
GZIP = frozenset({"gzip", "x-gzip"})
_UNPACK = zlib.MAX_WBITS | 16

# A receive that brings less than this brought all that was there: what is read is handed on.
_A_TRICKLE = 8 * 1024


def on_the_wire(response: requests.Response, move: Move | None = None) -> Iterator[memoryview | bytes]:
    """The body as it was sent, its length checked at the end.

    A piece is good until the next one is asked for: it is a view of a buffer that is used again.

    Args:
        response: Its body unread.
        move: Moves at most so many bytes from a socket to where they belong, if nobody
            here has to see them; how many it moved. Each time an empty piece is yielded.

    Raises:
        requests.RequestException, OSError, urllib3 errors: It broke off; the pieces before are all that came.
        BodyTruncated: It is shorter than announced.
    """
    raw = response.raw
    source = getattr(raw, "_fp", None)
    if _is_plain(raw, source):
        yield from _received(raw, source, move)
    elif not hasattr(raw, "_fp_bytes_read"):  # a mock, or an adapter with a reader of its own
        yield from response.iter_content(CHUNK_BYTES)
    elif getattr(raw, "chunked", False) or not hasattr(raw, "read1"):  # urllib3 1.26 has no read1
        yield from raw.stream(CHUNK_BYTES, decode_content=False)
    else:
        # `read1` hands over what has come: of a body that drips until the deadline, `read` would lose up to a chunk.
        while data := raw.read1(CHUNK_BYTES, decode_content=False):
            yield data
    check_length(response)


def _is_plain(raw: Any, source: Any) -> bool:
    return (
        isinstance(source, http.client.HTTPResponse)
        and isinstance(source.fp, io.BufferedReader)
        and bool(source.length)  # neither chunked nor delimited by the end of the connection
        and getattr(raw, "_fp_bytes_read", None) == 0
    )


def _received(raw: Any, source: Any, move: Move | None) -> Iterator[memoryview | bytes]:
    """A body of known length into one buffer, past the readers of http.client and urllib3, whose counts are kept.

    Each of these would make a new object of each piece; on a fast line the
    system's work for that is a good part of the whole.
    """
    buffer = memoryview(bytearray(min(CHUNK_BYTES, source.length)))
    begin = source.fp.read1(source.length if source.length < CHUNK_BYTES else CHUNK_BYTES)  # what came with the headers
    buffer[: len(begin)] = begin
    receive = source.fp.raw.readinto
    move = move if _is_bare(source.fp.raw) else None
    filled, most, ended = len(begin), len(begin), not begin
    broken: Exception | None = None
    while source.length and not ended:
        if move is not None and not filled and (count := move(source.fp.raw.fileno(), source.length)):
            _count(raw, source, count)
            most = min(most, source.length)  # or a receive would wait for bytes beyond the end
            yield b""
            continue
        try:
            while filled < most:
                count = receive(buffer[filled:most])
                filled += count
                if count < _A_TRICKLE:
                    ended = not count
                    break
        except Exception as error:  # what came before it is not lost
            broken = error
        _count(raw, source, filled)
        if filled:
            yield buffer[:filled]
        if broken is not None:
            raise broken
        filled, most = 0, min(len(buffer), source.length)
    if ended:
        return  # whoever checks the length will say so
    raw.read(1, decode_content=False)  # lets http.client see the end, and the connection go back to its pool


def _count(raw: Any, source: Any, size_bytes: int) -> None:
    source.length -= size_bytes
    raw._fp_bytes_read += size_bytes
    if hasattr(raw, "length_remaining"):  # urllib3 1.26 has it under a name of its own, and does not need it
        raw.length_remaining -= size_bytes


def _is_bare(reader: Any) -> bool:
    """Whether what its socket receives is the body itself."""
    return type(getattr(reader, "_sock", None)) is socket.socket


def can_undo(coding: str) -> bool:
    """Whether a content coding, or each of several, is known here; what is not stays as it came.

    >>> can_undo("deflate, gzip"), can_undo("gzip, aes128gcm"), can_undo("")
    (True, False, False)
    """
    return coding in GZIP or all(each.strip() in HTTPResponse.CONTENT_DECODERS for each in coding.split(","))


def uncoded(response: requests.Response) -> Iterator[bytes]:
    """The body with a content coding undone that urllib3 knows; gzip is `unpacked` here.

    Raises:
        As `on_the_wire`.
    """
    yield from response.iter_content(CHUNK_BYTES)
    check_length(response)


def unpacked(parts: Iterator[memoryview | bytes]) -> Iterator[bytes]:
    """What gzip packed, in pieces that stay small; urllib3 would take half a stream for a whole one.

    Source: RFC 1952; what follows the last member is passed over, as everybody does.

    Raises:
        BodyTruncated: The bytes end within what was packed.
        requests.exceptions.ContentDecodingError: They are not what gzip makes.
    """
    decoder, members, within = zlib.decompressobj(_UNPACK), 0, False
    for view in parts:
        part, more = bytes(view), False
        while part or more:
            within = within or bool(part)
            try:
                data = decoder.decompress(part, CHUNK_BYTES)
            except zlib.error as error:
                if members:
                    for _ in parts:  # to the end all the same, for whoever counts
                        pass
                    return
                raise requests.exceptions.ContentDecodingError(f"not what gzip makes: {error}") from None
            if data:
                yield data
            part, more = decoder.unconsumed_tail, len(data) == CHUNK_BYTES
            if decoder.eof:
                part, more, within = decoder.unused_data, False, False
                decoder, members = zlib.decompressobj(_UNPACK), members + 1
    if within:
        raise BodyTruncated("the body ended within what gzip packed")


def without_first_bytes(parts: Iterator[memoryview | bytes], count: int) -> Iterator[memoryview | bytes]:
    """The same bytes without that many at their begin."""
    for part in parts:
        dropped = min(count, len(part))
        count -= dropped
        if dropped < len(part):
            yield part[dropped:]


def without_first_lines(parts: Iterator[memoryview | bytes], lines: int) -> Iterator[memoryview | bytes]:
    """The same bytes without the first lines, wherever they are cut into parts."""
    for part in parts:
        rest: memoryview | bytes = part
        while lines and rest:
            _, newline, rest = bytes(rest).partition(b"\n")
            lines -= 1 if newline else 0
        if rest:
            yield rest
