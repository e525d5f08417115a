"""How requests and endings read on spans, in metrics and messages: short words, of low cardinality."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trihop._errors import (
    DeadlineExceeded,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    PollBudgetExhausted,
    SubmitRejected,
    TrihopError,
)
from trihop._origin import origin_of
from trihop._redact import redact_url
from trihop._telemetry import semconv
from trihop._values import JSON, Ready, one_text

# TELEMETRY: how each ending reads as `trihop.operation.result`; the first that fits.
_RESULTS: tuple[tuple[type[TrihopError], str], ...] = (
    (DeadlineExceeded, "timeout"),
    (PollBudgetExhausted, "timeout"),
    (JobPartiallyFailed, "partial"),
    (JobCancelled, "cancellation"),
    (JobExpired, "failure"),
    (JobFailed, "failure"),
    (SubmitRejected, "failure"),
)

_ONE_WORD = re.compile(r"([a-z0-9_]{1,32})(?: \(\w+\))?$")


def address(url: str) -> dict[str, Any]:
    try:
        origin = origin_of(url)
    except ValueError:  # whoever is to send it says what is wrong
        return {}
    return {semconv.SERVER_ADDRESS: origin.host.strip("[]"), semconv.SERVER_PORT: origin.port}


def http_attributes(method: str, url: str, *, known: Iterable[str] = ()) -> dict[str, Any]:
    """What a span says of a request before it is answered; `known` are credentials that its URL may have."""
    shown = redact_url(url, known=known)
    return {semconv.HTTP_REQUEST_METHOD: one_text(method.upper()), **address(url), semconv.URL_FULL: shown}


def error_type_of(error: BaseException) -> str:
    """`error.type`: the bare class for ours, the qualified name for the caller's own."""
    if isinstance(error, TrihopError):
        return type(error).__name__
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def result_of(ending: BaseException | None, exception: BaseException | None, ready: Ready | None) -> tuple[str, bool]:
    """The result's word, and whether the root is an error."""
    if ending is None:
        return ("partial" if ready is not None and not ready.complete else "success"), False
    for kind, word in _RESULTS:
        if isinstance(ending, kind):
            return word, exception is not None
    if isinstance(ending, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        return "cancellation", False
    return "error", exception is not None


def first_words(exception: BaseException) -> str:
    """What happened, without the operation and the advice that our own messages go on with."""
    if isinstance(exception, TrihopError):
        return exception.what
    try:
        return f"{type(exception).__name__}: {exception}"
    except Exception:  # a `__str__` that fails
        return type(exception).__name__


def label(error_type: str | None) -> str | None:
    """An attempt's error type as the label of a metric: a word of ours, and never one of the server's sentences.

    >>> label("read_timeout"), label("unreadable (KeyError)"), label("Throttled: shard 7 of 12 is busy")
    ('read_timeout', 'unreadable', 'transient')
    """
    if error_type is None:
        return None
    word = _ONE_WORD.match(error_type)
    return word.group(1) if word is not None else "transient"


_WHOLE_COUNTS = ("total", "numberrecordsprocessed", "processed")
_GOOD_COUNTS = ("succeeded", "successful", "completed")
_BAD_COUNTS = ("failed", "errored", "failures", "cancelled", "canceled", "expired", "numberrecordsfailed")


def items_of(counts: JSON) -> tuple[int | None, int | None]:
    """Total and failed items, where the counts say so in the usual words."""
    if not isinstance(counts, Mapping):
        return None, None
    numbers = {
        str(name).casefold(): value
        for name, value in counts.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    good = [numbers[name] for name in _GOOD_COUNTS if name in numbers]
    bad = [numbers[name] for name in _BAD_COUNTS if name in numbers]
    total = next((numbers[name] for name in _WHOLE_COUNTS if name in numbers), None)
    if total is None and good and bad:
        total = sum(good) + sum(bad)
    return total, sum(bad) if bad else None
