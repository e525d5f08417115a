"""One exchange: what it knows afterwards, what it leaves alone, and whom it covers."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from typing import Any

import pytest
import requests
import sockets
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth
from sockets import Server, answer, connects, drips, expect_cut, hangs_up, replies, silent, until
from urllib3.connection import HTTPConnection
from urllib3.util import connection as urllib3_connect

from trihop._wire.exchange import DeadlineCut, Exchange, bounded, install
from trihop._wire.sockets import timed_out


class MadeBefore(HTTPConnection):
    """A subclass from before `install`, with an override of each method we are in."""

    def connect(self) -> None:
        super().connect()

    def putrequest(self, *args: Any, **kwargs: Any) -> None:
        super().putrequest(*args, **kwargs)

    def send(self, data: Any) -> None:
        super().send(data)

    def getresponse(self, *args: Any, **kwargs: Any) -> Any:
        return super().getresponse(*args, **kwargs)


install()

session, tls_files, tls, trusted = sockets.session, sockets.tls_files, sockets.tls, sockets.trusted


class MadeAfter(MadeBefore):
    """A subclass with a response class of its own."""

    class response_class(HTTPConnection.response_class):
        """Tells that it was used."""

        chosen = True


# ---- what it knows


def test_a_new_connection_sends_receives_and_is_not_reused(session: requests.Session) -> None:
    """A first exchange was sent, received, and on a connection of its own; the second one on the same."""
    with Server(answer) as server:
        with bounded(Exchange(until(5))) as first:
            session.get(server.url)
        with bounded(Exchange(until(5))) as second:
            session.get(server.url)
        assert server.accepted == 1
    assert (first.sent, first.received, first.requests, first.reused) == (True, True, 1, False)
    assert (second.sent, second.received, second.requests, second.reused) == (True, True, 1, True)


def test_https_knows_a_warm_connection_too(session: requests.Session, tls: Any, trusted: str) -> None:
    """A TLS connection is connected before the request begins, and is not taken for a warm one."""
    with Server(answer, tls=tls) as server, Server(connects(server.port)) as proxy:
        for proxies in ({}, {"https": proxy.url}):
            reused = []
            for _ in range(2):
                with bounded(Exchange(until(5))) as exchange:
                    session.get(server.url, verify=trusted, proxies=proxies)
                reused.append(exchange.reused)
            assert reused == [False, True]


def test_a_connection_lost_before_a_byte_came_was_sent_and_not_received(session: requests.Session) -> None:
    """A server that hangs up on a request leaves it sent, and nothing received."""
    with Server(hangs_up) as server, bounded(Exchange(until(5))) as exchange, pytest.raises(requests.ConnectionError):
        session.get(server.url)
    assert (exchange.sent, exchange.received, exchange.requests) == (True, False, 1)


def test_an_auth_handler_that_asks_again_makes_two_requests(session: requests.Session) -> None:
    """Digest sends the request a second time, within the same exchange."""
    challenge = b'HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm="r", nonce="n"\r\nContent-Length: 0\r\n\r\n'
    script = replies(challenge, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    with Server(script) as server, bounded(Exchange(until(5))) as exchange:
        assert session.get(server.url, auth=HTTPDigestAuth("me", "secret")).status_code == 200
    assert (exchange.requests, exchange.reused) == (2, True)


def test_redirects_are_requests_of_the_same_exchange(session: requests.Session) -> None:
    """All that one send of the session leads to shares one deadline."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
    with Server(replies(moved, moved)) as server, expect_cut("headers") as exchange:
        session.get(server.url)
    assert exchange.requests == 3


# ---- a deadline that has passed


def test_nothing_leaves_once_the_deadline_has_passed(session: requests.Session) -> None:
    """A deadline in the past is told before a connection is made."""
    with Server(answer) as server:
        for left in (0.0, -5.0):
            with pytest.raises(DeadlineCut), bounded(Exchange(lambda left=left: left)) as exchange:  # type: ignore[misc]
                session.get(server.url)
            assert (exchange.sent, exchange.requests) == (False, 0)
        assert server.accepted == 0


def test_nothing_leaves_on_a_warm_connection_either(session: requests.Session) -> None:
    """A deadline that passes while the request is being composed keeps it from the wire."""
    with Server(answer) as server:
        session.get(server.url)
        lefts = iter((5.0,))
        with pytest.raises(DeadlineCut) as cut, bounded(Exchange(lambda: next(lefts, 0.0))) as exchange:
            session.get(server.url)
        assert (cut.value.phase, exchange.sent, exchange.requests) == ("headers", False, 0)
        assert len(server.heads) == 1


