"""Polls on their way over real sockets: sent, heard piece by piece, landed; as if a thread had waited for them."""

import gc
import gzip
import logging
import select
import socket
import struct
import threading
from contextlib import nullcontext, suppress

import pytest
import sockets
from hypothesis import given
from hypothesis import strategies as st
from sockets import CLOCK, OVERSHOOT_S, Server, pool_of, replies, until

from trihop import Call
from trihop._origin import Trusted
from trihop._wire.extent import reading
from trihop._wire.session import Courier

session, tls_files, tls, trusted = sockets.session, sockets.tls_files, sockets.tls, sockets.trusted

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
TIMEOUT = (5.0, 5.0)


class Asking:
    """A courier at a server that has been asked once, so that its connection is warm."""

    def __init__(self, session, server, *, trusted=None):
        session.verify = trusted if trusted is not None else True
        self.session, self.server = session, server
        self.call = Call("GET", f"{server.url}/jobs/1")
        self.left = until(60)
        self.courier = Courier(session, Trusted(), CLOCK, lambda: self.left())
        self.courier.trusted.adopt(server.url)
        assert self.waited().error_type is None

    def waited(self, **how):
        """What a question comes to whose answer is waited for."""
        return self.courier.send(self.call, quiet=nullcontext, repeat=True, **{"timeout": TIMEOUT, **how})

    def depart(self, **how):
        return self.courier.depart(self.call, quiet=nullcontext, **{"headers": None, "timeout": TIMEOUT, **how})

    def flown(self, **how):
        """What a question comes to that flies."""
        flight = self.depart(**how)
        assert flight is not None
        hear_out(flight)
        return self.waited(flight=flight, **how)


def hear_out(flight):
    """Wait as whoever keeps a fleet's time."""
    while not flight.hear(now_s := CLOCK.monotonic()):
        left_s = flight.until_s(now_s) - now_s
        if left_s <= 0:
            flight.give_up()
            return
        select.select([flight.sock], [], [], left_s)


def then(*parts, every=0.0, end=True):
    """A script: the first request is answered, the second with these parts; then the connection ends, if it does."""

    def script(peer):
        peer.head()
        peer.send(OK)
        peer.head()
        for part in parts:
            peer.send(part)
            peer.server.over.wait(every)
        if not end:
            peer.stall()

    return script


def then_resets(*parts):
    """As `then`, with an end that is a reset."""

    def script(peer):
        then(*parts, every=0.05)(peer)
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()

    return script


def then_drips(data):
    return then(*[data[at : at + 1] for at in range(len(data))], every=0.001, end=False)


def said(sent):
    """What a question came to, but for how long it took."""
    phase = None if sent.cut is None else sent.cut.phase
    content = None if sent.reply is None else sent.reply.content
    return (sent.error_type, type(sent.cause), phase, sent.left, sent.status_code, content, sent.resends, sent.url)


