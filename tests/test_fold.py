import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as EncodedSpan
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from requests.structures import CaseInsensitiveDict

from trihop._telemetry import semconv as names
from trihop._telemetry.fold import (
    SPAN_BYTES,
    Attempt,
    AttributeValue,
    Fold,
    _event_at_most,
    _event_size,
    encoded_size,
    fields,
)

START_NS = 1_772_366_400_000_000_000


def polled(number: int, state: str | None = "InProgress", *, status_code: int | None = 200, **rest: Any) -> Attempt:
    """A poll that went well, one every five seconds."""
    at_ns = START_NS + number * 5_000_000_000
    return Attempt(number, at_ns, rest.pop("duration_s", 0.25), status_code, state, **rest)


def refused(number: int, status_code: int = 503, *, state: str | None = None, **rest: Any) -> Attempt:
    """A poll that brought no answer."""
    return polled(number, state, status_code=status_code, **{"error_type": str(status_code), **rest})


def folded(count: int, make: Callable[[int], Attempt], *, wait_s: float | None = 5.0) -> Fold:
    """A fold of so many attempts, each but the last followed by a pause."""
    fold = Fold()
    for number in range(1, count + 1):
        fold.add(make(number))
        if wait_s is not None and number < count:
            fold.wait(wait_s, "pacing")
    return fold


def numbers(fold: Fold) -> list[int]:
    return [attempt.number for attempt in fold.kept()]


def flap(number: int) -> Attempt:
    return polled(number) if number % 2 else refused(number)


# Which attempts become events.


def test_a_short_run_keeps_every_attempt():
    """Up to 24 attempts nothing is left out."""
    for count in (0, 1, 8, 9, 23, 24):
        fold = folded(count, polled)
        assert numbers(fold) == list(range(1, count + 1))
        assert fold.omitted == 0


def test_the_first_eight_and_the_last_sixteen_stay():
    """After a night of polling, the first polls are still visible, and so are the last."""
    fold = folded(10_000, polled)
    assert numbers(fold) == [*range(1, 9), *range(9_985, 10_001)]
    assert fold.omitted == 9_976


def test_a_change_of_state_in_the_middle_stays():
    """Where the server's word changed, the attempt that showed it is kept."""
    fold = folded(10_000, lambda number: polled(number, "Queued" if number < 4_000 else "Running"))
    assert numbers(fold) == [*range(1, 9), 4_000, *range(9_985, 10_001)]


def test_an_outage_in_the_middle_shows_its_beginning_and_its_end():
    """The first error and the first answer after it are changes; the errors between are counted only."""
    fold = folded(1_000, lambda number: refused(number) if 500 <= number < 510 else polled(number))
    assert numbers(fold) == [*range(1, 9), 500, 510, *range(985, 1_001)]
    assert fold.errors == 10


def test_of_many_changes_the_first_and_the_last_twelve_stay():
    """A flap of thousands keeps 48 events: head, twelve changes at each end, tail."""
    fold = folded(10_000, flap)
    fold.beside_bytes = 1_500
    assert numbers(fold) == [*range(1, 9), *range(9, 21), *range(9_973, 9_985), *range(9_985, 10_001)]


def test_a_change_is_a_matter_of_state_and_error_together():
    """Another status with the same state and error type is no change."""
    fold = Fold()
    told = [
        fold.add(attempt).changed
        for attempt in (
            polled(1),
            polled(2),
            polled(3, status_code=202),
            polled(4, "Done"),
            refused(5),
            refused(6),
            refused(7, 502),
        )
    ]
    assert told == [True, False, False, True, True, False, True]


@given(st.lists(st.sampled_from(["Queued", "Running", None]), max_size=200), st.integers(0, 12_000))
def test_kept_attempts_are_in_order_and_unique(states, beside_bytes):
    """Whatever happens, events rise by number, none twice, with head and tail whole and omitted making up the rest."""
    fold = folded(len(states), lambda n: polled(n, states[n - 1]) if states[n - 1] else refused(n))
    fold.beside_bytes = beside_bytes
    kept = numbers(fold)
    assert kept == sorted(set(kept))
    assert len(kept) <= 48
    assert kept[:8] == list(range(1, len(states) + 1))[:8]
    assert kept[-16:] == list(range(1, len(states) + 1))[-16:]
    assert fold.omitted == len(states) - len(kept)


