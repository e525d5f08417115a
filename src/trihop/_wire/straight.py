"""Sending a prepared request through its adapter, where nothing else of `Session.send` would come to anything.

Beside the adapter, `Session.send` runs hooks, keeps cookies and looks where a
redirect leads; without any of these that is a fifth of a poll. Whoever stands in
its place, on a subclass, a session or the class itself (instrumentations,
requests-mock, betamax), is asked as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.cookies import RequestsCookieJar
from requests.hooks import dispatch_hook
from requests.structures import CaseInsensitiveDict
from urllib3 import PoolManager

if TYPE_CHECKING:
    from typing import TypeGuard

Send = Callable[..., requests.Response]

wrappers: WeakKeyDictionary[Send, Send] = WeakKeyDictionary()
"""Our own on `Session.send`, which let through what the engine sends, and what each stands for."""


class Straight:
    """The way of one operation's requests: what their adapter finds out for one, it need not for the next."""

    def __init__(self) -> None:
        self._lane: Lane | None = None

    def send(
        self, session: requests.Session, request: requests.PreparedRequest, *, timeout: Any, settings: dict[str, Any]
    ) -> requests.Response:
        """The answer as `session.send` gives it, redirects not followed; its `elapsed` may be zero.

        Args:
            session: Whose adapters send.
            request: Prepared, with credentials and cookies.
            timeout: As in `requests`.
            settings: As merged with the environment: proxies, stream, verify and cert.
        """
        if not _is_plain(session) or request.hooks.get("response"):
            return session.send(request, timeout=timeout, allow_redirects=False, **settings)
        assert request.url is not None
        adapter = session.get_adapter(request.url)
        if not settings["proxies"] and _is_plain_adapter(adapter):
            adapter = self._lane_of(adapter)
        response = adapter.send(request, timeout=timeout, **settings)
        return taken_in(session, request, response, timeout=timeout, settings=settings)

    def known(
        self, session: requests.Session, request: requests.PreparedRequest, settings: dict[str, Any]
    ) -> tuple[HTTPAdapter, Any] | None:
        """Adapter and connection pool of a request like one that was sent before; None where there is a doubt."""
        lane = self._lane
        if lane is None or settings["proxies"] or not _is_plain(session) or request.hooks.get("response"):
            return None
        adapter = session.get_adapter(request.url or "")
        if lane.adapter is not adapter or not _is_plain_adapter(adapter) or "send" in vars(adapter):
            return None
        pool = lane.known(request.url or "", settings["verify"], settings["cert"])
        return None if pool is None else (adapter, pool)

    def _lane_of(self, adapter: HTTPAdapter) -> Lane:
        lane = self._lane
        if lane is None or lane.adapter is not adapter:
            self._lane = lane = Lane(adapter)
        return lane


def taken_in(
    session: requests.Session,
    request: requests.PreparedRequest,
    response: requests.Response,
    *,
    timeout: Any,
    settings: dict[str, Any],
) -> requests.Response:
    """What the session does with an answer: hooks, cookies, and a look at where a redirect leads."""
    if request.hooks.get("response"):  # which the adapter has registered
        response = dispatch_hook("response", request.hooks, response, timeout=timeout, **settings)  # type: ignore[no-untyped-call]
    if "Set-Cookie" in response.headers:
        requests.cookies.extract_cookies_to_jar(session.cookies, request, response.raw)  # type: ignore[no-untyped-call]
    if response.is_redirect:  # looked at as ever, which may raise
        steps = session.resolve_redirects(response, request, timeout=timeout, yield_requests=True, **settings)
        response._next = next(steps, None)  # type: ignore[attr-defined]
    return response


