"""Which requests of an unchanged loop were submit, poll and download: on evidence, or not at all.

A wrong story is worse than none, so a request is named only where the exchanges
prove its part:

- poll: the same GET or HEAD (apart from a cache buster, or moved by `Location`
  on a 202), asked again after an answer of 200 or 202, and its URL or an id in
  it was handed out by an earlier reply; a 202 of its own makes up for the latter.
  A HEAD that waits for a URL which a 202 handed out polls as well.
- submit: the request whose reply first handed out that URL or id.
- download: a GET, answered only after the last poll, of what that poll's reply
  handed out, or below the poll's path, or of the URL that HEAD polled.

A redirect plays the part of what it led to by the same method, where that is a
submit or a download. What a sign-in hands out is about who asks, what a list hands
out may be anybody's, where a page has moved to is no news of a job, and what hangs
on a poll (its log, its owner) is asked beside it: none of that proves a poll.
Everything else is a plain request. No clock, socket or span in here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from trihop._hops.judge import try_later
from trihop._template import join
from trihop._values import JSON

Role = Literal["submit", "poll", "download", "request"]

# So much of a body is read, and so much is remembered of one block.
MOST_READ_BYTES = 65536
_MOST_SCALARS = 500
_MOST_REMEMBERED = 20_000

_SHORTEST_ID = 4
_SURE_AFTER = 3
_SLASHES_OF_AN_ORIGIN = 2
_READING = ("GET", "HEAD")
_STATE_NAMES = ("status", "state", "phase")
_CACHE_BUSTERS = frozenset({"_", "ts", "nonce", "cb"})
_HANDING_HEADERS = ("Location", "Content-Location", "Operation-Location", "Azure-AsyncOperation")
_SIGN_IN = re.compile(r"(access|id|refresh|session|auth|bearer)[_-]?token|token|jwt|session|sid", re.IGNORECASE)
_SIGN_IN_AT = re.compile(r"(log|sign)[_-]?(in|on)|sessions?|auth(enticate|orize)?|oauth2?|tokens?", re.IGNORECASE)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Seen(NamedTuple):
    """One exchange, as far as it is evidence."""

    method: str
    url: str
    status: int | None
    """The HTTP status; None where no answer came."""
    carried: str | None = ""
    """The request's body as text, for the ids in it; None where it cannot be told, as of a stream."""
    headers: Mapping[str, str] = {}
    """Of the reply."""
    content: bytes = b""
    """The reply's body as far as it was read."""
    base: str | None = None
    """Where the reply came from, if not from the URL itself: what its relative references start from."""


@dataclass(slots=True, eq=False)
class Question:
    """The same request, however often it was asked.

    Args:
        method, url: What was asked first.
        parts: The pieces of the URL that may be ids.
        handed_by: The exchange whose reply handed out the URL or an id in it.
        handed_url: Whether it was the URL.
        proven: Whether what was handed out can be a job of the asker's.
        job_id: The id that was handed out.
        polled: Whether its askings are polls, by all that is known so far.
        asked: How often.
        last: Its latest exchange.
        answered: Whether with a 200 or a 202.
        answered_at: Which exchange first brought one of these, or led elsewhere.
    """

    method: str
    url: str
    parts: tuple[str, ...] = ()
    handed_by: Exchange | None = None
    handed_url: bool = False
    proven: bool = False
    job_id: str | None = None
    polled: bool = False
    asked: int = 0
    last: Exchange | None = None
    answered: bool = False
    answered_at: int | None = None
    seen_202: bool = False
    missing: bool = False
    content: int | None = None
    state: str | None = None

    @property
    def sure(self) -> bool:
        """Whether nothing that is asked later can show that these are no polls."""
        return self.polled and self.asked > _SURE_AFTER

    def holds(self, url: str) -> bool:
        """Whether a URL lies below this one, which is a job's: handed out, and by its path rather than its query."""
        base, _, query = self.url.partition("?")
        base = base.rstrip("/")
        if self.handed_by is None or base.count("/") <= _SLASHES_OF_AN_ORIGIN or not url.startswith(f"{base}/"):
            return False
        return not query or (self.job_id is not None and self.job_id in unquote(base).split("/"))


