"""Pauses between polls, backoff, and the reading of `Retry-After`."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import format_datetime
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from trihop._pacing import (
    Budget,
    Hint,
    LongPoll,
    Pacing,
    Pause,
    RetryPolicy,
    backoff,
    first_pause,
    next_pause,
    parse_retry_after,
    read_hint,
)

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
patient = settings(deadline=None)


class Draws(random.Random):
    """A source that always draws the same number."""

    def __init__(self, drawn: float) -> None:
        super().__init__()
        self.drawn = drawn

    def random(self) -> float:
        return self.drawn


CALM = Draws(0.0)
WILD = Draws(math.nextafter(1.0, 0.0))

# ---- policies


def test_the_defaults_are_those_of_the_documentation() -> None:
    """A policy built without arguments is the documented one, and equal to it written out."""
    assert Pacing() == Pacing(first=1.0, factor=2.0, cap=30.0, floor=0.5, jitter=True)
    assert Budget() == Budget(polls=None, consecutive_errors=5)
    assert RetryPolicy() == RetryPolicy(attempts=3, on={429, 500, 502, 503, 504})
    assert LongPoll() == LongPoll(seconds=30, params=None, headers=None)


@pytest.mark.parametrize(
    "policy",
    [
        Pacing(first=2, cap=2),
        Budget(polls=3),
        RetryPolicy(attempts=1, on={503}),
        LongPoll(seconds=60, params={"WAIT": "{seconds}"}, headers={"Prefer": "wait={seconds}"}),
    ],
)
def test_a_policy_is_a_value(policy: object) -> None:
    """A policy equals, hashes like and unpickles to one of the same content."""
    twin = pickle.loads(pickle.dumps(policy))
    assert twin == policy
    assert hash(twin) == hash(policy)
    assert replace(policy) == policy  # type: ignore[type-var]


def test_the_statuses_are_kept_as_a_frozenset() -> None:
    """A set that changes later does not change the policy."""
    statuses = {503}
    policy = RetryPolicy(on=statuses)
    statuses.add(404)
    assert policy.on == frozenset({503})
    assert isinstance(policy.on, frozenset)


def test_long_poll_parameters_are_copied() -> None:
    """A mapping that changes later does not change the policy."""
    params = {"wait": "{seconds}"}
    policy = LongPoll(params=params)
    params["wait"] = "0"
    assert policy == LongPoll(params={"wait": "{seconds}"})


def test_the_repr_of_a_long_poll_shows_no_header() -> None:
    """Header fields and parameters may be credentials, so they are left out of the repr."""
    assert repr(LongPoll(headers={"X-Api-Key": "canary"}, params={"key": "canary"})) == "LongPoll(seconds=30)"


@pytest.mark.parametrize(
    ("policy", "values", "error", "says"),
    [
        (Pacing, {"first": 0}, ValueError, "0 < first <= cap"),
        (Pacing, {"first": -1}, ValueError, "0 < first <= cap"),
        (Pacing, {"first": 31}, ValueError, "first=31 and cap=30"),
        (Pacing, {"first": math.nan}, ValueError, "first is a finite number"),
        (Pacing, {"cap": math.inf}, ValueError, "cap is a finite number"),
        (Pacing, {"cap": 10**400}, ValueError, "cap is a finite number"),
        (Pacing, {"factor": 0.9}, ValueError, "factor is 1 or more"),
        (Pacing, {"floor": -0.1}, ValueError, "floor is 0 or more"),
        (Pacing, {"first": "1"}, TypeError, "first is a number, got '1'"),
        (Pacing, {"first": True}, TypeError, "first is a number, got True"),
        (Pacing, {"cap": dt.timedelta(seconds=5)}, TypeError, "cap is a number"),
        (Pacing, {"jitter": 1}, TypeError, "jitter is True or False"),
        (Budget, {"polls": 0}, ValueError, "polls is 1 or more"),
        (Budget, {"polls": 2.0}, TypeError, "polls is a whole number"),
        (Budget, {"consecutive_errors": 0}, ValueError, "consecutive_errors is 1 or more"),
        (Budget, {"consecutive_errors": None}, TypeError, "consecutive_errors is a whole number"),
        (Budget, {"consecutive_errors": True}, TypeError, "consecutive_errors is a whole number"),
        (RetryPolicy, {"attempts": 0}, ValueError, "attempts is 1 or more"),
        (RetryPolicy, {"on": 503}, TypeError, "set of HTTP statuses"),
        (RetryPolicy, {"on": "503"}, TypeError, "holds HTTP statuses"),
        (RetryPolicy, {"on": {99}}, ValueError, "between 100 and 599"),
        (LongPoll, {"seconds": 0}, ValueError, "seconds is more than 0"),
        (LongPoll, {"seconds": None}, TypeError, "seconds is a number"),
        (LongPoll, {"params": "wait=30"}, TypeError, "params is a mapping of str to str"),
        (LongPoll, {"headers": {"wait": 30}}, TypeError, "headers is a mapping of str to str"),
    ],
)
def test_a_bad_policy_is_refused_when_built(
    policy: Callable[..., object], values: dict[str, object], error: type[Exception], says: str
) -> None:
    """A value that makes no sense raises at once and the message says what is expected."""
    with pytest.raises(error, match=says):
        policy(**values)


# ---- pauses


def test_without_jitter_our_own_pauses_double_up_to_the_cap() -> None:
    """Our own guesses run from first to cap by the factor, and stay there."""
    pauses = [next_pause(Pacing(), n, None, None, CALM) for n in range(7)]
    assert pauses == [Pause(seconds, "pacing") for seconds in (1, 2, 4, 8, 16, 30, 30)]


def test_with_jitter_a_pause_lies_between_first_and_the_guess() -> None:
    """The jitter is full: it reaches from the guess down to first, and no further."""
    assert next_pause(Pacing(), 3, None, None, Draws(0.5)).seconds == 4.5
    assert next_pause(Pacing(), 3, None, None, WILD).seconds == pytest.approx(1.0)
    assert next_pause(Pacing(jitter=False), 3, None, None, WILD).seconds == 8.0


def test_the_first_pause_without_a_hint_is_at_most_first() -> None:
    """Jobs submitted together do not ask together: the first poll comes after up to `first`."""
    assert first_pause(Pacing(first=3), None, None, CALM) == Pause(3, "pacing")
    assert first_pause(Pacing(first=3), None, None, Draws(0.75)) == Pause(0.75, "pacing")


def test_the_first_poll_waits_for_the_submits_hint() -> None:
    """The submit's own Retry-After rules the first poll."""
    assert first_pause(Pacing(), 10.0, None, CALM) == Pause(10.0, "hint")


