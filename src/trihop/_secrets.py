"""What must never be shown of an operation: the credentials that its requests carry.

Servers quote what they were sent. A credential is found by where it stands: in
the session's own fields, under a header name that credentials go by, in a
signed link, in a field of a JSON or form body, in the user part of a proxy's URL.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote
from urllib.request import getproxies

import requests
from requests.utils import get_auth_from_url

from trihop._redact import REDACTED, SHORTEST_KNOWN, is_harmless, is_signed, redact_text

CREDENTIAL_NAME = re.compile(
    r"auth|cookie|key|token|secret|signature|password|session|credential|jwt|^(x-)?sig$|assertion", re.IGNORECASE
)

# The field of a JSON object; `key` alone is mostly another thing there.
_SECRET_FIELD = re.compile(r"token(?!s)|secret|passw|signature|authorization|cookie|api_?key", re.IGNORECASE)

# Says who asks and for what, and no more.
_PLAIN_HEADERS = frozenset(
    {"user-agent", "accept", "accept-encoding", "accept-language", "connection", "content-type", "prefer"}
)
_MOST_REMEMBERED = 128
_LONGEST_BODY = 65_536
_BETWEEN = re.compile(r"[\s,]+")


class Secrets:
    """The credentials of one operation, as they come to be known.

    Args:
        session: Whose fields are read each time: they may change.
    """

    def __init__(self, session: requests.Session) -> None:
        self._session = session
        self._sent: dict[str, None] = {}
        self._signed: dict[str, None] = {}
        self._known: list[str] | None = None
        self._credentials: list[str] = []
        self._looked = False
        self._learnt: tuple[Any, ...] = ()
        self._of_environment: list[str] | None = None
        self.last: requests.PreparedRequest | None = None
        """What went out last, as adapters and auth handlers left it; looked into when somebody wants to know."""

    def learn(self, request: requests.PreparedRequest) -> None:
        """Remember what a request carries; the latest 128 of these."""
        fields: Any = request.headers or {}
        body = request.body if isinstance(request.body, (str, bytes)) and len(request.body) <= _LONGEST_BODY else ""
        carried = (request.url, dict(getattr(fields, "_store", fields)), body)
        if carried == self._learnt:
            return  # as a poll that is sent again carries what the one before it did
        self._learnt = carried
        for secret in (*in_body(body), *in_url(request.url or ""), *in_headers(request.headers or {})):
            self._sent.pop(secret, None)
            self._sent[secret] = None
        while len(self._sent) > _MOST_REMEMBERED:
            del self._sent[next(iter(self._sent))]
        self._known = None

    def look_again(self) -> None:
        """Before a text that is not a server's: it may have what was set on the session and never went out."""
        self._known = self._of_environment = None

    def known(self, options: Mapping[str, Any]) -> list[str]:
        """Texts that are replaced wherever they turn up.

        Args:
            options: What the submit said of `auth`, `cert` and `proxies`.
        """
        session, request = self._session, self.last
        if request is not None:
            self.last = None
            self.learn(request)
        if self._known is not None:
            return self._known  # nothing new went out since, so there is nothing new to be quoted
        self._looked = True
        found: list[str] = []
        credentials: list[str] = []
        for name, value in (session.headers or {}).items():
            field = _text(name)
            if value is not None and field.lower() not in _PLAIN_HEADERS:
                kind = credentials if CREDENTIAL_NAME.search(field) else found
                kind += _in_value(field, _text(value))
        for auth in (session.auth, options.get("auth")):
            if callable(auth):
                self._learn_signed()
            # requests' own classes, and most others, call them so.
            parts = (
                auth if isinstance(auth, tuple) else [getattr(auth, name, None) for name in ("username", "password")]
            )
            texts = [_text(part) for part in parts if isinstance(part, (str, bytes))]
            found += texts[:1]
            credentials += texts[1:]
        found += [cookie.value for cookie in session.cookies if cookie.value is not None]
        found += [value for _, value in _pairs(session.params)]
        for proxies in (session.proxies, options.get("proxies")):
            for proxy in (proxies or {}).values():
                found += in_proxy(str(proxy))
        if session.trust_env:
            found += self._in_environment()
        for cert in (session.cert, options.get("cert")):
            found += [str(path) for path in (cert if isinstance(cert, tuple) else (cert,)) if path is not None]
        credentials = _worth_it([*credentials, *self._sent])
        self._known = [*_worth_it(found), *credentials, *self._signed]
        # Of `user:password` the user is a name, which paths have by right.
        pairs = [known for known in self._known if ":" in known]
        self._credentials = [one for one in credentials if not any(pair.startswith(f"{one}:") for pair in pairs)]
        return self._known

    def credentials(self, options: Mapping[str, Any]) -> list[str]:
        """Of what is known, that which has no place in a path or an id.

        Left out are users, and what stands under names that tell of no credential: a tenant, a version.
        These are those that `known` found when it last looked: looking takes longer than a hop may.
        """
        if not self._looked:
            self.known(options)
        return self._credentials

    def _learn_signed(self) -> None:
        """What an auth handler may have put into the latest request, by whatever name."""
        fields = self._learnt[1] if self._learnt else {}
        for name, value in fields.items():
            name = name.lower()
            if not (name in _PLAIN_HEADERS or is_harmless(name) or CREDENTIAL_NAME.search(name)):
                text = _text(value[1] if isinstance(value, tuple) else value)
                self._signed |= dict.fromkeys(_worth_it([text]))
        while len(self._signed) > _MOST_REMEMBERED:
            del self._signed[next(iter(self._signed))]

    def _in_environment(self) -> list[str]:
        """Of its proxies; read once, as requests are prepared: that takes longer than all the rest."""
        if self._of_environment is None:
            self._of_environment = [secret for proxy in _proxies_around() for secret in in_proxy(proxy)]
        return self._of_environment


