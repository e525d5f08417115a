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

from trihop._arguments import (
    WrongType,
    expect,
    expect_size,
    expect_texts,
    number_or_none,
    text_of,
    text_or_none,
    told,
)
from trihop._redact import redact_text
from trihop._values import JSON, Call, Garbled, Result, results_of

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


def _word(state: object, where: str) -> str:
    """A server's word; a body that has none is no answer, which a later poll may cure."""
    if state is None:
        raise Garbled("no_state", f"{where} takes a text, got None")
    return text_of(state, where)


def _expect_url(url: object, where: str) -> None:
    if url is not None:
        expect(url, str, where, "a URL as a text")


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", text_or_none(self.id, "Accepted(id)"))
        object.__setattr__(self, "after", number_or_none(self.after))
        _expect_url(self.status_url, "Accepted(status_url)")
        expect_texts(self.memo, "Accepted(memo=)", "a mapping of names to JSON values")


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", _word(self.state, "Pending(state)"))
        object.__setattr__(self, "after", number_or_none(self.after))
        object.__setattr__(self, "progress", number_or_none(self.progress))
        _expect_url(self.status_url, "Pending(status_url=)")
        if self.memo is not None:
            expect_texts(self.memo, "Pending(memo=)", "a mapping of names to JSON values")


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

    def __post_init__(self) -> None:
        expect(self.reason, str, "Transient(reason)", "a short word, such as 'throttled'")
        object.__setattr__(self, "after", number_or_none(self.after))


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

    def __post_init__(self) -> None:
        kind = type(self).__name__
        object.__setattr__(self, "state", _word(self.state, f"{kind}(state)"))
        object.__setattr__(self, "results", results_of(self.results, f"{kind}(results=)"))


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

    def __post_init__(self) -> None:
        if self.items is not None and (isinstance(self.items, (str, bytes)) or not isinstance(self.items, Sequence)):
            raise WrongType(f"Content(items=) takes a list of JSON values, got {told(self.items)}")
        if self.next is not None:
            expect(self.next, (str, Call), "Content(next=)", "a URL or a Call")
        expect_size(self.header_lines, "Content(header_lines=)", "a number of lines, 0 or more")


@dataclass(frozen=True, slots=True, repr=False)
class LinkExpired(_Verdict):
    """The link ran out; a poll may bring a fresh one."""

    reason: str

    def __post_init__(self) -> None:
        expect(self.reason, str, "LinkExpired(reason)", "what the server says, as a text")


@dataclass(frozen=True, slots=True, repr=False)
class Gone(_Verdict):
    """The result is no more."""

    reason: str

    def __post_init__(self) -> None:
        expect(self.reason, str, "Gone(reason)", "what the server says, as a text")


PollVerdict = Pending | Transient | Ending
SubmitVerdict = Accepted | Rejected | PollVerdict
DownloadVerdict = Content | Pending | LinkExpired | Gone | Transient