def test_backoff_counts_errors_from_one() -> None:
    """The first error in a row is followed by `first`, each further one by more."""
    pauses = [backoff(Pacing(), errors, None, None, CALM) for errors in (1, 2, 3)]
    assert pauses == [Pause(1, "backoff"), Pause(2, "backoff"), Pause(4, "backoff")]


def test_a_hint_after_an_error_goes_before_backoff() -> None:
    """A 503 that says how long is taken at its word."""
    assert backoff(Pacing(), 4, 2.0, None, CALM) == Pause(2.0, "hint")


@pytest.mark.parametrize("hint_s", [0.0, -1.0, math.nan, 0.49])
def test_a_hint_below_the_floor_is_raised_to_it(hint_s: float) -> None:
    """No hint makes a hot loop."""
    assert next_pause(Pacing(floor=0.5), 0, hint_s, None, CALM) == Pause(0.5, "hint")


def test_a_hint_may_exceed_the_cap() -> None:
    """The cap bounds our own guesses, never what the server asked for."""
    assert next_pause(Pacing(cap=5), 0, 3600.0, None, CALM) == Pause(3600.0, "hint")


def test_a_hint_is_lengthened_by_up_to_a_tenth_and_never_shortened() -> None:
    """Pollers that got the same hint come back spread over a tenth of it."""
    assert next_pause(Pacing(), 0, 10.0, None, Draws(0.5)).seconds == 10.5
    assert next_pause(Pacing(), 0, 10.0, 100.0, WILD).seconds == pytest.approx(11.0)
    assert next_pause(Pacing(jitter=False), 0, 10.0, None, WILD).seconds == 10.0


