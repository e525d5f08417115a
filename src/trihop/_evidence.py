"""Which requests of an unchanged loop were submit, poll and download: on evidence, or not at all.

A wrong story is worse than none, so a request is named only where the exchanges
prove its part:

- poll: the same GET or HEAD (apart from a cache buster, or moved by `Location`
  on a 202), asked again after an answer of 200 or 202, and its URL or id was
  handed out by an earlier reply; a 202 of its own makes up for the latter. A
  HEAD that waits for a URL which a 202 handed out polls as well.
- submit: the request whose reply first handed out that URL or id.
- download: a GET of what a poll's reply handed out, or below the poll's path,
  or of the URL that HEAD polled.

Everything else is a plain request. No clock, socket or span in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from trihop._hops import try_later
from trihop._template import join
from trihop._values import JSON

Role = Literal["submit", "poll", "download", "request"]

_SHORTEST_ID = 4
_MOST_SCALARS = 500
_MOST_HANDED = 20_000
_CACHE_BUSTERS = frozenset({"_", "ts", "nonce", "cb"})
_HANDING_HEADERS = ("Location", "Content-Location", "Operation-Location", "Azure-AsyncOperation")


@dataclass(slots=True)
class Seen:
    """One exchange, as far as it is evidence.

    Args:
        method, url: What was asked.
        status: The HTTP status; None where no answer came.
        carried: The request's body as text, for the ids in it.
        headers: Of the reply.
        body: The reply's JSON, None where it had none or was not read.
    """

    method: str
    url: str
    status: int | None
    carried: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: JSON = None


@dataclass(slots=True, eq=False)
class Question:
    """The same request, however often it was asked."""

    method: str
    url: str
    polled: bool = False
    handed_by: Exchange | None = None
    handed_value: str | None = None
    answered: bool = False
    seen_202: bool = False
    missing: bool = False
    asked: int = 0
    last: Exchange | None = None

    job_id: str | None = None


@dataclass(slots=True, eq=False)
class Exchange:
    """One asking of a question.

    Args:
        question: What was asked.
        status: The HTTP status; None where no answer came.
        submitted: Its reply first handed out what is being polled.
        again: The same was asked next, because this one failed.
    """

    question: Question
    status: int | None
    submitted: bool = False
    again: Exchange | None = None

    @property
    def failed(self) -> bool:
        """Whether the same request would be sent again after this."""
        return self.status is None or try_later(self.status)


class Evidence:
    """What the exchanges of one block prove so far."""

    def __init__(self) -> None:
        self._questions: dict[tuple[str, str], Question] = {}
        self._moved: dict[str, Question] = {}
        self._handed: dict[str, Exchange] = {}
        self._carried: set[str] = set()

    def take(self, seen: Seen) -> Exchange:
        """Take one exchange in; its question may be known to be a poll from now on."""
        question = self._question(seen)
        exchange = Exchange(question, seen.status)
        if question.last is not None and question.last.failed:
            question.last.again = exchange
        asked_again, waited_for = question.answered, question.missing
        question.last = exchange
        question.asked += 1
        question.answered = question.answered or seen.status in (200, 202)
        question.seen_202 = question.seen_202 or seen.status == 202
        question.missing = question.missing or seen.status in (403, 404)
        giver = question.handed_by
        if seen.method in ("GET", "HEAD") and not question.polled:
            by_202 = giver is not None and giver.status == 202 and "/" in (question.handed_value or "")
            question.polled = (asked_again and (giver is not None or question.seen_202)) or (
                seen.method == "HEAD" and waited_for and by_202
            )
            if question.polled and giver is not None:
                giver.submitted = True
        self._hand_out(exchange, seen)
        return exchange

    def question(self, method: str, url: str) -> Question | None:
        """The question a request would ask again."""
        return self._questions.get((method, _without_busters(url)))

    def handed_out_by(self, url: str) -> str | None:
        """The URL whose reply handed this one out; None for one that the code wrote itself."""
        giver = self._handed.get(_without_busters(url))
        return None if giver is None else giver.question.url

    def role(self, exchange: Exchange) -> Role:
        """What is known of an exchange's part by now."""
        question = exchange.question
        if question.polled:
            return "poll"
        if question.method == "GET" and self._is_download(question):
            return "download"
        resent: Exchange | None = exchange
        while resent is not None and not resent.submitted:
            resent = resent.again
        return "request" if resent is None else "submit"

    def _question(self, seen: Seen) -> Question:
        key = (seen.method, _without_busters(seen.url))
        question = self._questions.get(key)
        if question is None and seen.method in ("GET", "HEAD"):
            question = self._moved.pop(seen.url, None)
        if question is None:
            question = Question(seen.method, seen.url)
            self._name_giver(question)
        self._questions[key] = question
        return question

    def _is_download(self, question: Question) -> bool:
        if question.handed_by is not None and question.handed_by.question.polled:
            return True
        if (head := self._questions.get(("HEAD", _without_busters(question.url)))) is not None and head.polled:
            return True
        path = question.url.partition("?")[0]
        return any(
            other.polled and path.startswith(other.url.partition("?")[0].rstrip("/") + "/") for other in self._polled()
        )

    def _polled(self) -> Iterator[Question]:
        return (question for question in self._questions.values() if question.polled)

    def _name_giver(self, question: Question) -> None:
        """The earlier exchange whose reply handed out this question's URL, or an id in it."""
        for value in (_without_busters(question.url), *_parts(question.url)):
            if value in self._handed:
                question.handed_by, question.handed_value = self._handed[value], value
                break
        for value in _parts(question.url):
            if question.handed_by is not None and self._handed.get(value) is question.handed_by:
                question.job_id = value
                return

    def _hand_out(self, exchange: Exchange, seen: Seen) -> None:
        self._carried.update(_parts(seen.url))
        if seen.carried:
            self._carried.update(_words(seen.carried))
        if seen.status is None or seen.status >= 400 or len(self._handed) > _MOST_HANDED:
            return
        for name in _HANDING_HEADERS:
            if (location := seen.headers.get(name)) is not None:
                target = _without_busters(join(seen.url, location))
                self._handed.setdefault(target, exchange)
                if name == "Location" and seen.status == 202 and seen.method in ("GET", "HEAD"):
                    self._moved[join(seen.url, location)] = exchange.question
        for scalar in _scalars(seen.body):
            if scalar in self._carried:
                continue
            value = _without_busters(join(seen.url, scalar)) if _is_reference(scalar) else scalar
            self._handed.setdefault(value, exchange)


