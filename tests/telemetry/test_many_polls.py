"""However many polls, one poll span of bounded size, in memory that does not grow."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import requests
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from telling import ACCEPTED, API, CONTENT, Answer, attempts, canned, done, run, running, said, told, tracing

from trihop import Budget, Pacing, PollBudgetExhausted, Provider, ReadState, operation
from trihop._hops import hop as _hop
from trihop._telemetry import fold as _fold
from trihop._telemetry.fold import Fold, encoded_size, fields
from trihop.providers import generic
from trihop.testing import ScriptedServer, SpanLog, VirtualClock, accepted
from trihop.testing import done as done_reply
from trihop.testing import running as running_reply

MANY = 10_000
SMALL = 16_384
PATIENT = replace(
    generic.ACCEPTED, name="patient", pacing=Pacing(first=1, cap=1), budget=Budget(consecutive_errors=MANY)
)


def polled(answer: Callable[[int], Answer], *, polls: int = MANY, handed_out: Answer = ACCEPTED) -> requests.Session:
    """A job that is over at the last of so many polls; the n-th one before is answered by `answer(n)`."""

    def reply(request: requests.PreparedRequest, number: int) -> Answer:
        if request.method == "POST":
            return handed_out
        if str(request.url).startswith(f"{API}files"):
            return CONTENT
        return done() if number > polls else answer(number - 1)

    return canned(reply)


@cache
def folded(answers: str) -> ReadableSpan:
    """The poll span of ten thousand polls that are answered so."""
    with tracing() as log:
        run(polled(RUNS[answers]), VirtualClock(), provider=PATIENT, deadline=None)
    (span,) = [span for span in log.get_finished_spans() if span.name == "poll export"]
    return span


def size_of(span: ReadableSpan) -> int:
    return len(encode_spans([span]).SerializeToString())


def numbers(span: ReadableSpan) -> list[int]:
    return [attempt["trihop.attempt.number"] for attempt in attempts(span)]


LOUD = {"X_Request_Id": "r" * 200, "Retry_After": "1", "WWW_Authenticate": "Bearer " + "realm" * 100}
UNREADABLE = {"X_Request_Id": "r" * 200, "Retry_After": "in a while, when the queue is shorter"}


def word(number: int) -> str:
    """A state of 64 characters, another one each time."""
    return f"{number:064}"[::-1]


RUNS: dict[str, Callable[[int], Answer]] = {
    "steady": lambda n: running(),
    "5,000 errors": lambda n: told(503, **LOUD) if 2_000 < n <= 7_000 else running(),
    "a flap of 200 and 503": lambda n: running("A" * 64) if n % 2 else told(503, **LOUD),
    "states of 64 characters": lambda n: running(word(n)),
    "states of 64 characters of four bytes": lambda n: running("🌀" * 32 + word(n)[:32]),
    "hints that nobody can read": lambda n: running(word(n), **UNREADABLE),
    "pages of a proxy": lambda n: (200, {"Content-Type": "text/html; " + "x" * 300}, b"<html>"),
}


@pytest.mark.parametrize("answers", RUNS)
def test_ten_thousand_polls_are_one_small_span(answers):
    """At most 48 events and 16 KB as OTLP, the first and the last polls among them, whatever the server says."""
    span = folded(answers)
    assert len(span.events) <= 48
    assert span.dropped_events == 0
    assert size_of(span) <= SMALL
    assert numbers(span)[:8] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert numbers(span)[-16:] == list(range(MANY - 15, MANY + 1))
    assert said(span)["trihop.poll.attempts"] == MANY
    assert said(span)["trihop.poll.events_omitted"] == MANY - len(span.events)


def test_aggregates_are_exact_however_little_is_kept():
    """Counts and sums are over all polls: 5,000 errors in 10,000 polls are 5,000."""
    span = folded("5,000 errors")
    assert {name: value for name, value in said(span).items() if name.startswith("trihop.poll.")} == {
        "trihop.poll.attempts": MANY,
        "trihop.poll.errors": 5_000,
        "trihop.poll.events_omitted": MANY - len(span.events),
        "trihop.poll.statuses": ("200=5000", "503=5000"),
        "trihop.poll.request_time": 0.0,
        "trihop.poll.request_time_max": 0.0,
        "trihop.poll.wait_time": float(MANY),  # a second before each
        "trihop.poll.wait_time_max": 1.0,
    }


def test_an_outage_in_the_middle_of_the_night_is_seen():
    """The first failed poll and the first good one after it are among the events, with the id to quote."""
    span = folded("5,000 errors")
    by_number = {attempt["trihop.attempt.number"]: attempt for attempt in attempts(span)}
    assert by_number[2_001]["error.type"] == "503"
    assert by_number[2_001]["http.response.header.x-request-id"] == ("r" * 64,)
    assert "error.type" not in by_number[7_001]


@pytest.mark.parametrize("answers", RUNS)
def test_the_span_is_what_the_fold_kept(answers, monkeypatch: pytest.MonkeyPatch):
    """The events are those that the fold kept, the aggregates count the others, and the room is reckoned closely."""
    folds: list[Fold] = []

    class Kept(Fold):
        __slots__ = ()

        def __init__(self, **options: bool) -> None:
            super().__init__(**options)
            folds.append(self)

    monkeypatch.setattr(_hop, "Fold", Kept)
    with tracing() as log:
        long = told(202, Location=f"{API}jobs/{'1' * 1_900}")
        run(polled(RUNS[answers], polls=200, handed_out=long), VirtualClock(), provider=PATIENT, deadline=None)
    (span,) = [span for span in log.get_finished_spans() if span.name == "poll export"]
    fold = folds[1]
    assert attempts(span) == [fields(attempt) for attempt in fold.kept()]
    assert fold.attributes().items() <= said(span).items()
    assert said(span)["trihop.poll.events_omitted"] == fold.attempts - len(span.events)

    folded_bytes = encoded_size(fold.attributes()) + sum(_fold._event_size(attempt) for attempt in fold.kept())
    beside_bytes = size_of(span) - folded_bytes
    assert beside_bytes <= fold.beside_bytes <= beside_bytes + 1_000


def test_a_failed_operation_keeps_its_long_message_within_the_size():
    """The status of the span counts, too: a message of 256 wide characters does not push it over."""
    wide = "🌀" * 400
    provider = Provider(
        "wide" * 30,
        submit=generic.ACCEPTED.submit,
        poll=ReadState("status", succeeded={"succeeded"}),
        budget=Budget(polls=MANY, consecutive_errors=MANY),
    )
    with tracing() as log, pytest.raises(PollBudgetExhausted):
        run(
            polled(lambda n: running(f"{n}{wide}", **UNREADABLE), polls=MANY + 1),
            VirtualClock(),
            "o" * 64,
            provider=provider,
            deadline=None,
        )
    (span,) = [span for span in log.get_finished_spans() if span.name == "poll " + "o" * 64]
    assert said(span)["error.type"] == "PollBudgetExhausted"
    assert size_of(span) <= SMALL


def test_the_operation_holds_no_more_after_ten_thousand_polls():
    """From poll 500 to poll 10,000 the whole operation, engine included, grows by less than 128 kB."""
    held: dict[int, int] = {}

    def answer(number: int) -> Answer:
        if number in (500, MANY - 1):
            gc.collect()
            held[number] = tracemalloc.get_traced_memory()[0]
        return told(503, **LOUD) if number % 3 == 0 else running(word(number))

    clock = VirtualClock()
    clock.sleeps = _Forgetful()
    with tracing() as log:
        tracemalloc.start()
        try:
            run(polled(answer), clock, provider=PATIENT, deadline=None)
        finally:
            tracemalloc.stop()
    assert [span.name for span in log.get_finished_spans()][1] == "poll export"
    assert held[MANY - 1] - held[500] < 128_000


class _Forgetful(list[float]):
    """The virtual clock's own list of its sleeps, which would be the only thing that grows."""

    def append(self, _: float) -> None:
        pass


def test_two_thousand_polls_on_a_socket_are_one_small_span(session: requests.Session, spans: SpanLog):
    """The same through urllib3 and a real connection, which stays the same one throughout."""
    clock = VirtualClock()
    with ScriptedServer(clock=clock) as server:
        replies = [running_reply("A" * 64) if n % 2 else 503 for n in range(2_000 - 1)]
        server.script(accepted(), *replies, done_reply(result_url="{url}files/1"), "a,b\n")
        with operation("export", deadline=3600, session=session, provider=PATIENT, clock=clock) as op:
            op.run("POST", f"{server.url}jobs")
        assert len({call.connection for call in server.calls}) == 1
    poll = spans.named("poll export")
    assert said(poll)["trihop.poll.attempts"] == 2_000
    assert said(poll)["trihop.poll.statuses"] == ("200=1000", "503=1000")
    assert len(poll.events) <= 48
    assert size_of(poll) <= SMALL