@dataclass(slots=True, eq=False)
class Exchange:
    """One asking of a question.

    Args:
        question: What was asked.
        number: Which exchange of the block, from one.
        status: The HTTP status; None where no answer came.
        state: The server's own word for the job's state, where the reply has one under a usual name.
        again: The same was asked next, because this one failed or led there.
    """

    question: Question
    number: int
    status: int | None
    state: str | None = None
    again: Exchange | None = None

    @property
    def failed(self) -> bool:
        """Whether the same request would be sent again after this."""
        return self.status is None or try_later(self.status)

    @property
    def redirects(self) -> bool:
        """Whether it led elsewhere."""
        return self.status in _REDIRECTS


class _Handed(NamedTuple):
    by: Exchange
    proves: bool
    """Whether it can be about a job of the asker's."""


@dataclass(slots=True, eq=False)
class Evidence:
    """What the exchanges of one block prove so far."""

    polled: list[Question] = field(default_factory=list)
    """The questions whose askings are polls."""
    _questions: dict[tuple[str, str, int], Question] = field(default_factory=dict)
    _asked: dict[tuple[str, str], Question] = field(default_factory=dict)
    """Those that were asked again, by the URL as it was."""
    _moved: dict[str, Question] = field(default_factory=dict)
    _handed: dict[str, _Handed] = field(default_factory=dict)
    _carried: set[str] = field(default_factory=set)
    _count: int = 0
    _led: tuple[Exchange, str] | None = None
    """Where the exchange before this one led, if it did."""

    def take(self, seen: Seen) -> Exchange:
        """Take one exchange in; questions may be known to be polls from now on, or not to be any after all."""
        question, status = self._question(seen), seen.status
        self._count += 1
        exchange = Exchange(question, self._count, status)
        led, self._led = self._led, None
        if led is not None and led[1] == seen.url and led[0].question.method == seen.method:
            led[0].again = exchange
        before = question.last
        if before is not None:
            if before.status != 200 and before.failed:
                before.again = exchange
            if not question.polled and seen.method in _READING and self._is_poll(question):
                self._name(question)
        question.last = exchange
        question.asked += 1
        if status in (200, 202) or exchange.redirects:
            question.answered = question.answered or not exchange.redirects
            question.seen_202 = question.seen_202 or status == 202
            if question.answered_at is None:
                question.answered_at = exchange.number
        elif status in (403, 404):
            question.missing = True
        if seen.method not in _READING and (changed := self.question("GET", seen.url)) is not None:
            changed.answered = False  # to read what one has changed is no poll
        self._hand_out(exchange, seen)
        return exchange

    def know(self, method: str, url: str, handed: Iterable[str], *, polled: bool = False) -> None:
        """Take in what somebody else asked and was handed: URLs, made absolute, and ids."""
        question = self._question(Seen(method, url, 202))
        self._count += 1
        question.last = exchange = Exchange(question, self._count, 202)
        question.asked += 1
        question.answered, question.answered_at = True, exchange.number
        if polled and method in _READING and not question.polled:
            self._name(question)
        for value in handed:
            self._handed[_without_busters(value)] = _Handed(exchange, True)

    def question(self, method: str, url: str) -> Question | None:
        """The question that a GET or a HEAD would ask again."""
        return self._questions.get((method, _without_busters(url), 0))

    def handed_out_by(self, url: str) -> str | None:
        """The URL whose reply handed this one out; None for one that the code wrote itself."""
        handed = self._handed.get(_without_busters(url))
        return None if handed is None else handed.by.question.url

    def role(self, exchange: Exchange) -> Role:
        """What is known of an exchange's part by now."""
        question = exchange.question
        if question.polled:
            return "poll"
        if question.method == "GET" and self.base_of(question) is not None:
            return "download"
        return "request" if self.submitted(exchange) is None else "submit"

    def submitted(self, exchange: Exchange) -> Question | None:
        """What is polled of that which an exchange's reply handed out, or the reply to one of its re-sends."""
        sent: Exchange | None = exchange
        while sent is not None:
            for polled in self.polled:
                if polled.proven and polled.handed_by is sent:
                    return polled
            sent = sent.again
        return None

    def base_of(self, question: Question) -> Question | None:
        """The poll after whose last answer this question asked for what that answer handed out."""
        giver = question.handed_by
        if giver is not None and giver.redirects and giver.question.method == "GET" and not giver.question.polled:
            return self.base_of(giver.question)
        answered_at = self._count if question.answered_at is None else question.answered_at
        for polled in self.polled:
            last = polled.last
            if last is None or last.number >= answered_at:
                continue
            url = question.url
            beheld = polled.method == "HEAD" and _without_busters(url) == _without_busters(polled.url)
            if beheld or question.handed_by is last or polled.holds(url):
                return polled
        return None

    # ---- what proves a poll

    def _is_poll(self, question: Question) -> bool:
        """Whether a question that is asked once more is a poll."""
        giver = question.handed_by
        if question.method == "HEAD" and question.missing:
            return giver is not None and giver.status == 202 and question.handed_url
        if not question.answered:
            return False
        if question.seen_202:
            return True
        hangs_on_a_poll = any(polled.holds(question.url) for polled in self.polled)
        return question.proven and giver is not None and not giver.question.polled and not hangs_on_a_poll

    def _name(self, question: Question) -> None:
        question.polled = True
        for other in self.polled:
            if not other.sure and not other.seen_202 and question.holds(other.url):
                other.polled = False
        self.polled = [*(other for other in self.polled if other.polled), question]

    # ---- who handed out what

    def _question(self, seen: Seen) -> Question:
        reading = seen.method in _READING
        if reading and (asked := self._asked.get((seen.method, seen.url))) is not None:
            return asked
        url = _without_busters(seen.url)
        # Two posts to one URL are the same question only with the same body; of a stream there is no telling.
        body = 0 if reading else hash(seen.carried) if seen.carried is not None else self._count + 1
        key = (seen.method, url, body)
        question = self._questions.get(key)
        if question is not None:
            if reading and len(self._asked) < _MOST_REMEMBERED:
                self._asked[seen.method, seen.url] = question
            return question
        question = self._moved.pop(seen.url, None) if reading else None
        if question is None:
            question = Question(seen.method, seen.url, tuple(_parts(seen.url)))
            self._name_giver(question, url)
            self._carried.update(question.parts)
        if len(self._questions) < _MOST_REMEMBERED:
            self._questions[key] = question
        return question

    def _name_giver(self, question: Question, url: str) -> None:
        """The earlier exchange whose reply handed out this question's URL, or an id in it."""
        found = [(value, handed) for value in (url, *question.parts) if (handed := self._handed.get(value)) is not None]
        if not found:
            return
        value, handed = next((one for one in found if one[1].proves), found[0])
        question.handed_by, question.handed_url, question.proven = handed.by, value is url, handed.proves
        question.job_id = next((value for value, other in found if value is not url and other.by is handed.by), None)

    def _hand_out(self, exchange: Exchange, seen: Seen) -> None:
        question = exchange.question
        if seen.carried and len(self._carried) < _MOST_REMEMBERED:
            self._carried.update(_words(seen.carried))
        if seen.status is None or seen.status >= 400:
            return
        size = len(seen.content)
        content = hash(seen.content) if size <= MOST_READ_BYTES else -size
        if content == question.content:  # word for word what it answered before
            exchange.state = question.state
            if seen.status == 200:
                return
        reading, url = seen.method in _READING, seen.url if seen.base is None else seen.base
        location = seen.headers.get("Location")
        if location is not None and seen.status == 202 and reading:
            self._moved[join(url, location)] = question
        elif location is not None and exchange.redirects:
            self._led = exchange, join(url, location)
        if content == question.content and location is None:
            return
        question.content = content
        if len(self._handed) >= _MOST_REMEMBERED:
            return
        signs_in = not reading and _SIGN_IN_AT.fullmatch(_last_piece(seen.url)) is not None
        moved = reading and exchange.redirects
        for name in _HANDING_HEADERS:
            if (target := seen.headers.get(name)) is not None:
                target = _without_busters(join(url, target))
                handed = _Handed(exchange, not (signs_in or moved))
                self._handed.setdefault(target, handed)
                if (last := _id_at_the_end(target)) is not None and last not in self._carried:
                    self._handed.setdefault(last, handed)
        body = _json_of(seen.content)
        if body is None:
            return
        exchange.state = question.state = _state_of(body)
        proves = not (signs_in or moved or _hands_out_a_credential(body))
        for scalar, listed in _scalars(body):
            if scalar in self._carried:
                continue
            value = _without_busters(join(url, scalar)) if _is_reference(scalar) else scalar
            self._handed.setdefault(value, _Handed(exchange, proves and not (listed and reading)))


