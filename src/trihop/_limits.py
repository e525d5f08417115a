"""How many more requests an origin takes, as its replies say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_MEMBER = re.compile(r"[;,\s](?:r|remaining)\s*=\s*(\d{1,15})\b")
_SECONDS = re.compile(r"[;,\s](?:t|reset)\s*=\s*(\d{1,15})\b")
_WHOLE = re.compile(r"\s*(\d{1,15})(?:\.\d+)?\s*")
_PAIRS = (
    ("ratelimit-remaining", "ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-rate-limit-remaining", "x-rate-limit-reset"),
)
_AN_INSTANT = 1_000_000_000  # more seconds than anybody is told to wait: since the epoch, then


class Ration(NamedTuple):
    """What an origin has left for us.

    Args:
        remaining: Requests.
        reset_s: Seconds until there are more.
    """

    remaining: int
    reset_s: float


def read_ration(headers: Mapping[str, str], *, now: float) -> Ration | None:
    """What a reply's headers say is left; of several windows the tightest. None where they do not say.

    Args:
        headers: The reply's, in a mapping that does not mind the case.
        now: Seconds since the epoch, for resets that are given as an instant.

    Source: draft-ietf-httpapi-ratelimit-headers, revisions 03 to 10 (`RateLimit` and the three fields before it);
    GitHub's and others' `X-RateLimit-*`. What cannot be read is passed over, and nothing here raises.

    >>> read_ration({"ratelimit": '"minute";r=12;t=30, "day";r=900;t=40000'}, now=0)
    Ration(remaining=900, reset_s=40000.0)
    >>> read_ration({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000060"}, now=1_700_000_000)
    Ration(remaining=0, reset_s=60.0)
    """
    if not any("rate" in name.lower() for name in headers):  # as in most replies, and each poll asks
        return None
    found = [ration for ration in _of_one_field(headers.get("ratelimit")) if ration is not None]
    for remaining, reset in _PAIRS:
        ration = _ration(_whole(headers.get(remaining)), _whole(headers.get(reset)), now)
        if ration is not None:
            found.append(ration)
    return max(found, key=lambda one: one.reset_s / max(one.remaining, 0.5), default=None)


def _of_one_field(value: str | None) -> list[Ration | None]:
    if value is None:
        return []
    items = [value] if "remaining" in value else value.split(",")  # a dictionary of one window, or a list of several
    return [_ration(_group(_MEMBER, f" {item}"), _group(_SECONDS, f" {item}"), 0.0) for item in items]


def _ration(remaining: int | None, reset: int | None, now: float) -> Ration | None:
    if remaining is None or reset is None:
        return None
    reset_s = float(reset - now if reset > _AN_INSTANT else reset)
    return Ration(remaining, reset_s) if reset_s > 0 else None


def _group(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else int(match.group(1))


def _whole(value: str | None) -> int | None:
    match = None if value is None else _WHOLE.fullmatch(value)
    return None if match is None else int(match.group(1))
