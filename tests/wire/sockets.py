"""Servers on loopback that misbehave below HTTP: byte by byte, in the handshake, in the backlog."""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import requests
import trustme
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool

from trihop._clock import SystemClock
from trihop._wire.exchange import DeadlineCut, Exchange, bounded

CLOCK = SystemClock()
# A busy machine may let a thread lie for a while; what is not bounded overshoots by a second and more.
OVERSHOOT_S = 0.5


def until(seconds: float) -> Callable[[], float]:
    """What is left before an instant so many seconds from now."""
    at_s = CLOCK.monotonic() + seconds
    return lambda: at_s - CLOCK.monotonic()


# In which even a busy machine has shaken hands for TLS.
SHAKEN_HANDS_S = 1.0


class FromThen(SystemClock):
    """The machine's time from `begin` on; before that none passes but pauses, which take no time.

    A deadline in the middle of a story is then none for what comes before it, however busy the machine is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._real, self._held_s = self.monotonic, self.monotonic()
        self._begun_s: float | None = None
        self.monotonic = self._now

    def begin(self) -> None:
        """Let time pass, if it does not yet."""
        if self._begun_s is None:
            self._begun_s = self._real()

    def sleep(self, seconds: float) -> None:
        if self._begun_s is None:
            self._held_s += seconds
        else:
            super().sleep(seconds)

    def _now(self) -> float:
        return self._held_s if self._begun_s is None else self._held_s + self._real() - self._begun_s


@contextlib.contextmanager
def cut_on_time(exchange: Exchange, phase: str) -> Iterator[None]:
    """The block is cut in that phase when the deadline strikes, hardly later than a sleep ends."""
    woke_at_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal woke_at_s
        threading.Event().wait(seconds)
        woke_at_s = exchange.remaining()

    sleeper = threading.Thread(target=sleep, args=(max(exchange.remaining(), 0.0),))
    sleeper.start()
    with pytest.raises(DeadlineCut) as cut:
        yield
    left = exchange.remaining()
    sleeper.join()
    assert cut.value.phase == phase
    assert min(woke_at_s, 0.0) - OVERSHOOT_S <= left <= 0.0


@contextlib.contextmanager
def expect_cut(phase: str, *, after: float = 0.4) -> Iterator[Exchange]:
    """The block is an exchange that is cut in that phase, after so many seconds."""
    exchange = Exchange(until(after))
    with cut_on_time(exchange, phase), bounded(exchange):
        yield exchange


def pool_of(adapter: HTTPAdapter) -> HTTPConnectionPool:
    """The one pool that the adapter has made."""
    (pool,) = adapter.poolmanager.pools._container.values()
    return pool


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session of requests' own, after which a socket that nobody closed warns, and so fails the test."""
    with requests.Session() as session:
        session.trust_env = False
        yield session
    gc.collect()


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    """A server's context for localhost, and the file that makes it trusted."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    path: Path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context, str(path)


@pytest.fixture
def tls(tls_files: tuple[ssl.SSLContext, str]) -> ssl.SSLContext:
    """A server's context for localhost."""
    return tls_files[0]


@pytest.fixture
def trusted(tls_files: tuple[ssl.SSLContext, str]) -> str:
    """What `verify=` needs to trust it."""
    return tls_files[1]


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, server: Server) -> None:
        self.sock = sock
        self.server = server
        self._seen = b""

    def handshake(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on."""
        self.sock = context.wrap_socket(self.sock, server_side=True)
        self.server.hold(self.sock)

    def head(self) -> bytes:
        """The next request's head, kept in `server.heads`; empty when the client has gone."""
        while b"\r\n\r\n" not in self._seen:
            data = self.sock.recv(65536)
            if not data:
                return b""
            self._seen += data
        head, _, self._seen = self._seen.partition(b"\r\n\r\n")
        self.server.heads.append(head)
        return head

    def rest(self) -> bytes:
        """What came after the last head and was not asked for yet."""
        rest, self._seen = self._seen, b""
        return rest

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes, every: float = 0.02) -> None:
        """One byte at a time, until the client has gone."""
        for at in range(len(data)):
            self.send(data[at : at + 1])
            if self.server.over.wait(every):
                return

    def stall(self) -> None:
        """Do nothing until the test is over."""
        self.server.over.wait(10)


Script = Callable[[Peer], None]