# Pauses.


def test_a_pause_is_told_of_the_attempt_before_it():
    """The pause after an attempt stands on that attempt's event."""
    fold = Fold()
    fold.add(polled(1))
    fold.wait(30.0, "hint")
    fold.add(polled(2))
    assert [(a.wait_s, a.wait_reason) for a in fold.kept()] == [(30.0, "hint"), (None, None)]


def test_a_pause_of_no_length_is_still_told():
    """Zero is a value: a hint of 0 is a hint."""
    fold = Fold()
    fold.add(polled(1))
    fold.wait(0.0, "hint")
    assert fields(fold.kept()[0])[names.WAIT_DURATION] == 0.0


def test_a_pause_told_in_pieces_is_one_pause():
    """A pause that was broken off and taken up again counts once, with its whole length."""
    fold = Fold()
    fold.add(polled(1))
    fold.wait(10.0, "pacing")
    fold.wait(20.0, "hint")
    assert (fold.kept()[0].wait_s, fold.kept()[0].wait_reason) == (30.0, "hint")
    assert (fold.wait_s, fold.wait_max_s) == (30.0, 30.0)


def test_the_pause_before_the_first_poll_counts_in_the_sum_alone():
    """There is no attempt yet that it could follow."""
    fold = Fold()
    fold.wait(3.0, "hint")
    fold.add(polled(1))
    assert fold.kept()[0].wait_s is None
    assert fold.wait_s == 3.0


def test_a_pause_known_beforehand_counts_as_one_told_later():
    """An attempt may bring its pause along."""
    one, other = Fold(), Fold()
    one.add(polled(1, wait_s=5.0, wait_reason="backoff"))
    other.add(polled(1))
    other.wait(5.0, "backoff")
    assert one.as_json() == other.as_json()


# Aggregates.


def test_aggregates_tell_the_whole_run():
    """Counts, sums and maxima are over all attempts, whatever is kept of them."""
    fold = folded(46, lambda number: refused(number) if number > 41 else polled(number))
    fold.add(polled(47, "Done", verdict="succeeded", duration_s=2.0))
    assert fold.attributes() == {
        names.POLL_ATTEMPTS: 47,
        names.POLL_ERRORS: 5,
        names.POLL_EVENTS_OMITTED: 47 - 24,
        names.POLL_STATUSES: ("200=42", "503=5"),
        names.POLL_REQUEST_TIME: 46 * 0.25 + 2.0,
        names.POLL_REQUEST_TIME_MAX: 2.0,
        names.POLL_WAIT_TIME: 45 * 5.0,
        names.POLL_WAIT_TIME_MAX: 5.0,
    }


def test_an_attempt_without_a_reply_has_no_status():
    """A poll that timed out is an error and an attempt, and no status code is made up for it."""
    fold = Fold()
    fold.add(polled(1, None, status_code=None, error_type="read_timeout"))
    assert (fold.attempts, fold.errors, fold.statuses) == (1, 1, {})
    assert names.POLL_STATUSES not in fold.attributes()


def test_statuses_are_the_eight_most_frequent():
    """The most frequent code comes first, and equals are in order of the code."""
    codes = [code for code in range(500, 512) for _ in range(2)] + [200] * 5
    fold = folded(len(codes), lambda number: refused(number, codes[number - 1]))
    assert fold.attributes()[names.POLL_STATUSES] == ("200=5", *(f"{code}=2" for code in range(500, 507)))


def test_unknown_states_are_listed_once_and_eight_at_most():
    """A word nobody knew is on the span even when its attempts are not."""
    fold = folded(
        1_000, lambda number: polled(number, f"S{number // 50:02}", mark="late,unknown_state" if number > 99 else None)
    )
    assert fold.attributes()[names.POLL_UNKNOWN_STATES] == tuple(f"S{number:02}" for number in range(2, 10))