def _is_reference(text: str) -> bool:
    return text.startswith(("http://", "https://", "/")) and not any(character.isspace() for character in text)


def _without_busters(url: str) -> str:
    base, mark, query = url.partition("?")
    if not mark:
        return url
    kept = "&".join(part for part in query.split("&") if part.partition("=")[0] not in _CACHE_BUSTERS)
    return f"{base}?{kept}" if kept else base


def _parts(url: str) -> list[str]:
    """The pieces of a URL that may be an id: of its query first, then of its path from the end."""
    split = urlsplit(url)
    values = [value for name, value in parse_qsl(split.query) if name not in _CACHE_BUSTERS]
    values += [unquote(piece) for piece in reversed(split.path.split("/"))]
    return [value for value in values if len(value) >= _SHORTEST_ID]


def _words(text: str) -> Iterable[str]:
    """The values in a request's body, JSON, form or other, that an id could be."""
    for separator in "\"'&=,:;{}[]()<>":
        text = text.replace(separator, " ")
    return (word for word in text.split() if len(word) >= _SHORTEST_ID)


def _scalars(body: JSON) -> Iterator[str]:
    """Texts and whole numbers of a JSON value, outermost first, that an id or a URL could be."""
    level, count = [body], 0
    while level and count < _MOST_SCALARS:
        below: list[JSON] = []
        for value in level:
            match value:
                case dict():
                    below.extend(value.values())
                case list():
                    below.extend(value)
                case str() if len(value) >= _SHORTEST_ID:
                    count += 1
                    yield value
                case int() if not isinstance(value, bool) and abs(value) >= 1000:
                    count += 1
                    yield str(value)
        level = below[:_MOST_SCALARS]
