"""What the engine sends past `Session.send`, and who is asked all the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import requests
import requests_mock
from requests.cookies import RequestsCookieJar

from trihop import Reply, operation
from trihop._wire.straight import Straight
from trihop.testing import accepted, done, running

SETTINGS = {"proxies": {}, "stream": True, "verify": True, "cert": None}


@pytest.fixture
def whole_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that went through `Session.send`, which looks where each answer leads."""
    urls: list[str] = []
    resolve = requests.Session.resolve_redirects

    def counting(self: requests.Session, response: requests.Response, *args: Any, **kwargs: Any) -> Any:
        if not response.is_redirect:
            urls.append(response.url)
        return resolve(self, response, *args, **kwargs)

    monkeypatch.setattr(requests.Session, "resolve_redirects", counting)
    return urls


def send(session: requests.Session, url: str) -> requests.Response:
    prepared = session.prepare_request(requests.Request("GET", url))
    with Straight().send(session, prepared, timeout=5, settings=SETTINGS) as response:
        response.content  # noqa: B018 - read, and the connection is free again
    return response


def test_an_operation_on_a_plain_session_goes_straight(server, session, clock, whole_way) -> None:
    """Submit, polls and download of a plain session do not pass through `Session.send`."""
    server.script(accepted(), running(), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        assert op.run("POST", server.url + "jobs").json() == 1
    assert whole_way == []


# ---- who is asked all the same


class Counted(requests.Session):
    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.sent = 0

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        self.sent += 1
        return super().send(request, **kwargs)


def test_a_subclass_sends_itself(server, clock) -> None:
    """A subclass with a `send` of its own is asked for each request."""
    server.script(accepted(), running(), done(result=1))
    with Counted() as session, operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert session.sent == len(server.calls)


def test_a_subclass_of_any_kind_sends_itself(server, whole_way) -> None:
    """A subclass may override what `Session.send` calls: only the class itself is passed by."""

    class Own(requests.Session):
        pass

    server.script(Reply(200, 1))
    with Own() as session:
        assert send(session, server.url + "x").json() == 1
    assert whole_way == [server.url + "x"]


def test_a_function_put_on_the_session_sends(server, session, clock) -> None:
    """A `send` that somebody put on the session is asked, as by a mock or a recorder."""
    seen: list[str | None] = []
    through = session.send

    def watching(request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        seen.append(request.url)
        return through(request, **kwargs)

    session.send = watching  # type: ignore[method-assign]
    server.script(accepted(), running(), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert len(seen) == len(server.calls)


class Proxy:
    """A wrapper that is no function and shows the attributes of what it wraps, as wrapt's is."""

    def __init__(self, wrapped: Callable[..., Any], seen: list[str | None]) -> None:
        self._wrapped = wrapped
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __get__(self, session: requests.Session, _: type) -> Callable[..., Any]:
        return functools.partial(self, session) if session is not None else self  # type: ignore[return-value]

    def __call__(
        self, session: requests.Session, request: requests.PreparedRequest, **kwargs: Any
    ) -> requests.Response:
        self._seen.append(request.url)
        return self._wrapped(session, request, **kwargs)  # type: ignore[no-any-return]


def wrapped(seen: list[str | None]) -> Callable[..., Any]:
    through = requests.Session.send

    @functools.wraps(through)
    def wrapper(self: requests.Session, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        seen.append(request.url)
        return through(self, request, **kwargs)

    return wrapper


@pytest.mark.parametrize("kind", ["function", "object"])
@pytest.mark.parametrize("when", ["before", "inside"])
def test_who_patched_the_class_is_asked(server, session, clock, monkeypatch, kind: str, when: str) -> None:
    """An instrumentation on `Session.send` sees each request, put there before the block or inside it."""
    seen: list[str | None] = []

    def patch() -> None:
        patched = wrapped(seen) if kind == "function" else Proxy(requests.Session.send, seen)
        monkeypatch.setattr(requests.Session, "send", patched)

    server.script(accepted(), running(), done(result=1))
    if when == "before":
        patch()
    with operation("export", deadline=60, session=session, clock=clock) as op:
        if when == "inside":
            patch()
        op.run("POST", server.url + "jobs")
    assert len(seen) == len(server.calls)


def test_hooks_run(server, session, whole_way) -> None:
    """A response hook runs."""
    seen: list[int] = []
    session.hooks["response"].append(lambda response, **_: seen.append(response.status_code))
    server.script(Reply(200, 1))
    send(session, server.url + "x")
    assert (seen, whole_way) == ([200], [server.url + "x"])


def test_a_cookie_jar_of_another_kind_is_asked(server, session, whole_way) -> None:
    """A jar of a class of its own sees each answer."""

    class Jar(RequestsCookieJar):
        pass

    session.cookies = Jar()
    server.script(Reply(200, 1))
    send(session, server.url + "x")
    assert whole_way == [server.url + "x"]


# ---- what is done besides


def test_cookies_are_kept(server, session, whole_way) -> None:
    """What a reply sets is in the session's jar."""
    server.script(Reply(200, 1, headers={"Set-Cookie": "seen=yes"}))
    send(session, server.url + "x")
    assert (session.cookies.get_dict(), whole_way) == ({"seen": "yes"}, [])


def test_the_next_request_of_a_redirect_is_known_and_not_sent(server, session) -> None:
    """A redirect is looked at, and not followed."""
    server.script(Reply(302, headers={"Location": "/y"}))
    response = send(session, server.url + "x")
    assert response.next is not None
    assert (response.next.url, len(server.calls)) == (server.url + "y", 1)


def test_a_redirect_to_nowhere_raises_as_ever(server, session) -> None:
    """`requests` refuses a Location that is no URL although it is not to follow it."""
    server.script(Reply(302, headers={"Location": "http://[::1"}))
    with pytest.raises((requests.exceptions.InvalidURL, ValueError)):
        send(session, server.url + "x")


def test_requests_mock_answers_for_the_class(clock) -> None:
    """A mock that stands in for `Session.send` and `get_adapter` answers every hop."""
    with requests_mock.Mocker() as mock, requests.Session() as session:
        mock.post("http://api.example/jobs", status_code=202, headers={"Location": "/jobs/1"})
        mock.get("http://api.example/jobs/1", [{"status_code": 202}, {"json": 1}])
        with operation("export", deadline=60, session=session, clock=clock) as op:
            assert op.run("POST", "http://api.example/jobs").json() == 1