def test_a_hint_is_lengthened_only_into_half_of_the_room_it_leaves() -> None:
    """A hint that fits still fits when lengthened, with time left for the poll after it."""
    assert next_pause(Pacing(), 0, 10.0, 10.5, WILD).seconds == 10.25


def test_a_hint_that_does_not_fit_is_given_back_as_it_was_asked() -> None:
    """Whoever refuses the pause can say what the server asked for."""
    assert next_pause(Pacing(), 0, 40.0, 20.0, WILD) == Pause(40.0, "hint")
    assert next_pause(Pacing(), 0, 40.0, 40.0, WILD) == Pause(40.0, "hint")


@pytest.mark.parametrize("pacing", [Pacing(), Pacing(factor=1), Pacing(factor=1e308, first=1e-300, cap=1e308)])
def test_the_billionth_pause_costs_no_more_than_the_first(pacing: Pacing) -> None:
    """A job that is polled for ever neither overflows the guess nor slows it down."""
    began = process_time()
    pauses = [next_pause(pacing, 10**9 + n, None, None, CALM).seconds for n in range(1000)]
    assert process_time() - began < 1
    assert set(pauses) == {pacing.first if pacing.factor == 1 else pacing.cap}


seconds = st.floats(min_value=1e-3, max_value=1e6)
pacings = st.builds(
    lambda first, more, factor, floor, jitter: Pacing(
        first=first, cap=first + more, factor=factor, floor=floor, jitter=jitter
    ),
    seconds,
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=1, max_value=1e300),
    st.floats(min_value=0.01, max_value=60),
    st.booleans(),
)
hints = st.none() | st.floats(min_value=0, allow_infinity=False)
rooms = st.none() | st.floats(min_value=0)
draws = st.floats(min_value=0, max_value=1, exclude_max=True).map(Draws)


@patient
@given(pacings, st.integers(min_value=0, max_value=10**9), draws)
def test_our_own_pause_stays_between_first_and_cap(pacing: Pacing, pauses: int, source: random.Random) -> None:
    """No count and no draw takes a guess out of its bounds."""
    assert pacing.first <= next_pause(pacing, pauses, None, None, source).seconds <= pacing.cap
    assert 0 < first_pause(pacing, None, None, source).seconds <= pacing.first


@patient
@given(pacings, st.floats(min_value=0, allow_infinity=False), rooms, draws)
def test_a_hinted_pause_keeps_its_promises(
    pacing: Pacing, hint_s: float, room_s: float | None, source: random.Random
) -> None:
    """It is never below the hint or the floor, at most a tenth longer, and fits where the hint fits."""
    pause = next_pause(pacing, 0, hint_s, room_s, source)
    asked = max(hint_s, pacing.floor)
    assert asked <= pause.seconds <= asked * 1.1 * (1 + 1e-12)
    assert math.isfinite(pause.seconds)
    if room_s is not None and asked < room_s:
        assert pause.seconds < room_s


replies = st.lists(st.tuples(st.booleans(), st.none() | st.floats(min_value=0, max_value=100)), max_size=300)


@patient
@given(pacings, replies, st.floats(min_value=0, max_value=1000), draws)
def test_no_sequence_of_hints_and_errors_outlasts_the_deadline(
    pacing: Pacing, answers: list[tuple[bool, float | None]], deadline_s: float, source: random.Random
) -> None:
    """An engine that refuses a pause that does not fit has never slept past its deadline."""
    now, pauses, errors = 0.0, 0, 0
    for failed, hint_s in answers:
        room_s = deadline_s - now
        errors = errors + 1 if failed else 0
        pause = (backoff if failed else next_pause)(pacing, errors or pauses, hint_s, room_s, source)
        if pause.seconds >= room_s:
            break
        now, pauses = now + pause.seconds, pauses + 1
    assert now <= deadline_s


@patient
@given(pacings, st.lists(st.booleans(), min_size=1, max_size=50), draws)
def test_a_stream_of_zero_hints_makes_no_hot_loop(pacing: Pacing, failures: list[bool], source: random.Random) -> None:
    """However often a server says 0, it is left alone for the floor each time."""
    for count, failed in enumerate(failures, start=1):
        assert (backoff if failed else next_pause)(pacing, count, 0.0, None, source).seconds >= pacing.floor


