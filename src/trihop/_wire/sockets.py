"""One HTTP exchange, and the bounding of a socket's waits by its instant; nothing in here knows urllib3."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Literal, Protocol

Phase = Literal["connect", "tls", "headers", "body", "wait"]

# How far a socket's timeout may lag behind the deadline while data keeps coming:
# setting it costs a system call, and a fast download receives thousands of times a second.
_LAG_S = 0.01

# What poll(2) and locks can be told to wait; more is an OverflowError.
LONGEST_S = 1_000_000.0


class DeadlineCut(Exception):
    """The deadline struck within an exchange; never leaves trihop.

    No OSError, deliberately: urllib3 and requests would swallow, wrap or retry one.

    Args:
        phase: Where: `connect` (with pool wait, name resolution and proxy replies),
            `tls`, `headers` (with the upload), `body`, or `wait`, the pause of a
            `Retry` mounted underneath.
        asked_s: The pause that did not fit, for `wait`.
    """

    def __init__(self, phase: Phase, asked_s: float | None = None) -> None:
        Exception.__init__(self, f"the deadline struck in phase {phase!r}")  # not super(): see PoolCut
        self.phase: Phase = phase
        self.asked_s = asked_s


class Exchange:
    """What one send of a session did on the wire, and how long it may go on.

    One instance a send; a `Retry` mounted underneath makes several wire requests of it.

    Args:
        remaining: Seconds left before the instant; `inf` for none, 0 or less once it
            has passed. Asked between receives, sends and addresses: it may change.
        exact_url: The URL whose path and query go out byte for byte.
    """

    __slots__ = ("exact_url", "phase", "receive", "received", "remaining", "requests", "reused", "sent", "unsent")

    def __init__(self, remaining: Callable[[], float], *, exact_url: str | None = None) -> None:
        self.remaining = remaining
        self.exact_url = exact_url
        self.sent = False
        """A byte of an HTTP request was handed to a socket; CONNECT, SOCKS and TLS do not count."""
        self.received = False
        """A byte of an HTTP response arrived; the reply to CONNECT does not count."""
        self.reused = False
        """The last wire request went out on a warm connection of the pool."""
        self.requests = 0
        """Wire requests begun."""
        self.phase: Phase = "connect"
        self.receive: Callable[[memoryview], int] | None = None
        """Receives instead of the socket, where something has arrived before."""
        self.unsent = False
        """A request was composed and none of it has been handed to a socket yet."""

    def left(self) -> float:
        """Seconds left, above 0.

        Raises:
            DeadlineCut: The instant has passed.
        """
        left = self.remaining()
        if left <= 0.0:
            raise self.cut()
        return left

    def cut(self) -> DeadlineCut:
        """The exception that ends the exchange in its present phase."""
        return DeadlineCut(self.phase)


current: ContextVar[Exchange | None] = ContextVar("trihop_exchange", default=None)


class bounded:
    """Bound what urllib3 does in this block and context by an exchange.

    A body that is read later, and wherever, stays bound to the exchange it was born in.
    """

    __slots__ = ("_exchange", "_token")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __enter__(self) -> Exchange:
        self._token: Token[Exchange | None] = current.set(self._exchange)
        return self._exchange

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current.reset(self._token)


class Waits(Protocol):
    """A socket, as far as its timeout goes."""

    def gettimeout(self) -> float | None: ...
    def settimeout(self, value: float | None, /) -> None: ...


class Limit:
    """A socket's timeout, held at the smaller of its own and what is left.

    As a block it arms the socket, turns a timeout that was the deadline's into
    `DeadlineCut`, and gives the socket its own timeout back. One that was the
    caller's own stays the caller's.
    """

    __slots__ = ("cuts", "exchange", "own", "sock")

    def __init__(self, sock: Waits, exchange: Exchange) -> None:
        self.sock = sock
        self.exchange = exchange
        self.own = sock.gettimeout()
        self.cuts = False
        """The wait that is armed ends with the deadline, not with the caller's timeout."""

    def arm(self, left: float) -> None:
        """Set the timeout of the next wait, given the seconds left."""
        wait_s, cuts = shorter(self.own, left)
        if cuts:
            self.cuts = True
            self.sock.settimeout(wait_s)
        elif self.cuts:
            self.restore()

    def struck(self, error: BaseException | None) -> bool:
        """Whether this error is the deadline striking in the wait that was armed."""
        return self.cuts and timed_out(error)

    def restore(self) -> None:
        """Give the socket its own timeout back; a closed one is left alone."""
        if self.cuts:
            self.cuts = False
            try:  # noqa: SIM105 - thrice as fast as suppress(), for every exchange
                self.sock.settimeout(self.own)
            except OSError:
                pass

    def __enter__(self) -> Limit:
        self.arm(self.exchange.left())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.restore()
        elif self.struck(error):
            raise self.exchange.cut() from None


def shorter(own: float | None, left: float) -> tuple[float | None, bool]:
    """The wait to begin, given the caller's timeout and what is left; and whether the latter decides."""
    if left == math.inf or (own is not None and own < left):
        return own, False
    return (left if left < LONGEST_S else LONGEST_S), True


def timed_out(error: BaseException | None) -> bool:
    """Whether a wait ran into its timeout: a TimeoutError with a number is the network's own ETIMEDOUT."""
    return isinstance(error, TimeoutError) and error.errno is None


class Reader(socket.SocketIO):
    """The raw reader below a response: each receive ends with the deadline, in whatever context it is made.

    Args:
        sock: Read from, and kept open until the reader is closed.
        receive: Its `recv_into`.
        limit: Its timeout.
    """

    def __init__(self, sock: Any, receive: Callable[[memoryview], int], limit: Limit) -> None:
        super().__init__(sock, "r")
        self._receive = receive
        self._limit = limit
        self._remaining = limit.exchange.remaining
        self._armed_s = math.inf
        self.began = False
        """A byte has arrived."""

    def readinto(self, buffer: Any) -> int:
        """Receive once.

        Raises:
            DeadlineCut: The deadline struck.
            TimeoutError: The caller's own timeout did.
        """
        while True:
            left = self._remaining()
            if self._armed_s - left > _LAG_S:
                if left <= 0.0:
                    raise self._limit.exchange.cut()
                self._limit.arm(left)
                self._armed_s = left
            try:
                count = self._receive(buffer)
            except TimeoutError as error:
                if not self._limit.struck(error):
                    raise
                self._armed_s = math.inf  # look again: the deadline may have been moved
                continue
            if count:
                self.began = True
            return count

    def close(self) -> None:
        """Leave the socket to the next request, with the timeout it had."""
        self._limit.restore()
        super().close()
