"""Sending a prepared request through its adapter, where nothing else of `Session.send` would come to anything.

Beside the adapter, `Session.send` runs hooks, keeps cookies and looks where a
redirect leads; without any of these that is a fifth of a poll. Whoever stands in
its place, on a subclass, a session or the class itself (instrumentations,
requests-mock, betamax), is asked as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import requests
from requests.cookies import RequestsCookieJar

Send = Callable[..., requests.Response]

wrappers: WeakKeyDictionary[Send, Send] = WeakKeyDictionary()
"""Our own on `Session.send`, which let through what the engine sends, and what each stands for."""


def send(
    session: requests.Session, request: requests.PreparedRequest, *, timeout: Any, settings: dict[str, Any]
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
    response = session.get_adapter(request.url).send(request, timeout=timeout, **settings)
    if "Set-Cookie" in response.headers:
        requests.cookies.extract_cookies_to_jar(session.cookies, request, response.raw)  # type: ignore[no-untyped-call]
    if response.is_redirect:  # looked at as ever, which may raise
        steps = session.resolve_redirects(response, request, timeout=timeout, yield_requests=True, **settings)
        response._next = next(steps, None)  # type: ignore[attr-defined]
    return response


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