# ---- Retry-After

YEARS_9999 = (dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.timezone.utc) - NOON).total_seconds()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # seconds
        ("0", 0.0),
        ("5", 5.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("\t7", 7.0),
        ("007", 7.0),
        ("1.5", 1.5),
        ("0.25", 0.25),
        ("3600", 3600.0),
        ("9" * 20, 1e20),
        ("1" + "0" * 308, 1e308),
        # the three forms of a date
        ("Sun, 01 Mar 2026 12:00:05 GMT", 5.0),
        ("Sunday, 01-Mar-26 12:00:05 GMT", 5.0),
        ("Sun Mar  1 12:00:05 2026", 5.0),
        ("Tue Mar 10 12:00:00 2026", 9 * 86400.0),
        ("sun, 01 mar 2026 12:00:05 gmt", 5.0),
        ("Mon, 01 Mar 2026 12:00:05 GMT", 5.0),  # the weekday is not checked
        ("Sun, 01 Mar 2026 12:00:60 GMT", 60.0),  # a leap second
        ("Sun, 01 Mar 2026 12:00:00 GMT", 0.0),
        ("Sun, 01 Mar 2026 11:59:57 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),  # 1994, not 2094
        ("Fri, 31 Dec 9999 23:59:59 GMT", YEARS_9999),
        # no hint
        ("", None),
        (" ", None),
        ("-5", None),
        ("-0", None),
        ("+5", None),
        ("-1.5", None),
        ("soon", None),
        ("5s", None),
        ("5 seconds", None),
        ("5, 10", None),
        ("5;q=1", None),
        ('"5"', None),
        ("1.", None),
        (".5", None),
        ("1.2.3", None),
        ("1,5", None),
        ("1e3", None),
        ("1e400", None),
        ("1_000", None),
        ("0x10", None),
        ("٣", None),
        ("²", None),
        ("\uff15", None),
        ("5\n", None),
        ("5\x00", None),
        ("inf", None),
        ("nan", None),
        ("Infinity", None),
        ("None", None),
        ("null", None),
        ("9" * 310, None),
        ("9" * 5000, None),
        ("0" * 5000, None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("Sun, 01 Mar 0000 12:00:05 GMT", None),
        ("Sun, 31 Feb 2026 12:00:05 GMT", None),
        ("Sun, 01 Foo 2026 12:00:05 GMT", None),
        ("Sun, 01 Mar 2026 24:00:00 GMT", None),
        ("Sun, 01 Mar 2026 12:60:00 GMT", None),
        ("Sun, 01 Mar 2026 12:00:61 GMT", None),
        ("Sun, 01 Mar 2026 12:00:05", None),
        ("Sun, 01 Mar 2026 12:00:05 +0100", None),
        ("Sun, 1 Mar 2026 12:00:05 GMT", None),
        ("2026-03-01T12:00:05Z", None),
        ("Sun, 01 Mar 2026 12:00:05 GMT, Sun, 01 Mar 2026 12:00:06 GMT", None),
        ("\ud800", None),
    ],
)
def test_retry_after_is_read_or_is_no_hint(value: str, expected: float | None) -> None:
    """Seconds, decimals and the three date forms are hints; anything else is none."""
    assert parse_retry_after(value, received_at=NOON) == expected


@pytest.mark.parametrize(
    ("received", "digits", "year"),
    [(2026, "26", 2026), (2026, "76", 2076), (2026, "77", 1977), (2099, "05", 2105), (2101, "99", 2099)],
)
def test_two_digits_are_the_nearest_year(received: int, digits: str, year: int) -> None:
    """A year of two digits is never read as more than fifty years ahead."""
    received_at = dt.datetime(received, 1, 1, tzinfo=dt.timezone.utc)
    ahead = (dt.datetime(year, 2, 1, tzinfo=dt.timezone.utc) - received_at).total_seconds()
    assert parse_retry_after(f"Monday, 01-Feb-{digits} 00:00:00 GMT", received_at=received_at) == max(ahead, 0.0)


FRAGMENTS = [
    "Sun",
    "Sunday",
    ", ",
    "01",
    "-Mar-",
    " Mar ",
    "2026",
    "26",
    " 12:00:05",
    " GMT",
    "99",
    "1.5",
    "e9",
    "-",
    " ",
]
near_misses = st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join)


