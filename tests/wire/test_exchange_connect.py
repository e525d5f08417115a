"""The way to a server: pool, names, addresses, proxies and TLS, each bounded by the deadline."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
import requests
import sockets
import socks
import urllib3
from requests.adapters import HTTPAdapter
from sockets import (
    SHAKEN_HANDS_S,
    Peer,
    Server,
    answer,
    black_holes,
    connects,
    cut_on_time,
    drips,
    drips_handshake,
    expect_cut,
    resolve_to,
    silent,
    socks5,
    stalls,
    until,
)
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.contrib.socks import SOCKSConnection

from trihop._wire.connect import places
from trihop._wire.exchange import Exchange, bounded, install

install()


session, tls_files, tls, trusted = sockets.session, sockets.tls_files, sockets.tls, sockets.trusted


# ---- the pool


def test_a_wait_for_a_pooled_connection_is_cut(session: requests.Session) -> None:
    """A pool of one whose connection is out makes us wait no longer than the deadline, and still has one afterwards."""
    session.mount("http://", adapter := HTTPAdapter(pool_maxsize=1, pool_block=True))
    with Server(answer) as server:
        with session.get(server.url, stream=True) as taken:
            with expect_cut("connect"):
                session.get(server.url)
            assert taken.content == b"ok"
        pool = sockets.pool_of(adapter)
        assert pool.pool.qsize() == 1
        assert session.get(server.url).content == b"ok"
        assert server.accepted == 1


def test_the_callers_pool_timeout_stays_the_callers() -> None:
    """A pool timeout that ends before the deadline raises urllib3's own error."""
    with Server(answer) as server, urllib3.HTTPConnectionPool("127.0.0.1", server.port, maxsize=1, block=True) as pool:
        taken = pool.urlopen("GET", "/", preload_content=False)
        with bounded(Exchange(until(5))), pytest.raises(urllib3.exceptions.EmptyPoolError, match="Pool"):
            pool.urlopen("GET", "/", pool_timeout=0.05)
        taken.close()
        taken.release_conn()


# ---- addresses and names


def test_a_connect_to_a_black_hole_is_cut(session: requests.Session) -> None:
    """A connection that is never accepted is given up at the deadline, before a byte was sent."""
    with black_holes() as port, expect_cut("connect") as exchange:
        session.get(f"http://127.0.0.1:{port}/")
    assert (exchange.sent, exchange.requests) == (False, 0)


