"""When a signed link runs out, as the link itself says, and what it names without its signature."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from urllib.parse import parse_qsl

from trihop._redact import is_signed

# `X-Amz-Date` and `X-Amz-Expires`, and what others made of them.
_VENDORS = ("amz", "goog", "oss", "obs", "tos")
_EPOCHS = ("expires", "temp_url_expires")


def expires_at(url: str) -> dt.datetime | None:
    """The instant at which a signed link ends, aware; None where the link does not say.

    Reads a date and seconds (`X-Amz-Date` with `X-Amz-Expires`, and their likes at
    Google, Alibaba and others), Azure's `se`, and seconds since the epoch in
    `Expires`. No text makes this function raise.

    Source: AWS, "Authenticating Requests: Using Query Parameters" and "Signature
    Version 2"; Microsoft, "Create a service SAS"; Google, "V4 signing process".

    >>> expires_at("https://b.example/k?X-Amz-Date=20260301T120000Z&X-Amz-Expires=900&X-Amz-Signature=ab").isoformat()
    '2026-03-01T12:15:00+00:00'
    >>> expires_at("https://api.example/jobs?expires=1772366400") is None
    True
    """
    if not is_signed(url):
        return None
    query = {name.lower(): value for name, value in parse_qsl(url.partition("#")[0].partition("?")[2])}
    try:
        for vendor in _VENDORS:
            if (begins := query.get(f"x-{vendor}-date")) and (lasts := query.get(f"x-{vendor}-expires")):
                begun = dt.datetime.strptime(begins, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.timezone.utc)
                return begun + dt.timedelta(seconds=int(lasts))
        if ends := query.get("se"):
            end = dt.datetime.fromisoformat(ends.replace("Z", "+00:00"))
            return end if end.tzinfo is not None else end.replace(tzinfo=dt.timezone.utc)
        if epoch := next((query[name] for name in _EPOCHS if name in query), None):
            return dt.datetime.fromtimestamp(int(epoch), tz=dt.timezone.utc)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def without_signature(url: str) -> str:
    """What a link names: a signed one without its query, which is another one each time.

    >>> without_signature("https://b.example/k?se=2026-03-01&sig=ab"), without_signature("https://api.example/r?n=2")
    ('https://b.example/k', 'https://api.example/r?n=2')
    """
    url = url.partition("#")[0]
    return url.partition("?")[0] if is_signed(url) else url


def unsent_headers(url: str, sent: Iterable[str]) -> list[str]:
    """Header fields that a link was signed together with and a request lacks: without them it is refused.

    >>> unsent_headers("https://b.example/k?X-Amz-SignedHeaders=host%3Btraceparent&X-Amz-Signature=ab", ["Accept"])
    ['traceparent']
    """
    query = {name.lower(): value for name, value in parse_qsl(url.partition("#")[0].partition("?")[2])}
    signed = next((query[name] for vendor in _VENDORS if (name := f"x-{vendor}-signedheaders") in query), "")
    there = {"host", *(name.lower() for name in sent)}
    return [name for name in signed.lower().split(";") if name and name not in there]