def _proxies_around() -> Iterable[str]:
    """The proxies that requests finds outside of its sessions."""
    if sys.platform in ("darwin", "win32"):
        return getproxies().values()  # the system has settings of its own
    names = (f"{scheme}_proxy" for scheme in ("http", "https", "all"))
    found = (os.environ.get(name) or os.environ.get(name.upper()) for name in names)
    return [proxy for proxy in found if proxy]


def quotable(said: Any, known: Iterable[str], *, depth: int = 32) -> Any:
    """What a server said, as JSON, with each of its texts as it may be written down."""
    match said:
        case str():
            return redact_text(said, known=known)
        case dict() | list() if depth == 0:
            return REDACTED
        case dict():
            return {
                redact_text(name, known=known): REDACTED
                if _SECRET_FIELD.search(name) and isinstance(value, str)
                else quotable(value, known, depth=depth - 1)
                for name, value in said.items()
            }
        case list():
            return [quotable(value, known, depth=depth - 1) for value in said]
        case _:
            return said


def in_url(url: str) -> list[str]:
    """What is secret in a URL: user and password, a signed link's values, those of names that credentials go by."""
    before, _, query = url.partition("#")[0].partition("?")
    user, at, _ = before.partition("://")[2].partition("/")[0].rpartition("@")
    found = user.split(":", 1) if at else []
    signed = is_signed(url)
    for item in query.split("&") if query else ():
        name, _, value = item.partition("=")
        if signed or CREDENTIAL_NAME.search(unquote(name)):
            found.append(value)
    return _worth_it(text for value in found for text in (value, unquote(value)))


def in_proxy(url: str) -> list[str]:
    """User and password of a proxy, also as the proxy is told them."""
    user, password = get_auth_from_url(url)
    told = base64.b64encode(f"{user}:{password}".encode()).decode()
    return _worth_it([*in_url(url), told] if password else in_url(url))


def in_headers(headers: Mapping[str, Any]) -> list[str]:
    """The values of header fields that credentials go by, and their parts."""
    # Past the methods of requests' own mapping, which take longer than all the rest.
    fields = getattr(headers, "_store", None)
    return _worth_it(
        part
        for name, value in (headers.items() if fields is None else fields.values())
        if CREDENTIAL_NAME.search(name)
        for part in _in_value(name, _text(value))
    )


def in_body(body: str | bytes) -> list[str]:
    """The values of the fields that credentials go by, in JSON or a form; no body makes this function raise.

    >>> in_body(b'{"query": "all", "auth": {"client_secret": "s3cr3t-7"}}')
    ['s3cr3t-7']
    >>> in_body("grant=x&password=s3cr3t+7")
    ['s3cr3t 7']
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if not _SECRET_FIELD.search(text):
        return []
    if text.lstrip()[:1] not in ("{", "["):
        return _worth_it(value for name, value in parse_qsl(text) if _SECRET_FIELD.search(name))
    try:
        return _worth_it(_in_fields(json.loads(text)))
    except (ValueError, RecursionError):
        return []


def _in_fields(said: Any) -> Iterator[str]:
    match said:
        case dict():
            for name, value in said.items():
                if isinstance(value, str) and _SECRET_FIELD.search(name):
                    yield value
                else:
                    yield from _in_fields(value)
        case list():
            for value in said:
                yield from _in_fields(value)


def _in_value(name: str, value: str) -> Iterator[str]:
    """A header's value and what in it may be quoted alone: the token behind `Bearer`, a password, a cookie."""
    yield value
    scheme, *parts = _BETWEEN.split(value) if name.lower() != "cookie" else ["", *re.split(r";\s*", value)]
    for part in parts:
        yield part
        yield part.partition("=")[2].strip('"')
    if scheme.lower() == "basic" and parts:
        try:
            pair = base64.b64decode(parts[0], validate=True).decode("latin-1")
        except (binascii.Error, ValueError):
            return
        yield from (pair, *pair.split(":", 1))


def _pairs(params: Any) -> Iterable[tuple[str, str]]:
    if isinstance(params, (str, bytes)):
        return parse_qsl(_text(params))
    items = params.items() if isinstance(params, Mapping) else params or ()
    return [
        (_text(name), _text(one))
        for name, value in items
        for one in (value if isinstance(value, (list, tuple)) else (value,))
    ]


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _worth_it(texts: Iterable[str]) -> list[str]:
    return list({text: None for text in texts if len(text) >= SHORTEST_KNOWN})
