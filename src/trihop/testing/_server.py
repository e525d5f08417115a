"""A real HTTP server on loopback that answers as a script says, badly if the script says so."""

from __future__ import annotations

import os
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from types import TracebackType
from typing import TYPE_CHECKING

from trihop._clock import SystemClock
from trihop._values import Reply
from trihop.testing._incoming import Incoming
from trihop.testing._outgoing import Outgoing, failure
from trihop.testing._received import ReceivedCall, ReceivedHeaders
from trihop.testing._replies import Piece, ScriptedReply, Shaped, described, pieces_of
from trihop.testing._script import Replies
from trihop.testing._virtual import VirtualClock

if TYPE_CHECKING:
    import ssl

_JOIN_S = 5.0
_UNEXPECTED = 599


class ScriptedServer:
    """An HTTP/1.1 server on 127.0.0.1 with keep-alive, for tests.

    A reply is a `Reply`, a status, a dict or list (200 with JSON), a str or bytes
    (200), one of the misbehaviours of this package, such as `delayed(2, 503)`, a
    function of the `ReceivedCall` that returns any of these, or a function of the
    socket and the call that writes what it likes. Such a connection stays open
    unless the function closes it. `{url}` in a header or a body becomes `url`.

    A request that nobody expected is answered 599 with a text that says which
    replies are left, and makes `close()` raise; so does a fault in a function of
    the script.

    Args:
        tls: Speak TLS; needs `trustme`. Clients verify with `ca_file`.
        clock: Whose time the `Date` header, `ReceivedCall.at` and the pauses of
            `delayed` and `dripped` are. On a `VirtualClock` a pause moves the
            clock and takes no time; else the time is real, and so are pauses.

    Raises:
        RuntimeError: `tls=True` without `trustme`.

    >>> import requests
    >>> with ScriptedServer() as server:
    ...     server.script({"state": "running"}, then_always=503)
    ...     answers = [requests.get(server.url + "jobs/1").status_code for _ in range(3)]
    >>> answers, server.calls[0].path
    ([200, 503, 503], '/jobs/1')
    """

    url: str
    """Where it listens, such as http://127.0.0.1:41234/ with the slash."""

    ca_file: str | None
    """What to verify it with, as in `session.get(server.url, verify=server.ca_file)`; None without TLS."""

    def __init__(self, *, tls: bool = False, clock: VirtualClock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._virtual = clock
        self._lock = threading.Lock()
        self._replies = Replies()
        self._calls: list[ReceivedCall] = []
        self._faults: list[str] = []
        self._closing = threading.Event()
        self._connections: dict[int, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._tls: ssl.SSLContext | None = None
        self.ca_file = None
        if tls:
            from trihop.testing._certificate import certified

            self._tls, self.ca_file = certified()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._address: tuple[str, int] = self._listener.getsockname()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._address[1]}/"
        self._start(self._accept, "accept")

    # ---- the script

    def script(self, *replies: ScriptedReply, then_always: ScriptedReply | None = None) -> None:
        """Append replies, used in the order of requests, whatever their paths.

        Args:
            replies: One for each request.
            then_always: For every request after these. None: they are unexpected.

        Raises:
            TypeError: One of them is nothing that can be sent.
        """
        with self._lock:
            self._replies.script.add(replies, then_always)

    def on(self, method: str, path: str, *replies: ScriptedReply, then_always: ScriptedReply | None = None) -> None:
        """Append replies for one method and path; these requests never reach `script`.

        Args:
            method: Such as "GET".
            path: Such as "/jobs/1", which matches with any query, or "/jobs?page=2".
            replies: One for each such request.
            then_always: For every such request after these. None: they are unexpected.

        Raises:
            TypeError: One of them is nothing that can be sent.
        """
        with self._lock:
            self._replies.on(method, path).add(replies, then_always)

    @property
    def calls(self) -> list[ReceivedCall]:
        """The requests so far, in order."""
        with self._lock:
            return list(self._calls)

    @property
    def left(self) -> list[ScriptedReply]:
        """Scripted replies that no request has asked for; a `then_always` does not count."""
        with self._lock:
            return self._replies.left

    def assert_done(self) -> None:
        """Check that every scripted reply was asked for.

        Raises:
            AssertionError: Some were not; it lists them and the requests that came.
        """
        if left := self.left:
            came = ", ".join(f"{call.method} {call.path}" for call in self.calls) or "none"
            raise AssertionError(
                f"{len(left)} scripted replies were never asked for: {', '.join(map(described, left))}; "
                f"requests were: {came}"
            )

    # ---- the end

    def close(self) -> None:
        """Stop: end every connection, join every thread. A second time does nothing.

        Raises:
            AssertionError: There were unexpected requests or faults in the script; it names all of them.
        """
        if not self._closing.is_set():
            self._stop()
            if self._faults:
                raise AssertionError(self._complaint())

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif not self._closing.is_set():
            # The test's own error goes first; from Python 3.11 on it can carry ours.
            self._stop()
            if self._faults and hasattr(error, "add_note"):
                error.add_note(self._complaint())

    def __repr__(self) -> str:
        return f"ScriptedServer({self.url!r}, {len(self.calls)} calls, {len(self.left)} replies left)"

    def _stop(self) -> None:
        self._closing.set()
        # accept() is woken by a connection: closing its socket wakes it on some systems only.
        socket.create_connection(self._address).close()
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            _shut(connection)
        for thread in self._threads:
            thread.join(_JOIN_S)
            if thread.is_alive():
                self._fault(f"{thread.name} does not end: a function of the script goes on after the server was closed")
        self._listener.close()
        if self.ca_file is not None:
            os.unlink(self.ca_file)

    def _complaint(self) -> str:
        return "\n".join(
            [f"{len(self._faults)} things went wrong at {self.url}", *(f"- {fault}" for fault in self._faults)]
        )

    def _fault(self, what: str) -> None:
        with self._lock:
            self._faults.append(what)

    # ---- threads

    def _start(self, target: Callable[..., None], name: str, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name=f"ScriptedServer {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        while True:
            connection, _ = self._listener.accept()
            if self._closing.is_set():
                connection.close()
                return
            number += 1
            self._start(self._serve, f"connection {number}", connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            with self._lock:
                self._connections[number] = connection
            # _stop() sees this connection, or this thread sees that the end has come.
            if self._closing.is_set():
                return
            if self._tls is not None:
                connection.do_handshake()  # type: ignore[attr-defined]
            incoming = Incoming(connection)
            outgoing = Outgoing(connection, self._pause, self._closing, self._fault)
            while self._answer(incoming, outgoing, number):
                pass
        except OSError:
            pass  # the client went away, which is its right
        except Exception:
            self._fault(f"connection {number}: {traceback.format_exc(limit=-3)}")
        finally:
            with self._lock:
                self._connections.pop(number, None)
            connection.close()

    def _answer(self, incoming: Incoming, outgoing: Outgoing, number: int) -> bool:
        """Answer one request; whether the connection is good for another."""
        method, path, fields = incoming.head()
        at = self._clock.monotonic()
        headers = ReceivedHeaders(fields)
        with self._lock:
            reply = self._replies.choose(method, path)
        body = bytearray()
        try:
            if not isinstance(reply, Shaped) or reply.reads_body:
                chunked = headers.get("Transfer-Encoding", "").lower() == "chunked"
                incoming.body(int(headers.get("Content-Length", "0")), chunked, body)
        finally:
            call = ReceivedCall(method, path, headers, bytes(body), at, number)
            with self._lock:
                self._calls.append(call)
        return outgoing.send(self._pieces(reply, call), call) and headers.get("Connection", "").lower() != "close"

    def _pause(self, seconds: float) -> None:
        if self._virtual is None:
            self._closing.wait(seconds)
        else:
            self._virtual.advance(seconds)

    def _pieces(self, reply: ScriptedReply | None, call: ReceivedCall) -> list[Piece]:
        date = formatdate(self._clock.time_ns() // 1_000_000_000, usegmt=True)
        if reply is not None:
            try:
                return pieces_of(reply, call, url=self.url, date=date)
            except Exception:
                what = failure(call, reply)
        else:
            with self._lock:
                reasons = self._replies.why_not(call.method, call.path)
            what = "\n    ".join([f"unexpected request: {call.method} {call.path}", *reasons])
        self._fault(what)
        apology = Reply(_UNEXPECTED, content=what.encode(), headers={"Content-Type": "text/plain; charset=utf-8"})
        return pieces_of(apology, call, url=self.url, date=date)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # it may be closed already
        # Not the SSLSocket's own shutdown: it drops the TLS state under the thread that reads.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
