"""The poll hop: patient with the status monitor, strict with what it says."""

import datetime as dt
import logging
from dataclasses import replace

import pytest
import requests

from trihop import (
    Accepted,
    Ambiguous,
    Budget,
    Call,
    Cancelled,
    DeadlineExceeded,
    Expired,
    Failed,
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    LongPoll,
    OutcomeAmbiguous,
    Pacing,
    Partial,
    Pending,
    PollBudgetExhausted,
    PollErrorsExhausted,
    ReadJob,
    ReadState,
    Reply,
    Result,
    StatusUnavailable,
    Succeeded,
    SurfaceError,
    Transient,
    header,
    operation,
    text,
    xml,
)
from trihop.providers import generic
from trihop.testing import accepted, delayed, done, reset, running, short, silent

HTML = {"Content-Type": "text/html"}
BAD_GATEWAY = Reply(502, content=b"<html>502 Bad Gateway</html>", headers=HTML)
PORTAL = Reply(200, content=b"<html>please sign in</html>", headers=HTML)
STATES = ReadState(
    "status", pending={"queued", "running"}, succeeded={"done"}, failed={"failed"}, cancelled={"cancelled"},
    expired={"expired"}, ambiguous={"held"}, results="url", good_items="good", bad_items="bad", error="error",
)  # fmt: skip
TABLE = replace(generic.ACCEPTED, poll=STATES)


@pytest.fixture
def poll(server, clock):
    """Polls a job that the server accepted; the replies are those of the status monitor."""

    def poll(*replies, deadline=3600, provider=generic.ACCEPTED, session=None, **options):
        server.script(accepted(), *replies)
        with operation("export", deadline=deadline, clock=clock, provider=provider, session=session) as op:
            return op.poll(op.submit("POST", f"{server.url}jobs"), **options)

    return poll


def events(spans, *names):
    """Of each attempt the attributes so named."""
    return [tuple(event.attributes.get(name) for name in names) for event in spans.named("poll export").events]


# ---- patience


def test_it_survives_an_outage_and_a_captive_portal(poll, server, spans):
    """Three 5xx, a gateway's HTML page and an HTML page at 200 are poll errors, never a failed job."""
    ready = poll(500, 503, 504, running(), BAD_GATEWAY, PORTAL, running(), done(result=7))

    assert ready.data == 7
    server.assert_done()
    assert events(spans, "http.response.status_code", "error.type", "trihop.job.state") == [
        (500, "500", None),
        (503, "503", None),
        (504, "504", None),
        (200, None, "running"),
        (502, "502", None),
        (200, "not_json", None),
        (200, None, "running"),
        (200, None, "succeeded"),
    ]
    span = spans.named("poll export")
    assert (span.attributes["trihop.poll.errors"], span.status.status_code.name) == (5, "UNSET")
    assert spans.named("export").status.status_code.name == "UNSET"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_that_says_not_now_is_a_poll_error(poll, status):
    """The next poll may be answered otherwise, and is."""
    assert poll(status, done(result=1)).data == 1


@pytest.mark.parametrize(
    ("reply", "error_type"),
    [
        (short(running(), 5), "body_truncated"),
        (Reply(200, content=b'{"status": "succ'), "not_json"),
        (Reply(200, content=b""), "not_json"),
        (Reply(200, content=b"\xff\xfe\x00"), "not_json"),
    ],
    ids=["cut body", "cut json", "empty", "no text at all"],
)
def test_a_reply_that_cannot_be_read_is_a_poll_error(poll, spans, reply, error_type):
    """What is lost or garbled on the way is asked for again, and says why on its attempt."""
    assert poll(running(), reply, done(result=1)).data == 1
    assert events(spans, "error.type") == [(None,), (error_type,), (None,)]


