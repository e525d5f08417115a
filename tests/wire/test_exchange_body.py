"""What goes up and what comes down: uploads, status line, headers and body, each bounded by the deadline."""

from __future__ import annotations

import contextvars
import gc
import gzip
import io
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest
import requests
import sockets
from sockets import (
    SHAKEN_HANDS_S,
    Peer,
    Server,
    answer,
    cut_on_time,
    drips,
    expect_cut,
    replies,
    silent,
    stalls,
    until,
)

from trihop import operation
from trihop._wire.exchange import DeadlineCut, Exchange, bounded, install

install()

session, tls_files, tls, trusted = sockets.session, sockets.tls_files, sockets.tls, sockets.trusted

UPLOAD_BYTES = 16_000_000


# ---- status line and headers


def test_a_server_that_says_nothing_is_cut(session: requests.Session) -> None:
    """A request without an answer is given up at the deadline, and the session goes on."""
    with Server(stalls, answer) as server:
        with expect_cut("headers") as exchange:
            session.get(server.url)
        assert (exchange.sent, exchange.received, exchange.requests) == (True, False, 1)
        with bounded(Exchange(until(5))):
            assert session.get(server.url).content == b"ok"


@pytest.mark.parametrize(
    "dripped", [b"HTTP/1.1 200 All is very well indeed\r\n", b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 99]
)
def test_a_dripped_status_line_or_header_is_cut(session: requests.Session, dripped: bytes) -> None:
    """One byte at a time does not outlast the deadline, and is no empty success."""
    with Server(drips(dripped), answer) as server:
        with expect_cut("headers") as exchange:
            session.get(server.url)
        assert exchange.received is True
        with bounded(Exchange(until(5))):
            assert session.get(server.url).content == b"ok"


def test_headers_over_tls_are_cut(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """TLS does not shield a dripping server."""
    with Server(drips(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 99), answer, tls=tls) as server:
        with expect_cut("headers", after=SHAKEN_HANDS_S):
            session.get(server.url, verify=trusted)
        with bounded(Exchange(until(5))):
            assert session.get(server.url, verify=trusted).content == b"ok"


def test_a_warm_connection_is_bounded_too(session: requests.Session) -> None:
    """A connection made before the exchange, and before the deadline was known, is cut like a new one."""
    with Server(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""), answer) as server:
        assert session.get(server.url).status_code == 200
        with expect_cut("headers") as exchange:
            session.get(server.url)
        assert exchange.reused is True
        assert server.accepted == 1


# ---- bodies

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
ZIPPED = gzip.compress(bytes(range(256)) * 4, mtime=0)

