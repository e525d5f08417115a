"""Replies as decisions: the HTTP status first, then the surface, and never a guess."""

from __future__ import annotations

import pytest

from trihop import (
    Accepted,
    Content,
    Gone,
    Job,
    LinkExpired,
    Pending,
    ReadJob,
    ReadState,
    Rejected,
    Reply,
    Result,
    Succeeded,
    Transient,
    accepts,
)
from trihop._hops.judge import Lost, Nonsense, Refused, SignIn, error_fields, judge_download, judge_poll, judge_submit

STATE = ReadState("state", pending={"running"}, succeeded={"done"}, accept=(400, 401, 404, 503))
PAGE = b"<html>no</html>"


def polled(reply: Reply, *, answered: bool = True):
    return judge_poll(reply, Job(), STATE, answered=answered, age_s=0.0, grace_s=0.0)


def test_an_accepted_error_status_with_a_state_is_judged_by_its_state():
    """A server that says `running` with a 400 means what it says."""
    assert polled(Reply(400, {"state": "running"})) == Pending("running")


@pytest.mark.parametrize("body", [b"", PAGE, b"{}", b"[]", b'{"state": ""}'])
@pytest.mark.parametrize(
    ("status", "outcome"),
    [(400, Refused(400)), (401, SignIn()), (404, Lost(404)), (503, Transient("503"))],
)
def test_an_accepted_error_status_without_a_state_is_judged_by_itself(status, outcome, body):
    """Accepting a status takes no meaning from it: what the surface cannot read stays what HTTP says."""
    assert polled(Reply(status, content=body)) == outcome


def test_a_200_without_a_state_is_no_answer():
    """The fall back to the status is for errors: a 200 that cannot be read is a failed poll."""
    assert polled(Reply(200, content=PAGE)) == Transient("not_json")
    assert polled(Reply(200, {})) == Transient("no_state")


def test_a_submit_table_that_accepts_a_conflict_takes_the_job_it_names_and_nothing_else():
    """A 409 that names the job is a job; any other 409 is a refusal, with what the server said."""
    table = ReadJob(id="job.id", status_url=None, accept=(409,))

    assert judge_submit(Reply(409, {"job": {"id": "7"}}), table) == Accepted("7")
    assert judge_submit(Reply(409, {"error": "busy"}), table) == Rejected({"error": "busy"})
    assert judge_submit(Reply(409, content=PAGE), table) == Rejected("<html>no</html>")


@accepts(403, 404, 503)
def results(reply, result):
    return Pending("early") if reply.json()["early"] else Content()


@pytest.mark.parametrize(
    ("status", "outcome"), [(403, LinkExpired("403")), (404, Gone("404")), (503, Transient("503"))]
)
def test_an_accepted_refusal_of_a_download_that_cannot_be_read_is_judged_by_its_status(status, outcome):
    """A gateway's page at an accepted status is no fault of the surface."""
    assert judge_download(Reply(status, {"early": True}), Result("/r"), results) == Pending("early")
    assert judge_download(Reply(status, content=PAGE), Result("/r"), results) == outcome


def test_a_verdict_of_another_kind_stays_the_surfaces_fault_at_any_status():
    """A surface that answers a poll with a submit's verdict is broken, whatever the status was."""

    @accepts(400)
    def poll(reply, job):
        return Accepted("7")

    outcome = judge_poll(Reply(400, {}), Job(), poll, answered=True, age_s=0.0, grace_s=0.0)

    assert isinstance(outcome, Nonsense)
    assert outcome.fault


# ---- the status goes first


def never(*_):
    raise AssertionError("a surface was shown what is not its business")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Refused(400)),
        (401, SignIn()),
        (403, Refused(403)),
        (404, Refused(404)),
        (408, Transient("408")),
        (410, Refused(410)),
        (425, Transient("425")),
        (429, Transient("429")),
        (500, Transient("500")),
        (502, Transient("502")),
        (529, Transient("529")),
    ],
)
def test_a_poll_surface_is_not_shown_an_error_status(status, outcome):
    """A gateway's page is judged by its status, whatever it says."""
    reply = Reply(status, {"state": "done"})

    assert judge_poll(reply, Job(), never, answered=False, age_s=0.0, grace_s=0.0) == outcome


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 301, 302, 303])
def test_a_surface_is_shown_successes_and_those_redirects_that_say_something(status):
    """2xx are the surface's business on every hop, 301 to 303 on submit and poll: a download has followed them."""
    reply = Reply(status)

    assert judge_poll(reply, Job(), lambda *_: Pending("x"), answered=True, age_s=0, grace_s=0) == Pending("x")
    assert judge_submit(reply, lambda _: Accepted("7")) == Accepted("7")
    followed = Content() if status < 300 else Transient("bad_redirect")
    assert judge_download(reply, Result("/f"), lambda *_: Content()) == followed


