"""A given URL goes out byte for byte, past all the quoting of requests and urllib3."""

from __future__ import annotations

import ssl

import pytest
import requests
import sockets
from sockets import Server, answer, connects, socks5, until

from trihop._wire.exchange import Exchange, bounded, install

install()

session, tls_files, tls, trusted = sockets.session, sockets.tls_files, sockets.tls, sockets.trusted

TARGETS = [
    "/plain?a=1&b=2",
    "/%7Euser/%2e%2e/%c3%a9/a+b",
    "/signed?X-Amz-Signature=%2b%2F%3d&key=a%20b+c%7e",
    '/list[0]?filter[name]={x}|y^z`"<>\\',
    "//double//slashes/./and/../dots",
    "/?",
    "/a?b?c=d/e://f",
    "/empty?&&==",
]


def target(server: Server) -> str:
    """The request target of the last request."""
    return server.heads[-1].split(b"\r\n")[0].decode().split(" ")[1]


def send(session: requests.Session, url: str, *, set_url: bool, **options: object) -> None:
    prepared = session.prepare_request(requests.Request("GET", url))
    if set_url:
        prepared.url = url
    with bounded(Exchange(until(5), exact_url=url)):
        assert session.send(prepared, **options).content == b"ok"  # type: ignore[arg-type]


@pytest.mark.parametrize("set_url", [False, True])
@pytest.mark.parametrize("wanted", TARGETS)
def test_path_and_query_go_out_byte_for_byte(session: requests.Session, wanted: str, set_url: bool) -> None:
    """Nothing is quoted, unquoted, folded or dropped, whether or not the prepared request has the URL as it is."""
    with Server(answer) as server:
        send(session, server.url + wanted, set_url=set_url)
        assert target(server) == wanted


@pytest.mark.parametrize("wanted", TARGETS)
def test_a_forwarding_proxy_gets_the_whole_url_byte_for_byte(session: requests.Session, wanted: str) -> None:
    """Through an HTTP proxy the target is the URL as it is, without what identifies the user."""
    with Server(answer) as proxy:
        session.proxies = {"http": proxy.url}
        send(session, "http://me:secret@far.test" + wanted, set_url=False)
        assert target(proxy) == "http://far.test" + wanted


def test_a_tunnel_and_tls_carry_the_target_byte_for_byte(
    session: requests.Session, tls: ssl.SSLContext, trusted: str
) -> None:
    """Behind CONNECT the target is path and query again."""
    with Server(answer, tls=tls) as server, Server(connects(server.port)) as proxy:
        send(session, server.url + TARGETS[1], set_url=True, verify=trusted, proxies={"https": proxy.url})
        assert target(server) == TARGETS[1]


def test_a_socks_proxy_carries_the_target_byte_for_byte(session: requests.Session) -> None:
    """So it is behind SOCKS."""
    with Server(answer) as server, Server(socks5(server.port)) as proxy:
        send(
            session, "http://far.test" + TARGETS[1], set_url=True, proxies={"http": f"socks5h://127.0.0.1:{proxy.port}"}
        )
        assert target(server) == TARGETS[1]


@pytest.mark.parametrize(
    ("url", "wanted"), [("#x?y", "/"), ("?a=%7E#x", "/?a=%7E"), ("/%7E#x", "/%7E"), (":{port}/%7E", "/%7E")]
)
def test_fragments_are_dropped_and_paths_begin_with_a_slash(session: requests.Session, url: str, wanted: str) -> None:
    """What no request target may have or lack is put right."""
    with Server(answer) as server:
        send(
            session,
            (server.url if "{" not in url else "http://127.0.0.1") + url.format(port=server.port),
            set_url=False,
        )
        assert target(server) == wanted


@pytest.mark.parametrize("wanted", ["/a b", "/é", "/a\tb"])
def test_a_url_that_no_line_can_carry_is_quoted_as_ever(session: requests.Session, wanted: str) -> None:
    """Blanks and letters outside ASCII cannot go out as they are, so they go out as requests sends them."""
    with Server(answer) as server:
        session.get(server.url + wanted)
        usual = target(server)
        send(session, server.url + wanted, set_url=False)
        assert target(server) == usual
        assert usual.isascii()


def test_a_request_to_someone_else_is_left_alone(session: requests.Session) -> None:
    """A hook that asks another URL within the exchange does not send it the signed target."""
    with Server(answer) as server, Server(answer) as other:

        def ask(*_: object, **__: object) -> None:
            requests.get(f"{other.url}/%7E", proxies={"http": ""}, timeout=5)
            requests.get(f"{server.url}/another", proxies={"http": ""}, timeout=5)

        session.hooks["response"].append(ask)
        send(session, server.url + "/%7E", set_url=False)
        assert target(other) == "/~"
        assert [head.split(b" ")[1] for head in server.heads] == [b"/%7E", b"/another"]
