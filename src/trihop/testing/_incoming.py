"""Reading HTTP/1.1 requests off a socket."""

from __future__ import annotations

from socket import socket

_MOST_HEAD_BYTES = 1 << 20


class ClientGone(ConnectionError):
    """The client closed the connection, or broke off in the middle of a request."""


class Incoming:
    """The bytes a client sends, line by line or counted."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._buffer = b""

    def head(self) -> tuple[str, str, list[tuple[str, str]]]:
        """The next request's method, target and header fields.

        Raises:
            ClientGone: There is no further request.
            ValueError: It is not HTTP/1.
        """
        method, target, *version = self._line().split(b" ")
        if len(version) != 1 or not version[0].startswith(b"HTTP/1."):
            raise ValueError(f"not an HTTP/1 request: {b' '.join([method, target, *version])[:80]!r}")
        fields: list[tuple[str, str]] = []
        while line := self._line():
            name, _, value = line.decode("latin-1").partition(":")
            fields.append((name.strip(), value.strip()))
        return method.decode("latin-1"), target.decode("latin-1"), fields

    def body(self, length: int, chunked: bool, into: bytearray) -> None:
        """Read a request's body; what had come stays in `into` when the client breaks off."""
        if not chunked:
            self._take(length, into)
            return
        while size := int(self._line().partition(b";")[0], 16):
            self._take(size, into)
            self._line()
        while self._line():
            pass

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _MOST_HEAD_BYTES:
                raise ValueError("a request line or header field without an end")
            self._receive()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _take(self, size: int, into: bytearray) -> None:
        while size > 0:
            if not self._buffer:
                self._receive()
            data, self._buffer = self._buffer[:size], self._buffer[size:]
            into += data
            size -= len(data)

    def _receive(self) -> None:
        data = self._connection.recv(65536)
        if not data:
            raise ClientGone
        self._buffer += data