def test_a_small_overrun_is_not_worth_an_attribute():
    """Only a pause that outlasted its plan by more than a second is told, and the longest such."""
    fold = Fold()
    fold.wait_overrun(1.0)
    assert names.POLL_WAIT_OVERRUN_MAX not in fold.attributes()
    fold.wait_overrun(2_400.0)
    fold.wait_overrun(3.0)
    assert fold.attributes()[names.POLL_WAIT_OVERRUN_MAX] == 2_400.0


def test_a_refused_hint_is_told():
    """What the server asked for and could not get stands on the span."""
    fold = Fold()
    assert names.WAIT_REFUSED not in fold.attributes()
    fold.wait_refused(3_600.0)
    assert fold.attributes()[names.WAIT_REFUSED] == 3_600.0


def test_whole_seconds_go_out_as_doubles():
    """A backend that saw a double once rejects an integer under the same name."""
    fold = Fold()
    fold.add(polled(1, duration_s=1))
    fold.wait(5, "hint")
    fold.wait_refused(60)
    fold.wait_overrun(7)
    table = {row.name: row.type for row in names.TABLE if row.kind == "attribute"}
    told = {**fold.attributes(), **fields(fold.kept()[0])}
    kinds = {int: "int", float: "double", str: "str", tuple: "str[]"}
    assert {name: kinds[type(value)] for name, value in told.items()} == {name: table[name] for name in told}


def test_every_aggregate_belongs_on_a_poll_and_every_field_on_an_attempt():
    """The fold writes only names that the table allows in their place."""
    places = {row.name: row.on for row in names.TABLE if row.kind == "attribute"}
    fold = folded(30, loud)
    fold.wait_refused(60.0)
    fold.wait_overrun(60.0)
    assert all("poll" in places[name] for name in fold.attributes())
    told = {name for attempt in fold.kept() for name in fields(attempt)}
    assert told == {name for name, on in places.items() if "attempt" in on}


# Headers.

HEADERS = {
    "x-request-id": "req-7f3a",
    "retry-after": "soon",
    "content-type": "text/html",
    "www-authenticate": 'Bearer error="invalid_token"',
    "server": "nginx",
}


def with_headers(fold: Fold) -> list[int]:
    return [attempt.number for attempt in fold.kept() if attempt.headers]


def test_headers_stay_on_the_first_and_last_four_errors_and_the_end():
    """The ids to quote to the vendor are there; a good poll's are not, except the last one's."""
    fold = folded(
        24,
        lambda number: (refused if 6 <= number <= 20 else polled)(number, headers=HEADERS),
    )
    fold.beside_bytes = 1_000
    assert with_headers(fold) == [6, 7, 8, 9, 17, 18, 19, 20, 24]


def test_an_outage_long_past_keeps_its_request_id():
    """The one error among 10,000 polls still says which request to ask about."""
    fold = folded(10_000, lambda number: refused(number, headers=HEADERS) if number == 5_000 else polled(number))
    assert with_headers(fold) == [5_000]


def test_an_unreadable_hint_shows_what_was_written():
    """A `Retry-After` that nobody could read is kept as it came."""
    fold = folded(9, lambda n: polled(n, headers=HEADERS, mark="hint_unreadable,late") if n == 3 else polled(n))
    assert fields(fold.kept()[2])["http.response.header.retry-after"] == ("soon",)


def test_only_the_four_named_headers_are_kept():
    """No other header is held, and none is looked for under another spelling than the mapping's own."""
    fold = Fold()
    fold.add(refused(1, headers=CaseInsensitiveDict({"X-Request-Id": "req-1", "Set-Cookie": "a=b"})))
    fold.add(polled(2))
    assert fold.kept()[0].headers == {"x-request-id": "req-1"}


def test_a_headers_mapping_is_not_held_on_to():
    """What the caller does with its mapping afterwards does not change the past."""
    headers = {"x-request-id": "req-1"}
    fold = Fold()
    fold.add(refused(1, headers=headers))
    fold.add(polled(2))
    headers["x-request-id"] = "req-2"
    assert fold.kept()[0].headers == {"x-request-id": "req-1"}


def test_a_long_header_is_cut():
    """A header's value has room for an id or a reason, not for a page."""
    fold = Fold()
    fold.add(refused(1, headers=dict.fromkeys(HEADERS, "v" * 5_000)))
    lengths = {name: len(value[0]) for name, value in fields(fold.kept()[0]).items() if ".header." in name}
    assert sorted(lengths.values()) == [32, 64, 64, 128]


