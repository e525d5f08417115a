"""What an error status means that a surface accepts and then cannot read: its status decides."""

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
    Transient,
    accepts,
)
from trihop._hops import Lost, Nonsense, Refused, SignIn, judge_download, judge_poll, judge_submit

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
