"""A forward proxy on loopback: absolute-form requests for http, CONNECT for anything."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from urllib.parse import urlsplit


class Proxy:
    """Passes requests on, and keeps what it was told.

    Args:
        user: User and password that it wants; None for none.
        quotes: Refuse everything, and quote what it was told.
    """

    def __init__(self, user: tuple[str, str] | None = None, *, quotes: bool = False) -> None:
        self.heads: list[bytes] = []
        self.user = user
        self.quotes = quotes
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._over = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        at = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{at}" if user is None else f"http://{user[0]}:{user[1]}@{at}"

    @property
    def targets(self) -> list[str]:
        """The request targets, as they came."""
        return [head.split(b" ", 2)[1].decode("latin-1") for head in self.heads]

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for sock in (self._listener, *self._open):
            _shut(sock)
        for thread in self._threads:
            thread.join(5)
        for sock in (self._listener, *self._open):
            sock.close()
        assert not any(thread.is_alive() for thread in self._threads)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _hold(self, sock: socket.socket) -> socket.socket:
        self._open.append(sock)
        if self._over:
            _shut(sock)
        return sock

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._over:
                sock, _ = self._listener.accept()
                self._start(self._serve, self._hold(sock))

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := client.recv(65536)):
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            self.heads.append(head)
            lines = head.split(b"\r\n")
            method, target, version = lines[0].split(b" ")
            said = next((line for line in lines if line.lower().startswith(b"proxy-authorization:")), None)
            if self.quotes or (self.user is not None and said is None):
                told = b" or ".join([said or b"", base64.b64decode((said or b"").rpartition(b" ")[2])])
                told = b"who are you? you said %b" % told.partition(b":")[2]
                client.sendall(
                    b"HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told)
                )
                _shut(client)
                return
            if method == b"CONNECT":
                host, _, port = target.rpartition(b":")
                upstream = self._hold(socket.create_connection((host.decode().strip("[]"), int(port))))
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(target)
                assert parts.hostname is not None
                upstream = self._hold(socket.create_connection((parts.hostname.decode(), parts.port or 80)))
                path = b"/" + target.split(b"/", 3)[3]
                fields = [line for line in lines[1:] if not line.lower().startswith((b"proxy-", b"connection:"))]
                upstream.sendall(
                    b"\r\n".join([b" ".join([method, path, version]), *fields, b"Connection: close"])
                    + b"\r\n\r\n"
                    + body
                )
            self._start(self._carry, client, upstream)
            self._carry(upstream, client)

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        _shut(sink)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