def test_absent_headers_leave_no_key():
    """A reply without the four headers adds nothing to the event."""
    fold = Fold()
    fold.add(refused(1, headers={"server": "nginx"}))
    assert set(fields(fold.kept()[0])) == {
        names.ATTEMPT_NUMBER,
        names.ATTEMPT_DURATION,
        names.HTTP_RESPONSE_STATUS_CODE,
        names.ERROR_TYPE,
    }


# Texts.


def test_a_long_state_is_cut_and_is_one_state():
    """A state beyond 64 bytes is the same state on the next poll, and no change."""
    fold = Fold()
    first, second = fold.add(polled(1, "S" * 100)), fold.add(polled(2, "S" * 100))
    assert first.state == second.state == "S" * 64
    assert not second.changed


def test_a_cut_never_splits_a_character():
    """Bytes are counted, and a character that does not fit is left out whole."""
    assert Fold().add(polled(1, "é" * 40)).state == "é" * 32
    assert Fold().add(polled(1, "日" * 40)).state == "日" * 21


def test_a_lone_surrogate_does_not_reach_the_exporter():
    """JSON can carry half a character, on which an exporter would lose the whole batch."""
    fold = folded(3, lambda number: refused(number, error_type="\ud800", headers={"x-request-id": "\udc00"}))
    fold.add(polled(4, json.loads('"Run\\ud800ning"'), mark="unknown_state"))
    assert fold.attributes()[names.POLL_UNKNOWN_STATES] == ("Run?ning",)
    assert size_of(poll_span(fold)) > 0


# Through JSON.

texts = st.none() | st.text(max_size=80)
attempts = st.builds(
    Attempt,
    number=st.integers(1, 10**6),
    at_ns=st.integers(0, 2**63 - 1),
    duration_s=st.floats(0, 1e6),
    status_code=st.none() | st.integers(100, 999),
    state=texts,
    error_type=texts,
    verdict=st.none() | st.sampled_from(names.VERDICTS),
    mark=st.none() | st.sampled_from([*names.MARKS, "late,unknown_state"]),
    headers=st.none() | st.dictionaries(st.sampled_from(sorted(HEADERS)), st.text(max_size=80)),
    changed=st.just(False),
    wait_s=st.none() | st.floats(0, 1e6),
    wait_reason=st.none() | st.sampled_from(names.WAIT_REASONS),
)


def continued(fold: Fold, more: list[Attempt]) -> Fold:
    for attempt in more:
        fold.add(attempt)
        fold.wait(1.5, "backoff")
    return fold


@given(st.lists(attempts, max_size=60), st.lists(attempts, max_size=30))
def test_a_fold_goes_on_after_json_as_if_nothing_had_happened(before, after):
    """A fold written down, read back and continued is the fold that was never written down."""
    fold = continued(Fold(), before)
    again = Fold.from_json(json.loads(json.dumps(fold.as_json())))
    assert again.as_json() == fold.as_json()
    assert again.kept() == fold.kept()
    assert again.attributes() == fold.attributes()
    assert continued(again, after).as_json() == continued(fold, after).as_json()


def test_a_long_fold_goes_on_after_json():
    """With all its compartments full, a fold still continues exactly."""
    fold = folded(1_000, flap)
    fold.wait_overrun(4.0)
    fold.wait_refused(60.0)
    again = Fold.from_json(json.loads(json.dumps(fold.as_json())))
    more = [flap(number) for number in range(1_001, 1_101)]
    assert continued(again, more).as_json() == continued(fold, more).as_json()


def test_keys_of_a_later_version_are_passed_over():
    """A record of a newer library is read as far as it is understood, at both levels."""
    data = folded(30, flap).as_json()
    strange = {**data, "mood": "good", "kept": [{**attempt, "colour": "red"} for attempt in data["kept"]]}
    assert Fold.from_json(strange).as_json() == data


def test_nothing_recorded_is_an_empty_fold():
    """A record from before the first poll continues from nothing."""
    assert Fold.from_json({}).as_json() == Fold().as_json()


