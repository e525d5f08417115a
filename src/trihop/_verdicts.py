"""What a surface makes of a reply.

| hop | verdicts |
|---|---|
| submit | `Accepted`, `Rejected`, or any poll verdict (finished at once) |
| poll | `Pending`, `Transient`, and the endings |
| download | `Content`, `Pending`, `LinkExpired`, `Gone`, `Transient` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import ClassVar

from trihop._redact import redact_text
from trihop._values import JSON, Call, Result

# A server may quote in these what it was sent.
_AS_THE_SERVER_SAID = frozenset({"error", "message", "memo", "counts", "items"})


class _Verdict:
    __slots__ = ()

    def __repr__(self) -> str:
        told = []
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value is not None:
                shown = repr(redact_text(value) if isinstance(value, str) else value)
                shown = "..." if value and each.name in _AS_THE_SERVER_SAID else shown
                told.append(f"{each.name}={shown}")
        return f"{type(self).__name__}({', '.join(told)})"


@dataclass(frozen=True, slots=True, repr=False)
class Accepted(_Verdict):
    """The server has a job for us.

    Args:
        id: Its id.
        status_url: Its status monitor; relative to the reply.
        after: Seconds the server asks us to wait before the first poll.
        memo: What later hops need to know.
    """

    id: str | None = None
    status_url: str | None = None
    _: KW_ONLY
    after: float | None = None
    memo: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Rejected(_Verdict):
    """The server refused the job; `error` as it gave it."""

    error: JSON = None


@dataclass(frozen=True, slots=True, repr=False)
class Pending(_Verdict):
    """Not over.

    Args:
        state: The server's own word.
        after: Seconds the server asks us to wait.
        progress: Percent done, 0 to 100.
        message: What the server says about it.
        status_url: Where to ask from now on; relative to the reply.
        memo: Added to the job's.
        known: False for a word that the surface does not list.
    """

    state: str
    _: KW_ONLY
    after: float | None = None
    progress: float | None = None
    message: str | None = None
    status_url: str | None = None
    memo: Mapping[str, JSON] | None = None
    known: bool = True
    results: ClassVar[Sequence[Result]] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Transient(_Verdict):
    """No answer this time; counts against the error budget.

    Args:
        reason: A short word, such as "503" or "not_json".
        after: Seconds the server asks us to wait.
    """

    reason: str
    _: KW_ONLY
    after: float | None = None
    results: ClassVar[Sequence[Result]] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Ending(_Verdict):
    """The job is over.

    Args:
        state: The server's own word.
        results: What it left.
        counts: How many items went which way, as the server gave it.
        error: Why, as the server gave it.
        message: What the server says about it.
    """

    state: str
    _: KW_ONLY
    results: Sequence[Result] = ()
    counts: JSON = None
    error: JSON = None
    message: str | None = None


class Succeeded(Ending):
    """It did what was asked."""

    __slots__ = ()


class Partial(Ending):
    """It did a part of what was asked."""

    __slots__ = ()


class Failed(Ending):
    """It did not do what was asked."""

    __slots__ = ()


class Cancelled(Ending):
    """Somebody cancelled it."""

    __slots__ = ()


class Expired(Ending):
    """It ran out of its own time, or the server forgot it."""

    __slots__ = ()


class Ambiguous(Ending):
    """Nobody knows what became of it; never submitted again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Content(_Verdict):
    """The reply is the result, or one page of it.

    Args:
        items: This page's items, written as JSON lines instead of the body.
        next: The next page; relative to the reply.
        header_lines: Lines to drop from every page but the first.
    """

    _: KW_ONLY
    items: Sequence[JSON] | None = None
    next: str | Call | None = None
    header_lines: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class LinkExpired(_Verdict):
    """The link ran out; a poll may bring a fresh one."""

    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Gone(_Verdict):
    """The result is no more."""

    reason: str


PollVerdict = Pending | Transient | Ending
SubmitVerdict = Accepted | Rejected | PollVerdict
DownloadVerdict = Content | Pending | LinkExpired | Gone | Transient