class Server:
    """Runs a script for each connection, the last one for all further connections.

    Args:
        scripts: What to do with the first connection, the second, and so on.
        tls: Shake hands first.
        receive_buffer: A small one makes uploads block soon.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, receive_buffer: int | None = None) -> None:
        self.heads: list[bytes] = []
        self.accepted = 0
        self.over = threading.Event()
        self._scripts = scripts
        self._tls = tls
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket()
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.port: int = self._listener.getsockname()[1]
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{'127.0.0.1' if tls is None else 'localhost'}:{self.port}"

    def __enter__(self) -> Server:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for sock in (self._listener, *self._open):
            self._end(sock)
        for thread in self._threads:
            thread.join(5)
        for sock in (self._listener, *self._open):
            sock.close()
        assert not any(thread.is_alive() for thread in self._threads)

    @staticmethod
    def _end(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self.over.is_set():
                sock, _ = self._listener.accept()
                self.hold(sock)
                script = self._scripts[min(self.accepted, len(self._scripts) - 1)]
                self.accepted += 1
                self._start(self._serve, sock, script)

    def _serve(self, sock: socket.socket, script: Script) -> None:
        with contextlib.suppress(OSError):
            peer = Peer(sock, self)
            try:
                if self._tls is not None:
                    peer.handshake(self._tls)
                script(peer)
            finally:
                self._end(peer.sock)  # a relay reads from it too
                peer.sock.close()

    def hold(self, sock: socket.socket) -> None:
        """End this socket with the server."""
        self._open.append(sock)
        if self.over.is_set():
            self._end(sock)

    def relay(self, peer: Peer, port: int, *, slow_after: int | None = None) -> None:
        """Be a wire between the client and another port; what comes back may be dripped after so many bytes."""
        upstream = socket.create_connection(("127.0.0.1", port))
        self.hold(upstream)
        self._start(self._carry, peer.sock, upstream.sendall)
        passed = 0

        def back(data: bytes) -> None:
            nonlocal passed
            passed += len(data)
            peer.drip(data) if slow_after is not None and passed > slow_after else peer.send(data)

        self._carry(upstream, back)

    def _carry(self, source: socket.socket, onward: Callable[[bytes], None]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                onward(data)
        self._end(source)


# ---- scripts


def answer(peer: Peer) -> None:
    """200 with two bytes, as often as asked."""
    while peer.head():
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def replies(*parts: bytes) -> Script:
    """One part for each request on the connection, then nothing."""

    def script(peer: Peer) -> None:
        for part in parts:
            if peer.head():
                peer.send(part)
        peer.stall()

    return script


def stalls(peer: Peer) -> None:
    """Read the head and say nothing."""
    peer.head()
    peer.stall()


def hangs_up(peer: Peer) -> None:
    """Read the head and leave."""
    peer.head()


def silent(peer: Peer) -> None:
    """Read nothing, say nothing."""
    peer.stall()


def drips(data: bytes, *, first: bytes = b"") -> Script:
    """Some bytes at once, the others one at a time."""

    def script(peer: Peer) -> None:
        peer.head()
        peer.send(first)
        peer.drip(data)

    return script


def connects(port: int, *, reply: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Script:
    """A proxy that answers CONNECT and is a wire from then on."""

    def script(peer: Peer) -> None:
        if peer.head():
            peer.send(reply)
            peer.server.relay(peer, port)

    return script


def socks5(port: int) -> Script:
    """A SOCKS5 proxy without passwords."""

    def script(peer: Peer) -> None:
        peer.sock.recv(3)
        peer.send(b"\x05\x00")
        peer.sock.recv(300)
        peer.send(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
        peer.server.relay(peer, port)

    return script


def drips_handshake(context: ssl.SSLContext) -> Script:
    """A TLS server whose handshake comes one byte at a time."""

    def script(peer: Peer) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while not peer.server.over.is_set():
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            peer.drip(outgoing.read(), every=0.005)
            incoming.write(peer.sock.recv(65536))

    return script


# ---- black holes


@contextlib.contextmanager
def black_holes(addresses: Sequence[str] = ("127.0.0.1",)) -> Iterator[int]:
    """A port at which connecting to those addresses never ends: their backlogs are full."""
    with contextlib.ExitStack() as open_sockets:
        port = 0
        for address in addresses:
            listener = open_sockets.enter_context(socket.socket())
            listener.bind((address, port))
            port = listener.getsockname()[1]
            listener.listen(0)
            for _ in range(4):
                filler = open_sockets.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex((address, port))
        yield port


def resolve_to(
    monkeypatch: pytest.MonkeyPatch, name: str, addresses: Sequence[str], *, first: Callable[[], object] = bool
) -> None:
    """Have a name resolved to those addresses, after `first` was called."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: int, **kwargs: int) -> list[object]:
        if host != name:
            return real(host, port, *args, **kwargs)  # type: ignore[return-value]
        first()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def no_thread_to_resolve(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Refuse the thread that would resolve names; the names of those refused."""
    start, refused = threading.Thread.start, []

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "trihop-resolve":
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return refused
