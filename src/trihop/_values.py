"""What is asked, what came back, what is known: frozen values, compared by content.

Their `repr` never shows a credential or a signed link, because a traceback, a
log line or a debugger may print any of them.
"""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from requests.structures import CaseInsensitiveDict
from requests.utils import parse_header_links

from trihop._arguments import (
    WrongType,
    WrongValue,
    expect,
    expect_sha256,
    expect_size,
    expect_texts,
    text_or_none,
    told,
)
from trihop._redact import redact_headers, redact_text, redact_url

if TYPE_CHECKING:
    import datetime as dt
    from xml.etree.ElementTree import Element

JSON = Any
Credentials = Literal["origin", "always", "never"]


@lru_cache(maxsize=256, typed=True)
def one_text(text: str) -> str:
    """The same text, as one object for all who say it: many jobs are in one state, and submitted to one URL."""
    return text


class Garbled(ValueError):
    """A body that is not what its reader expected; `kind` is its `error.type`."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(kind, what)
        self.kind = kind
        self.what = what

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True, repr=False)
class Call:
    """A request as a value.

    In a provider its texts are templates: `{id} {status_url} {submit_url}
    {state} {memo.x}` are replaced, in the URL and inside params, headers, json
    and data.

    Args:
        method: An HTTP method.
        url: Absolute, or a relative reference (RFC 3986).
        params: Query parameters, added to those of the URL.
        headers: Header fields.
        json: A JSON body.
        data: A form (mapping) or a body (text, bytes).
        credentials: "origin" sends the session's credentials to the API's own
            origin and those named in `origins=`; "always" sends them wherever
            the call goes; "never" sends none.
    """

    method: str
    url: str
    _: KW_ONLY
    params: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    json: JSON = None
    data: Mapping[str, str] | str | bytes | None = None
    credentials: Credentials = "origin"

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or not self.method:
            raise TypeError(
                f"Call needs a method and a URL, such as Call('GET', '/jobs/1'), got method {self.method!r}"
            )
        if not isinstance(self.url, str):
            raise TypeError(f"Call needs its URL as a str, got {type(self.url).__name__}")
        if self.credentials not in ("origin", "always", "never"):
            raise ValueError(f"credentials is 'origin', 'always' or 'never', got {self.credentials!r}")
        for name in ("params", "headers"):
            if (given := getattr(self, name)) is not None:
                expect_texts(given, f"Call({name}=)", "a mapping, such as {'Accept': 'text/csv'}")
        if self.data is not None:
            expect(self.data, (Mapping, str, bytes), "Call(data=)", "a form as a mapping, a str or bytes")
            if self.json is not None:
                raise WrongValue("Call takes json= or data=, not both: a request has one body")

    def __repr__(self) -> str:
        return f"Call({self.method!r}, {redact_url(self.url)!r})"


class Reply:
    """One answer, with the names that `requests.Response` uses.

    Args:
        status_code: The HTTP status.
        body: A JSON value for the content; for tests, instead of `content`.
        headers: Header fields, read without regard to case.
        url: The URL that answered, after redirects.
        content: The body as bytes, content encoding undone.
    """

    __slots__ = ("_content", "_json", "_load", "headers", "status_code", "url")

    def __init__(
        self,
        status_code: int = 200,
        body: JSON = None,
        *,
        headers: Mapping[str, str] = {},
        url: str = "",
        content: bytes = b"",
    ) -> None:
        if type(status_code) is not int:
            expect(status_code, int, "Reply(status_code)", "an HTTP status")
        if type(content) is not bytes:
            expect(content, (bytes, bytearray), "Reply(content=)", "bytes")
        if not isinstance(headers, CaseInsensitiveDict):
            expect_texts(headers, "Reply(headers=)", "a mapping, such as {'Retry-After': '5'}")
        self.status_code = status_code
        self.headers: Mapping[str, str] = (
            headers if isinstance(headers, CaseInsensitiveDict) else CaseInsensitiveDict(headers)
        )
        self.url = url
        self._load: Callable[[], bytes] | None = None
        self._content = content if body is None else _json.dumps(body).encode()
        self._json: JSON = Ellipsis

    @classmethod
    def streamed(cls, status_code: int, headers: Mapping[str, str], url: str, load: Callable[[], bytes]) -> Reply:
        """A reply whose body is read by the first look at it."""
        reply = cls(status_code, headers=headers, url=url)
        reply._load = load
        return reply

    @property
    def content(self) -> bytes:
        """The body."""
        if self._load is not None:
            self._content, self._load = self._load(), None
        return self._content

    @property
    def body_was_read(self) -> bool:
        """Whether somebody looked at the body."""
        return self._load is None

    @property
    def text(self) -> str:
        """The body as text: the charset of the content type, else UTF-8."""
        content_type = self.headers.get("Content-Type", "")
        _, _, charset = content_type.lower().partition("charset=")
        try:
            return self.content.decode(charset.split(";")[0].strip("\"' ") or "utf-8", errors="replace")
        except LookupError:
            return self.content.decode("utf-8", errors="replace")

    def json(self) -> JSON:
        """The body as JSON.

        Raises:
            ValueError: It is not JSON (an empty body is not).
        """
        if self._json is Ellipsis:
            try:
                self._json = self._parsed()
            except (ValueError, RecursionError):
                kind = self.headers.get("Content-Type", "no content type").split(";")[0]
                raise Garbled("not_json", f"the body is not JSON ({len(self.content)} bytes of {kind})") from None
        return self._json

    def _parsed(self) -> JSON:
        try:
            return _json.loads(self.content.decode())  # UTF-8, as nearly all is: `json` looks at bytes first
        except ValueError:
            pass
        try:
            return _json.loads(self.content)
        except ValueError:
            return _json.loads(self.text)  # in the charset that its content type names

    def xml(self) -> Element:
        """The body as XML; entities are refused, so no body grows as it is read.

        Raises:
            ValueError: It is not XML, or declares entities.
        """
        from xml.etree.ElementTree import ParseError, fromstring
        from xml.parsers.expat import ExpatError, ParserCreate

        def refuse(*_: object) -> None:
            raise Garbled("not_xml", "the body is XML that declares entities")

        # ElementTree's own parser does not show declarations, so they are looked for first.
        declarations = ParserCreate()
        declarations.EntityDeclHandler = refuse
        try:
            declarations.Parse(self.content, True)
            return fromstring(self.content)  # noqa: S314 - no entity is declared
        except (ExpatError, ParseError, LookupError):
            raise Garbled("not_xml", f"the body is not XML ({len(self.content)} bytes)") from None

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """The `Link` header by relation (RFC 8288), as `requests` has it."""
        value = self.headers.get("Link")
        return {link.get("rel") or link["url"]: link for link in parse_header_links(value)} if value else {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reply):
            return NotImplemented
        mine = (self.status_code, self.headers, self.url, self.content)
        return mine == (other.status_code, other.headers, other.url, other.content)

    __hash__ = None  # type: ignore[assignment]

    def quotable(self, known: Iterable[str]) -> Reply:
        """The reply as it may be written down; a body that nobody looked at stays behind."""
        content = redact_text(self.text, known=known).encode() if self.body_was_read else b""
        return Reply(
            self.status_code,
            headers={name: redact_text(value, known=known) for name, value in redact_headers(self.headers).items()},
            url=redact_text(self.url, known=known),
            content=content,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle: a body that nobody looked at stays behind."""
        return _reply, (self.status_code, dict(self.headers), self.url, self._content)

    def __repr__(self) -> str:
        size = f"{len(self._content)} bytes" if self.body_was_read else "body unread"
        return (
            f"Reply({self.status_code}, {size}, headers={redact_headers(self.headers)!r}, url={redact_url(self.url)!r})"
        )


