"""Which URLs are the API's own: credentials and trace headers are a matter of origin (RFC 6454)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from trihop._arguments import told

_PORTS = {"http": 80, "https": 443}
_NOT_ONE = "expected an absolute http(s) URL, such as 'https://api.example.com'"

_AUTHORITY_ENDS = re.compile(r"[/?#]")
_NO_PART_OF_AN_AUTHORITY = re.compile(r"[\\\x00-\x20\x7f]")


class Origin(NamedTuple):
    """Scheme, host and port, in lower case and with the default port filled in."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def origin_of(url: str) -> Origin:
    """The origin of an absolute http(s) URL; its path is of no account.

    The host is what urllib3 would connect to: IDNA-encoded, its trailing dot kept,
    for `api.` and `api` may be two hosts.

    Raises:
        ValueError: It is not one, or its host can be read in two ways; the message does not show it.
    """
    if not isinstance(url, str):
        raise ValueError(_NOT_ONE)
    return _parsed(url)


@lru_cache(maxsize=128)
def _parsed(url: str) -> Origin:
    """Kept, as each request asks several times."""
    end = _AUTHORITY_ENDS.search(url, url.find("://") + len("://"))
    return _of_authority(url if end is None else url[: end.start()])


@lru_cache(maxsize=256)
def _of_authority(url: str) -> Origin:
    """Of a URL without its path; each job has another path."""
    if _is_ambiguous(url):
        raise ValueError(_NOT_ONE)
    try:
        parts = parse_url(url)
    except LocationParseError:
        raise ValueError(_NOT_ONE) from None
    if parts.scheme not in _PORTS or not parts.host or not _can_be_asked(parts.host):
        raise ValueError(_NOT_ONE)
    return Origin(parts.scheme, parts.host, _PORTS[parts.scheme] if parts.port is None else parts.port)


def _is_ambiguous(url: str) -> bool:
    """Whether parsers part company over the host; what is trusted must be what is connected to.

    Some end it at a backslash, some drop tabs, some decode it; a zone id is meant to be decoded.
    """
    authority = _AUTHORITY_ENDS.split(url.partition("://")[2], maxsplit=1)[0]
    host = authority.rpartition("@")[2]
    return _NO_PART_OF_AN_AUTHORITY.search(authority) is not None or ("%" in host and not host.startswith("["))


def _can_be_asked(host: str) -> bool:
    """Whether requests and urllib3 take it for the name of a host."""
    try:
        host.encode("idna")
    except UnicodeError:  # an empty label, or one of more than 63 letters
        return False
    return not host.startswith("*")


def check_origins(origins: object, where: str) -> None:
    """Refuse what is no list of origins.

    Raises:
        TypeError, ValueError: It is none, or one of it is no absolute http(s) URL.
    """
    if isinstance(origins, str) or not isinstance(origins, Collection):
        raise TypeError(f"{where} takes a list of origins, such as ['https://files.example.com'], got {told(origins)}")
    for origin in origins:
        try:
            origin_of(origin)
        except ValueError as error:
            raise ValueError(f"{where} {error}") from None


class Trusted:
    """The origins that get the session's credentials: those the caller submits to, and those that were named."""

    __slots__ = ("_allowed", "_named", "_own")

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._own: set[Origin] = set()
        self._allowed: set[Origin] = set()
        self._named = frozenset(origin_of(url) for url in named)

    def adopt(self, url: str) -> None:
        """Take the origin of a URL that the caller wrote as the API's own."""
        self._own.add(origin_of(url))

    def allow(self, url: str) -> None:
        """Let a URL that the caller wrote be asked, without credentials, whatever its scheme."""
        self._allowed.add(origin_of(url))

    def objection(self, url: str) -> str | None:
        """Why a URL that a server handed out is not to be asked; None where nothing speaks against it."""
        try:
            origin = origin_of(url)
        except ValueError:
            return "it is no absolute http(s) URL"
        secure = any(own.scheme == "https" for own in self._own)
        if secure and origin.scheme == "http" and origin not in self._named | self._own | self._allowed:
            return f"it leads from https to {origin.scheme}; if that is meant, name {origin} in origins="
        return None

    def leaves(self, before: str, after: str) -> bool:
        """Whether who answers at the second URL is a stranger to whoever answered at the first."""
        return after not in self and origin_of(after) != origin_of(before)

    def __bool__(self) -> bool:
        return bool(self._own)

    def __contains__(self, url: str) -> bool:
        try:
            origin = origin_of(url)
        except ValueError:
            return False
        return origin in self._own or origin in self._named
