"""Asking for a job, or for the result if it is quick: the `Prefer` header of a submit.

A server may ignore what we prefer without a word; `Preference-Applied` in its answer tells what it heeded. So a surface
reads both answers, as those of `generic`, `ogc` and `replicate` do: a job, or the result itself.

    op.submit("POST", url, headers=prefer.respond_async(wait=10), json=query)

Source: RFC 7240 sections 2, 4.1 and 4.3 (read November 2026).
"""

from __future__ import annotations


def respond_async(wait: int | None = None) -> dict[str, str]:
    """The header that asks for a job; with `wait`, only if the result takes longer than that.

    Args:
        wait: Whole seconds that the server may hold the submit; None: it need not.

    Raises:
        ValueError: `wait` is no whole number of seconds, 0 or more.

    >>> respond_async(), respond_async(wait=10)
    ({'Prefer': 'respond-async'}, {'Prefer': 'respond-async, wait=10'})
    """
    return {"Prefer": "respond-async" if wait is None else f"respond-async, {_held_for(wait)}"}


def wait(seconds: int) -> dict[str, str]:
    """The header that asks the server to hold the submit that long for the result.

    Args:
        seconds: Whole seconds.

    Raises:
        ValueError: It is no whole number of seconds, 0 or more.

    >>> wait(60)
    {'Prefer': 'wait=60'}
    """
    return {"Prefer": _held_for(seconds)}


def _held_for(seconds: int) -> str:
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < 0:
        raise ValueError(f"Prefer takes whole seconds to wait, 0 or more, got {seconds!r}")
    return f"wait={seconds}"
