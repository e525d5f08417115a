"""The request that goes out within an exchange, the response that comes in, and the pause before the next."""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from urllib3.util import Retry, parse_url
from urllib3.util.ssltransport import SSLTransport

from trihop._wire.sockets import DeadlineCut, Exchange, Limit, Reader, bounded, current

_Function = Callable[..., Any]

# What an empty socket takes without a wait, however little it buffers.
_NO_WAIT_BYTES = 2048


# ---- a request


def putrequest(original: _Function) -> _Function:
    """Begin a request, its target as the exact URL has it."""

    def putrequest(conn: Any, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        exchange = current.get()
        if exchange is not None:
            exchange.phase = "headers"
            exchange.unsent = True
            if exchange.exact_url is not None:
                url = _exact_target(conn, url, exchange.exact_url)
        original(conn, method, url, *args, **kwargs)

    return putrequest


# A field of one line, as nearly all are; the name as RFC 9110 section 5.6.2 has it, and no mark of urllib3's own.
_PLAIN_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: (?!@@@)[\t\x20-\x7e\x80-\xff]*")


def putheader(original: _Function) -> _Function:
    """Add a header field; a plain one without the looks that urllib3 and `http.client` take at it in turn."""

    def putheader(conn: Any, header: Any, value: Any, *more: Any) -> None:
        if not more and type(header) is type(value) is str and current.get() is not None:
            line = f"{header}: {value}"
            if _PLAIN_FIELD.fullmatch(line) is not None and ":" not in header:
                conn._output(line.encode("latin-1"))
                return
        original(conn, header, value, *more)

    return putheader


def send(original: _Function) -> _Function:
    """Hand bytes to the socket."""

    def send(conn: Any, data: Any) -> None:
        exchange = current.get()
        if exchange is None:
            original(conn, data)
            return
        if conn.sock is None and conn.auto_open:
            exchange.phase = "connect"
            conn.connect()
            exchange.phase = "headers"
        if exchange.unsent and exchange.phase == "headers":
            exchange.left()
            exchange.unsent = False
            exchange.sent = True
            exchange.requests += 1
            if isinstance(data, bytes) and len(data) <= _NO_WAIT_BYTES:  # its head, and nothing else is on its way
                original(conn, data)
                return
        if isinstance(conn.sock, (socket.socket, SSLTransport)):
            with Limit(conn.sock, exchange):  # `sendall` takes it as the limit of all it sends together
                original(conn, data)
        else:
            original(conn, data)

    return send


def _exact_target(conn: Any, url: str, exact_url: str) -> str:
    """The request target as the exact URL has it, if it is this request's URL and can go on a line.

    Another URL is left alone: a hook or an auth handler may ask someone else in between.
    """
    exact = exact_url.partition("#")[0]
    if not exact.isascii() or re.search(r"[\x00-\x20\x7f]", exact):
        return url
    scheme, authority, target = _parts(exact)
    to_proxy = not url.startswith("/")
    given = _parts(url) if to_proxy else (scheme, _authority(conn), url)
    if _identity(*given) != _identity(scheme, authority, target):
        return url
    return f"{scheme}://{authority}{target}" if to_proxy else target


def _parts(url: str) -> tuple[str, str, str]:
    """Scheme, authority without what identifies the user, and a target that begins with a slash."""
    scheme, _, rest = url.partition("://")
    start = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    target = rest[start:] if rest[start:].startswith("/") else "/" + rest[start:]
    return scheme, rest[:start].rpartition("@")[2], target


def _authority(conn: Any) -> str:
    tunnelled = getattr(conn, "_tunnel_host", None)
    host, port = (tunnelled, conn._tunnel_port) if tunnelled else (conn.host, conn.port)
    return f"[{host.strip('[]')}]:{port}" if ":" in host else f"{host}:{port}"


def _identity(scheme: str, authority: str, target: str) -> tuple[Any, ...]:
    """What stays the same of a URL however requests and urllib3 escape, fold and trim it."""
    url = parse_url(f"{scheme}://{authority}{unquote(target)}")
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(scheme), url.request_uri.strip("/?")


# ---- a response


def getresponse(original: _Function) -> _Function:
    """Read status line and headers; the body comes through the same reader."""

    def getresponse(conn: Any, *args: Any, **kwargs: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return original(conn, *args, **kwargs)
        with _StandIn(conn, exchange):
            response = original(conn, *args, **kwargs)
        exchange.phase = "body"
        return response

    return getresponse


def tunnel(exchange: Exchange, original: _Function, conn: Any) -> None:
    """Ask a proxy to CONNECT."""
    within = _StandIn(conn, exchange)
    try:
        with within:
            original(conn)
    except BaseException:
        within.close_reader()  # http.client of Python 3.10 forgets to
        raise


class _StandIn:
    """Stands in for a connection's socket while a response is made of it, and hands out a `Reader`.

    So the response is of whatever class it would have been.
    """

    __slots__ = ("_conn", "_exchange", "_reader", "_sock")

    def __init__(self, conn: Any, exchange: Exchange) -> None:
        self._conn = conn
        self._exchange = exchange
        self._reader: Reader | None = None
        self._sock = conn.sock

    def __enter__(self) -> None:
        sock = self._sock
        real = isinstance(sock, socket.socket) and type(getattr(sock, "_io_refs", None)) is int
        if real or isinstance(sock, SSLTransport):  # mocks put a class of their own in the place of `socket.socket`
            self._conn.sock = self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._conn.sock is self:
            self._conn.sock = self._sock
        reader = self._reader
        if reader is not None and reader.began and self._exchange.phase == "headers":
            self._exchange.received = True

    def makefile(self, *args: Any, **kwargs: Any) -> io.BufferedReader:
        sock, exchange = self._sock, self._exchange
        receive: Callable[[memoryview], int]
        if isinstance(sock, SSLTransport):
            receive, counted = partial(_receive_within, exchange, sock.recv_into), sock.socket
        else:
            receive, counted = (sock.recv_into if exchange.receive is None else exchange.receive), sock
        counted._io_refs += 1  # type: ignore[attr-defined]  # as its own makefile does: closing the reader takes it back
        self._reader = Reader(sock, receive, Limit(sock, exchange))
        return io.BufferedReader(self._reader)

    def close_reader(self) -> None:
        """Close the reader that was handed out."""
        if self._reader is not None:
            self._reader.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _receive_within(exchange: Exchange, receive: _Function, buffer: memoryview) -> int:
    with bounded(exchange):  # for `_ssl_io_loop`, as the body may be read anywhere
        return int(receive(buffer))


# ---- a Retry mounted underneath


def increment(exchange: Exchange, original: _Function, *args: Any, **kwargs: Any) -> Retry:
    """Give the copy whose `sleep` comes next one that looks first; no Retry of the user's is changed."""
    retry: Any = original(*args, **kwargs)
    retry.sleep = partial(_sleep_if_it_fits, exchange, retry)
    return retry  # type: ignore[no-any-return]


def _sleep_if_it_fits(exchange: Exchange, retry: Any, response: Any = None) -> None:
    del retry.sleep
    hint_s = retry.get_retry_after(response) if response and retry.respect_retry_after_header else None
    pause_s = hint_s or retry.get_backoff_time()
    if pause_s and pause_s >= exchange.remaining():
        raise DeadlineCut("wait", pause_s)
    retry.get_backoff_time = lambda: pause_s  # it may be drawn at random: sleep the one we looked at
    try:
        retry.sleep(response)
    finally:
        del retry.get_backoff_time