def test_a_connection_that_was_lost_is_a_poll_error(poll, spans):
    """A reset of a warm connection is met with a new one; a reset of that one, too, is an error of this poll."""
    assert poll(running(), reset(), reset(), done(result=1)).data == 1
    assert events(spans, "error.type") == [(None,), ("connection_reset",), (None,)]


def test_a_connection_that_went_stale_is_no_poll_error(poll, server, spans):
    """A server may close an idle connection while our question is on its way: it is put again on a new one."""
    assert poll(running(), short(), done(result=1)).data == 1

    assert events(spans, "error.type") == [(None,), (None,)]
    assert [call.connection for call in server.calls] == [1, 1, 1, 2]


def test_a_silent_server_is_given_up_after_the_callers_timeout(poll, spans):
    """`timeout=` is that of one poll; the next one is a new question."""
    assert poll(silent(), done(result=1), timeout=0.05).data == 1
    assert events(spans, "error.type") == [("read_timeout",), (None,)]


def test_a_good_poll_resets_the_error_budget(poll):
    """Four errors, an answer and four errors more are within a budget of five in a row."""
    assert poll(*[503] * 4, running(), *[503] * 4, done(result=1)).data == 1


def test_the_fifth_error_in_a_row_ends_it(poll, server):
    """The status endpoint kept failing: the job may be running all the same, and the error says so."""
    with pytest.raises(PollErrorsExhausted, match="failed 5 times in a row, last with connection_reset") as caught:
        poll(running("Working"), *[503] * 4, reset(), reset())

    error = caught.value
    assert (error.polls, error.state, error.hop) == (6, "Working", "poll")
    assert isinstance(error.cause, requests.ConnectionError)
    assert "Budget(consecutive_errors=)" in str(error)
    assert "The job may still finish: poll error.job" in str(error)


def test_the_two_budgets_have_two_causes(poll, clock):
    """Too many questions and too many failures are told apart, also where both are small."""
    with pytest.raises(PollBudgetExhausted, match="not over after 3 polls, last state 'running'") as patience:
        poll(*[running()] * 3, budget=Budget(polls=3, consecutive_errors=2))
    with pytest.raises(PollErrorsExhausted, match="failed 2 times in a row") as errors:
        poll(*[503] * 2, budget=Budget(polls=3, consecutive_errors=2))

    assert (type(patience.value), type(errors.value)) == (PollBudgetExhausted, PollErrorsExhausted)
    assert "raise Budget(polls=)" in str(patience.value).replace("Raise", "raise")


def test_failed_polls_count_as_polls(poll, server):
    """A budget of four questions is spent by errors and answers alike."""
    with pytest.raises(PollBudgetExhausted, match="after 4 polls"):
        poll(503, running(), 503, running(), budget=Budget(polls=4))

    assert len(server.calls) == 5


def test_an_ending_on_the_last_poll_of_the_budget_counts(poll):
    """The budget is what may be asked, and the last question may be the one that is answered."""
    assert poll(running(), done(result=1), budget=Budget(polls=2)).data == 1


# ---- pauses


def test_pauses_grow_between_good_polls(poll, clock):
    """Without hints the pauses double up to the cap, and errors do not change that."""
    poll(*[running()] * 7, done())

    assert clock.sleeps == [1, 1, 2, 4, 8, 16, 30, 30]


def test_backoff_counts_errors_in_a_row(poll, clock):
    """Each error in a row waits longer; a good poll starts anew."""
    poll(503, 503, 503, running(), 503, done())

    assert clock.sleeps == [1, 1, 2, 4, 1, 1]


def test_the_servers_hint_goes_before_our_own_guess(poll, clock):
    """After an answer and after an error alike; the next pause without one is our own again."""
    poll(running(hint_s=7), Reply(503, headers={"Retry-After": "120"}), running(), done())

    assert clock.sleeps == [1, 7, 120, 2]


