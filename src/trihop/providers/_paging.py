"""Pages that are asked for by a token in the query."""

from __future__ import annotations

from urllib.parse import quote, urlsplit


def same_but(url: str, name: str, value: str) -> str:
    """The query of this URL as a reference, with one parameter set; the others stay byte for byte.

    >>> same_but("https://h/results?limit=2&token=a", "token", "b/c")
    '?limit=2&token=b%2Fc'
    """
    kept = [item for item in urlsplit(url).query.split("&") if item and item.partition("=")[0] != name]
    return "?" + "&".join([*kept, f"{name}={quote(value, safe='')}"])