def test_a_full_fold_is_a_small_record():
    """The fold rides on every write of the record, so it stays below 12 kB even in a flap."""
    assert len(json.dumps(folded(10_000, flap).as_json())) < 12_000


# Size of the span.


def loud(number: int) -> Attempt:
    """Everything at once that an attempt can say."""
    make = refused if number % 2 else polled
    headers = dict.fromkeys(HEADERS, f"{number}" * 200)
    return make(number, mark=",".join(names.MARKS), verdict="ambiguous", headers=headers)


def word(number: int, alphabet: str = "ABCDEFGHIJ") -> str:
    """A text of 64 characters, whose beginning is another one each time."""
    return "".join(alphabet[int(digit)] for digit in f"{number:064}"[::-1])


PATTERNS: dict[str, Callable[[int], Attempt]] = {
    "steady": polled,
    "flap of 200 and 503": lambda n: (
        polled(n, "A" * 64) if n % 2 else refused(n, headers=dict.fromkeys(HEADERS, "v" * 900))
    ),
    "a new state each time": lambda n: polled(n, word(n), mark="unknown_state"),
    "four bytes a character": lambda n: polled(n, word(n, "🌀🌁🌂🌃🌄🌅🌆🌇🌈🌉"), mark="unknown_state"),
    "errors only": lambda n: refused(n, 500 + n % 12, error_type=word(n), headers=dict.fromkeys(HEADERS, "é" * 900)),
    "unreadable hints": lambda n: polled(n, word(n), mark="hint_unreadable", headers=dict.fromkeys(HEADERS, "v" * 900)),
    "everything at once": loud,
    "everything at once, in long words": lambda n: loud(n)._replace(state=word(n), error_type=word(n)),
    "an outage in the middle": lambda n: refused(n, headers=HEADERS) if 4_000 < n < 9_000 else polled(n, "A" * 64),
}


def poll_span(fold: Fold, attributes: dict[str, AttributeValue] | None = None) -> ReadableSpan:
    """The poll span that the fold makes, built with the SDK."""
    name = "o" * 64
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer(names.SCOPE, "1.0.0", schema_url=names.SCHEMA_URL)
    parent = tracer.start_span("root", start_time=START_NS)
    span = tracer.start_span(
        names.SPAN_POLL.format(operation=name),
        trace.set_span_in_context(parent),
        attributes=attributes,
        links=[trace.Link(parent.get_span_context())],
        start_time=START_NS,
    )
    span.set_attributes(fold.attributes())
    for attempt in fold.kept():
        span.add_event(names.ATTEMPT, fields(attempt), attempt.at_ns)
    span.set_status(trace.Status(trace.StatusCode.ERROR, "m" * 256))
    span.end(START_NS + 10**15)
    parent.end(START_NS + 10**15)
    assert isinstance(span, ReadableSpan)
    return span


WIDE: dict[str, AttributeValue] = {
    names.OPERATION_NAME: "o" * 64,
    names.OPERATION_ID: "0" * 32,
    names.PROVIDER: "p" * 64,
    names.JOB_ID: "j" * 64,
    names.HOP: "poll",
    names.HTTP_REQUEST_METHOD: "GET",
    names.SERVER_ADDRESS: "a" * 253,
    names.SERVER_PORT: 65_535,
    names.URL_FULL: "https://" + "u" * 2_040,
    names.HTTP_RESPONSE_STATUS_CODE: 503,
    names.JOB_STATE: "S" * 64,
    names.ERROR_TYPE: "E" * 64,
}


