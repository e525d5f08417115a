"""The folding of attempts: however many polls, one span of bounded size.

Aggregates over all attempts; events for at most 48 of them, those that a
reader asks for: the first 8, the last 16, and between them the 12 first and
the 12 last *changes*, attempts whose (state, error type) is not the one before.

No clock, no span, no OpenTelemetry in here: attempts go in, and what to write
at the end of the span comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from trihop._telemetry import semconv as names

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]

SPAN_BYTES = 16_000
"""What a span with its events may take as OTLP protobuf, resource and scope included."""
_BESIDE_BYTES = 4_000  # a poll span without its fold: a URL of 2,048 characters, every other text at its limit
_SURELY_FIT = 12
"""So few attempts stay below `SPAN_BYTES` whatever is in them: 800 bytes each, with the longest URL beside."""
_HEAD = 8
_CHANGES = 12  # on each side
_TAIL = 16
_ENDS = 4  # errors, and unreadable hints, whose headers are told, from the first and from the last
_LISTED = 8  # statuses and unknown states on the span
_STATUSES = 64  # told apart in memory
_OVERRUN_S = 1.0  # below it, an overrun is the scheduler's

# Bytes of UTF-8, so that 24 events of the loudest kind still fit beside the longest URL.
_STATE_BYTES = 64
_ERROR_TYPE_BYTES = 32
_HEADER_BYTES = {"x-request-id": 64, "retry-after": 32, "content-type": 64, "www-authenticate": 128}


class Attempt(NamedTuple):
    """What one HTTP exchange came to.

    A named tuple, as an overnight job makes tens of thousands.
    """

    number: int
    """From one, over all processes that worked on the hop."""
    at_ns: int
    """When it began, in nanoseconds since the epoch."""
    duration_s: float
    status_code: int | None = None
    """None when no reply came."""
    state: str | None = None
    """The server's own word."""
    error_type: str | None = None
    """Why it brought no answer: "503", read_timeout; None when it did."""
    verdict: str | None = None
    """What the surface made of it; None for pending."""
    mark: str | None = None
    """One of `_semconv.MARKS`, or several joined by commas."""
    changed: bool = False
    """Set by the fold: state or error type differ from the attempt before."""
    headers: Mapping[str, str] | None = None
    """Of the response, already redacted; found by lower-case names. Only four of them are ever kept."""
    wait_s: float | None = None
    """The pause after it, which `Fold.wait` tells once it is known; None while there is none."""
    wait_reason: str | None = None
    """One of `_semconv.WAIT_REASONS`."""


_NO_STATUSES: Mapping[int, int] = {}


