"""A poll on its way whose answer nobody waits for: one call sends it, another makes the response of what has arrived.

So one thread may have many polls on their way. Only a request that requests and
urllib3 2 would send just so over a connection that is open goes this way;
for any other there is no flight, and it is sent as ever.
"""

from __future__ import annotations

import errno
import logging
import math
import socket
import ssl
from collections.abc import Callable
from http.client import HTTPException
from types import FunctionType
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import EmptyPoolError, InvalidHeader, ProtocolError, ReadTimeoutError
from urllib3.util import Retry

from trihop._wire.extent import reading
from trihop._wire.sockets import Exchange
from trihop._wire.straight import Answer, Straight, taken_in, target_of

log = logging.getLogger("urllib3.connectionpool")  # which tells of each request; whoever reads that misses none

_PIECE_BYTES = 65536
_MOST_BYTES = 2**20  # of an answer to a poll; a longer one is read by whoever lands it
_IS_URLLIB3_2 = hasattr(urllib3, "BaseHTTPResponse")  # whose connections make the response themselves


class Flight:
    """A request that was sent, and what has arrived of its answer.

    Args:
        request: It.
        take_in: Makes the response of what urllib3 has read.
        conn: The connection it went out on, of that pool.
        exchange: Its bounds, and what it did on the wire.
        asked_s: When, on the clock.
        read_timeout_s: For how long the server may be silent.
    """

    __slots__ = (
        *("_arrived", "_conn", "_failed", "_given", "_heard_s", "_pool", "_read_timeout_s", "_reading", "_remaining"),
        *("_over", "_request", "_take_in", "_whole", "asked_s", "exchange", "sock", "url"),
    )

    def __init__(
        self,
        request: requests.PreparedRequest,
        take_in: Callable[[Any], requests.Response],
        conn: Any,
        pool: Any,
        exchange: Exchange,
        *,
        asked_s: float,
        read_timeout_s: float | None,
    ) -> None:
        self._request = request
        self._take_in = take_in
        self._conn = conn
        self._pool = pool
        self.exchange = exchange
        self.asked_s = self._heard_s = asked_s
        self._read_timeout_s = read_timeout_s
        self.sock: socket.socket = conn.sock
        self.url = ""
        """What was asked, as a job is known by it."""
        self._arrived = bytearray()
        self._given = 0
        self._reading = reading(self._arrived)
        self._whole = False
        self._over = False  # the server has nothing more to say
        self._failed: OSError | None = None
        self._remaining: Callable[[], float] = exchange.remaining

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come: to land it is no wait."""
        return self._whole or self._over or self._failed is not None

    def until_s(self, now_s: float) -> float:
        """Until when there is use in waiting for more of the answer, on the clock."""
        read_s = math.inf if self._read_timeout_s is None else self._heard_s + self._read_timeout_s
        return min(read_s, now_s + self.exchange.remaining())

    def hear(self, now_s: float) -> bool:
        """Take in what has arrived, without waiting for more; whether it can be landed.

        It can when it is over, and when somebody has to read it meanwhile: it is long, or odd.
        """
        try:
            while not self.is_over and len(self._arrived) < _MOST_BYTES:
                piece = self.sock.recv(_PIECE_BYTES)
                self._heard_s = now_s
                self._arrived += piece
                self._over = not piece
                is_odd = next(self._reading, None)
                self._whole = is_odd is None
                if is_odd:
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._failed = error
        return True

    def give_up(self) -> None:
        """There is no use in waiting for it: landing it raises what a wait would have come to."""
        self._failed = TimeoutError(errno.ETIMEDOUT, "timed out")  # with a number, as it is not the deadline's

    def land(self) -> requests.Response:
        """The response as the session gives it; its body, which is mostly here, is yet to be read.

        Raises:
            DeadlineCut: The deadline struck.
            requests.RequestException: There is none.
        """
        self.exchange.receive, self.exchange.remaining = self._receive, self._left
        request, conn, pool = self._request, self._conn, self._pool
        try:
            raw = conn.getresponse()
        except BaseException as error:
            self.drop()
            told = self._as_requests_tells(error)
            if told is None:
                raise
            raise told from error
        raw._connection, raw._pool = conn, pool
        target, version, size = target_of(request), conn._http_vsn_str, raw.length_remaining
        log.debug(
            '%s://%s:%s "GET %s %s" %s %s', *(pool.scheme, pool.host, pool.port, target, version, raw.status, size)
        )
        return self._take_in(raw)

    def drop(self) -> None:
        """Hear no more of it, and let its connection go."""
        self._conn.close()
        self._pool._put_conn(None)

    def _as_requests_tells(self, error: BaseException) -> requests.RequestException | None:
        """What `HTTPAdapter.send` makes of it; None where it lets it pass."""
        request = self._request
        match error:
            case TimeoutError():
                text = f"Read timed out. (read timeout={self._read_timeout_s})"
                told = ReadTimeoutError(self._pool, request.path_url, text)
                return requests.exceptions.ReadTimeout(told, request=request)
            case ssl.SSLError():
                return requests.exceptions.SSLError(error, request=request)
            case InvalidHeader():
                return requests.exceptions.InvalidHeader(error, request=request)
            case HTTPException() | OSError():
                return requests.exceptions.ConnectionError(ProtocolError("Connection aborted.", error), request=request)
        return None

    def _receive(self, buffer: Any) -> int:
        """As `recv_into`: first what has arrived."""
        size = min(len(self._arrived) - self._given, len(buffer))
        if size:
            buffer[:size] = self._arrived[self._given : self._given + size]
            self._given += size
            return size
        if self._failed is not None:
            raise self._failed
        return 0 if self._over else self.sock.recv_into(buffer)

    def _left(self) -> float:
        """As `Exchange.remaining`: to take what has arrived is no wait."""
        return math.inf if self._given < len(self._arrived) else self._remaining()


def depart(
    straight: Straight,
    session: requests.Session,
    request: requests.PreparedRequest,
    exchange: Exchange,
    *,
    timeout: Any,
    settings: dict[str, Any],
    at_s: float,
) -> Flight | None:
    """Send a GET within an exchange and leave its answer; None where it has to be sent as ever.

    Args:
        straight: The way of the requests before it.
        session, request, timeout, settings: As in `Straight.send`.
        exchange: To be entered by the caller.
        at_s: The time.

    Raises:
        DeadlineCut: The deadline has passed.
        ValueError, TypeError, HTTPException: It cannot be sent; its connection is closed.
    """
    read_timeout_s = timeout[1] if isinstance(timeout, tuple) else timeout
    if request.method != "GET" or request.body or not isinstance(read_timeout_s, (int, float, type(None))):
        return None
    known = straight.known(session, request, settings) if _IS_URLLIB3_2 and _is_their_own() else None
    if known is None or read_timeout_s == 0 or not _would_send_so(*known):
        return None
    adapter, pool = known
    try:
        conn = pool._get_conn(timeout=0)
    except EmptyPoolError:
        return None
    if type(conn) not in (HTTPConnection, HTTPSConnection) or not isinstance(conn.sock, socket.socket):
        pool._put_conn(conn)
        return None
    conn.timeout = read_timeout_s

    def take_in(raw: Any) -> requests.Response:
        raw.retries = adapter.max_retries
        answer = Answer(adapter, request, raw)
        return taken_in(session, request, answer, timeout=timeout, settings=settings)

    flight = Flight(request, take_in, conn, pool, exchange, asked_s=at_s, read_timeout_s=read_timeout_s)
    pool.num_requests += 1
    target = target_of(request)
    try:
        try:
            conn.request("GET", target, headers=request.headers, preload_content=False, decode_content=False)
        except OSError as error:
            if error.errno not in _UNHEARD:
                flight._failed = error
        conn.sock.settimeout(0.0)  # until it is landed
    except BaseException:
        flight.drop()
        raise
    return flight


# A server may have answered and gone before it has heard all; what it said can be read, as urllib3 has it.
_UNHEARD = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EPROTOTYPE})


def _would_send_so(adapter: HTTPAdapter, pool: Any) -> bool:
    """Whether nothing of the caller's own has a say in how adapter and pool send."""
    retry = adapter.max_retries
    return (
        type(retry) is Retry
        and retry.total == 0
        and "add_headers" not in vars(adapter)
        and type(pool) in (HTTPConnectionPool, HTTPSConnectionPool)
        and vars(pool).keys().isdisjoint(("urlopen", "_make_request"))
    )


def _is_their_own() -> bool:
    """Whether requests and urllib3 send as they did when they came."""
    return (
        _defined_in(HTTPAdapter.send, requests.adapters)
        and _defined_in(HTTPAdapter.add_headers, requests.adapters)
        and _defined_in(HTTPConnectionPool.urlopen, urllib3.connectionpool)
        and _defined_in(HTTPConnectionPool._make_request, urllib3.connectionpool)
        and HTTPConnectionPool.ConnectionCls is HTTPConnection
    )


def _defined_in(function: object, module: Any) -> bool:
    return type(function) is FunctionType and function.__globals__ is vars(module)
