"""The pool of an origin is looked up once an operation, where the adapter is requests' own; from requests 2.32.2 on."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3 import PoolManager

from trihop import Reply, operation
from trihop._wire.straight import Straight
from trihop.testing import accepted, done, running

SETTINGS = {"proxies": {}, "stream": True, "verify": True, "cert": None}


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts whose pool was asked for."""
    hosts: list[str] = []
    find = PoolManager.connection_from_host

    def counting(self: PoolManager, host: str, *args: Any, **kwargs: Any) -> Any:
        hosts.append(host)
        return find(self, host, *args, **kwargs)

    monkeypatch.setattr(PoolManager, "connection_from_host", counting)
    return hosts


def send(
    session: requests.Session, url: str, straight: Straight, settings: dict[str, Any] = SETTINGS
) -> requests.Response:
    prepared = session.prepare_request(requests.Request("GET", url))
    with straight.send(session, prepared, timeout=5, settings=settings) as response:
        response.content  # noqa: B018 - read, and the connection is free again
    return response


def test_the_pool_of_an_origin_is_looked_up_once(server, session, clock, looked_up) -> None:
    """Submit, polls and download of one operation go through the same pool."""
    server.script(accepted(), running(), running(), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert looked_up == ["127.0.0.1"]


def test_another_origin_has_another_pool(server, session, looked_up) -> None:
    """Also where it differs in the name of the host alone, and back again."""
    server.script(200, 200, 200)
    straight, other = Straight(), server.url.replace("127.0.0.1", "localhost")
    for url in (server.url, other, server.url):
        send(session, url, straight)
    assert looked_up == ["127.0.0.1", "localhost", "127.0.0.1"]


@pytest.mark.parametrize(
    "change", ["closed", "closed, and another origin", "new manager", "other trust", "other pools"]
)
def test_a_pool_that_is_of_no_use_is_looked_up_anew(server, session, looked_up, change) -> None:
    """A session that was closed in between, an adapter with new or other pools, other options."""
    server.script(200, then_always=200)
    straight, settings = Straight(), SETTINGS
    send(session, server.url, straight)
    match change:
        case "closed":
            session.close()
        case "closed, and another origin":
            session.close()
            session.get(server.url.replace("127.0.0.1", "localhost"))
        case "other pools":
            session.get_adapter(server.url).poolmanager.connection_pool_kw["maxsize"] = 3
        case "new manager":
            session.get_adapter(server.url).init_poolmanager(1, 1)
        case "other trust":
            settings = {**SETTINGS, "verify": False}
    send(session, server.url, straight, settings)
    assert looked_up.count("127.0.0.1") == 2
    session.close()


@pytest.mark.parametrize("name", ["get_connection_with_tls_context", "request_url", "build_response"])
@pytest.mark.parametrize("where", ["class", "object"])
def test_who_replaced_a_part_of_the_adapter_is_asked(server, session, monkeypatch, name, where) -> None:
    """On the class or on one adapter, before the first request or after it."""
    server.script(200, 200)
    straight, asked = Straight(), []
    send(session, server.url, straight)
    adapter = session.get_adapter(server.url)
    original = getattr(adapter, name)

    def replaced(*args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return original(*(args[1:] if where == "class" else args), **kwargs)

    monkeypatch.setattr(HTTPAdapter if where == "class" else adapter, name, replaced)
    send(session, server.url, straight)
    assert asked == [name]


def test_the_answer_is_that_of_the_adapter(server, session) -> None:
    """Status, headers, reason, cookies, and who is behind it."""
    server.script(Reply(203, headers={"Set-Cookie": "a=1", "X-A": "b"}, content=b"x"))
    response = send(session, server.url, Straight())
    assert (response.status_code, response.reason, response.url) == (203, "Non-Authoritative Information", server.url)
    assert (response.headers["x-a"], response.cookies["a"], session.cookies["a"]) == ("b", "1", "1")
    assert response.connection is session.get_adapter(server.url)
    assert response.request.url == server.url


def test_a_session_that_is_closed_closes_its_connections(server, session) -> None:
    """Also while the operation and its last answer are still there."""
    server.script(200)
    straight = Straight()
    response = send(session, server.url, straight)
    (pool,) = [session.get_adapter(server.url).poolmanager.pools.get(key) for key in pools_of(session, server)]
    waiting = weakref.ref(pool)
    del pool
    session.close()
    gc.collect()
    assert (waiting() is None or waiting().pool is None, response.status_code) == (True, 200)


def pools_of(session, server):
    return session.get_adapter(server.url).poolmanager.pools.keys()
