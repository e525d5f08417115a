"""Rules that say "never", and generated replies that try to break them."""

import io
import json
import random
from dataclasses import replace
from itertools import pairwise

import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from requests.adapters import BaseAdapter

from trihop import (
    Budget,
    DeadlineExceeded,
    Pacing,
    PollBudgetExhausted,
    PollErrorsExhausted,
    ReadState,
    TrihopError,
    operation,
)
from trihop.providers import generic
from trihop.testing import VirtualClock

GOOD, BAD = "done", "failed"
LONGEST_ANSWER_S = 5.0
HINTS = ["0", "-1", "3", "3600", "1e9", "9" * 30, "soon", "", "nan", "inf", "Sun, 01 Mar 2026 13:00:00 GMT"]
WORDS = ["queued", "running", "RUNNING", "Archiving", "", None, 0, False, {}, [], GOOD, BAD]
PAGES = ["", "<html>busy</html>", '{"status": "do', "null", "[]", "42", '"done"']

bodies = st.one_of(
    st.sampled_from(PAGES), st.sampled_from(WORDS).map(lambda word: json.dumps({"status": word, "url": "/f"}))
)
replies = st.tuples(
    st.one_of(
        st.just(200), st.sampled_from([200, 200, 202, 204, 301, 400, 401, 403, 404, 408, 410, 429, 500, 502, 503])
    ),
    st.one_of(st.none(), st.sampled_from(HINTS)),
    st.one_of(bodies, st.sampled_from([requests.ConnectTimeout, requests.ReadTimeout, requests.ConnectionError])),
    st.floats(0, LONGEST_ANSWER_S),
)


class Scripted(BaseAdapter):
    """Answers from a list, each answer taking its time on the clock; the last one for ever."""

    def __init__(self, clock, answers):
        super().__init__()
        self.clock, self.answers, self.sent = clock, answers, []

    def send(self, request, **_):
        status, hint, body, took = (
            (202, None, "", 0.0)
            if request.method == "POST"
            else self.answers[min(len(self.sent), len(self.answers)) - 1]
        )
        self.sent.append((request.method, self.clock.monotonic()))
        self.clock.advance(took)
        if isinstance(body, type):
            raise body("as scripted")
        response = requests.Response()
        response.status_code, response.url, response.request = status, request.url, request
        response.raw = io.BytesIO(body.encode())
        if hint is not None:
            response.headers["Retry-After"] = hint
        if request.method == "POST":
            response.headers["Location"] = "/jobs/1"
        return response

    def close(self):
        pass


def polled(answers, *, deadline, seed, budget):
    """What came of polling through these answers, and when each request was sent."""
    clock = VirtualClock(random=random.Random(seed))
    provider = replace(
        generic.ACCEPTED,
        poll=ReadState("status", pending={"queued", "running"}, succeeded={GOOD}, failed={BAD}, results="url"),
    )
    with requests.Session() as session:
        session.mount("http://", adapter := Scripted(clock, answers))
        try:
            with operation("export", deadline=deadline, clock=clock, session=session, provider=provider) as op:
                outcome = op.poll(op.submit("POST", "http://api.test/jobs"), budget=budget, pacing=Pacing(cap=20))
        except TrihopError as error:
            outcome = error
    return outcome, adapter.sent, clock


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(replies, min_size=1, max_size=12),
    deadline=st.floats(1, 600),
    seed=st.integers(0, 99),
    errors=st.integers(1, 6),
    polls=st.one_of(st.none(), st.integers(1, 9)),
)
def test_no_sequence_of_replies_breaks_the_rules_of_waiting(answers, deadline, seed, errors, polls):
    """Nothing is sent after the deadline, no pause ends in nothing, budgets are kept, and success needs its word."""
    outcome, sent, clock = polled(
        answers, deadline=deadline, seed=seed, budget=Budget(polls=polls, consecutive_errors=errors)
    )
    asked = [at for method, at in sent if method == "GET"]

    assert all(at < deadline for _, at in sent)
    assert clock.monotonic() <= max((at for _, at in sent), default=0.0) + LONGEST_ANSWER_S
    assert polls is None or len(asked) <= polls
    if isinstance(outcome, TrihopError):
        assert outcome.elapsed <= deadline + LONGEST_ANSWER_S
        assert not isinstance(outcome, PollErrorsExhausted) or outcome.polls >= errors
        assert type(outcome) is not PollBudgetExhausted or outcome.polls == polls
        assert not isinstance(outcome, DeadlineExceeded) or outcome.phase in ("wait", "between")
    else:
        assert (outcome.state, outcome.complete) == (GOOD, True)
        status, _, body, _ = answers[min(len(sent) - 1, len(answers)) - 1]
        assert (status in (200, 202, 204, 301), json.loads(body)["status"]) == (True, GOOD)


@settings(max_examples=100, deadline=None)
@given(hints=st.lists(st.sampled_from(HINTS), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_no_hint_makes_a_hot_loop(hints, seed):
    """Two questions are at least half a second apart, whatever the server asks for."""
    answers = [(200, hint, '{"status": "running"}', 0.0) for hint in hints]
    outcome, sent, _ = polled(answers, deadline=300, seed=seed, budget=Budget(polls=40))
    asked = [at for method, at in sent if method == "GET"]

    assert isinstance(outcome, (DeadlineExceeded, PollBudgetExhausted))
    assert all(later - sooner >= 0.5 - 1e-9 for sooner, later in pairwise(asked))