BODIES = {
    "sized": drips(b"x" * 90, first=SIZED),
    "chunked": drips(b"5\r\nhello\r\n" * 9, first=CHUNKED),
    "within a chunk": drips(b"x" * 90, first=CHUNKED + b"ff\r\n"),
    "until it closes": drips(b"x" * 90, first=CLOSED),
    "gzip": drips(
        ZIPPED, first=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(ZIPPED)
    ),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_dripped_body_is_cut(session: requests.Session, body: str) -> None:
    """However its end is marked, a body of one byte at a time is cut and never handed back short."""
    with Server(BODIES[body], answer) as server:
        with expect_cut("body"):
            session.get(server.url)
        with bounded(Exchange(until(5))):
            assert session.get(server.url).content == b"ok"


def _raw_read(response: requests.Response) -> None:
    while response.raw.read(16, decode_content=True):
        pass


def _read_once(response: requests.Response) -> None:
    response.raw.read()


def _read1(response: requests.Response) -> None:
    read1 = getattr(response.raw, "read1", response.raw._fp.read1)  # urllib3 1.26 has none of its own
    while read1(16):
        pass


def _readinto(response: requests.Response) -> None:
    while response.raw.readinto(bytearray(16)):
        pass


def _buffered(response: requests.Response) -> None:
    response.raw.auto_close = False
    with io.BufferedReader(response.raw) as file:
        file.read()


STYLES: dict[str, Callable[[requests.Response], object]] = {
    "content": lambda response: response.content,
    "iter_content": lambda response: list(response.iter_content(16)),
    "iter_content(1)": lambda response: list(response.iter_content(1)),
    "iter_lines": lambda response: list(response.iter_lines()),
    "raw.read(16)": _raw_read,
    "raw.read()": _read_once,
    "raw.read1": _read1,
    "raw.readinto": _readinto,
    "raw.stream": lambda response: list(response.raw.stream(16)),
    "BufferedReader(raw)": _buffered,
}


@pytest.mark.parametrize("body", ["sized", "chunked", "until it closes"])
@pytest.mark.parametrize("style", STYLES)
def test_a_streamed_body_is_cut_after_the_block(session: requests.Session, style: str, body: str) -> None:
    """A body that is read later belongs to the exchange it was born in, in whatever way it is read."""
    ends = [until(5)]
    with Server(BODIES[body], answer) as server:
        with bounded(Exchange(lambda: ends[-1]())) as exchange:
            response = session.get(server.url, stream=True)
        ends.append(until(0.2))
        with cut_on_time(exchange, "body"):
            STYLES[style](response)
        response.close()
        assert session.get(server.url).content == b"ok"


def test_a_body_is_cut_in_another_context_and_thread(session: requests.Session) -> None:
    """Neither a thread nor a context of its own sets a body free."""
    cuts: list[BaseException] = []

    def read(response: requests.Response) -> None:
        try:
            response.content  # noqa: B018
        except DeadlineCut as cut:
            cuts.append(cut)

    ends = [until(5)]
    with Server(BODIES["sized"]) as server:
        with bounded(Exchange(lambda: ends[-1]())):
            response = session.get(server.url, stream=True)
        ends.append(until(0.2))
        thread = threading.Thread(target=contextvars.Context().run, args=(read, response))
        thread.start()
        thread.join(5)
    assert [cut.phase for cut in cuts if isinstance(cut, DeadlineCut)] == ["body"]


def test_a_body_that_never_pauses_is_cut(session: requests.Session) -> None:
    """A fast and endless body meets the deadline without ever having been waited for."""

    def script(peer: Peer) -> None:
        peer.head()
        peer.send(CLOSED)
        while not peer.server.over.is_set():
            peer.send(b"x" * 65536)

    ends = [until(5)]
    with Server(script) as server:
        with bounded(Exchange(lambda: ends[-1]())) as exchange:
            response = session.get(server.url, stream=True)
        ends.append(until(0.2))
        with cut_on_time(exchange, "body"):
            for _ in response.iter_content(65536):
                pass


def test_a_body_over_tls_is_cut(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """A body that comes in small TLS records is cut, and the session goes on."""
    with Server(BODIES["sized"], answer, tls=tls) as server:
        with expect_cut("body", after=SHAKEN_HANDS_S):
            session.get(server.url, verify=trusted)
        with bounded(Exchange(until(5))):
            assert session.get(server.url, verify=trusted).content == b"ok"


def test_a_body_in_time_is_whole(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """A large body is the same bytes inside an exchange, and leaves the connection for the next request."""
    body = bytes(range(256)) * 20_000
    script = replies(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body, SIZED + b"y" * 90)
    for context in (None, tls):
        with Server(script, tls=context) as server, bounded(Exchange(until(20))) as exchange:
            assert session.get(server.url, verify=trusted).content == body
            assert session.get(server.url, verify=trusted).content == b"y" * 90
            assert exchange.reused is True
            assert server.accepted == 1


def test_a_deadline_that_moves_while_a_body_comes_is_heeded(session: requests.Session) -> None:
    """What is left is asked again before each receive, and once more before a cut."""
    left_s = [0.1]

    def script(peer: Peer) -> None:
        peer.head()
        peer.send(SIZED)
        peer.server.over.wait(0.05)
        left_s.append(5.0)
        peer.server.over.wait(0.3)
        peer.send(b"x" * 90)
        peer.stall()

    with Server(script) as server, bounded(Exchange(lambda: left_s[-1])):
        assert session.get(server.url).content == b"x" * 90


def test_the_callers_read_timeout_stays_the_callers(session: requests.Session) -> None:
    """A read timeout that ends before the deadline raises what requests always raised."""
    with Server(stalls, replies(SIZED)) as server, bounded(Exchange(until(5))):
        with pytest.raises(requests.ReadTimeout, match=r"read timeout=0\.1"):
            session.get(server.url, timeout=0.1)
        with pytest.raises(requests.ConnectionError, match="Read timed out"):
            session.get(server.url, timeout=0.1)


def test_the_deadline_wins_over_a_longer_timeout(session: requests.Session) -> None:
    """The caller's `timeout=` bounds each wait, the deadline all of them."""
    with Server(stalls, BODIES["sized"]) as server:
        for phase in ("headers", "body"):
            with expect_cut(phase):
                session.get(server.url, timeout=3)


def test_the_callers_timeout_is_back_on_the_socket(session: requests.Session) -> None:
    """A connection returns to the pool with the timeout that the caller gave it."""
    with Server(answer) as server:
        with bounded(Exchange(until(5))) as exchange:
            session.get(server.url, timeout=7)
        assert exchange.requests == 1
        pooled = sockets.pool_of(session.get_adapter(server.url)).pool.queue[-1]
        assert pooled.sock.gettimeout() == 7


@pytest.mark.parametrize("length", [b"-1", b"-99999999999999999999"])
def test_a_length_below_nothing_is_none(session: requests.Session, length: bytes) -> None:
    """The body goes on to the end of the connection, and nobody complains when the response is let go of."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\nrows")

    with Server(serve) as server, operation("export", deadline=5, session=session) as op:
        assert session.get(server.url).content == b"rows"
        assert op.download(server.url).content == b"rows"
        del session.get(server.url, stream=True).raw
        gc.collect()


# ---- uploads


def chunks() -> Iterator[bytes]:
    for _ in range(UPLOAD_BYTES // 100_000):
        yield b"x" * 100_000


UPLOADS: dict[str, Callable[[], object]] = {
    "bytes": lambda: b"x" * UPLOAD_BYTES,
    "a file": lambda: io.BytesIO(b"x" * UPLOAD_BYTES),
    "a generator": chunks,
}


@pytest.mark.parametrize("upload", UPLOADS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_upload_that_nobody_reads_is_cut(
    session: requests.Session, tls: ssl.SSLContext, trusted: str, scheme: str, upload: str
) -> None:
    """A server that stops reading keeps no upload beyond the deadline, and the session goes on."""
    context = tls if scheme == "https" else None
    with Server(silent, answer, tls=context, receive_buffer=4096) as server:
        with expect_cut("headers", after=SHAKEN_HANDS_S) as exchange:
            session.post(server.url, data=UPLOADS[upload](), verify=trusted)
        assert (exchange.sent, exchange.received) == (True, False)
        with bounded(Exchange(until(5))):
            assert session.get(server.url, verify=trusted).content == b"ok"


@pytest.mark.parametrize("upload", UPLOADS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_upload_that_is_read_slowly_is_cut(
    session: requests.Session, tls: ssl.SSLContext, trusted: str, scheme: str, upload: str
) -> None:
    """A server that takes a little at a time wins no time by it."""

    def sips(peer: Peer) -> None:
        while not peer.server.over.wait(0.003) and peer.sock.recv(16384):
            pass

    context = tls if scheme == "https" else None
    with Server(sips, tls=context, receive_buffer=65536) as server, expect_cut("headers", after=SHAKEN_HANDS_S):
        session.post(server.url, data=UPLOADS[upload](), verify=trusted)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("upload", UPLOADS)
def test_an_upload_in_time_arrives_whole(
    session: requests.Session, tls: ssl.SSLContext, trusted: str, scheme: str, upload: str
) -> None:
    """What is sent piece by piece arrives as one."""
    arrived = [0]

    def count(peer: Peer) -> None:
        head = peer.head()
        end = b"0\r\n\r\n" if b"chunked" in head else b""
        data = peer.rest()
        while arrived[0] < UPLOAD_BYTES or not data.endswith(end):
            arrived[0] += data.count(b"x")
            data = peer.sock.recv(1_000_000)
            if arrived[0] + data.count(b"x") >= UPLOAD_BYTES and data.endswith(end):
                arrived[0] += data.count(b"x")
                break
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        peer.stall()

    context = tls if scheme == "https" else None
    with Server(count, tls=context) as server, bounded(Exchange(until(20))) as exchange:
        assert session.post(server.url, data=UPLOADS[upload](), verify=trusted).status_code == 200
    assert (arrived, exchange.requests) == ([UPLOAD_BYTES], 1)
