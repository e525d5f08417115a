"""Reaching a server within an exchange: the pool, the name, the addresses, proxies, TLS."""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from urllib3.exceptions import EmptyPoolError
from urllib3.util import connection as urllib3_connect

from trihop._wire.sockets import LONGEST_S, DeadlineCut, Exchange, Limit, current, shorter, timed_out

_Function = Callable[..., Any]


class PoolCut(DeadlineCut, EmptyPoolError):
    """The deadline struck while we waited for a connection of the pool.

    Also an EmptyPoolError: at any other, urllib3 would put back a connection that
    it never took, and a pool of one would be a pool of two.
    """


def get_conn(original: _Function) -> _Function:
    """Take a connection of the pool, or wait for one."""

    def get_conn(pool: Any, timeout: float | None = None) -> Any:
        exchange = current.get()
        if exchange is None:
            return original(pool, timeout)
        exchange.phase = "connect"
        left = exchange.remaining()
        if left <= 0.0:
            raise PoolCut("connect")
        wait_s, cuts = shorter(timeout, left)
        try:
            conn = original(pool, wait_s)
        except EmptyPoolError:
            if cuts:
                raise PoolCut("connect") from None
            raise
        exchange.reused = getattr(conn, "sock", None) is not None
        return conn

    return get_conn


def create_connection(
    exchange: Exchange,
    original: _Function,
    address: tuple[str, int],
    timeout: Any = None,
    source_address: Any = None,
    socket_options: Any = None,
) -> socket.socket:
    """Connect to one address at a time: urllib3 gives each the full timeout."""
    host, port = address
    own = timeout if timeout is None or isinstance(timeout, (int, float)) else socket.getdefaulttimeout()
    failure: OSError | None = None
    found: Iterator[str]
    if getattr(original, "__globals__", None) is vars(urllib3_connect):
        found = places(host.strip("[]"), port, urllib3_connect.allowed_gai_family(), exchange)
    else:
        found = iter((host,))  # somebody pins names to addresses in there: let them see the name
    for place in found:
        wait_s, cuts = shorter(own, exchange.left())
        try:
            sock: socket.socket = original((place, port), wait_s, source_address, socket_options)
        except OSError as error:
            if cuts and timed_out(error):
                raise exchange.cut() from None
            failure = error
        else:
            sock.settimeout(own)
            return sock
    try:
        raise failure or OSError(f"no address for {host!r}")
    finally:
        failure = None  # the traceback holds this frame, which would hold the error


def socks_connect(exchange: Exchange, original: _Function, sock: Any, *args: Any, **kwargs: Any) -> Any:
    """Connect through a SOCKS proxy, whose replies come in a few receives and may be dripped."""
    limit = Limit(sock, exchange)
    receive = sock.recv_into

    def recv_into(*args: Any) -> int:
        with limit:
            return int(receive(*args))

    sock.recv_into = recv_into
    try:
        limit.arm(exchange.left())
        return original(sock, *args, **kwargs)  # which sets the caller's timeout at its end
    except DeadlineCut:
        sock.close()
        raise
    except OSError as error:
        if limit.struck(getattr(error, "socket_err", None) or error):
            raise exchange.cut() from None
        raise
    finally:
        del sock.recv_into


# ---- TLS


def ssl_wrap_socket(exchange: Exchange, original: _Function, *args: Any, ssl_context: Any = None, **kwargs: Any) -> Any:
    """Shake hands."""
    phase, exchange.phase = exchange.phase, "tls"
    wrapped = original(*args, ssl_context=ssl_context and _Context(ssl_context, exchange), **kwargs)
    exchange.phase = phase
    return wrapped


class _Context:
    """An SSL context that begins to count at the handshake: certificates are loaded first, which takes a while."""

    def __init__(self, context: Any, exchange: Exchange) -> None:
        self._context = context
        self._exchange = exchange

    def wrap_socket(self, sock: Any, *args: Any, **kwargs: Any) -> Any:
        # One timeout is enough: the handshake takes it as the limit of all its receives together.
        with Limit(sock, self._exchange) as limit:
            limit.sock = wrapped = self._context.wrap_socket(sock, *args, **kwargs)
        return wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def ssl_io_loop(exchange: Exchange, original: _Function, transport: Any, step: _Function, *args: Any) -> Any:
    """Read or write TLS within TLS, where one read of ours is as many receives as a record has pieces."""
    limit = Limit(transport.socket, exchange)

    def armed_step(*args: Any) -> Any:
        limit.arm(exchange.left())
        return step(*args)

    with limit:
        return original(transport, armed_step, *args)


# ---- names


def places(host: str, port: int, family: socket.AddressFamily, exchange: Exchange) -> Iterator[str]:
    """The addresses of a host, as literals; the host itself where it is one, or where nothing bounds us.

    Raises:
        DeadlineCut: The deadline struck before the name was resolved. The resolver
            cannot be interrupted: its thread lives until the system gives up.
        OSError: As `socket.getaddrinfo`.
    """
    if _is_literal(host) or exchange.left() == math.inf:
        yield host
        return
    try:
        found = _resolve(host, port, family, exchange)
    except UnicodeError:
        yield host  # no name at all: urllib3 says so in its own words
        return
    for *_, address in found:
        scope = address[3] if len(address) > 3 else 0
        yield f"{address[0]}%{scope}" if scope else str(address[0])


def _is_literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, host.partition("%")[0])
            return True
    return False


def _resolve(host: str, port: int, family: socket.AddressFamily, exchange: Exchange) -> list[Any]:
    """`getaddrinfo`, which takes no timeout, in a thread that can be left to itself."""
    if host == "localhost":
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    answers: queue.SimpleQueue[list[Any] | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM))
        except BaseException as error:
            answers.put(error)

    try:
        threading.Thread(target=ask, name="trihop-resolve", daemon=True).start()
    except RuntimeError:  # no thread to be had, as at the interpreter's end
        ask()
    try:
        answer = answers.get(timeout=min(exchange.left(), LONGEST_S))
    except queue.Empty:
        raise exchange.cut() from None
    if isinstance(answer, BaseException):
        raise answer
    return answer