class Fold:
    """The attempts of one hop, in memory that does not grow with their number.

    Mutable, and one per hop: it belongs to the run, not to a policy. `latest`
    is the attempt added last, open for its pause until the next one.
    `beside_bytes` is what the span takes without the fold, by `encoded_size`;
    until its owner says so, the fold leaves room for the longest URL.

    Args:
        keeps: Whether attempts are kept for events; where nobody will see any, the aggregates and the latest will do.
    """

    __slots__ = (
        "_before",
        "_in_a_row",
        "_kept",
        "_status",
        "attempts",
        "beside_bytes",
        "errors",
        "latest",
        "request_max_s",
        "request_s",
        "unknown_states",
        "wait_max_s",
        "wait_overrun_max_s",
        "wait_refused_s",
        "wait_s",
    )

    def __init__(self, *, keeps: bool = True) -> None:
        self.attempts = 0
        self.errors = 0
        self.request_s = 0.0
        self.request_max_s = 0.0
        self.wait_s = 0.0
        self.wait_max_s = 0.0
        self.wait_overrun_max_s = 0.0
        self.wait_refused_s: float | None = None
        self.unknown_states: tuple[str, ...] = ()
        self.latest: Attempt | None = None
        self.beside_bytes = _BESIDE_BYTES
        # Most folds see one status, again and again: what came before it is all that takes a dictionary.
        self._before = _NO_STATUSES
        self._status: int | None = None
        self._in_a_row = 0
        # The head, the changes behind it, and the tail but for the latest.
        self._kept: list[Attempt] | None = [] if keeps else None

    def add(self, attempt: Attempt) -> Attempt:
        """Count one more exchange; the one before it is closed.

        Returns:
            The attempt as kept: state cut to 64 bytes of UTF-8, error type to 32, `changed` set.
        """
        number, at_ns, duration_s, status_code, state, error_type, verdict, mark, _, headers, wait_s, reason = attempt
        before = self.latest
        if before is None or state != before.state or error_type != before.error_type:
            # Texts equal to the ones before are those already cut, so the common case pays for one comparison.
            state = None if state is None else _cut(state, _STATE_BYTES)
            error_type = None if error_type is None else _cut(error_type, _ERROR_TYPE_BYTES)
            changed = before is None or state != before.state or error_type != before.error_type
            whole = (number, at_ns, duration_s, status_code, state, error_type, verdict, mark, changed)
            attempt = Attempt(*whole, headers, wait_s, reason)
        if before is not None:
            self._close(before)
        self.latest = attempt

        self.attempts += 1
        self.request_s += duration_s
        if duration_s > self.request_max_s:
            self.request_max_s = duration_s
        if error_type is not None:
            self.errors += 1
        if status_code != self._status:
            self._before, self._status, self._in_a_row = self.statuses, status_code, 0
        self._in_a_row += 1
        if mark is not None and state is not None and names.MARK_UNKNOWN_STATE in mark:
            self._unknown(state)
        if wait_s is not None:
            self._paused(wait_s, wait_s)
        return attempt

    def wait(self, seconds: float, reason: str) -> None:
        """Count a pause, and note it on the latest attempt if there is one.

        A pause taken in pieces may be told in pieces; the attempt shows their
        sum and the last reason.
        """
        latest = self.latest
        whole_s = seconds
        if latest is not None:
            if latest.wait_s is not None:
                whole_s += latest.wait_s
            self.latest = Attempt._make((*latest[:-2], whole_s, reason))
        self._paused(seconds, whole_s)

    def wait_overrun(self, seconds: float) -> None:
        """Note by how much a pause outlasted its plan, as it does when the machine was suspended."""
        if seconds > max(_OVERRUN_S, self.wait_overrun_max_s):
            self.wait_overrun_max_s = seconds

    def wait_refused(self, seconds: float) -> None:
        """Note a pause that was asked for and not begun, as it could not fit before the deadline."""
        self.wait_refused_s = seconds

    def mark(self, mark: str) -> None:
        """Mark the latest attempt by what was found out after it was judged."""
        if self.latest is not None:
            marks = mark if self.latest.mark is None else f"{self.latest.mark},{mark}"
            self.latest = self.latest._replace(mark=marks)

    def kept(self) -> list[Attempt]:
        """The attempts that become events, in order, none twice.

        With headers only where they help to ask the server's people: the first
        and last 4 errors, the first and last 4 unreadable hints, and the end.
        Where the span would outgrow `SPAN_BYTES`, changes are left out from
        the middle outwards, then headers; never the head or the tail.
        """
        attempts = self._remembered()
        telling = [
            *_outermost(index for index, attempt in enumerate(attempts) if attempt.error_type is not None),
            *_outermost(index for index, attempt in enumerate(attempts) if _hint_unreadable(attempt)),
            *(range(len(attempts))[-1:]),
        ]
        attempts = [
            attempt if attempt.headers is None or index in telling else attempt._replace(headers=None)
            for index, attempt in enumerate(attempts)
        ]
        if len(attempts) <= _SURELY_FIT or self._fit_by_far(attempts):
            return attempts
        spare = SPAN_BYTES - self.beside_bytes - encoded_size(self._aggregates(self.attempts))
        spare -= sum(_event_size(attempt) for attempt in attempts)
        while spare < 0 and len(attempts) > _HEAD + _TAIL:
            spare += _event_size(attempts.pop((_HEAD + len(attempts) - _TAIL) // 2))
        with_headers = [index for index, attempt in enumerate(attempts) if attempt.headers]
        while spare < 0 and with_headers:
            index = with_headers.pop(len(with_headers) // 2)
            bare = attempts[index]._replace(headers=None)
            spare += _event_size(attempts[index]) - _event_size(bare)
            attempts[index] = bare
        return attempts

    @property
    def statuses(self) -> Mapping[int, int]:
        """How often each status came; those that came first, where there were ever so many."""
        status, before = self._status, self._before
        if status is None or (status not in before and len(before) >= _STATUSES):
            return before
        return {**before, status: before.get(status, 0) + self._in_a_row}

    @property
    def surely_fits(self) -> bool:
        """Whether the attempts are so few that nothing needs to be weighed or left out."""
        return self.attempts <= _SURELY_FIT

    @property
    def omitted(self) -> int:
        """Attempts that are in the aggregates only."""
        return 0 if self.surely_fits else self.attempts - len(self.kept())

    def attributes(self, kept: int | None = None) -> dict[str, AttributeValue]:
        """The aggregates of a poll span by name; what there was none of is left out.

        Args:
            kept: How many attempts are, where the caller knows.
        """
        return self._aggregates(self.omitted if kept is None else self.attempts - kept)

    def as_json(self) -> dict[str, Any]:
        """Everything to go on from, as plain JSON; about 150 bytes for each attempt kept."""
        return {
            **{field: getattr(self, field) for field in _PLAIN},
            "statuses": {str(code): count for code, count in self.statuses.items()},
            "unknown_states": list(self.unknown_states),
            "kept": [_as_json(attempt) for attempt in self._remembered()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fold:
        """The fold that `as_json` described; keys it does not know are passed over, missing ones start afresh."""
        fold = cls()
        for field in _PLAIN:
            setattr(fold, field, data.get(field, getattr(fold, field)))
        fold._before = {int(code): count for code, count in data.get("statuses", {}).items()}
        fold.unknown_states = tuple(data.get("unknown_states", ()))
        fold._kept = kept = [_from_json(attempt) for attempt in data.get("kept", ())]
        if kept:
            fold.latest = kept.pop()
        del kept[_HEAD + _CHANGES : -(_CHANGES + _TAIL - 1)]  # of a version that kept more
        return fold

    def _paused(self, seconds: float, whole_s: float) -> None:
        self.wait_s += seconds
        if whole_s > self.wait_max_s:
            self.wait_max_s = whole_s

    def _unknown(self, state: str) -> None:
        if state not in self.unknown_states and len(self.unknown_states) < _LISTED:
            self.unknown_states += (state,)

    def _close(self, attempt: Attempt) -> None:
        kept = self._kept
        if kept is None:
            return
        if attempt.headers is not None:
            may_tell = attempt.error_type is not None or _hint_unreadable(attempt)
            headers = _few(attempt.headers) if may_tell else None
            attempt = Attempt._make((*attempt[:-3], headers, *attempt[-2:]))
        kept.append(attempt)
        if len(kept) < _HEAD + _TAIL:  # the latest attempt, still open, is the last of the tail
            return
        if not kept[-_TAIL].changed:
            del kept[-_TAIL]
        elif len(kept) >= _HEAD + 2 * _CHANGES + _TAIL:
            del kept[_HEAD + _CHANGES]

    def _remembered(self) -> list[Attempt]:
        latest = self.latest
        if latest is None:
            return []
        if latest.headers is not None:
            latest = latest._replace(headers=_few(latest.headers))
        return [*(self._kept or ()), latest]

    def _fit_by_far(self, attempts: Sequence[Attempt]) -> bool:
        """Whether nothing need be left out, by a bound that is quicker than weighing each: most spans are small."""
        texts_bytes = 4 * sum(map(len, self.unknown_states)) + _AGGREGATES_BYTES
        return self.beside_bytes + texts_bytes + sum(map(_event_at_most, attempts)) <= SPAN_BYTES

    def _aggregates(self, omitted: int) -> dict[str, AttributeValue]:
        found: dict[str, AttributeValue] = {
            names.POLL_ATTEMPTS: self.attempts,
            names.POLL_ERRORS: self.errors,
            names.POLL_EVENTS_OMITTED: omitted,
            names.POLL_REQUEST_TIME: float(self.request_s),
            names.POLL_REQUEST_TIME_MAX: float(self.request_max_s),
            names.POLL_WAIT_TIME: float(self.wait_s),
            names.POLL_WAIT_TIME_MAX: float(self.wait_max_s),
        }
        if self.statuses:
            by_count = sorted(self.statuses.items(), key=lambda item: (-item[1], item[0]))
            found[names.POLL_STATUSES] = tuple(f"{code}={count}" for code, count in by_count[:_LISTED])
        if self.unknown_states:
            found[names.POLL_UNKNOWN_STATES] = self.unknown_states
        if self.wait_overrun_max_s > _OVERRUN_S:
            found[names.POLL_WAIT_OVERRUN_MAX] = float(self.wait_overrun_max_s)
        if self.wait_refused_s is not None:
            found[names.WAIT_REFUSED] = float(self.wait_refused_s)
        return found


_PLAIN = (
    *("attempts", "errors", "request_s", "request_max_s"),
    *("wait_s", "wait_max_s", "wait_overrun_max_s", "wait_refused_s"),
)


def fields(attempt: Attempt) -> dict[str, AttributeValue]:
    """What an event says of an attempt that a fold has taken in; the only place that names its keys.

    >>> fields(Attempt(number=7, at_ns=0, duration_s=0.25, state="Running"))
    {'trihop.attempt.number': 7, 'trihop.attempt.duration': 0.25, 'trihop.job.state': 'Running'}
    """
    found: dict[str, AttributeValue] = {
        names.ATTEMPT_NUMBER: attempt.number,
        names.ATTEMPT_DURATION: float(attempt.duration_s),
    }
    if attempt.status_code is not None:
        found[names.HTTP_RESPONSE_STATUS_CODE] = attempt.status_code
    if attempt.state is not None:
        found[names.JOB_STATE] = attempt.state
    if attempt.error_type is not None:
        found[names.ERROR_TYPE] = attempt.error_type
    if attempt.verdict is not None:
        found[names.ATTEMPT_VERDICT] = attempt.verdict
    if attempt.mark is not None:
        found[names.ATTEMPT_MARK] = attempt.mark
    if attempt.wait_s is not None:
        found[names.WAIT_DURATION] = float(attempt.wait_s)
    if attempt.wait_reason is not None:
        found[names.WAIT_REASON] = attempt.wait_reason
    if attempt.headers:
        for field, value in _few(attempt.headers).items():
            found[names.RESPONSE_HEADERS[field]] = (value,)
    return found


def encoded_size(attributes: Mapping[str, AttributeValue]) -> int:
    """Bytes these attributes take on a span or an event, as OTLP protobuf encodes them.

    Source: opentelemetry-proto, common/v1 `KeyValue` and `AnyValue`.
    """
    return sum(_framed(_framed(_utf8(key)) + _framed(_value_size(value))) for key, value in attributes.items())


def _event_size(attempt: Attempt) -> int:
    time = 9
    return _framed(time + _framed(len(names.ATTEMPT)) + encoded_size(fields(attempt)))


def _event_at_most(attempt: Attempt) -> int:
    size = _NUMBERS_BYTES
    for text in (attempt.state, attempt.error_type, attempt.verdict, attempt.mark, attempt.wait_reason):
        if text is not None:
            size += _TEXT_FIELD_BYTES + 4 * len(text)  # the most that UTF-8 takes
    for value in (attempt.headers or {}).values():
        size += 2 * _TEXT_FIELD_BYTES + 4 * len(value)
    return size


def _value_size(value: AttributeValue) -> int:
    if isinstance(value, str):
        return _framed(_utf8(value))
    if isinstance(value, bool):
        return 2
    if isinstance(value, int):
        return 1 + _varint(value)
    if isinstance(value, float):
        return 9
    return _framed(sum(_framed(_value_size(item)) for item in value))


def _framed(size: int) -> int:
    """With the tag and the length before it."""
    return 1 + _varint(size) + size


def _varint(value: int) -> int:
    return 10 if value < 0 else max(1, (value.bit_length() + 6) // 7)


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _cut(text: str, size: int) -> str:
    """At most that many bytes of UTF-8, and always encodable.

    A lone surrogate, which JSON can smuggle in, would make the exporter lose
    the whole batch.
    """
    if text.isascii():
        return text[:size]
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


# What an event takes without its texts, the longest of its texts' names with their framing, and the aggregates.
_NUMBERS_BYTES = _event_size(Attempt(2**62, 0, 1.0, status_code=999, wait_s=1.0))
_TEXT_FIELD_BYTES = max(map(len, (names.ATTEMPT_VERDICT, names.WAIT_REASON, *names.RESPONSE_HEADERS.values()))) + 12
_AGGREGATES_BYTES = 1_000


def _few(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        field: _cut(value, size) for field, size in _HEADER_BYTES.items() if (value := headers.get(field)) is not None
    }


def _hint_unreadable(attempt: Attempt) -> bool:
    return attempt.mark is not None and names.MARK_HINT_UNREADABLE in attempt.mark


def _outermost(indexes: Iterable[int]) -> list[int]:
    found = list(indexes)
    return found if len(found) <= 2 * _ENDS else found[:_ENDS] + found[-_ENDS:]


def _as_json(attempt: Attempt) -> dict[str, Any]:
    defaults = Attempt._field_defaults
    return {field: value for field, value in attempt._asdict().items() if value != defaults.get(field)}


def _from_json(data: Mapping[str, Any]) -> Attempt:
    return Attempt(**{field: value for field, value in data.items() if field in Attempt._fields})
