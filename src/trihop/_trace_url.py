"""The door to a trace: a link into whatever shows it, for error messages."""

from __future__ import annotations

import logging
import os
import re
from functools import cache

log = logging.getLogger("trihop")

VARIABLE = "TRIHOP_TRACE_URL"
_TRACE_ID = "{trace_id}"
_LINK = re.compile(r"https?://[^/@\s]+/\S*")


def checked(pattern: str, where: str) -> str:
    """The pattern of a link as it was given.

    Raises:
        ValueError: It has no `{trace_id}`, or is no http(s) URL, or has user and password, which would be shown.
    """
    if not _LINK.fullmatch(pattern):
        raise ValueError(f"{where} takes an http:// or https:// URL without user or password")
    if _TRACE_ID not in pattern:
        raise ValueError(
            f"{where} takes a URL with {_TRACE_ID} in it, such as http://localhost:16686/trace/{_TRACE_ID}"
        )
    return pattern


def link(pattern: str | None, trace_id: str | None) -> str | None:
    """Where a trace can be looked at; None where there is no trace, or nobody said where.

    Braces of any other kind stay, as addresses of Grafana have them.

    >>> link("http://localhost:16686/trace/{trace_id}", "4bf9")
    'http://localhost:16686/trace/4bf9'
    """
    return None if pattern is None or trace_id is None else pattern.replace(_TRACE_ID, trace_id)


def named() -> str | None:
    """The pattern that the environment names; one that is of no use is told of once."""
    pattern = os.environ.get(VARIABLE)
    return _usable(pattern) if pattern else None


@cache
def _usable(pattern: str) -> str | None:
    try:
        return checked(pattern, VARIABLE)
    except ValueError as wrong:
        log.warning("%s; it is not used", wrong)
        return None