@pytest.mark.parametrize("value", ["0", "-1", "Sun, 01 Mar 2020 12:00:00 GMT"])
def test_a_hint_of_zero_is_no_hot_loop(poll, clock, value):
    """Zero and instants that have passed are raised to the floor; a negative number is no hint."""
    poll(Reply(200, {"status": "running"}, headers={"Retry-After": value}), done(), pacing=Pacing(floor=0.5))

    assert clock.sleeps == [1, 1 if value == "-1" else 0.5]


def test_a_hint_that_is_a_date_counts_from_the_servers_own(poll, clock):
    """A server whose clock is an hour off asks for the same ten seconds."""
    sent = clock.now + dt.timedelta(hours=1)
    dates = [f"{instant:%a, %d %b %Y %H:%M:%S} GMT" for instant in (sent, sent + dt.timedelta(seconds=10))]
    poll(Reply(200, {"status": "running"}, headers={"Date": dates[0], "Retry-After": dates[1]}), done())

    assert clock.sleeps == [1, 10]


def test_an_unreadable_hint_is_marked_and_no_reason_to_fail(poll, clock, spans):
    """Retry-After: soon is no hint; the attempt tells that it was there."""
    poll(Reply(200, {"status": "running"}, headers={"Retry-After": "soon"}), done())

    assert clock.sleeps == [1, 1]
    assert events(spans, "trihop.attempt.mark", "http.response.header.retry-after") == [
        ("hint_unreadable", ("soon",)),
        (None, None),
    ]


def test_a_hint_beyond_the_deadline_is_refused(poll, server, spans):
    """Nothing is slept for nothing: the error says what was asked and what was left."""
    with pytest.raises(
        DeadlineExceeded, match=r"asked for 3600 s and 899 s are left.*'running' after 1 poll"
    ) as caught:
        poll(running(hint_s=3600), deadline=900)

    assert (caught.value.asked, caught.value.remaining, caught.value.phase) == (3600, 899, "wait")
    assert spans.named("poll export").attributes["trihop.wait.refused"] == 3600
    assert spans.named("export").attributes["trihop.deadline.phase"] == "wait"


def test_a_pause_that_just_fits_is_slept_and_the_last_poll_happens(poll, clock):
    """With 900 s left a hint of 899 is slept in full, and the poll after it counts."""
    assert poll(running(hint_s=899), done(result=1), deadline=901).data == 1
    assert clock.monotonic() == 900


def test_a_pause_that_outlasts_its_plan_is_told(server, clock, spans):
    """A machine that was suspended in mid-poll leaves its mark on the attempt and the overrun on the span."""

    class Suspended(type(clock)):
        def sleep(self, seconds):
            super().sleep(seconds)
            if seconds == 7:
                self.advance(2400)

    server.script(accepted(), running(hint_s=7), done())
    with operation("export", deadline=86400, clock=Suspended()) as op:
        op.run("POST", f"{server.url}jobs")

    assert spans.named("poll export").attributes["trihop.poll.wait_overrun_max"] == 2400
    assert events(spans, "trihop.attempt.mark") == [(None,), ("late",)]


# ---- endings


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        ({"status": "failed", "error": "no such column"}, JobFailed, "the job failed, state 'failed': no such column"),
        ({"status": "cancelled"}, JobCancelled, "the job was cancelled, state 'cancelled'"),
        ({"status": "expired"}, JobExpired, "the job expired, state 'expired'"),
        ({"status": "done", "bad": 3, "good": 7}, JobPartiallyFailed, "with failed items, state 'done' .*3 failed"),
        ({"status": "done", "bad": 3, "good": 0}, JobFailed, "the job failed, state 'done'"),
        ({"status": "held"}, OutcomeAmbiguous, "'held': nobody knows what became of the job"),
    ],
    ids=["failed", "cancelled", "expired", "partly", "all items failed", "ambiguous"],
)
def test_each_ending_has_its_error(poll, server, body, kind, told):
    """The class says how it ended; the error has what the server said and what the job left."""
    with pytest.raises(kind, match=told) as caught:
        poll(body, provider=TABLE)

    error = caught.value
    assert type(error) is kind
    assert (error.state, error.polls, error.hop) == (body["status"], 1, "poll")
    assert error.error == body.get("error")
    assert (error.ready.job.status_url, error.ready.complete) == (f"{server.url}jobs/1", False)


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (Failed("x", error={"code": 7, "message": "no"}), JobFailed),
        (Cancelled("x"), JobCancelled),
        (Expired("x"), JobExpired),
        (Partial("x"), JobPartiallyFailed),
        (Ambiguous("x"), OutcomeAmbiguous),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_surface_of_ones_own_has_the_same_endings(poll, verdict, kind):
    """What a function returns comes to the same errors as what a table does."""
    with pytest.raises(kind) as caught:
        poll(200, surface=lambda reply, job: verdict)

    assert (type(caught.value), caught.value.error) == (kind, verdict.error)