def test_no_deadline_is_no_bound(session: requests.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinite rest changes no timeout, asks no thread, and still keeps account."""
    sockets.resolve_to(monkeypatch, "named.test", ["127.0.0.1"])
    refused = sockets.no_thread_to_resolve(monkeypatch)
    with Server(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")) as server:
        url = f"http://named.test:{server.port}/"
        with (
            bounded(Exchange(lambda: float("inf"))) as exchange,
            pytest.raises(requests.ConnectionError, match="timed out"),
        ):
            session.get(url, timeout=0.1)
    assert (exchange.received, refused) == (True, [])


def test_a_deadline_that_no_socket_can_be_told_is_no_error(session: requests.Session) -> None:
    """Three thousand years are more than a socket's timeout takes, and as good as none."""
    with Server(answer) as server, bounded(Exchange(lambda: 1e11)):
        assert session.get(server.url).content == b"ok"


def test_a_head_that_urllib3_refuses_is_requests_own_error(session: requests.Session) -> None:
    """Two lengths are an InvalidHeader within an exchange as outside."""
    with Server(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok")) as server:
        with pytest.raises(requests.exceptions.InvalidHeader):
            session.get(server.url)
        with bounded(Exchange(until(5))), pytest.raises(requests.exceptions.InvalidHeader):
            session.get(server.url)


# ---- whom it covers


@pytest.mark.parametrize("kind", [MadeBefore, MadeAfter])
def test_subclasses_of_connections_are_covered(kind: type[HTTPConnection]) -> None:
    """A connection class of the user's is bounded like urllib3's, and keeps its response class."""

    class Pool(urllib3.HTTPConnectionPool):
        ConnectionCls = kind

        def _get_conn(self, timeout: Any = None) -> Any:
            return super()._get_conn(timeout=timeout)

    script = replies(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"")
    with Server(script) as server, Pool("127.0.0.1", server.port, block=True) as pool:
        with bounded(Exchange(until(5))) as exchange:
            response = pool.urlopen("GET", "/", preload_content=False)
        assert response.read() == b"ok"
        assert getattr(response._original_response, "chosen", False) is (kind is MadeAfter)
        assert isinstance(response._original_response, kind.response_class)
        assert exchange.received is True
        with expect_cut("headers"):
            pool.urlopen("GET", "/")
        assert pool.pool is not None
        assert pool.pool.qsize() == 1


def test_a_connection_with_a_response_class_of_its_own_keeps_it() -> None:
    """A response class set on one connection is used, and is still there afterwards."""

    class Response(HTTPConnection.response_class):  # type: ignore[name-defined,misc]
        """One connection's own."""

    with Server(answer) as server, bounded(Exchange(until(5))):
        connection = HTTPConnection("127.0.0.1", server.port)
        connection.response_class = Response
        connection.request("GET", "/")
        response = connection.getresponse()
        assert isinstance(getattr(response, "_original_response", response), Response)
        assert connection.response_class is Response
        response.close()
        connection.close()


def test_a_connection_that_connects_by_itself_is_covered(session: requests.Session) -> None:
    """A class that finds its socket in its own way, as for Unix sockets, is bounded from there on."""

    class Own(HTTPConnection):
        def connect(self) -> None:
            import socket

            self.sock = socket.create_connection(("127.0.0.1", server.port))

    class Pool(urllib3.HTTPConnectionPool):
        ConnectionCls = Own

    with Server(silent) as server, Pool("nowhere.test") as pool, expect_cut("headers") as exchange:
        pool.urlopen("GET", "/", retries=False)
    assert (exchange.sent, exchange.requests, exchange.reused) == (True, 1, False)


def test_a_socket_that_is_none_is_left_alone() -> None:
    """A fake in place of a socket is used as it is, unbounded."""
    import io

    class Fake:
        sent = b""

        def sendall(self, data: bytes) -> None:
            Fake.sent += data

        def makefile(self, *_: Any) -> io.BytesIO:
            return io.BytesIO(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        def settimeout(self, value: float | None) -> None:
            pass

        def close(self) -> None:
            pass

    connection = HTTPConnection("fake.test")
    connection.sock = Fake()  # type: ignore[assignment]
    with bounded(Exchange(until(5))) as exchange:
        connection.request("GET", "/")
        response = connection.getresponse()
        assert getattr(response, "data", None) or response.read() == b"ok"
    assert Fake.sent.startswith(b"GET / HTTP/1.1\r\n")
    assert exchange.sent is True
    connection.close()


def test_names_pinned_by_the_user_are_still_pinned(session: requests.Session) -> None:
    """A `create_connection` that was replaced before `install` sees the name, and is bounded as a whole."""
    program = f"""if True:
        import sys; sys.path[:0] = {sys.path!r}
        import requests, sockets
        from urllib3.util import connection
        original = connection.create_connection
        def pinned(address, *rest, **named):
            return original(("127.0.0.1", ports[address[0]]), *rest, **named)
        connection.create_connection = pinned
        from trihop._wire.exchange import install
        install()
        with sockets.Server(sockets.answer) as server, sockets.black_holes() as hole, requests.Session() as session:
            session.trust_env = False
            ports = {{"pinned.test": server.port, "hole.test": hole}}
            with sockets.bounded(sockets.Exchange(sockets.until(5))):
                assert session.get("http://pinned.test/").content == b"ok"
            with sockets.expect_cut("connect"):
                session.get("http://hole.test/")
        print("pinned")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("pinned\n", "")


def test_install_is_made_once() -> None:
    """However often and wherever it is called, each method is wrapped once."""
    before = (HTTPConnection.send, urllib3_connect.create_connection)
    threads = [threading.Thread(target=install) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert (HTTPConnection.send, urllib3_connect.create_connection) == before


# ---- what it leaves alone


def test_outside_an_exchange_nothing_is_bounded(session: requests.Session) -> None:
    """A request after the block, or in another context, is nobody's."""
    with Server(drips(b"ok", first=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")) as server:
        with pytest.raises(DeadlineCut), bounded(Exchange(lambda: 0.0)):
            session.get(server.url)
        assert session.get(server.url).content == b"ok"


def test_exchanges_nest(session: requests.Session) -> None:
    """The inner block rules inside, the outer one after it."""
    with Server(answer) as server, bounded(Exchange(until(5))) as outer:
        with bounded(Exchange(until(5))) as inner:
            session.get(server.url)
        assert (outer.requests, inner.requests) == (0, 1)
        session.get(server.url)
        assert (outer.requests, inner.requests) == (1, 1)


def test_two_threads_keep_their_exchanges_apart(session: requests.Session) -> None:
    """One session, two threads, two deadlines: the one that stalls is cut, the other is not."""
    session.mount("http://", HTTPAdapter(pool_maxsize=4))
    ends: dict[str, object] = {}

    def ask(name: str, left: float, url: str) -> None:
        try:
            with bounded(Exchange(until(left))):
                ends[name] = session.get(url).content
        except DeadlineCut as cut:
            ends[name] = cut.phase

    with Server(silent) as stalled, Server(answer) as quick:
        threads = [
            threading.Thread(target=ask, args=("stalled", 0.2, stalled.url)),
            threading.Thread(target=ask, args=("quick", 5, quick.url)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
    assert ends == {"stalled": "headers", "quick": b"ok"}


def test_the_cut_is_no_os_error() -> None:
    """What urllib3 and requests catch, wrap and retry does not include it."""
    assert not issubclass(DeadlineCut, (OSError, urllib3.exceptions.HTTPError, requests.RequestException))
    assert (DeadlineCut("wait", 3600.0).phase, DeadlineCut("wait", 3600.0).asked_s) == ("wait", 3600.0)


def test_a_timeout_of_the_network_is_not_the_deadline() -> None:
    """ETIMEDOUT, after minutes without an acknowledgement, is an error of the connection."""
    assert timed_out(TimeoutError("timed out")) is True
    assert timed_out(TimeoutError(errno.ETIMEDOUT, "Connection timed out")) is False


def test_the_peer_is_found_where_people_look_for_it(session: requests.Session) -> None:
    """The socket below a response is where it is on a plain one, and as an unbuffered file it has a number."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    with Server(replies(head)) as server, bounded(Exchange(until(5))), session.get(server.url, stream=True) as response:
        raw = response.raw._original_response.fp.raw
        assert raw._sock.getpeername() == ("127.0.0.1", server.port)
        assert raw.fileno() == response.raw.fileno() == raw._sock.fileno()
        assert raw.readable() is True
