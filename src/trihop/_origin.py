"""Which URLs are the API's own: credentials and trace headers are a matter of origin (RFC 6454)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port, in lower case and with the default port filled in."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def origin_of(url: str) -> Origin:
    """The origin of an absolute http(s) URL; its path is of no account.

    Raises:
        ValueError: It is not one; the message does not show it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except (ValueError, AttributeError):
        raise ValueError("expected an absolute http(s) URL, such as 'https://api.example.com'") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname:
        raise ValueError("expected an absolute http(s) URL, such as 'https://api.example.com'")
    return Origin(scheme, parts.hostname.rstrip("."), _PORTS[scheme] if port is None else port)


class Trusted:
    """The origins that get the session's credentials: those the caller submits to, and those that were named."""

    __slots__ = ("_named", "_own")

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._own: set[Origin] = set()
        self._named = frozenset(origin_of(url) for url in named)

    def adopt(self, url: str) -> None:
        """Take the origin of a URL that the caller wrote as the API's own."""
        self._own.add(origin_of(url))

    def __bool__(self) -> bool:
        return bool(self._own)

    def __contains__(self, url: str) -> bool:
        origin = origin_of(url)
        return origin in self._own or origin in self._named