class Lane(HTTPAdapter):
    """An adapter of requests' own, where no proxy is in the way: its connection pool is looked up once an origin.

    It shares all that the adapter has, and is that adapter for who asks its class.
    """

    __slots__ = ("_found", "adapter")

    def __init__(self, adapter: HTTPAdapter) -> None:
        self.__dict__ = vars(adapter)
        self.adapter = adapter
        self._found: tuple[Any, ...] | None = None

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        """The pool for the origin of the request."""
        url, manager = request.url or "", self.poolmanager
        pool = self.known(url, verify, cert)
        if pool is not None:
            return pool
        pool = super().get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
        self._found = None
        origin = _origin(url)
        if origin and type(manager) is PoolManager:
            key = next((key for key in manager.pools.keys() if manager.pools.get(key) is pool), None)  # noqa: SIM118 - it has no other way
            if key is not None:
                asked = (origin, verify, cert, manager, dict(manager.connection_pool_kw))
                self._found = (asked, key, ref(pool))
        return pool

    def known(self, url: str, verify: Any, cert: Any) -> Any:
        """The pool of the request before, if it serves for this one, too."""
        found, manager = self._found, self.poolmanager
        if found is None or found[0] != (_origin(url), verify, cert, manager, manager.connection_pool_kw):
            return None
        pool = found[2]()
        # One that its manager has no more is of a session that was closed.
        return pool if pool is not None and manager.pools.get(found[1]) is pool else None

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Path and query."""
        return target_of(request)

    def build_response(self, request: requests.PreparedRequest, answer: Any) -> requests.Response:
        """As far as the engine reads it."""
        return Answer(self.adapter, request, answer)


class Answer(requests.Response):
    """A response as far as the engine reads it: a cookie jar for who looks into it, and no guess at an encoding."""

    def __init__(self, adapter: HTTPAdapter, request: requests.PreparedRequest, answer: Any) -> None:
        self._content = False  # type: ignore[assignment]
        self._content_consumed = False
        self._next = self.encoding = None
        self.history = []
        self.elapsed = _NO_TIME
        self.status_code = answer.status
        self.headers = CaseInsensitiveDict()
        fields = self.headers._store  # type: ignore[attr-defined]  # as its own `__setitem__` does, a call a field
        for name, value in answer.headers.itermerged():
            fields[name.lower()] = (name, value)
        self.raw, self.reason, self.url = answer, answer.reason, request.url or ""
        self.request, self.connection = request, adapter

    def close(self) -> None:
        """Give the connection back, and let go of its pool: who closes the session closes its connections."""
        if self.raw is not None:
            if "Set-Cookie" in self.headers:
                self.cookies  # noqa: B018 - taken while it can be
            super().close()
            self.raw = None

    @cached_property
    def cookies(self) -> RequestsCookieJar:  # type: ignore[override]
        """What the answer sets."""
        jar = RequestsCookieJar()
        requests.cookies.extract_cookies_to_jar(jar, self.request, self.raw)  # type: ignore[no-untyped-call]
        return jar


def target_of(request: requests.PreparedRequest) -> str:
    """Path and query; as its `path_url`, which takes the whole URL apart for it."""
    url = request.url or ""
    at = url.find("/", _AFTER_SCHEME)
    if at < 0 or "#" in url or url.endswith("?") or "?" in url[:at]:
        return request.path_url
    return url[at:]


def _origin(url: str) -> str:
    return url[: url.find("/", _AFTER_SCHEME) + 1]


_NO_TIME = timedelta(0)
_AFTER_SCHEME = len("https://")
_LANED = [
    name
    for name in ("get_connection_with_tls_context", "request_url", "build_response")
    if hasattr(HTTPAdapter, name)  # the first of them from requests 2.32.2 on
]
_laned = attrgetter(*_LANED)

# As they were when we came: who replaces one later, on the class itself, is asked as well.
_AS_REQUESTS_HAS_THEM = _laned(HTTPAdapter)


def _is_plain_adapter(adapter: BaseAdapter) -> TypeGuard[HTTPAdapter]:
    """Whether what a lane does otherwise is requests' own, and nobody else's."""
    if type(adapter) is not HTTPAdapter or _laned(HTTPAdapter) != _AS_REQUESTS_HAS_THEM:
        return False
    return vars(adapter).keys().isdisjoint(_LANED)


def _is_plain(session: requests.Session) -> bool:
    """Whether sending is requests' own business from end to end."""
    if type(session) is not requests.Session or "send" in vars(session):
        return False
    if type(session.cookies) is not RequestsCookieJar:
        return False
    found: Send = requests.Session.send
    while (inner := wrappers.get(found)) is not None:
        found = inner
    # By where it was defined: a wrapper may have any name, and copy any attribute.
    return type(found) is FunctionType and found.__globals__ is vars(requests.sessions)
