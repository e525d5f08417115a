"""Pauses between polls, backoff after failed ones, and the reading of `Retry-After`.

Policies are values that two runs may share; how far a run has come (how many
pauses, how many errors) is an argument of the decision, never a field.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from random import Random

_MOST_DIGITS = 400  # the largest float has 309

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = (
    rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} GMT",  # IMF-fixdate
    rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} GMT",  # RFC 850
    rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",  # asctime
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS_PER_SECOND = (("retry-after-ms", 1000.0), ("x-ms-retry-after-ms", 1000.0), ("retry-after", 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How long to leave the server alone between two polls.

    Args:
        first: Seconds; the shortest of our own pauses, and the longest before the first poll.
        factor: By what the longest guess grows with each pause, 1 or more.
        cap: Seconds that no pause of our own exceeds. A hint may.
        floor: Seconds that a hint is raised to, so that a server which says 0 is not asked in a hot loop.
        jitter: Whether pauses are spread at random, so that many pollers do not ask in step.

    Raises:
        TypeError: A value is not of its kind.
        ValueError: A value is out of its range.
    """

    first: float = 1.0
    factor: float = 2.0
    cap: float = 30.0
    floor: float = 0.5
    jitter: bool = True

    def __post_init__(self) -> None:
        for name in ("first", "factor", "cap", "floor"):
            _require_number(f"Pacing.{name}", getattr(self, name))
        if not 0 < self.first <= self.cap:
            raise ValueError(f"Pacing needs 0 < first <= cap, in seconds, got first={self.first} and cap={self.cap}")
        if self.factor < 1:
            raise ValueError(f"Pacing.factor is 1 or more, got {self.factor}")
        if self.floor < 0:
            raise ValueError(f"Pacing.floor is 0 or more seconds, got {self.floor}")
        if not isinstance(self.jitter, bool):
            raise TypeError(f"Pacing.jitter is True or False, got {self.jitter!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How often to ask.

    Args:
        polls: How many polls in all, failed ones included; None sets no limit.
        consecutive_errors: How many polls in a row may fail; the last of them ends the wait, a good poll starts anew.

    Raises:
        TypeError: A value is not a whole number.
        ValueError: A value is below 1.
    """

    polls: int | None = None
    consecutive_errors: int = 5

    def __post_init__(self) -> None:
        if self.polls is not None:
            _require_count("Budget.polls", self.polls)
        _require_count("Budget.consecutive_errors", self.consecutive_errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often one hop sends the same request.

    Args:
        attempts: How many attempts in all, the first included; 1 sends nothing again.
        on: The HTTP statuses that are worth a further attempt; kept as a frozenset.

    Raises:
        TypeError: A value is not of its kind.
        ValueError: `attempts` is below 1, or a status is not between 100 and 599.
    """

    attempts: int = 3
    on: Set[int] = frozenset({429, 500, 502, 503, 504})

    def __post_init__(self) -> None:
        _require_count("RetryPolicy.attempts", self.attempts)
        try:
            statuses = frozenset(self.on)
        except TypeError:
            raise TypeError(
                f"RetryPolicy.on is a set of HTTP statuses, such as {{429, 503}}, got {self.on!r}"
            ) from None
        for status in statuses:
            if isinstance(status, bool) or not isinstance(status, int):
                raise TypeError(f"RetryPolicy.on holds HTTP statuses, such as 503, got {status!r}")
            if not 100 <= status <= 599:
                raise ValueError(f"RetryPolicy.on holds HTTP statuses between 100 and 599, got {status}")
        object.__setattr__(self, "on", statuses)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPoll:
    """How to ask a server to hold its answer until something changed.

    Args:
        seconds: How long it may hold it; filled in for `{seconds}`.
        params: Query parameters to ask with; `{seconds}` and `{state}` (as last seen) are filled in.
        headers: Header fields to ask with, likewise.

    Raises:
        TypeError: A value is not of its kind.
        ValueError: `seconds` is not above 0.
    """

    seconds: float = 30
    params: Mapping[str, str] | None = field(default=None, repr=False)  # either may carry a credential
    headers: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _require_number("LongPoll.seconds", self.seconds)
        if self.seconds <= 0:
            raise ValueError(f"LongPoll.seconds is more than 0, got {self.seconds}")
        for name in ("params", "headers"):
            if (texts := getattr(self, name)) is not None:
                object.__setattr__(self, name, _own_texts(f"LongPoll.{name}", texts))

    def __hash__(self) -> int:
        return hash((self.seconds, frozenset((self.params or {}).items()), frozenset((self.headers or {}).items())))


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause we plan.

    Args:
        seconds: How long.
        reason: "hint" (the server asked for it), "pacing" (after a good poll) or "backoff" (after a failed one).
    """

    seconds: float
    reason: Literal["hint", "pacing", "backoff"]


def first_pause(pacing: Pacing, hint_s: float | None, room_s: float | None, random: Random) -> Pause:
    """The pause between submit and first poll: the submit's hint, else up to `first`.

    Here as below a pause may come out longer than the room: whoever asked refuses
    it and says so.

    Args:
        pacing: The policy.
        hint_s: What the reply asked for, in seconds; None if nothing.
        room_s: Seconds until the deadline, up to which alone a hint is lengthened; None without one.
        random: A source whose `random()` is 0.0 gives no jitter.
    """
    return _hinted(pacing, hint_s, room_s, random) or Pause(pacing.first * (1 - _draw(pacing, random)), "pacing")


def next_pause(pacing: Pacing, pauses: int, hint_s: float | None, room_s: float | None, random: Random) -> Pause:
    """The pause after a good poll: its hint, else our own guess after that many pauses, 0 at first."""
    return _hinted(pacing, hint_s, room_s, random) or Pause(_guess(pacing, pauses, random), "pacing")


def backoff(pacing: Pacing, errors: int, hint_s: float | None, room_s: float | None, random: Random) -> Pause:
    """The pause after a failed poll: its hint, else our own guess after that many failures in a row, 1 at first."""
    return _hinted(pacing, hint_s, room_s, random) or Pause(_guess(pacing, errors - 1, random), "backoff")


@dataclass(frozen=True, slots=True)
class Hint:
    """What one reply asked for.

    Args:
        seconds: The pause it asked for, 0 or more; None if it asked for none.
        readable: False where it asked for something in words that no rule covers.
    """

    seconds: float | None = None
    readable: bool = True


_NO_HINT = Hint()


def read_hint(headers: Mapping[str, str], *, received_at: dt.datetime) -> Hint:
    """What a reply asks for in `Retry-After`, or in milliseconds in its vendors' variants.

    The milliseconds (`retry-after-ms`, `x-ms-retry-after-ms`) are the finer word
    and come first; a field that cannot be read is passed over for the next one.

    Args:
        headers: The reply's, in a mapping that does not mind the case.
        received_at: When the reply came, aware. Used where its own `Date` is
            missing or unreadable; otherwise a date is measured against that, so
            that a wrong clock here or there cancels out.

    Source: RFC 9110 section 10.2.3; azure-core and the OpenAI SDK for the milliseconds.
    """
    hint = _NO_HINT
    for name, units_per_second in _UNITS_PER_SECOND:
        try:  # `get` would make three misses dearer by a third
            value = headers[name]
        except KeyError:
            continue
        seconds = _number(value)
        if seconds is not None:
            return Hint(seconds / units_per_second)
        if units_per_second == 1.0:
            sent_at = _date(headers.get("date", ""), received_at)
            seconds = parse_retry_after(value, received_at=sent_at or received_at)
        hint = Hint(seconds, readable=seconds is not None)
    return hint


def parse_retry_after(value: str, *, received_at: dt.datetime) -> float | None:
    """Seconds the server asks us to wait, counted from its response.

    Args:
        value: The field value: seconds (decimals are taken, too) or an HTTP-date
            in any of its three forms.
        received_at: When the response came, aware. Prefer the response's own
            `Date`, so that a wrong local clock cancels out.

    Returns:
        Seconds, never negative, always finite; a date in the past gives 0.0,
        anything that is neither form gives None: no hint. No value makes this
        function raise.

    Source: RFC 9110 sections 10.2.3 and 5.6.7.

    >>> noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
    >>> parse_retry_after("Sun, 01 Mar 2026 12:00:05 GMT", received_at=noon)
    5.0
    >>> parse_retry_after("1.5", received_at=noon)
    1.5
    >>> parse_retry_after("soon", received_at=noon) is None
    True
    """
    seconds = _number(value)
    if seconds is None and (date := _date(value, received_at)) is not None:
        return max((date - received_at).total_seconds(), 0.0)
    return seconds


def _number(value: str) -> float | None:
    text = value.strip(" \t")
    if len(text) > _MOST_DIGITS or _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if number < math.inf else None


def _date(value: str, received_at: dt.datetime) -> dt.datetime | None:
    text = value.strip(" \t")
    forms = (re.fullmatch(form, text, re.ASCII | re.IGNORECASE) for form in _DATES)  # compiled when first met
    match = next(filter(None, forms), None)
    if match is None:
        return None
    try:
        minute = dt.datetime(
            _year(match["year"], received_at),
            _MONTHS.index(match["month"].lower()) + 1,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            tzinfo=dt.timezone.utc,
        )
        # A leap second is 60, which datetime does not know.
        return minute + dt.timedelta(seconds=int(match["second"])) if int(match["second"]) <= 60 else None
    except (ValueError, OverflowError):
        return None


def _year(digits: str, received_at: dt.datetime) -> int:
    """The year; of two digits the one that is nearest, as RFC 9110 section 5.6.7 asks."""
    year = int(digits)
    if len(digits) == 4:
        return year
    year += received_at.year // 100 * 100
    if year > received_at.year + 50:
        return year - 100
    return year + 100 if year <= received_at.year - 50 else year


def _hinted(pacing: Pacing, hint_s: float | None, room_s: float | None, random: Random) -> Pause | None:
    """The hint, not below the floor, and up to 10 % longer where there is room."""
    if hint_s is None:
        return None
    asked_s = hint_s if hint_s > pacing.floor else pacing.floor
    end_s = math.inf if room_s is None else room_s
    spare_s = end_s - asked_s
    if not spare_s > 0:
        return Pause(asked_s, "hint")
    # Half of the spare time is left alone: the poll that follows needs some, too.
    longer_s = asked_s + min(asked_s * 0.1 * _draw(pacing, random), spare_s / 2)
    return Pause(min(longer_s, math.nextafter(end_s, 0.0)), "hint")


def _guess(pacing: Pacing, pauses: int, random: Random) -> float:
    """Full jitter over `[first, min(cap, first * factor**pauses)]`, from the top."""
    try:
        longest_s = min(pacing.first * float(pacing.factor) ** pauses, pacing.cap)
    except OverflowError:  # after some 1,000 doublings, which a job that runs overnight reaches
        longest_s = pacing.cap
    return max(longest_s - (longest_s - pacing.first) * _draw(pacing, random), pacing.first)


def _draw(pacing: Pacing, random: Random) -> float:
    return random.random() if pacing.jitter else 0.0


def _own_texts(what: str, texts: object) -> dict[str, str]:
    """A copy, so that a change to the caller's mapping does not change the policy."""
    if not isinstance(texts, Mapping) or not all(isinstance(part, str) for item in texts.items() for part in item):
        raise TypeError(f"{what} is a mapping of str to str, such as {{'wait': '{{seconds}}'}}, or None")
    return dict(texts)


def _require_number(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a number, got {value!r}")
    if not abs(value) <= sys.float_info.max:
        raise ValueError(f"{what} is a finite number, got {value}")


def _require_count(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{what} is 1 or more, got {value}")