def _json_of(content: bytes) -> JSON:
    """A body's JSON, if it is some and small."""
    if not content or len(content) > MOST_READ_BYTES or content[:1] not in b'{["':
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _state_of(body: JSON) -> str | None:
    if not isinstance(body, dict):
        return None
    return next((value for name in _STATE_NAMES if isinstance(value := body.get(name), str)), None)


def _hands_out_a_credential(body: JSON) -> bool:
    return isinstance(body, dict) and any(
        isinstance(value, str) and _SIGN_IN.fullmatch(name) for name, value in body.items()
    )


def _is_reference(text: str) -> bool:
    return text.startswith(("http://", "https://", "/")) and not any(character.isspace() for character in text)


def _without_busters(url: str) -> str:
    base, mark, query = url.partition("?")
    if not mark:
        return url
    kept = "&".join([part for part in query.split("&") if part.partition("=")[0] not in _CACHE_BUSTERS])
    return f"{base}?{kept}" if kept else base


def _parts(url: str) -> list[str]:
    """The pieces of a URL that may be an id: of its query first, then of its path from the end."""
    split = urlsplit(url)
    values = [value for name, value in parse_qsl(split.query) if name not in _CACHE_BUSTERS] if split.query else []
    values += [unquote(piece) for piece in reversed(split.path.split("/"))]
    return [value for value in values if len(value) >= _SHORTEST_ID]


