"""The attempts folded onto a hop's span, unfolded for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trihop._telemetry import semconv
from trihop.viewer._model import Span, SpanEvent
from trihop.viewer._words import seconds


@dataclass(frozen=True, slots=True)
class Attempt:
    """One exchange on the wire as its hop's span kept it. Seconds; None where the span does not say."""

    number: int
    at_ns: int
    duration_s: float | None
    status_code: int | None
    state: str | None
    error: str | None
    changed: bool
    wait_s: float | None
    wait_reason: str | None
    verdict: str | None
    marks: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]

    @property
    def sort(self) -> Literal["ok", "changed", "error"]:
        """In which shape and style it is drawn."""
        return "error" if self.error else "changed" if self.changed else "ok"

    @property
    def answer(self) -> str:
        """What came back: status, state, error."""
        status = None if self.status_code is None else str(self.status_code)
        error = None if self.error == status else self.error
        return " ".join(part for part in (status, self.state, error) if part) or "no answer"

    @property
    def pause(self) -> str | None:
        """The pause after it, and what set it."""
        if self.wait_s is None:
            return None
        return f"wait {seconds(self.wait_s)}" + (f" ({self.wait_reason})" if self.wait_reason else "")

    @property
    def remarks(self) -> tuple[str, ...]:
        """The verdict and what was odd. A failed attempt is transient, and says error already."""
        marks = (mark.replace("_", " ") for mark in self.marks)
        return tuple(part for part in (None if self.error else self.verdict, *marks) if part)

    @property
    def telling(self) -> tuple[tuple[str, str], ...]:
        """The headers that explain it: of a failed attempt or an unreadable hint; that JSON came explains nothing."""
        if self.error is None and semconv.MARK_HINT_UNREADABLE not in self.marks:
            return ()
        return tuple((name, value) for name, value in self.headers if name != "content-type" or "json" not in value)


_HEADER = "http.response.header."


def attempts(span: Span) -> tuple[Attempt, ...]:
    """The attempts kept on a hop's span, by number; `changed` compares with the last state known before.

    Numbers that are missing in between were folded away when the span was written.
    """
    found: list[Attempt] = []
    state: str | None = None
    for position, event in enumerate(sorted(filter(_is_attempt, span.events), key=_order), start=1):
        told = event.attributes
        now = told.text(semconv.JOB_STATE)
        found.append(
            Attempt(
                number=told.count(semconv.ATTEMPT_NUMBER) or position,
                at_ns=event.at_ns,
                duration_s=told.number(semconv.ATTEMPT_DURATION),
                status_code=told.count(semconv.HTTP_RESPONSE_STATUS_CODE),
                state=now,
                error=told.text(semconv.ERROR_TYPE),
                changed=now is not None and state is not None and now != state,
                wait_s=told.number(semconv.WAIT_DURATION),
                wait_reason=told.text(semconv.WAIT_REASON),
                verdict=told.text(semconv.ATTEMPT_VERDICT),
                marks=tuple(mark for text in told.texts(semconv.ATTEMPT_MARK) for mark in text.split(",")),
                headers=tuple(
                    (key.removeprefix(_HEADER), ", ".join(told.texts(key))) for key in told if key.startswith(_HEADER)
                ),
            )
        )
        state = now if now is not None else state
    return tuple(found)


def _is_attempt(event: SpanEvent) -> bool:
    return event.name == semconv.ATTEMPT


def _order(event: SpanEvent) -> tuple[int, int]:
    return event.attributes.count(semconv.ATTEMPT_NUMBER) or 0, event.at_ns


def told_apart(span: Span, kept: tuple[Attempt, ...]) -> bool:
    """Whether a span's attempts are worth showing one by one: a single good exchange is the span itself."""
    return bool(kept) and (span.hop == "poll" or len(kept) > 1 or any(attempt.error for attempt in kept))


def total_attempts(span: Span) -> int:
    """How many attempts the hop made, the folded ones included."""
    told = span.attributes.count(semconv.POLL_ATTEMPTS) or 0
    numbers = [event.attributes.count(semconv.ATTEMPT_NUMBER) or 0 for event in span.events if _is_attempt(event)]
    return max(told, len(numbers), *numbers)


def folded(kept: tuple[Attempt, ...], total: int) -> Iterator[Attempt | int]:
    """The kept attempts in order, with the number of those left out wherever some are missing.

    >>> list(folded((), 3))
    [3]
    """
    number = 0
    for attempt in kept:
        if attempt.number > number + 1:
            yield attempt.number - number - 1
        yield attempt
        number = attempt.number
    if total > number:
        yield total - number


def gaps(kept: tuple[Attempt, ...]) -> tuple[tuple[int, int], ...]:
    """The stretches, in nanoseconds since the epoch, from whose polls none were kept."""
    return tuple((one.at_ns, two.at_ns) for one, two in pairwise(kept) if two.number > one.number + 1)