def test_a_partial_result_is_handed_over_where_that_is_allowed(poll, server, spans):
    """allow_partial=True returns what there is; the root says partial and has no error."""
    ready = poll(
        {"status": "done", "url": "/files/1", "bad": 3, "good": 7}, provider=TABLE, allow_partial=True
    )  # fmt: skip

    assert (ready.complete, ready.counts, ready.results) == (
        False, {"succeeded": 7, "failed": 3}, (Result(f"{server.url}files/1"),),
    )  # fmt: skip
    assert {span.status.status_code.name for span in spans.all} == {"UNSET"}
    assert spans.named("export").attributes["trihop.operation.result"] == "partial"


def test_allow_partial_allows_no_failure(poll):
    """A job that failed raises all the same."""
    with pytest.raises(JobFailed):
        poll({"status": "failed"}, provider=TABLE, allow_partial=True)


def test_303_leads_to_the_result(poll, server, clock):
    """See Other is a success at its Location, which the download fetches."""
    server.on("GET", "/files/1", b"rows")
    server.script(accepted(), Reply(303, headers={"Location": "../files/1"}))

    with operation("export", deadline=60, clock=clock) as op:
        assert op.run("POST", f"{server.url}jobs").content == b"rows"


def test_results_are_resolved_against_the_reply(poll, server):
    """A relative link belongs to the URL that answered."""
    ready = poll({"status": "done", "url": "1/rows?sig=a%2Fb"}, provider=TABLE)

    assert ready.results == (Result(f"{server.url}jobs/1/rows?sig=a%2Fb"),)


# ---- states


def test_an_unknown_state_keeps_polling_and_never_succeeds(poll, spans, caplog):
    """A word nobody listed is pending: one warning for it, a mark on its attempts, and its name on the span."""
    with caplog.at_level(logging.WARNING, "trihop"), pytest.raises(PollBudgetExhausted, match="last state 'Archiving'"):
        poll(*[running("Archiving")] * 3, budget=Budget(polls=3))

    assert [record.getMessage() for record in caplog.records] == [
        "operation export: unknown state 'Archiving' counts as pending; if it is an ending, add it to the provider"
    ]
    assert spans.named("poll export").attributes["trihop.poll.unknown_states"] == ("Archiving",)
    assert events(spans, "trihop.job.state", "trihop.attempt.mark") == [("Archiving", "unknown_state")] * 3


def test_each_unknown_state_is_warned_of_once(poll, caplog):
    """Two words are two warnings, however often they come."""
    with caplog.at_level(logging.WARNING, "trihop"):
        poll(running("A-ish"), running("B-ish"), running("A-ish"), running("B-ish"), done())

    assert len(caplog.records) == 2


def test_states_that_go_backwards_do_no_harm(poll, spans):
    """Running, queued again and running is a job that goes on; the return is marked."""
    poll(running("queued"), running(), running("queued"), running("queued"), done())

    assert events(spans, "trihop.job.state", "trihop.attempt.mark") == [
        ("queued", None),
        ("running", None),
        ("queued", "state_regressed"),
        ("queued", None),
        ("succeeded", None),
    ]