def _last_piece(url: str) -> str:
    return unquote(url.partition("?")[0].rstrip("/").rpartition("/")[2])


def _id_at_the_end(url: str) -> str | None:
    """The last piece of a URL's path, if it looks like an id rather than a word."""
    last = _last_piece(url)
    return last if len(last) >= _SHORTEST_ID and any(character.isdigit() for character in last) else None


def _words(text: str) -> Iterable[str]:
    """The values in a request's body, JSON, form or other, that an id could be."""
    for separator in "\"'&=,:;{}[]()<>":
        text = text.replace(separator, " ")
    return (word for word in text.split() if len(word) >= _SHORTEST_ID)


def _scalars(body: JSON) -> Iterator[tuple[str, bool]]:
    """Texts and whole numbers of a JSON value that an id or a URL could be, outermost first; and whether in a list."""
    level: list[tuple[JSON, bool]] = [(body, False)]
    count = 0
    while level and count < _MOST_SCALARS:
        below: list[tuple[JSON, bool]] = []
        for value, listed in level:
            match value:
                case dict():
                    below.extend([(inner, listed) for inner in value.values()])
                case list():
                    below.extend([(inner, True) for inner in value])
                case str() if len(value) >= _SHORTEST_ID:
                    count += 1
                    yield value, listed
                case int() if not isinstance(value, bool) and abs(value) >= 1000:
                    count += 1
                    yield str(value), listed
        level = below[:_MOST_SCALARS]
