"""A poll on its way whose answer nobody waits for: one call sends it, another makes the response of what has arrived.

So one thread may have many polls on their way. Only a request that requests and
urllib3 2 would send just so over a connection that is open goes this way;
for any other there is no flight, and it is sent as ever.
"""

from __future__ import annotations

import math
import re
import socket
import ssl
from http.client import HTTPException
from types import FunctionType
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import EmptyPoolError, ProtocolError, ReadTimeoutError
from urllib3.util import Retry

from trihop._wire.sockets import DeadlineCut, Exchange
from trihop._wire.straight import Answer, Straight, taken_in, target_of

_PIECE_BYTES = 65536
_MOST_BYTES = 2**20  # of an answer to a poll; a longer one is read by whoever lands it
_IS_URLLIB3_2 = hasattr(urllib3, "BaseHTTPResponse")  # whose connections make the response themselves


class Flight:
    """A request that was sent, and what has arrived of its answer.

    Args:
        conn: The connection it went out on, of that pool.
        request: It.
        exchange: Its bounds, and what it did on the wire.
        asked_s: When, on the clock.
        read_timeout_s: For how long the server may be silent.
    """

    __slots__ = (
        *("_arrived", "_conn", "_failed", "_given", "_heard_s", "_pool", "_read_timeout_s", "_send"),
        *("_over", "asked_s", "exchange", "sock", "url"),
    )

    def __init__(
        self, send: Sending, conn: Any, pool: Any, exchange: Exchange, *, asked_s: float, read_timeout_s: float | None
    ) -> None:
        self._send = send
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
        self._over = False  # nothing more is to come
        self._failed: OSError | None = None

    def until_s(self, now_s: float) -> float:
        """Until when there is use in waiting for more of the answer, on the clock."""
        read_s = math.inf if self._read_timeout_s is None else self._heard_s + self._read_timeout_s
        return min(read_s, now_s + self.exchange.remaining())

    def hear(self, now_s: float) -> bool:
        """Take in what has arrived, without waiting for more; whether the answer is all there, or will never be."""
        try:
            while len(self._arrived) < _MOST_BYTES:
                piece = self.sock.recv(_PIECE_BYTES)
                self._heard_s = now_s
                if not piece:
                    self._over = True
                    return True
                self._arrived += piece
                if is_whole(self._arrived):
                    return True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._failed = error
        return True

    @property
    def is_long(self) -> bool:
        """Whether there is more of the answer than was taken in: whoever lands it may have to wait."""
        return len(self._arrived) >= _MOST_BYTES

    def give_up(self) -> None:
        """There is no use in waiting for it: landing it raises what a wait would have come to."""
        self._failed = TimeoutError("timed out")

    def land(self) -> requests.Response:
        """The response as the session gives it; its body, which is mostly here, is yet to be read.

        Raises:
            DeadlineCut: The deadline struck.
            requests.RequestException: There is none.
        """
        self.exchange.receive = self._receive
        request, conn = self._send.request, self._conn
        try:
            raw = conn.getresponse()
        except TimeoutError as error:
            self.drop()
            told = ReadTimeoutError(self._pool, request.path_url, f"no answer within {self._read_timeout_s} s")
            raise requests.exceptions.ReadTimeout(told, request=request) from error
        except ssl.SSLError as error:
            self.drop()
            raise requests.exceptions.SSLError(error, request=request) from error
        except (HTTPException, OSError) as error:
            self.drop()
            aborted = ProtocolError("Connection aborted.", error)
            raise requests.exceptions.ConnectionError(aborted, request=request) from error
        except BaseException:
            self.drop()
            raise
        raw.retries, raw._connection, raw._pool = self._send.adapter.max_retries, conn, self._pool
        return self._send.take_in(raw)

    def drop(self) -> None:
        """Hear no more of it, and let its connection go."""
        self._conn.close()
        self._pool._put_conn(None)

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


class Sending:
    """What a flight is the sending of: a request on a session, through its adapter."""

    __slots__ = ("_settings", "_timeout", "adapter", "request", "session")

    def __init__(
        self, session: requests.Session, adapter: HTTPAdapter, request: Any, timeout: Any, settings: dict[str, Any]
    ) -> None:
        self.session = session
        self.adapter = adapter
        self.request = request
        self._timeout = timeout
        self._settings = settings

    def take_in(self, raw: Any) -> requests.Response:
        """The response, once the session has seen it."""
        answer = Answer(self.adapter, self.request, raw)
        return taken_in(self.session, self.request, answer, timeout=self._timeout, settings=self._settings)


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
    """
    read_timeout_s = timeout[1] if isinstance(timeout, tuple) else timeout
    if request.method != "GET" or request.body or not isinstance(read_timeout_s, (int, float, type(None))):
        return None
    known = straight.known(session, request, settings) if _IS_URLLIB3_2 and _is_their_own() else None
    if known is None or type(known[0].max_retries) is not Retry or known[0].max_retries.total != 0:
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
    flight = Flight(
        Sending(session, adapter, request, timeout, settings),
        *(conn, pool, exchange),
        asked_s=at_s,
        read_timeout_s=read_timeout_s,
    )
    try:
        conn.request("GET", target_of(request), headers=request.headers, preload_content=False, decode_content=False)
        conn.sock.settimeout(0.0)  # until it is landed
    except OSError as error:
        flight._failed = error
    except DeadlineCut:
        flight.drop()
        raise
    return flight


def _is_their_own() -> bool:
    """Whether requests and urllib3 send as they did when they came."""
    return (
        _defined_in(HTTPAdapter.send, requests.adapters)
        and _defined_in(HTTPConnectionPool.urlopen, urllib3.connectionpool)
        and _defined_in(HTTPConnectionPool._make_request, urllib3.connectionpool)
        and HTTPConnectionPool.ConnectionCls is HTTPConnection
    )


def _defined_in(function: object, module: Any) -> bool:
    return type(function) is FunctionType and function.__globals__ is vars(module)


_END_OF_HEAD = b"\r\n\r\n"
_SIZE = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.[01] (\d\d\d)")
_LAST_CHUNK = b"0\r\n\r\n"


def is_whole(arrived: bytes | bytearray) -> bool:
    """Whether an answer is all there, as far as its head says how long it is; where it does not, no.

    >>> is_whole(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}"), is_whole(b"HTTP/1.1 200 OK\\r\\nConte")
    (True, False)
    """
    begin = 0
    while (end := arrived.find(_END_OF_HEAD, begin)) >= 0:
        head, rest = arrived[begin : end + 2], end + len(_END_OF_HEAD)
        status = _STATUS.match(head)
        if status is None:
            return True  # whoever reads it says so
        if status[1].startswith(b"1"):
            begin = rest  # another one follows
            continue
        if _CHUNKED.search(head) is not None:
            return arrived.endswith(_LAST_CHUNK)
        size = _SIZE.search(head)
        if size is not None:
            return len(arrived) - rest >= int(size[1])
        return status[1] in (b"204", b"304")
    return False