def test_no_state_is_no_answer(poll):
    """A body without the field, with null or with an empty word, is a poll error, not a pending job."""
    with pytest.raises(PollErrorsExhausted, match="3 times in a row, last with no_state"):
        poll({}, {"status": None}, {"status": ""}, provider=TABLE, budget=Budget(consecutive_errors=3))


def test_a_job_keeps_what_polls_tell_it(server, clock):
    """Pending may move the status URL and add to the memo; the next poll uses both."""
    server.script(202, 200, 200, 200)
    verdicts = iter([Pending("a", status_url="2?x=1", memo={"k": "v"}), Pending("b", memo={"l": "w"}), Succeeded("c")])
    provider = replace(
        generic.ACCEPTED,
        submit=lambda reply: Accepted(status_url="/jobs/1", memo={"k": "0"}),
        poll=lambda reply, job: next(verdicts),
        status=Call("GET", "{status_url}", headers={"X-K": "{memo.k}"}),
    )
    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        ready = op.poll(op.submit("POST", f"{server.url}jobs"))

    assert [(call.path, call.headers["X-K"]) for call in server.calls[1:]] == [
        ("/jobs/1", "0"),
        ("/jobs/2?x=1", "v"),
        ("/jobs/2?x=1", "v"),
    ]
    assert (ready.job.memo, ready.job.status_url) == ({"k": "v", "l": "w"}, f"{server.url}jobs/2?x=1")


# ---- ways to ask


def test_a_status_url_that_moved_is_followed(poll, server):
    """A 307 is followed for that poll, a Location on a 202 for all later ones."""
    moved = Reply(307, headers={"Location": "/elsewhere/1"})
    assert poll(moved, running(), Reply(202, headers={"Location": "/new/1"}), done(result=1)).data == 1

    assert [call.path for call in server.calls[1:]] == ["/jobs/1", "/elsewhere/1", "/jobs/1", "/new/1"]


def test_a_job_may_be_polled_by_post(server, clock):
    """The call's body is a template; a JSON body goes out on each poll."""
    server.script({"id": 'a"7'}, {"status": "running"}, done(result=1))
    provider = replace(
        generic.ACCEPTED,
        submit=ReadJob(id="id", status_url=None),
        status=Call("POST", "{submit_url}", json={"node": {"id": "{id}", "keep": "{braces}"}}),
    )
    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        op.run("POST", f"{server.url}graphql", json={"mutation": "run"})

    assert [(call.method, call.path, call.json()) for call in server.calls] == [
        ("POST", "/graphql", {"mutation": "run"}),
        *[("POST", "/graphql", {"node": {"id": 'a"7', "keep": "{braces}"}})] * 2,
    ]


def test_a_job_may_be_polled_by_head(poll, server):
    """The answer is in a header; there is no body."""
    provider = replace(
        generic.ACCEPTED,
        status=Call("HEAD", "{status_url}"),
        poll=ReadState(header("X-State"), pending={"busy"}, succeeded={"done"}, results=header("X-Result")),
    )
    ready = poll(
        Reply(200, headers={"X-State": "busy", "Content-Length": "500"}),
        Reply(200, headers={"X-State": "done", "X-Result": "/files/1"}),
        provider=provider,
    )

    assert ready.results == (Result(f"{server.url}files/1"),)
    assert [call.method for call in server.calls] == ["POST", "HEAD", "HEAD"]


def test_a_job_may_be_polled_as_plain_text(poll, server):
    """The body is the word."""
    provider = replace(
        generic.ACCEPTED,
        status="{status_url}/state",
        poll=ReadState(text, pending={"queued"}, succeeded={"done"}, results=[Result("{status_url}/result")]),
    )
    ready = poll("queued\n", " DONE ", provider=provider)

    assert ready.results == (Result(f"{server.url}jobs/1/result"),)
    assert [call.path for call in server.calls] == ["/jobs", "/jobs/1/state", "/jobs/1/state"]


