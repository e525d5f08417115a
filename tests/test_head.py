"""Heads that are read or written faster are those of `http.client`, and all others are left to it."""

from __future__ import annotations

import http.client
import io
from typing import Any

import pytest
import urllib3.connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trihop._wire.head import parse_headers
from trihop._wire.messages import putheader
from trihop._wire.sockets import Exchange, bounded

# Outside an exchange it is the original in either case: as it came, or with ours around it.
original = http.client.parse_headers

NAMES = st.text("abcXYZ-_!~19 ;:\x7f", min_size=1, max_size=8)
VALUES = st.text('ab 9\t=,;:"\x0b\x0c\x85\xa0\xe9\xff\x00\x7f\r\n', max_size=12)
ENDS = st.sampled_from(["\r\n", "\n", "\r"])


def read(parse: Any, head: bytes, *, inside: bool = True) -> tuple[Any, ...]:
    """What a head comes to: its message, and what is left unread."""
    file = io.BufferedReader(io.BytesIO(head))  # type: ignore[arg-type]
    try:
        if inside:
            with bounded(Exchange(lambda: 60.0)):
                message = parse(file)
        else:
            message = parse(file)
    except Exception as error:
        return type(error), str(error)
    return (
        type(message),
        message.items(),
        [type(defect) for defect in message.defects],
        message.get_payload() if not message.is_multipart() else [part.items() for part in message.get_payload()],
        message.get_content_type(),
        message.get_charset(),
        message.get_unixfrom(),
        (message.preamble, message.epilogue),
        file.read(),
    )


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, VALUES, ENDS), max_size=6), st.binary(max_size=8))
@example([("Content-Type", " multipart/mixed; boundary=x", "\r\n")], b"--x\r\n\r\n--x--")
@example([("content-type", "\tmessage/rfc822", "\r\n")], b"")
@example([("a", " 1", "\r\n"), (" b", " 2", "\r\n")], b"")
@example([("a", " 1 \t", "\r\n"), ("a", "", "\r\n"), ("A", "   ", "\r\n")], b"body")
@example([("From x", " 1", "\r\n")], b"")
@example([("a" * 7, " 1", "\r\n")] * 70, b"")
@example([("a" * 7, " 1", "\r\n")] * 120, b"")
@example([("a", "b" * 70_000, "\r\n")], b"")
def test_a_head_comes_out_as_http_client_reads_it(fields: list[tuple[str, str, str]], body: bytes) -> None:
    """Names, values, defects, what is left of the stream, and the errors."""
    head = "".join(f"{name}:{value}{end}" for name, value, end in fields).encode("latin-1") + b"\r\n" + body
    assert read(parse_headers(original), head) == read(original, head, inside=False)


PLAIN = b"Content-Type: application/json\r\nRetry-After: 5\r\nSet-Cookie: a=1\r\nset-cookie: b=2; Path=/\r\n\r\n{}"


def never(*_: object) -> None:
    raise AssertionError("the parser for e-mails was asked")


def test_a_plain_head_is_read_without_the_parser_for_mails() -> None:
    """With the fields in their order, and the body left where it is."""
    assert read(parse_headers(never), PLAIN) == read(original, PLAIN, inside=False)


@pytest.mark.parametrize("cut", [1, 20, len(PLAIN) - 5])
def test_a_head_that_comes_in_pieces_is_read_too(cut: int) -> None:
    """Nothing of it was taken before it was left to the original."""

    class Pieces(io.RawIOBase):
        def __init__(self) -> None:
            self.pieces = [PLAIN[:cut], PLAIN[cut:]]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = self.pieces.pop(0) if self.pieces else b""
            buffer[: len(piece)] = piece
            return len(piece)

    with bounded(Exchange(lambda: 60.0)):
        assert parse_headers(original)(io.BufferedReader(Pieces())).items() == [
            ("Content-Type", "application/json"),
            ("Retry-After", "5"),
            ("Set-Cookie", "a=1"),
            ("set-cookie", "b=2; Path=/"),
        ]


def test_who_else_reads_a_head_has_the_original() -> None:
    """Outside an exchange of ours, and with arguments of their own."""
    asked: list[object] = []

    def noting(file: object, *args: object) -> object:
        asked.append(args)
        return original(file)

    read(parse_headers(noting), PLAIN, inside=False)
    with bounded(Exchange(lambda: 60.0)):
        parse_headers(noting)(io.BufferedReader(io.BytesIO(PLAIN)), http.client.HTTPMessage)  # type: ignore[arg-type]
    assert asked == [(), (http.client.HTTPMessage,)]


# ---- a head that goes out


def written(put: Any, *field: Any, inside: bool = True) -> object:
    """The line that a field comes to, or the error."""
    conn = urllib3.connection.HTTPConnection("api.test")
    conn.putrequest("GET", "/", skip_host=True, skip_accept_encoding=True)
    try:
        if inside:
            with bounded(Exchange(lambda: 60.0)):
                put(conn, *field)
        else:
            put(conn, *field)
    except Exception as error:
        return type(error), str(error)
    return conn._buffer[1:]


@settings(deadline=None)
@given(NAMES, VALUES)
@example("Accept", "@@@SKIP_HEADER@@@")
@example("X-Other", "@@@SKIP_HEADER@@@")
@example("X", "gr\u00fc\u00dfe \u20ac")
@example("N\u00e4me", "1")
@example("", "1")
@example("1: ", "")
def test_a_field_goes_out_as_http_client_writes_it(name: str, value: str) -> None:
    """Names, values, what urllib3 leaves out, and the errors."""
    as_it_was = urllib3.connection.HTTPConnection.putheader
    assert written(putheader(as_it_was), name, value) == written(as_it_was, name, value, inside=False)


@pytest.mark.parametrize("field", [("A", b"bytes"), ("A", 7), (b"A", "1"), ("A", "1", "2")])
def test_a_field_of_other_kinds_is_left_to_http_client(field: tuple[Any, ...]) -> None:
    """Bytes, numbers, several lines."""
    as_it_was = urllib3.connection.HTTPConnection.putheader
    assert written(putheader(as_it_was), *field) == written(as_it_was, *field, inside=False)


def test_a_plain_field_is_written_at_once() -> None:
    """Nobody else looks at it."""
    assert written(putheader(never), "Accept", "text/csv, */*;q=0.1") == [b"Accept: text/csv, */*;q=0.1"]