# ---- answers


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_a_connection_serves_one_flight_after_another(session, tls, trusted, secured):
    """Each is sent over the warm one, and gives it back with the answer."""
    with Server(replies(OK, CHUNKED, OK, CHUNKED), tls=tls if secured else None) as server:
        asking = Asking(session, server, trusted=trusted)
        for _ in range(3):
            sent = asking.flown()
            assert (sent.reply.status_code, sent.reply.json(), sent.resends) == (200, {}, 0)
        assert (server.accepted, len(server.heads)) == (1, 4)
        session.close()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize(
    "script",
    [
        then_drips(OK),
        then_drips(CHUNKED),
        then(b"HTTP/1.1 200 OK\r\n\r\n{}"),
        then(OK[:20]),
        then(OK[:-1]),
        then(CHUNKED[:-3]),
        then(),
        then(b"SSH-2.0-OpenSSH\r\n", end=False),
        then(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", end=False),
        then(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", end=False),
        then(b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\n", b"{}", every=0.02, end=False),
        then(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", end=False),
        then(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n", end=False),
        then(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", end=False),
        then(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n", end=False),
        then(b"HTTP/1.1 100 Continue\r\n\r\n", OK, every=0.02, end=False),
        then(b"HTTP/1.1 103 Early Hints\r\n\r\n", OK, every=0.02, end=False),
    ],
    ids=[
        *("a byte at a time", "chunks, a byte at a time", "until the end", "broken off in the head"),
        *("broken off in the body", "broken off in a chunk", "none", "no HTTP", "two lengths", "line feeds"),
        *("a folded length", "304", "a bad chunk", "no gzip", "a redirect to nowhere", "100", "103"),
    ],
)
def test_an_answer_comes_to_what_it_comes_to_for_who_waits(session, tls, trusted, secured, script):
    """Reply, error and all; and no later."""
    came, took_s = [], []
    for how in (Asking.flown, Asking.waited):
        with Server(script, replies(OK), tls=tls if secured else None) as server:
            asking = Asking(session, server, trusted=trusted)
            began_s = CLOCK.monotonic()
            came.append(said(how(asking))[:-1])
            took_s.append(CLOCK.monotonic() - began_s)
            session.close()
    assert came[0] == came[1]
    assert took_s[0] < took_s[1] + 2 * OVERSHOOT_S


@pytest.mark.parametrize("parts", [(), (OK[:20],), (OK[:-1],)], ids=["at once", "in the head", "in the body"])
def test_a_reset_comes_to_what_it_comes_to_for_who_waits(session, parts):
    """What arrived before it counts."""
    came = []
    for how in (Asking.flown, Asking.waited):
        with Server(then_resets(*parts), replies(OK)) as server:
            came.append(said(how(Asking(session, server)))[:-1])
            session.close()
    assert came[0] == came[1]


def test_bytes_that_are_no_tls_are_an_error_of_it(session, tls, trusted):
    """As for who waits."""

    def talks_plainly(peer):
        peer.head()
        peer.send(OK)
        peer.head()
        with socket.socket(fileno=socket.dup(peer.sock.fileno())) as below:
            below.sendall(OK)
        peer.stall()

    came = []
    for how in (Asking.flown, Asking.waited):
        with Server(talks_plainly, tls=tls) as server:
            came.append(said(how(Asking(session, server, trusted=trusted)))[:-1])
            session.close()
    assert came[0] == came[1]
    assert came[0][0] == "tls"


def test_a_record_of_tls_may_come_in_pieces(session, tls, trusted):
    """What is there of it can be heard, and is no answer yet."""
    slow = threading.Event()

    def passes_on(peer):
        upstream = socket.create_connection(("127.0.0.1", behind.port))
        peer.server.hold(upstream)

        def back():
            with suppress(OSError):
                while data := upstream.recv(65536):
                    peer.drip(data, every=0.001) if slow.is_set() else peer.send(data)

        thread = threading.Thread(target=back)
        thread.start()
        while data := peer.sock.recv(65536):
            upstream.sendall(data)
        upstream.shutdown(socket.SHUT_RDWR)
        thread.join()
        upstream.close()

    with Server(replies(OK, OK), tls=tls) as behind, Server(passes_on) as server:
        server.url = f"https://localhost:{server.port}"
        asking = Asking(session, server, trusted=trusted)
        slow.set()
        sent = asking.flown()
        assert (sent.reply.json(), sent.resends) == ({}, 0)
        session.close()


def test_a_large_answer_is_read_by_who_lands_it(session):
    """It can be landed before it is all there, so that a poll keeps no more than a mebibyte."""
    body = gzip.compress(b"") + b"x" * 3_000_000
    with Server(then(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body, end=False)) as server:
        asking = Asking(session, server)
        flight = asking.depart()
        hear_out(flight)
        assert not flight.is_over
        sent = asking.waited(flight=flight)
        assert sent.reply.content == body
        session.close()


# ---- deadlines and timeouts


@pytest.mark.parametrize(
    ("part", "phase"),
    [(b"", "headers"), (OK[:20], "headers"), (OK[:-1], "body"), (CHUNKED[:-3], "body")],
    ids=["before the answer", "in the head", "in the body", "in the last chunk"],
)
def test_the_deadline_strikes_in_the_phase_the_answer_is_in(session, part, phase):
    """Neither before it nor long after."""
    with Server(then(part, end=False)) as server:
        asking = Asking(session, server)
        asking.left = until(0.3)
        sent = asking.flown()
        assert (sent.error_type, sent.cut.phase) == ("deadline", phase)
        assert -OVERSHOOT_S <= asking.left() <= 0.0
        session.close()


def test_what_arrived_before_the_deadline_counts_after_it(session):
    """Whoever lands it may be late."""
    with Server(replies(OK, OK)) as server:
        asking = Asking(session, server)
        left = iter([1.0])
        asking.left = lambda: next(left, 60.0)
        flight = asking.depart()
        hear_out(flight)
        asking.left = lambda: -1.0
        flight._remaining = asking.left
        assert asking.waited(flight=flight).reply.json() == {}
        session.close()


@pytest.mark.parametrize("deadline_s", [60, 0.35], ids=["far", "near"])
@pytest.mark.parametrize("part", [b"", OK[:20], OK[:-1]], ids=["before the answer", "in the head", "in the body"])
def test_a_server_that_says_nothing_for_too_long_is_a_read_timeout(session, part, deadline_s):
    """When the timeout ends, however little is left before the deadline then."""
    with Server(then(part, end=False)) as server:
        asking = Asking(session, server)
        asking.left = until(deadline_s)
        sent = asking.flown(timeout=(5.0, 0.2))
        assert (sent.error_type, sent.cut) == ("read_timeout", None)
        assert asking.left() > 0.0
        assert sent.left
        session.close()


def test_a_server_that_says_a_little_now_and_then_has_not_timed_out(session):
    """The timeout is that of one wait."""
    with Server(then(*[OK[at : at + 1] for at in range(len(OK))], every=0.01, end=False)) as server:
        sent = Asking(session, server).flown(timeout=(5.0, 0.3))
        assert sent.reply.json() == {}
        assert sent.duration_s > 0.3
        session.close()


# ---- what does not fly


def test_a_connection_that_has_to_be_opened_takes_a_thread(session):
    """There is nothing in flight, and nothing lost."""
    with Server(replies(OK, OK)) as server:
        asking = Asking(session, server)
        pool_of(session.get_adapter(server.url))._get_conn().close()
        assert asking.depart() is None
        assert asking.waited().reply.json() == {}
        session.close()


def test_a_connection_that_the_server_has_closed_takes_a_thread(session):
    """As it has to be opened anew."""
    with Server(lambda peer: (peer.head(), peer.send(OK)), replies(OK)) as server:
        asking = Asking(session, server)
        conn = pool_of(session.get_adapter(server.url)).pool.queue[-1]
        select.select([conn.sock], [], [], 5)
        assert asking.depart() is None
        assert (asking.waited().reply.json(), server.accepted) == ({}, 2)
        session.close()


def test_code_of_the_callers_that_signs_is_asked_when_it_always_was(session):
    """Once for a request, by the thread that waits for the answer."""
    signed = []

    def sign(request):
        signed.append(request.url)
        return request

    session.auth = sign
    with Server(replies(*[OK] * 3)) as server:
        asking = Asking(session, server)
        assert asking.depart() is None
        asking.waited()
        assert len(signed) == 2
        session.close()


@pytest.mark.parametrize("owner", ["adapter", "pool"])
def test_whoever_stands_in_the_way_is_asked(session, owner):
    """What an instance has of its own is not passed by."""
    with Server(replies(*[OK] * 3)) as server:
        asking = Asking(session, server)
        adapter = session.get_adapter(server.url)
        of, name = (adapter, "add_headers") if owner == "adapter" else (pool_of(adapter), "urlopen")
        asked, inner = [], getattr(of, name)
        vars(of)[name] = lambda *args, **options: (asked.append(name), inner(*args, **options))[1]
        assert asking.depart() is None
        asking.waited()
        assert asked == [name]
        session.close()


def test_a_request_that_cannot_be_sent_leaves_nothing_open(session):
    """It fails as it would for who waits, and the connection is closed; a socket that is not fails the test."""
    with Server(replies(OK, OK), replies(OK)) as server:
        asking = Asking(session, server)
        with pytest.raises(UnicodeEncodeError):
            asking.depart(headers={"X": "\N{EURO SIGN}"})
        with pytest.raises(UnicodeEncodeError):
            asking.waited(headers={"X": "\N{EURO SIGN}"})
        assert asking.waited().reply.json() == {}
        session.close()


# ---- what is sent


def test_the_same_goes_out_as_for_who_waits(session):
    """Byte for byte, also where requests would write a target otherwise."""
    session.headers["X-Own"] = "yes"
    with Server(replies(*[OK] * 4)) as server:
        asking = Asking(session, server)
        asking.call = Call("GET", f"{server.url}/jobs/1?at=%2fa")
        asking.waited(headers={"traceparent": "00-1-2-01"})
        asking.flown(headers={"traceparent": "00-1-2-01"})
        assert server.heads[1] == server.heads[2]
        assert b"/jobs/1?at=%2fa " in server.heads[1]
        session.close()


def test_urllib3_tells_of_a_flight_as_of_any_request(session, caplog):
    """Whoever reads its log misses none."""
    with Server(replies(*[OK] * 3)) as server, caplog.at_level(logging.DEBUG, logger="urllib3.connectionpool"):
        asking = Asking(session, server)
        caplog.clear()
        asking.waited()
        asking.flown()
        waited, flown = caplog.messages
        assert flown == waited
        assert '"GET /jobs/1 HTTP/1.1" 200 2' in flown
        session.close()


def test_a_stale_connection_is_told_of_and_the_request_sent_once_more(session):
    """With the headers that it had, as for who waits."""
    with Server(then(), replies(OK)) as server:
        sent = Asking(session, server).flown(headers={"traceparent": "00-1-2-01"})
        assert (sent.reply.json(), sent.resends, server.accepted) == ({}, 1, 2)
        assert all(b"traceparent: 00-1-2-01" in head for head in server.heads[1:])
        assert len(server.heads) == 3
        session.close()


def test_what_is_dropped_is_closed(session):
    """And its place in the pool is free; a socket that is not closed fails the test."""
    with Server(replies(OK), replies(OK)) as server:
        asking = Asking(session, server)
        pool = pool_of(session.get_adapter(server.url))
        size = pool.pool.qsize()
        flight = asking.depart()
        assert pool.pool.qsize() == size - 1
        flight.drop()
        assert (pool.pool.qsize(), flight.sock.fileno()) == (size, -1)
        assert asking.waited().reply.json() == {}
        session.close()


def test_a_session_that_is_closed_meanwhile_takes_the_answer(session):
    """And keeps no connection."""
    with Server(replies(OK, OK)) as server:
        asking = Asking(session, server)
        flight = asking.depart()
        sock = flight.sock
        session.close()
        hear_out(flight)
        assert asking.waited(flight=flight).reply.json() == {}
        del flight  # and with it the pool, which urllib3 closes then
        gc.collect()
        assert sock.fileno() == -1


# ---- how far an answer goes


FIELDS = st.lists(
    st.sampled_from([b"Date: now", b"X-Length: 7", b"Content-Type: a/b; charset=utf-8", b"X-Content-Length: 9", b"E:"])
)
ENDS = st.sampled_from([b"\r\n", b"\n"])
BODIES = st.one_of(st.binary(max_size=60), st.sampled_from([b"0\r\n\r\n", b"\r\n\r\n", b"a0\r\n\r\n0\r\n\r\n"]))


@st.composite
def heads(draw, framing):
    end, fields = draw(ENDS), [*draw(FIELDS), draw(framing)]
    lines = [b"HTTP/1.%d 200 OK" % draw(st.integers(0, 1)), *draw(st.permutations(fields)), b"", b""]
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    return interim + end.join(lines)


@st.composite
def sized(draw):
    body = draw(BODIES)
    names = st.sampled_from([b"Content-Length:%d", b"content-length: %d", b"CONTENT-LENGTH: \t%d "])
    return draw(heads(names.map(lambda name: name % len(body)))) + body


@st.composite
def chunked(draw):
    names = st.sampled_from(
        [b"Transfer-Encoding: chunked", b"transfer-encoding:Chunked", b"TRANSFER-ENCODING: x, chunked"]
    )
    head, extension = draw(heads(names)), st.sampled_from([b"", b";a=b", b' ; c="d"'])
    chunks = draw(st.lists(BODIES.filter(bool), max_size=4))
    pieces = [b"%x%b\r\n%b\r\n" % (len(chunk), draw(extension), chunk) for chunk in chunks]
    trailers = draw(st.lists(st.sampled_from([b"A: b\r\n", b"Content-Length: 3\r\n"]), max_size=2))
    return b"".join([head, *pieces, b"0", draw(extension), b"\r\n", *trailers, b"\r\n"])


def is_whole(arrived):
    """All there, or odd: there is nothing to wait for."""
    return next(reading(arrived), True)


@given(st.one_of(sized(), chunked()), st.binary(max_size=5))
def test_an_answer_is_whole_when_all_of_it_is_there(answer, more):
    """Not a byte earlier; and it stays so, whatever follows."""
    assert [size for size in range(len(answer)) if is_whole(answer[:size])] == []
    assert is_whole(answer)
    assert is_whole(answer + more)


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n", False),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", True),
        (b"no HTTP\r\n", True),
        (b"\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n1234", False),
    ],
)
def test_what_has_no_length_is_as_long_as_its_reader_has_it(answer, whole):
    """What it would not take, or not so, it is to see at once."""
    assert is_whole(answer) is whole