UWS = '<uws:job xmlns:uws="http://www.ivoa.net/xml/UWS/v1.0"><uws:phase>{}</uws:phase></uws:job>'
BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><job><phase>&b;COMPLETED</phase></job>'


def test_a_job_may_be_polled_as_xml_and_a_bomb_is_refused(poll, spans):
    """The first element of that name has the word; a body that declares entities is a poll error."""
    provider = replace(generic.ACCEPTED, poll=ReadState(xml("phase"), pending={"EXECUTING"}, succeeded={"COMPLETED"}))
    ready = poll(UWS.format("EXECUTING"), BOMB, "<job>", UWS.format("COMPLETED"), provider=provider)

    assert ready.state == "COMPLETED"
    assert events(spans, "error.type", "trihop.job.state") == [
        (None, "EXECUTING"), ("not_xml", None), ("not_xml", None), (None, "COMPLETED"),
    ]  # fmt: skip


def test_a_url_will_do_where_nothing_was_submitted_here(server, clock):
    """op.poll(url) waits for a job that somebody else submitted; its errors and results know it."""
    server.script(running(), done(result=3))

    with operation("export", deadline=60, clock=clock) as op:
        ready = op.poll(f"{server.url}jobs/9")

    assert (ready.data, ready.job.status_url) == (3, f"{server.url}jobs/9")
    assert clock.sleeps == [1, 1]


def test_a_job_from_elsewhere_is_polled(server, clock):
    """A Job that was kept is waited for in a new operation."""
    server.script(done(result=3))
    job = Job(id="9", status_url=f"{server.url}jobs/9", submit_url=f"{server.url}jobs")

    with operation("export", deadline=60, clock=clock) as op:
        assert op.poll(job).data == 3


def test_an_error_has_what_it_takes_to_go_on(poll, server, clock):
    """The job of a DeadlineExceeded is polled on in a new operation."""
    with pytest.raises(DeadlineExceeded) as caught:
        poll(running(hint_s=100), deadline=60)
    server.script(done(result=3))

    with operation("export again", deadline=60, clock=clock) as op:
        assert op.poll(caught.value.job).data == 3

    assert [call.path for call in server.calls] == ["/jobs", "/jobs/1", "/jobs/1"]


def test_two_jobs_of_an_operation_are_polled_in_turn(server, clock, spans):
    """Each poll hop counts its own questions; the root counts all of them."""
    server.script(accepted("{url}jobs/1"), accepted("{url}jobs/2"))
    server.on("GET", "/jobs/1", running(), done(result=1))
    server.on("GET", "/jobs/2", running(), running(), done(result=2))

    with operation("export", deadline=60, clock=clock) as op:
        first, second = (op.submit("POST", f"{server.url}jobs") for _ in range(2))
        assert [op.poll(job, budget=Budget(polls=3)).data for job in (first, second)] == [1, 2]

    attempts = [span.attributes["trihop.poll.attempts"] for span in spans.all if span.name == "poll export"]
    assert (attempts, spans.named("export").attributes["trihop.operation.polls"]) == ([2, 3], 5)


# ---- 4xx


@pytest.mark.parametrize("status", [400, 403, 404, 405, 410])
def test_a_monitor_that_refuses_from_the_start_is_unavailable(poll, server, status):
    """A status endpoint that says no is asked once; the job may still finish."""
    with pytest.raises(StatusUnavailable, match=f"refused with HTTP {status}: no such thing") as caught:
        poll(Reply(status, {"message": "no such thing"}))

    assert (caught.value.status_code, len(server.calls)) == (status, 2)
    assert "The job may still finish" in str(caught.value)