def _reply(status_code: int, headers: Mapping[str, str], url: str, content: bytes) -> Reply:
    return Reply(status_code, headers=headers, url=url, content=content)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Job:
    """The server's part of an operation.

    Args:
        id: The id the server gave, if it gave one.
        status_url: Where its state is asked for, absolute.
        submit_url: Where the submit was answered, after redirects.
        submit_method: How it was submitted.
        state: The server's own word for where it stands.
        memo: What the submit's or a poll's surface wanted kept.
        ready: Its ending, where the submit's reply already brought it.
    """

    id: str | None = None
    status_url: str | None = None
    submit_url: str | None = None
    submit_method: str = "POST"
    state: str | None = None
    memo: Mapping[str, JSON] = field(default_factory=dict)
    ready: Ready | None = None

    def __post_init__(self) -> None:
        for name in ("id", "status_url", "submit_url", "state"):
            object.__setattr__(self, name, text_or_none(getattr(self, name), f"Job({name}=)"))
        expect(self.submit_method, str, "Job(submit_method=)", "an HTTP method")
        expect_texts(self.memo, "Job(memo=)", "a mapping of names to JSON values")
        if self.ready is not None:
            expect(self.ready, Ready, "Job(ready=)", "a Ready")

    def __repr__(self) -> str:
        return (
            f"Job(id={self.id!r}, state={self.state!r}, status_url={self.status_url and redact_url(self.status_url)!r})"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """A result: a place to fetch it from, or, with no place, `data` at hand.

    Args:
        at: A URL or a call; a URL is a GET.
        data: The result itself, where there is no place; None is a result too.
        name: Its name among several.
        expires_at: When the link ends, aware.
        size_bytes: Its size, if the server said.
        sha256: Its digest in hex, if the server said.
        single_use: Whether the link works once only.
    """

    at: str | Call | None = None
    _: KW_ONLY
    data: JSON = None
    name: str = "result"
    expires_at: dt.datetime | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    single_use: bool = False

    def __post_init__(self) -> None:
        if self.at is not None and not isinstance(self.at, (str, Call)):
            raise WrongType(f"Result needs a URL, a Call or data=, got {told(self.at)}")
        if self.at is not None and self.data is not None:
            raise WrongValue("Result takes a place or data=, not both")
        expect(self.name, str, "Result(name=)", "a text")
        expect(self.single_use, bool, "Result(single_use=)", "True or False")
        if self.size_bytes is not None:
            expect_size(self.size_bytes, "Result(size_bytes=)", "a number of bytes, 0 or more")
        if self.sha256 is not None:
            expect_sha256(self.sha256, "Result(sha256=)")
        if self.expires_at is not None and not hasattr(self.expires_at, "utcoffset"):
            raise WrongType(f"Result(expires_at=) takes an aware datetime, got {told(self.expires_at)}")

    def __repr__(self) -> str:
        place = (
            "data at hand" if self.at is None else redact_url(self.at) if isinstance(self.at, str) else repr(self.at)
        )
        return f"Result({place}, name={self.name!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Ready:
    """A job that ended, with what it left.

    `ready["name"]` is the same with that one result alone. It has its links as the
    server gave them, signed ones too, as they are what `op.download(ready)` needs,
    also in the process that it was pickled for; its `repr` does not show them.
    """

    job: Job
    state: str
    results: Sequence[Result] = ()
    counts: JSON = None
    complete: bool = True

    def __post_init__(self) -> None:
        expect(self.job, Job, "Ready(job)", "a Job")
        expect(self.state, str, "Ready(state)", "a text")
        object.__setattr__(self, "results", results_of(self.results, "Ready(results=)"))

    def __repr__(self) -> str:
        results = ", ".join(map(repr, self.results))
        return f"Ready({self.job!r}, state={self.state!r}, results=[{results}], complete={self.complete})"

    def __getitem__(self, name: str) -> Ready:
        chosen = tuple(result for result in self.results if result.name == name)
        if not chosen:
            have = ", ".join(result.name for result in self.results) or "none"
            raise KeyError(f"no result named {name!r}; there is: {have}")
        return replace(self, results=chosen)

    @property
    def data(self) -> JSON:
        """The result that came in the body; None where the job left none.

        Raises:
            ValueError: The result is a link, or there are several.
        """
        match self.results:
            case []:
                return None
            case [Result(at=None) as only]:
                return only.data
            case [_]:
                raise ValueError("this result is a link; fetch it with op.download(ready)")
            case several:
                raise ValueError(
                    f"there are {len(several)} results; choose one, such as ready[{several[0].name!r}].data"
                )


def results_of(given: object, where: str) -> tuple[Result, ...]:
    """A copy of a sequence of results.

    Raises:
        WrongType: It is none.
    """
    results = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else None
    if results is None or not all(isinstance(result, Result) for result in results):
        came = told(given) if results is None else ", ".join(sorted({told(result) for result in results}))
        raise WrongType(f"{where} takes Results, such as [Result('/files/1')], got {came}")
    return results


def as_call(at: str | Call) -> Call:
    """A bare string is a GET."""
    return at if isinstance(at, Call) else Call("GET", at)


def named(results: Sequence[Result]) -> Iterator[tuple[str, Result]]:
    """Results under names that are unique: the second `x` is `x-2`."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for result in results:
        name = result.name
        while name in taken:
            numbers[result.name] = number = numbers.get(result.name, 1) + 1
            name = f"{result.name}-{number}"
        taken.add(name)
        yield name, result