@pytest.mark.parametrize(
    ("answered", "age_s", "outcome"),
    [(False, 9.9, Pending("not visible yet")), (False, 10.0, Refused(404)), (True, 1.0, Lost(404))],
    ids=["within the grace", "after it", "after an answer"],
)
def test_a_404_depends_on_what_went_before(answered, age_s, outcome):
    """Not visible yet, refused or lost."""
    assert judge_poll(Reply(404), Job(), never, answered=answered, age_s=age_s, grace_s=10.0) == outcome


def test_an_interim_status_is_no_answer():
    """What begins with 1 promises another answer: perhaps there is a job, and the status is not refused for good."""
    assert judge_submit(Reply(103), never) == Transient("103")
    assert judge_poll(Reply(103), Job(), never, answered=True, age_s=0.0, grace_s=0.0) == Transient("103")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_a_refused_submit_has_what_the_server_said(status):
    """Its JSON, else the begin of its text, else nothing."""
    assert judge_submit(Reply(status, {"error": 7}), never) == Rejected({"error": 7})
    assert judge_submit(Reply(status, content=b"<p>no\n\n such</p>"), never) == Rejected("<p>no such</p>")
    assert judge_submit(Reply(status), never) == Rejected(None)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (401, LinkExpired("401")),
        (403, LinkExpired("403")),
        (404, Gone("404")),
        (410, Gone("410")),
        (416, Gone("416")),
        (429, Transient("429")),
        (503, Transient("503")),
        (103, Transient("103")),
        (303, Transient("bad_redirect")),
    ],
)
def test_a_download_surface_is_not_shown_an_error_status(status, outcome):
    """A refused link may have run out, a missing one is gone, and what says "not now" is tried again."""
    assert judge_download(Reply(status), Result("/f"), never) == outcome


def test_a_pending_answer_to_a_submit_is_an_acceptance():
    """A submit surface may answer like a poll surface: the job goes on, and where."""
    verdict = Pending("queued", status_url="/j/1", after=3.0, memo={"k": 1})

    assert judge_submit(Reply(200), lambda _: verdict) == Accepted(None, "/j/1", after=3.0, memo={"k": 1})
    assert judge_submit(Reply(200), lambda _: Succeeded("done")) == Succeeded("done")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (None, None, None),
        ("", None, None),
        ([], None, None),
        ({}, None, None),
        ("it broke", None, "it broke"),
        ("INVALID_FIELD: no such column", "INVALID_FIELD", "INVALID_FIELD: no such column"),
        ({"code": 7, "message": "no"}, "7", "no"),
        ({"errorCode": "E7", "errorMessage": "no"}, "E7", "no"),
        ({"error": {"code": "E7", "message": "no"}}, "E7", "no"),
        ({"error": "invalid_grant", "error_description": "no"}, "invalid_grant", "no"),
        ({"type": "about:blank", "title": "No", "detail": "no such column"}, "about:blank", "no such column"),
        ([{"errorCode": "E7", "message": "no"}, {"errorCode": "E8"}], "E7", "no"),
        ({"anything": "else"}, None, None),
        (7, None, "7"),
    ],
)
def test_code_and_message_are_found_in_the_shapes_that_errors_have(error, code, message):
    """For the root span, and to be quoted in messages."""
    assert error_fields(error) == (code, message)


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        ({"__type": "ThrottlingException", "message": "slow down"}, ("ThrottlingException", "slow down")),
        ({"__type": "AccessDenied", "Message": "no"}, ("AccessDenied", "no")),
        (
            {"resourceType": "OperationOutcome", "issue": [{"code": "processing", "diagnostics": "disk full"}]},
            ("processing", "disk full"),
        ),
        ({"issue": []}, (None, None)),
    ],
)
def test_code_and_message_are_found_where_servers_put_them(error, fields):
    """AWS's `__type`, and the issues of a FHIR OperationOutcome."""
    assert error_fields(error) == fields