@pytest.mark.parametrize("status", [404, 410])
def test_a_job_that_is_gone_after_a_good_poll_has_expired(poll, status):
    """A monitor that answered before and knows the job no more is an ending."""
    with pytest.raises(JobExpired, match=rf"knows the job no more \(HTTP {status}\)") as caught:
        poll(running(), status)

    assert (caught.value.state, caught.value.polls, caught.value.ready.results) == ("running", 2, ())


def test_a_404_within_the_grace_is_not_visible_yet(poll, server, spans):
    """A monitor that lags behind its own submit is given the provider's time, and no error is counted."""
    provider = replace(generic.ACCEPTED, grace=10.0, budget=Budget(consecutive_errors=1))
    assert poll(404, 404, running(), done(result=1), provider=provider).data == 1

    assert spans.named("poll export").attributes["trihop.poll.errors"] == 0


def test_a_404_after_the_grace_is_unavailable(poll, clock):
    """Ten seconds of grace are ten seconds."""
    provider = replace(generic.ACCEPTED, grace=10.0, pacing=Pacing(first=4, factor=1))
    with pytest.raises(StatusUnavailable, match="HTTP 404"):
        poll(404, 404, 404, provider=provider)

    assert clock.monotonic() == 12


class Tokens(requests.auth.AuthBase):
    """Signs with the newest token; each refresh makes one."""

    def __init__(self, *, fresh):
        self.fresh = fresh
        self.signed = 0

    def __call__(self, request):
        self.signed += 1
        request.headers["Authorization"] = f"Bearer token-{self.signed if self.fresh else 0}"
        return request


def test_a_401_is_asked_again_with_a_fresh_sign_in(poll, server, spans):
    """A token that ran out is replaced by the session's own auth, once, and the poll goes on."""
    with requests.Session() as session:
        session.auth = Tokens(fresh=True)
        assert poll(running(), 401, running(), 401, done(result=1), session=session).data == 1

    tokens = [call.headers["Authorization"] for call in server.calls]
    assert len(tokens) == 6
    assert tokens[2] != tokens[3]
    assert tokens[4] != tokens[5]
    assert events(spans, "error.type") == [(None,), ("401",), (None,), ("401",), (None,)]


def test_a_401_after_a_fresh_sign_in_is_unavailable(poll, server):
    """The second refusal in a row is for good."""
    with requests.Session() as session, pytest.raises(StatusUnavailable, match=r"HTTP 401.*Renew the credentials"):
        session.auth = Tokens(fresh=True)
        poll(running(), 401, 401, session=session)

    assert len(server.calls) == 4


@pytest.mark.parametrize("auth", [Tokens(fresh=False), ("me", "secret"), None], ids=["token", "basic", "none"])
def test_a_401_with_the_same_credentials_is_not_asked_again(poll, server, auth):
    """Asking again with what was refused would lock an account."""
    with requests.Session() as session, pytest.raises(StatusUnavailable, match="HTTP 401"):
        session.auth = auth
        poll(running(), 401, session=session)

    assert len(server.calls) == 3


def test_a_surface_is_shown_the_statuses_it_accepts(poll):
    """accept= hands a status over that is judged before surfaces otherwise."""
    provider = replace(
        generic.ACCEPTED, poll=ReadState("status", pending={"busy"}, succeeded={"done"}, accept=(404, 503))
    )
    assert poll(Reply(404, {"status": "busy"}), Reply(503, {"status": "done"}), provider=provider).state == "done"


# ---- long polls


HELD = replace(generic.ACCEPTED, long_poll=LongPoll(seconds=60, params={"wait": "{seconds}", "state": "{state}"}))


def test_a_long_poll_asks_the_server_to_hold_the_request(poll, server, clock):
    """Seconds and state are filled in, a state not known yet is left out, and the hold counts as the pause."""
    poll(delayed(20, running()), delayed(20, running()), delayed(5, done()), provider=HELD)

    assert [call.query for call in server.calls[1:]] == [{"wait": "60"}, *[{"wait": "60", "state": "running"}] * 2]
    assert clock.sleeps == [1]