def size_of(span: ReadableSpan) -> int:
    return len(encode_spans([span]).SerializeToString())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_poll_span_stays_below_its_size(pattern):
    """Ten thousand polls of the worst kind under the longest URL make a span of at most 16,000 bytes."""
    fold = folded(10_000, PATTERNS[pattern], wait_s=29.75)
    fold.wait_overrun(2_400.0)
    fold.wait_refused(3_600.0)
    span = poll_span(fold, WIDE)
    assert size_of(span) <= SPAN_BYTES
    assert numbers(fold)[:8] == list(range(1, 9))
    assert numbers(fold)[-16:] == list(range(9_985, 10_001))
    assert span.attributes is not None
    assert span.attributes[names.POLL_EVENTS_OMITTED] == 10_000 - len(span.events)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_short_span_beside_leaves_room_for_events(pattern):
    """Told how little the rest takes, the fold keeps more and still fits."""
    short: dict[str, AttributeValue] = {
        **WIDE,
        names.URL_FULL: "https://api.example/jobs/7",
        names.SERVER_ADDRESS: "api.example",
    }
    fold = folded(10_000, PATTERNS[pattern])
    cautious = len(fold.kept())
    fold.beside_bytes = encoded_size(short) + 1_000
    assert len(fold.kept()) >= cautious
    assert size_of(poll_span(fold, short)) <= SPAN_BYTES


def test_changes_are_shed_from_the_middle():
    """What has to go is what lies furthest from both ends."""
    fold = folded(10_000, PATTERNS["a new state each time"])
    middle = numbers(fold)[8:-16]
    early = [number for number in middle if number < 100]
    late = [number for number in middle if number > 100]
    assert early == list(range(9, 9 + len(early)))
    assert late == list(range(9_985 - len(late), 9_985))
    assert abs(len(early) - len(late)) <= 1
    assert 0 < len(middle) < 24


def test_headers_go_only_after_every_change():
    """Head and tail keep their events; when those alone are too much, inner headers go and the end's stay."""
    fold = folded(10_000, PATTERNS["everything at once"])
    fold.beside_bytes = 5_000
    assert numbers(fold) == [*range(1, 9), *range(9_985, 10_001)]
    assert 0 < len(with_headers(fold)) < 9
    assert fold.kept()[-1].headers


keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
values = (
    st.text(st.characters(codec="utf-8"), max_size=300)
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.lists(st.text(st.characters(codec="utf-8"), max_size=100), max_size=9)
)


@given(st.dictionaries(keys, values, max_size=8))
def test_the_size_is_that_of_the_protobuf(attributes):
    """The estimate is exact, so no room is wasted and none is overdrawn."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    span = tracer.start_span("span", attributes=attributes)
    span.end()
    assert isinstance(span, ReadableSpan)
    (resource_spans,) = encode_spans([span]).resource_spans
    encoded = resource_spans.scope_spans[0].spans[0].attributes
    assert encoded_size(attributes) == EncodedSpan(attributes=encoded).ByteSize()


# Memory.


def held(make: Callable[[int], Attempt], *counts: int) -> Iterator[int]:
    """Bytes that a fold holds after so many polls, and after so many more."""
    fold = Fold()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1, max(counts) + 1):
            fold.add(make(number))
            fold.wait(number / 7, "pacing")
            if number in counts:
                yield tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_polls():
    """A run of 100,000 polls holds what one of 10,000 does, and that is below 30 kB."""
    some, more = held(flap, 10_000, 100_000)
    assert more < 30_000
    assert more - some < 1_000


def test_memory_is_bounded_whatever_the_server_says():
    """Long states, long headers and a new status each time stay below 128 kB."""

    def make(number: int) -> Attempt:
        headers = {**dict.fromkeys(HEADERS, f"{number}" * 400), f"x-{number}": "y" * 400}
        state = f"{number:0400}"[::-1]
        return refused(number, 100 + number % 900, state=state, mark="unknown_state", headers=headers)

    some, more = held(make, 2_000, 20_000)
    assert more < 128_000
    assert more - some < 2_000


@given(
    st.tuples(st.text(max_size=64), st.text(max_size=32), st.text(max_size=128)),
    st.sampled_from([None, "unknown_state,late", "hint_unreadable"]),
    st.integers(1, 2**31),
)
def test_the_quick_bound_of_an_event_is_one(texts, mark, number):
    """No event takes more than it is taken for where nothing is weighed."""
    state, error_type, header = texts
    attempt = Attempt(
        number,
        2**60,
        0.25,
        503,
        state,
        error_type,
        "transient",
        mark,
        headers=dict.fromkeys(("x-request-id", "retry-after", "content-type", "www-authenticate"), header),
        wait_s=3.0,
        wait_reason="backoff",
    )
    assert _event_size(attempt) <= _event_at_most(attempt)
