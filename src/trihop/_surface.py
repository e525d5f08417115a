"""Surfaces: how one API shows a hop, as tables of words and paths or as functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trihop._arguments import number_or_none
from trihop._template import check_url, fill
from trihop._values import JSON, Garbled, Job, Reply, Result, as_call
from trihop._verdicts import (
    Accepted,
    Ambiguous,
    Cancelled,
    Content,
    DownloadVerdict,
    Ending,
    Expired,
    Failed,
    Partial,
    Pending,
    PollVerdict,
    Rejected,
    SubmitVerdict,
    Succeeded,
    Transient,
)

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

Reader = Callable[[Reply], Any]
Field = str | Reader
Surface = TypeVar("Surface", bound=Callable[..., Any])


class SubmitSurface(Protocol):
    """Reads the answer to a submit."""

    def __call__(self, reply: Reply, /) -> SubmitVerdict:
        """Whether there is a job, and where."""
        ...


class PollSurface(Protocol):
    """Reads the answer to a poll."""

    def __call__(self, reply: Reply, job: Job, /) -> PollVerdict:
        """Whether the job is over, and how it ended."""
        ...


class DownloadSurface(Protocol):
    """Reads the answer to a download, before its body."""

    def __call__(self, reply: Reply, result: Result, /) -> DownloadVerdict:
        """Whether this is the result."""
        ...


def accepts(*statuses: int) -> Callable[[Surface], Surface]:
    """Show a surface replies with these statuses too, which the engine judges itself otherwise.

    It still does where the surface raises a `ValueError` or stumbles over a body
    of another shape.
    """
    if not statuses or not _are_statuses(statuses):
        raise ValueError(f"accepts() takes HTTP statuses, such as accepts(400, 404), got {statuses!r}")

    def mark(surface: Surface) -> Surface:
        surface.accept = frozenset(statuses)  # type: ignore[attr-defined]
        return surface

    return mark


def _are_statuses(values: object) -> bool:
    return isinstance(values, (tuple, list, Set)) and all(
        isinstance(value, int) and 100 <= value <= 599 for value in values
    )


def _own_statuses(table: object) -> None:
    """Keep a copy of `accept`.

    Raises:
        TypeError: It lists no HTTP statuses.
    """
    given = getattr(table, "accept")  # noqa: B009
    if not _are_statuses(given):
        raise TypeError(f"{type(table).__name__}(accept=) lists HTTP statuses, such as (400, 404), got {given!r}")
    object.__setattr__(table, "accept", tuple(given))


def accepted(surface: object, status: int) -> bool:
    """Whether a surface asked to see this status."""
    return status in getattr(surface, "accept", ())


# ---- readers of one field


def header(*names: str) -> Callable[[Reply], str | None]:
    """Read the first of these header fields that is there."""
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"header() takes names of header fields, such as header('Location'), got {names!r}")

    def read_header(reply: Reply) -> str | None:
        return next((value for name in names if (value := reply.headers.get(name)) is not None), None)

    return read_header


def xml(tag: str) -> Callable[[Reply], str | None]:
    """Read the text of the first XML element with this local name, whatever its namespace."""
    if not isinstance(tag, str):
        raise TypeError(f"xml() takes the name of an element, such as xml('phase'), got {tag!r}")

    def read_xml(reply: Reply) -> str | None:
        for element in reply.xml().iter():
            if element.tag == tag or element.tag.endswith("}" + tag):
                return "".join(element.itertext()).strip()
        return None

    return read_xml


def text(reply: Reply) -> str:
    """Read the whole body as text, without the white space around it."""
    return reply.text.strip()


def reader(spec: Field, where: str) -> Reader:
    """A function for a field: a JMESPath (jmespath.org) becomes one, a callable is one.

    Raises:
        TypeError: It is neither.
        ValueError: It is not valid JMESPath.
    """
    if callable(spec):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"{where}: expected a JMESPath or a function of the reply, got {spec!r}")
    if _NAMES.fullmatch(spec):
        return _first_of([_member(names.strip().split(".")) for names in spec.split("||")])
    import jmespath

    try:
        path: ParsedResult = jmespath.compile(spec)
    except jmespath.exceptions.JMESPathError as error:
        raise ValueError(f"{where}: {spec!r} is not valid JMESPath: {error}") from None
    return lambda reply: path.search(reply.json())


# What most fields are; a poll is read ten thousand times, and JMESPath walks its tree each time.
_NAMES = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*( *\|\| *[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)*", re.ASCII)


def _member(names: Sequence[str]) -> Reader:
    """Reads what a JMESPath of plain names does."""

    def read_member(reply: Reply) -> Any:
        value = reply.json()
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return read_member


def _first_of(readers: Sequence[Reader]) -> Reader:
    """Reads what a JMESPath of `||` does: the first that is not false, or else the last."""
    if len(readers) == 1:
        return readers[0]

    def read_first(reply: Reply) -> Any:
        for read in readers:
            value = read(reply)
            if value or (value == 0 and value is not False):  # in JMESPath a zero is not false
                break
        return value

    return read_first


def _readers(table: object, names: Iterable[str]) -> dict[str, Reader]:
    kind = type(table).__name__
    specs = ((name, getattr(table, name)) for name in names)
    return {name: reader(spec, f"{kind}({name}=)") for name, spec in specs if spec is not None}


_HANDLE = header("Operation-Location", "Azure-AsyncOperation", "Location", "Content-Location")


@dataclass(frozen=True, slots=True)
class ReadJob:
    """A submit surface as a table of fields.

    Args:
        id: The job's id.
        status_url: Its status monitor, relative to the reply; None where the
            provider's `status` template builds it from the id.
        after: Seconds to wait before the first poll; the `Retry-After` header
            is read without being asked for.
        memo: Fields that later hops need, by name.
        rejected: An error inside a reply of 200; empty or null is none.
        accept: Statuses beyond 2xx and 301-303 to be shown.
    """

    id: Field | None = None
    status_url: Field | None = _HANDLE
    after: Field | None = field(default=None, kw_only=True)
    memo: Mapping[str, Field] = field(default_factory=dict, kw_only=True)
    rejected: Field | None = field(default=None, kw_only=True)
    accept: Sequence[int] = field(default=(), kw_only=True)
    _read: Mapping[str, Reader] = field(init=False, repr=False, compare=False)
    _memo: Mapping[str, Reader] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _own_statuses(self)
        if not isinstance(self.memo, Mapping):
            raise TypeError(f"ReadJob(memo=) maps names to fields, such as {{'region': 'region'}}, got {self.memo!r}")
        object.__setattr__(self, "memo", dict(self.memo))
        object.__setattr__(self, "_read", _readers(self, ("id", "status_url", "after", "rejected")))
        object.__setattr__(
            self, "_memo", {name: reader(spec, f"ReadJob(memo={name}=)") for name, spec in self.memo.items()}
        )

    def __call__(self, reply: Reply) -> SubmitVerdict:
        """`Accepted`, or `Rejected` where the `rejected` field says so."""
        found = {name: read(reply) for name, read in self._read.items()}
        if found.get("rejected"):
            return Rejected(found["rejected"])
        job_id, status_url = _text_or_none(found.get("id")), _text_or_none(found.get("status_url"))
        if reply.status_code >= 400 and job_id is None and status_url is None:
            raise Garbled("no_job", f"there is no job in this HTTP {reply.status_code}")
        return Accepted(
            job_id,
            status_url,
            after=number_or_none(found.get("after")),
            memo={name: read(reply) for name, read in self._memo.items()},
        )


_WORD_KINDS = ("pending", "succeeded", "failed", "cancelled", "expired", "ambiguous")
_ENDINGS: Mapping[str, type[Ending]] = {
    "succeeded": Succeeded,
    "failed": Failed,
    "cancelled": Cancelled,
    "expired": Expired,
    "ambiguous": Ambiguous,
}
_IGNORED_IN_WORDS = str.maketrans("", "", " -_")


def folded(word: str) -> str:
    """A state word without regard to case, space, `-` and `_`."""
    return word.casefold().translate(_IGNORED_IN_WORDS)


def _own_words(kind: str, listed: object) -> frozenset[str]:
    """A copy, whatever was iterated over to get it."""
    words = None if isinstance(listed, str) or not isinstance(listed, Iterable) else frozenset(listed)
    if words is None or not all(isinstance(word, str) for word in words):
        example = listed if isinstance(listed, str) else "done"
        raise TypeError(f"ReadState({kind}=) takes words, such as {{{example!r}}}, got {listed!r}")
    return words


@dataclass(frozen=True, slots=True)
class ReadState:
    """A poll surface as a table of words.

    A word that is not listed is pending and marked, never success. No word is no
    answer. A succeeded word with `bad_items` above 0 is `Partial`, or `Failed`
    where `good_items` is 0.

    Args:
        state: The field with the server's word.
        pending, succeeded, failed, cancelled, expired, ambiguous: Words, compared
            without regard to case, space, `-` and `_`.
        results: A field with one URL or several, a function that returns
            `Result`s, or a list of `Result`s whose places are templates.
        data: The field with the result itself.
        error: Why it failed.
        counts: How many items went which way.
        good_items, bad_items: Two of those counts.
        progress: Percent done.
        message: What the server says about it.
        after: Seconds to wait; `Retry-After` is read without being asked for.
        transient: An error inside a reply of 200 that a later poll may cure;
            empty or null is none.
        accept: Statuses beyond 2xx and 301-303 to be shown.
    """

    state: Field = "status"
    pending: Iterable[str] = field(default=(), kw_only=True)
    succeeded: Iterable[str] = field(default=(), kw_only=True)
    failed: Iterable[str] = field(default=(), kw_only=True)
    cancelled: Iterable[str] = field(default=(), kw_only=True)
    expired: Iterable[str] = field(default=(), kw_only=True)
    ambiguous: Iterable[str] = field(default=(), kw_only=True)
    results: Field | Sequence[Result] = field(default=(), kw_only=True)
    data: Field | None = field(default=None, kw_only=True)
    error: Field | None = field(default=None, kw_only=True)
    counts: Field | None = field(default=None, kw_only=True)
    good_items: Field | None = field(default=None, kw_only=True)
    bad_items: Field | None = field(default=None, kw_only=True)
    progress: Field | None = field(default=None, kw_only=True)
    message: Field | None = field(default=None, kw_only=True)
    after: Field | None = field(default=None, kw_only=True)
    transient: Field | None = field(default=None, kw_only=True)
    accept: Sequence[int] = field(default=(), kw_only=True)
    _words: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _read: Mapping[str, Reader] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _own_statuses(self)
        words: dict[str, str] = {}
        for kind in _WORD_KINDS:
            listed = _own_words(kind, getattr(self, kind))
            object.__setattr__(self, kind, listed)
            for word in sorted(listed):
                if words.setdefault(folded(word), kind) != kind:
                    raise ValueError(f"ReadState lists {word!r} as {words[folded(word)]} and as {kind}")
        object.__setattr__(self, "_words", words)
        optional = ("data", "error", "counts", "good_items", "bad_items", "progress", "message", "after", "transient")
        read = _readers(self, ("state", *optional))
        if isinstance(self.results, str) or callable(self.results):
            read["results"] = reader(self.results, "ReadState(results=)")
        else:
            if not isinstance(self.results, Iterable):
                raise TypeError(f"ReadState(results=) takes a JMESPath, a function or Results, got {self.results!r}")
            object.__setattr__(self, "results", tuple(self.results))
            for result in self.results:
                if not isinstance(result, Result):
                    raise TypeError(f"ReadState(results=) lists Results, got {result!r}")
                if result.at is not None:
                    check_url(as_call(result.at).url, "ReadState(results=)")
        object.__setattr__(self, "_read", read)

    def __call__(self, reply: Reply, job: Job) -> PollVerdict:
        """`Pending`, `Transient` or an ending."""
        if transient := self._get("transient", reply):
            return Transient(str(transient), after=number_or_none(self._get("after", reply)))
        word = self._read["state"](reply)
        if word is None or word == "":
            if reply.status_code >= 400:  # accepted, and no state in it: the status is all there is
                raise Garbled("no_state", f"there is no state in this HTTP {reply.status_code}")
            return Transient("no_state")
        state = str(word).lower() if isinstance(word, bool) else str(word)
        kind = self._words.get(folded(state))
        message = _text_or_none(self._get("message", reply))
        if kind is None or kind == "pending":
            return Pending(
                state,
                after=number_or_none(self._get("after", reply)),
                progress=number_or_none(self._get("progress", reply)),
                message=message,
                known=kind is not None,
            )
        return self._outcome(kind, reply)(
            state,
            results=self._results(reply, job),
            counts=self._counts(reply),
            error=self._get("error", reply),
            message=message,
        )

    def lists(self, word: str) -> bool:
        """Whether it is one of the words of this table, however it is spelt."""
        return folded(word) in self._words

    def _get(self, name: str, reply: Reply) -> JSON:
        read = self._read.get(name)
        return None if read is None else read(reply)

    def _counts(self, reply: Reply) -> JSON:
        """As the server gave them, else the two that were named; what it does not count is left out."""
        found = (
            self._get("counts", reply)
            if "counts" in self._read
            else {"succeeded": self._get("good_items", reply), "failed": self._get("bad_items", reply)}
        )
        if not isinstance(found, dict):
            return found
        return {name: count for name, count in found.items() if count is not None} or None

    def _outcome(self, kind: str, reply: Reply) -> type[Ending]:
        if kind == "succeeded" and (number_or_none(self._get("bad_items", reply)) or 0) > 0:
            good = number_or_none(self._get("good_items", reply))
            return Failed if good == 0 else Partial
        return _ENDINGS[kind]

    def _results(self, reply: Reply, job: Job) -> tuple[Result, ...]:
        found: list[Result] = []
        read = self._read.get("results")
        if read is not None:
            value = read(reply)
            several = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
            found.extend(one if isinstance(one, Result) else Result(str(one)) for one in several)
        else:
            found.extend(self.listed(job))
        if "data" in self._read and (data := self._get("data", reply)) is not None:
            found.append(Result(data=data))
        return tuple(found)

    def listed(self, job: Job) -> list[Result]:
        """The listed results with their templates filled."""
        if isinstance(self.results, str) or callable(self.results):
            return []
        return [_filled(result, job) for result in self.results]


def _filled(result: Result, job: Job) -> Result:
    if result.at is None:
        return result
    filled = fill(as_call(result.at), job)
    return replace(result, at=filled.url if isinstance(result.at, str) else filled)


def whole_body(reply: Reply, result: Result) -> DownloadVerdict:
    """The reply is the result; 202 means that it is not there yet."""
    return Pending("not ready") if reply.status_code == 202 else Content()


def at_hand(reply: Reply) -> Result:
    """The reply's body as a result: JSON as a value (`null` is one), anything else as it is.

    Raises:
        ValueError: The body is empty, or a page: these come from a proxy or a sign-in in between.
    """
    content_type = reply.headers.get("Content-Type", "json")
    is_json = "json" in content_type or "html" in content_type or not reply.content
    return Result(data=reply.json() if is_json else reply.content)


def _text_or_none(value: JSON) -> str | None:
    return None if value is None or value == "" else str(value)