def test_a_long_poll_asks_for_no_more_than_is_left(poll, server):
    """With 21 s to go the server is asked for 20 of them."""
    poll(done(), provider=HELD, deadline=21)

    assert server.calls[1].query == {"wait": "20"}


def test_a_gateway_that_gives_up_on_a_long_poll_is_no_error(poll, spans):
    """A 504 after half the hold is the gateway's limit, not the job's: asked again, no error counted."""
    provider = replace(HELD, budget=Budget(consecutive_errors=1))
    assert poll(delayed(40, 504), delayed(31, BAD_GATEWAY), done(result=1), provider=provider).data == 1

    assert spans.named("poll export").attributes["trihop.poll.errors"] == 0


def test_a_gateway_that_fails_at_once_is_an_error(poll):
    """The same status without a hold is an outage."""
    with pytest.raises(PollErrorsExhausted):
        poll(504, provider=replace(HELD, budget=Budget(consecutive_errors=1)))


# ---- surfaces


@pytest.mark.parametrize("nonsense", [None, True, "running", Succeeded, {"state": "done"}], ids=repr)
def test_a_surface_that_returns_nonsense_is_told_what_is_expected(poll, nonsense):
    """It is a fault of the surface, raised at the first poll, and never taken for an answer."""
    with pytest.raises(
        SurfaceError, match=r"returned \w+, expected one of Pending, Transient, .*operation=export"
    ) as caught:
        poll(running(), surface=lambda reply, job: nonsense)

    assert (caught.value.reply.json(), caught.value.polls) == ({"status": "running"}, 1)


def test_a_surface_that_stumbles_over_a_body_is_a_poll_error(poll, spans):
    """A missing key in a body it did not expect is asked for again."""

    def surface(reply, job):
        return Succeeded(reply.json()["outcome"]["word"])

    assert poll({}, {"outcome": None}, {"outcome": {"word": "ok"}}, surface=surface).state == "ok"
    assert [kind for [kind] in events(spans, "error.type")] == ["unreadable (KeyError)", "unreadable (TypeError)", None]


def test_a_fault_in_a_surface_is_the_callers_own(poll, spans):
    """What is no stumbling over a body comes through as it was raised, and ends the operation as an error."""
    with pytest.raises(ZeroDivisionError):
        poll(running(), surface=lambda reply, job: 1 / 0)

    root = spans.named("export")
    assert (root.attributes["error.type"], root.attributes["trihop.operation.result"]) == ("ZeroDivisionError", "error")


def test_a_transient_verdict_has_its_own_hint(poll, clock, spans):
    """A surface may say that this was no answer, why, and when to ask again."""
    verdicts = iter([Transient("warming_up", after=9), Succeeded("done")])
    poll(200, 200, surface=lambda reply, job: next(verdicts))

    assert clock.sleeps == [1, 9]
    assert events(spans, "error.type")[0] == ("warming_up",)


def test_an_error_inside_a_200_is_transient_where_the_provider_says_so(poll):
    """A throttled query at 200 is asked again and does not end the job."""
    provider = replace(TABLE, poll=replace(STATES, transient="errors[0].message"))
    assert poll({"errors": [{"message": "throttled"}]}, {"status": "done"}, provider=provider).state == "done"


def test_a_poll_without_a_job_says_what_to_do(clock):
    """Nothing was submitted and nothing passed: the call is wrong, and the message names the operation."""
    with (
        operation("export", deadline=60, clock=clock) as op,
        pytest.raises(ValueError, match="'export': there is no job to poll; submit one, or pass a Job or a status URL"),
    ):
        op.poll()


def test_a_poll_tells_the_server_its_trace_eight_times(poll, server):
    """Ten thousand server spans would break the trace: from the ninth poll on there is no traceparent."""
    poll(*[running()] * 9, done())

    assert ["traceparent" in call.headers for call in server.calls[1:]] == [True] * 8 + [False] * 2