@patient
@given(st.text() | near_misses | st.from_regex(r"[-+]?[0-9.e,]*"))
def test_no_value_makes_the_parser_raise(value: str) -> None:
    """Whatever a server writes, the answer is a finite wait or none."""
    seconds = parse_retry_after(value, received_at=NOON)
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


@patient
@given(st.datetimes(min_value=dt.datetime(1900, 1, 1), max_value=dt.datetime(9999, 12, 31)))
def test_every_date_in_every_form_says_the_same(moment: dt.datetime) -> None:
    """The three forms of one instant give one wait."""
    instant = moment.replace(microsecond=0, tzinfo=dt.timezone.utc)
    ahead = max((instant - NOON).total_seconds(), 0.0)
    assert parse_retry_after(format_datetime(instant, usegmt=True), received_at=NOON) == ahead
    assert parse_retry_after(instant.ctime(), received_at=NOON) == ahead
    if abs(instant.year - NOON.year) < 50:
        text = f"{instant:%A, %d-%b-%y %H:%M:%S} GMT"
        assert parse_retry_after(text, received_at=NOON) == ahead


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, Hint(None, readable=True)),
        ({"Content-Type": "text/plain"}, Hint(None, readable=True)),
        ({"Retry-After": "0"}, Hint(0.0)),
        ({"RETRY-AFTER": "5"}, Hint(5.0)),
        ({"retry-after-ms": "1500"}, Hint(1.5)),
        ({"Retry-After-Ms": "0.5"}, Hint(0.0005)),
        ({"x-ms-retry-after-ms": "250"}, Hint(0.25)),
        ({"Retry-After": "2", "retry-after-ms": "1500"}, Hint(1.5)),
        ({"Retry-After": "2", "retry-after-ms": "soon"}, Hint(2.0)),
        ({"Retry-After": "soon", "retry-after-ms": "1500"}, Hint(1.5)),
        ({"Retry-After": "soon"}, Hint(None, readable=False)),
        ({"Retry-After": ""}, Hint(None, readable=False)),
        ({"Retry-After": "-5"}, Hint(None, readable=False)),
        ({"retry-after-ms": "-5"}, Hint(None, readable=False)),
        ({"retry-after-ms": "Sun, 01 Mar 2026 12:00:05 GMT"}, Hint(None, readable=False)),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:05 GMT"}, Hint(5.0)),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:05 GMT", "Date": "yesterday"}, Hint(5.0)),
        ({"Retry-After": "Mon, 02 Mar 2026 08:00:05 GMT", "Date": "Mon, 02 Mar 2026 08:00:00 GMT"}, Hint(5.0)),
        ({"Retry-After": "Sun Mar  1 12:00:05 2026", "Date": "Sunday, 01-Mar-26 12:00:02 GMT"}, Hint(3.0)),
        ({"Retry-After": "7", "Date": "Mon, 02 Mar 2026 08:00:00 GMT"}, Hint(7.0)),
    ],
)
def test_a_reply_is_searched_for_its_hint(headers: Mapping[str, str], expected: Hint) -> None:
    """The finest readable field wins; one that cannot be read gives no seconds and says so."""
    assert read_hint(CaseInsensitiveDict(headers), received_at=NOON) == expected


@patient
@given(
    st.dictionaries(
        st.sampled_from(["Retry-After", "retry-after-ms", "x-ms-retry-after-ms", "Date"]), st.text() | near_misses
    )
)
def test_no_headers_make_the_reading_raise(headers: dict[str, str]) -> None:
    """Whatever the fields hold, the hint is a finite wait, nothing, or unreadable."""
    hint = read_hint(CaseInsensitiveDict(headers), received_at=NOON)
    assert hint.seconds is None or (hint.readable and hint.seconds >= 0 and math.isfinite(hint.seconds))