def test_several_black_holed_addresses_share_one_deadline(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five addresses that never answer take no longer than one."""
    addresses = [f"127.0.0.{n}" for n in range(1, 6)]
    resolve_to(monkeypatch, "holes.test", addresses)
    with black_holes(addresses) as port, expect_cut("connect"):
        session.get(f"http://holes.test:{port}/")


def test_the_callers_connect_timeout_is_for_each_address(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connect timeout that fits leaves time for the next address, which answers."""
    resolve_to(monkeypatch, "half.test", ["127.0.0.2", "127.0.0.1"])
    with Server(answer) as server, bounded(Exchange(until(5))):
        assert session.get(f"http://half.test:{server.port}/", timeout=(0.1, 3)).content == b"ok"


def test_the_callers_connect_timeout_stays_the_callers(session: requests.Session) -> None:
    """A connect timeout that ends before the deadline raises requests' own ConnectTimeout."""
    with black_holes() as port, bounded(Exchange(until(5))), pytest.raises(requests.ConnectTimeout):
        session.get(f"http://127.0.0.1:{port}/", timeout=0.1)


def test_a_refused_connection_stays_requests_own_error(session: requests.Session) -> None:
    """An address nobody listens on is a ConnectionError inside an exchange as outside."""
    with Server(answer) as server:
        port = server.port
    with bounded(Exchange(until(5))), pytest.raises(requests.ConnectionError, match="refused"):
        session.get(f"http://127.0.0.1:{port}/")


def test_a_name_that_does_not_resolve_in_time_is_cut(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver takes no timeout, so it is left alone in its thread."""
    answered = threading.Event()
    resolve_to(monkeypatch, "slow.test", ["127.0.0.1"], first=lambda: answered.wait(5))
    with expect_cut("connect"):
        session.get("http://slow.test/")
    answered.set()
    for thread in threading.enumerate():
        if thread.name == "trihop-resolve":
            thread.join(5)


def test_a_name_that_does_not_resolve_stays_requests_own_error(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the resolver comes back from its thread as it is."""
    resolve_to(monkeypatch, "gone.test", [], first=lambda: (_ for _ in ()).throw(OSError("no such name")))
    with bounded(Exchange(until(5))), pytest.raises(requests.ConnectionError, match="no such name"):
        session.get("http://gone.test/")


def test_a_name_without_addresses_is_requests_own_error(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty answer of the resolver is a ConnectionError."""
    resolve_to(monkeypatch, "empty.test", [])
    with bounded(Exchange(until(5))), pytest.raises(requests.ConnectionError, match="no address"):
        session.get("http://empty.test/")


def test_a_label_that_is_too_long_is_told_in_urllib3s_words(session: requests.Session) -> None:
    """A host that cannot be a name fails as it does outside an exchange."""
    url = f"http://{'a' * 64}.test/"
    with pytest.raises(ValueError, match="label empty or too long") as outside:
        session.get(url)
    with bounded(Exchange(until(5))), pytest.raises(type(outside.value), match="label empty or too long"):
        session.get(url)


def test_names_resolve_in_place_when_there_is_no_thread_to_be_had(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a thread the name is resolved all the same."""
    resolve_to(monkeypatch, "named.test", ["127.0.0.1"])

    refused = sockets.no_thread_to_resolve(monkeypatch)
    with Server(answer) as server, bounded(Exchange(until(5))):
        assert session.get(f"http://named.test:{server.port}/").content == b"ok"
    assert len(refused) == 1


def test_link_local_addresses_keep_their_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IPv6 address that means something on one interface only is tried on that one."""
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 80, 0, scope)) for address, scope in V6.items()]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    named = places("v6.test", 80, socket.AF_UNSPEC, Exchange(until(5)))
    assert list(named) == ["fe80::1%2", "2001:db8::1"]


V6 = {"fe80::1": 2, "2001:db8::1": 0}


def test_a_connection_made_in_time_has_the_callers_timeout(tls: ssl.SSLContext, trusted: str) -> None:
    """Plain, with TLS or through SOCKS: what bounded the connecting is taken off again."""
    with Server(answer) as server, Server(answer, tls=tls) as secure, Server(socks5(server.port)) as proxy:
        options = dict.fromkeys(("username", "password"))
        options |= {"socks_version": socks.SOCKS5, "proxy_host": "127.0.0.1", "proxy_port": proxy.port, "rdns": True}
        connections = [
            HTTPConnection("127.0.0.1", server.port, timeout=7),
            HTTPSConnection(
                "localhost", secure.port, timeout=7, ssl_context=ssl.create_default_context(cafile=trusted)
            ),
            SOCKSConnection(_socks_options=options, host="far.test", port=80, timeout=7),
        ]
        for connection in connections:
            with bounded(Exchange(until(5))):
                connection.connect()
            assert connection.sock.gettimeout() == 7
            connection.close()


# ---- TLS


def test_a_tls_handshake_that_stalls_is_cut(session: requests.Session, trusted: str) -> None:
    """A server that accepts and never shakes hands is given up at the deadline."""
    with Server(silent) as server, expect_cut("tls") as exchange:
        session.get(f"https://localhost:{server.port}/", verify=trusted)
    assert exchange.sent is False


def test_a_dripped_tls_handshake_is_cut(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """A handshake of one byte at a time does not outlast the deadline."""
    with Server(drips_handshake(tls)) as server, expect_cut("tls"):
        session.get(f"https://localhost:{server.port}/", verify=trusted)


def test_the_callers_timeout_in_a_handshake_stays_the_callers(session: requests.Session, trusted: str) -> None:
    """A timeout that ends before the deadline is requests' own, in a handshake too."""
    with (
        Server(silent) as server,
        bounded(Exchange(until(5))),
        pytest.raises(requests.RequestException, match="timed out"),
    ):
        session.get(f"https://localhost:{server.port}/", verify=trusted, timeout=0.1)


def test_a_session_goes_on_after_a_cut_handshake(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """The session that was cut in a handshake makes its next request as if nothing had been."""
    stalled = threading.Event()

    def wrap_late(peer: Peer) -> None:
        if not stalled.is_set():
            stalled.set()
            peer.stall()
        peer.handshake(tls)
        answer(peer)

    with Server(wrap_late) as server:
        with expect_cut("tls"):
            session.get(f"https://localhost:{server.port}/", verify=trusted)
        with bounded(Exchange(until(5))):
            assert session.get(f"https://localhost:{server.port}/", verify=trusted).content == b"ok"


# ---- proxies


def test_a_proxy_that_never_answers_connect_is_cut(session: requests.Session, trusted: str) -> None:
    """A CONNECT without a reply is given up at the deadline, and is no request of ours."""
    with Server(stalls) as proxy, expect_cut("connect") as exchange:
        session.get("https://localhost:1/", proxies={"https": proxy.url}, verify=trusted)
    assert proxy.heads[0].startswith(b"CONNECT localhost:1 ")
    assert (exchange.sent, exchange.received, exchange.requests) == (False, False, 0)


def test_a_tunnel_that_a_request_has_to_dig_first_is_no_request(session: requests.Session) -> None:
    """A connection that only connects when it sends has sent nothing while it waits for its proxy."""
    with Server(stalls) as proxy, expect_cut("connect") as exchange:
        connection = HTTPConnection("127.0.0.1", proxy.port)
        connection.set_tunnel("far.test", 80)
        try:
            connection.request("GET", "/")
        finally:
            connection.close()
    assert (exchange.sent, exchange.requests) == (False, 0)


def test_a_proxy_with_tls_that_never_answers_connect_is_cut(
    session: requests.Session, tls: ssl.SSLContext, trusted: str
) -> None:
    """After the handshake with a proxy we are still connecting."""
    with Server(stalls, tls=tls) as proxy, expect_cut("connect"):
        session.get("https://localhost:1/", proxies={"https": proxy.url}, verify=trusted)


@pytest.mark.parametrize(
    "dripped", [b"HTTP/1.1 200 Connection established", b"HTTP/1.1 200 OK\r\nVia: a, b, c, d, e, f"]
)
def test_a_dripped_reply_to_connect_is_cut(session: requests.Session, trusted: str, dripped: bytes) -> None:
    """Neither a status line nor a header of one byte at a time keeps a tunnel waiting."""
    with Server(drips(dripped)) as proxy, expect_cut("connect") as exchange:
        session.get("https://localhost:1/", proxies={"https": proxy.url}, verify=trusted)
    assert exchange.received is False


def test_a_handshake_through_a_tunnel_is_cut(session: requests.Session, trusted: str) -> None:
    """The handshake behind a proxy that did answer is bounded like any other."""
    with Server(silent) as server, Server(connects(server.port)) as proxy, expect_cut("tls"):
        session.get(f"https://localhost:{server.port}/", proxies={"https": proxy.url}, verify=trusted)


def test_headers_through_a_tunnel_are_cut(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """So are the headers, after which the session goes on."""
    with Server(drips(b"HTTP/1.1 200 OK\r\n" * 9), answer, tls=tls) as server, Server(connects(server.port)) as proxy:
        session.proxies = {"https": proxy.url}
        with expect_cut("headers", after=SHAKEN_HANDS_S) as exchange:
            session.get(server.url, verify=trusted)
        assert (exchange.sent, exchange.received, exchange.requests) == (True, True, 1)
        with bounded(Exchange(until(5))):
            assert session.get(server.url, verify=trusted).content == b"ok"


def test_headers_through_a_forwarding_proxy_are_cut(session: requests.Session) -> None:
    """A plain HTTP proxy is waited for like a server."""
    with Server(drips(b"HTTP/1.1 200 OK\r\n" * 9), answer) as proxy:
        session.proxies = {"http": proxy.url}
        with expect_cut("headers"):
            session.get("http://far.test/")
        with bounded(Exchange(until(5))):
            assert session.get("http://far.test/").content == b"ok"


def test_a_handshake_within_tls_is_cut(session: requests.Session, tls: ssl.SSLContext, trusted: str) -> None:
    """TLS to a server inside TLS to a proxy: a dripped inner handshake does not outlast the deadline."""
    with (
        Server(drips_handshake(tls)) as server,
        Server(connects(server.port), tls=tls) as proxy,
        expect_cut("tls", after=SHAKEN_HANDS_S),
    ):
        session.get(f"https://localhost:{server.port}/", proxies={"https": proxy.url}, verify=trusted)


def test_a_body_within_tls_is_cut_wherever_it_is_read(
    session: requests.Session, tls: ssl.SSLContext, trusted: str
) -> None:
    """A body that is TLS inside TLS is cut outside the block too, though its records are dripped."""

    def in_one_record(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
        peer.server.over.wait(0.05)
        peer.send(b"x" * 5000)
        peer.stall()

    def connects_slowly(peer: Peer) -> None:
        """A wire that carries only so much and drips the rest."""
        peer.head()
        peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        peer.server.relay(peer, server.port, slow_after=5000)

    with Server(in_one_record, tls=tls) as server, Server(connects_slowly, tls=tls) as proxy:
        with bounded(Exchange(until(0.6))) as exchange:
            response = session.get(server.url, proxies={"https": proxy.url}, verify=trusted, stream=True)
        with cut_on_time(exchange, "body"):
            response.content  # noqa: B018


# ---- SOCKS


def test_a_socks_proxy_that_stalls_is_cut(session: requests.Session) -> None:
    """A SOCKS proxy that accepts and says nothing is given up at the deadline."""
    with Server(silent) as proxy, expect_cut("connect") as exchange:
        session.get("http://far.test/", proxies={"http": f"socks5h://127.0.0.1:{proxy.port}"})
    assert exchange.sent is False


@pytest.mark.parametrize("version", ["socks4a", "socks5h"])
def test_a_socks_proxy_that_drips_is_cut(session: requests.Session, version: str) -> None:
    """A reply of one byte at a time does not outlast the deadline."""

    def script(peer: Peer) -> None:
        if version == "socks5h":
            peer.sock.recv(3)
            peer.send(b"\x05\x00")
        peer.sock.recv(300)
        peer.drip(b"\x05\x00\x00\x03\xff" + b"x" * 300 if version == "socks5h" else b"\x00" * 7, every=0.05)
        peer.stall()

    with Server(script) as proxy, expect_cut("connect"):
        session.get("http://far.test/", proxies={"http": f"{version}://127.0.0.1:{proxy.port}"})


def test_a_socks_proxy_in_a_black_hole_is_cut(session: requests.Session) -> None:
    """A SOCKS proxy that never accepts is given up at the deadline."""
    with black_holes() as port, expect_cut("connect"):
        session.get("http://far.test/", proxies={"http": f"socks5h://127.0.0.1:{port}"})


def test_the_callers_timeout_at_a_socks_proxy_stays_the_callers(session: requests.Session) -> None:
    """A connect timeout that ends before the deadline is requests' own at a SOCKS proxy too."""
    with Server(silent) as proxy, bounded(Exchange(until(5))), pytest.raises(requests.ConnectTimeout):
        session.get("http://far.test/", proxies={"http": f"socks5h://127.0.0.1:{proxy.port}"}, timeout=0.1)


def test_headers_and_bodies_through_a_socks_proxy_are_cut(session: requests.Session) -> None:
    """What comes through a SOCKS proxy is bounded, and the session goes on."""
    body = drips(b"x" * 50, first=b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
    with Server(drips(b"HTTP/1.1 200 OK\r\n" * 9), body, answer) as server, Server(socks5(server.port)) as proxy:
        session.proxies = {"http": f"socks5h://127.0.0.1:{proxy.port}"}
        for phase in ("headers", "body"):
            with expect_cut(phase):
                session.get("http://far.test/")
        with bounded(Exchange(until(5))):
            assert session.get("http://far.test/", timeout=3).content == b"ok"


def test_tls_through_a_socks_proxy_is_cut(session: requests.Session, trusted: str) -> None:
    """The handshake behind a SOCKS proxy is bounded like any other."""
    with Server(silent) as server, Server(socks5(server.port)) as proxy, expect_cut("tls"):
        session.get("https://localhost/", proxies={"https": f"socks5h://127.0.0.1:{proxy.port}"}, verify=trusted)
