"""The default provider: 202 and a status monitor, as most APIs have it."""

import pytest

from trihop import (
    Accepted,
    Cancelled,
    Expired,
    Failed,
    Job,
    Pending,
    Reply,
    Result,
    Succeeded,
)
from trihop._values import Garbled
from trihop.providers.generic import ACCEPTED
from trihop.testing import check_provider

JOB = Job(status_url="https://api.test/jobs/1")
CSV = {"Content-Type": "text/csv"}
HTML = {"Content-Type": "text/html; charset=utf-8"}


def poll(*reply, **more):
    return ACCEPTED.poll(Reply(*reply, **more), JOB)


def submit(*reply, **more):
    return ACCEPTED.submit(Reply(*reply, **more))


# ---- submit


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(202, headers={"Location": "/j/1"}), Accepted(None, "/j/1")),
        (Reply(202, {"id": 7}, headers={"Location": "/j/7"}), Accepted("7", "/j/7")),
        (Reply(201, {"jobId": "a", "status": "queued"}, headers={"Operation-Location": "/o"}), Accepted("a", "/o")),
        (Reply(202, headers={"Azure-AsyncOperation": "/a", "Location": "/l"}), Accepted(None, "/a")),
        (Reply(202, headers={"Content-Location": "/c"}), Accepted(None, "/c")),
        (Reply(303, headers={"Location": "/j/1"}), Accepted(None, "/j/1")),
        (Reply(200, {"id": "7", "status_url": "/j/7"}), Accepted("7", "/j/7")),
        (Reply(200, {"id": "7", "statusUrl": "/j/7", "state": "running"}), Accepted("7", "/j/7")),
        (Reply(202, {"status": "succeeded"}, headers={"Location": "/j/1"}), Accepted(None, "/j/1")),
    ],
)
def test_a_job_is_found_in_headers_and_body(reply, verdict):
    """The monitor's URL in one of the usual headers or fields, the id in one of the usual fields."""
    assert ACCEPTED.submit(reply) == verdict


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(200, {"status": "succeeded", "result": [1]}), Succeeded("succeeded", results=(Result(data=[1]),))),
        (Reply(200, {"state": "Done", "result_url": "/f"}), Succeeded("Done", results=(Result("/f"),))),
        (Reply(202, {"status": "Succeeded", "result": None}), Succeeded("Succeeded", results=(Result(data=None),))),
        (Reply(202, {"status": "failed", "error": "no"}, headers={"Location": "/j"}), Failed("failed", error="no")),
        (Reply(200, [1, 2]), Succeeded("done", results=(Result(data=[1, 2]),))),
        (Reply(200, content=b"a,b", headers=CSV), Succeeded("done", results=(Result(data=b"a,b"),))),
        (Reply(200, content=b"null"), Succeeded("done", results=(Result(data=None),))),
    ],
)  # fmt: skip
def test_an_answer_may_be_the_end_already(reply, verdict):
    """A server that was quick says how it ended, or answers with the result itself."""
    assert ACCEPTED.submit(reply) == verdict


def test_a_page_is_no_result_of_a_submit():
    """A portal's HTML at 200 cannot be read, and is not taken for what was asked for."""
    with pytest.raises(Garbled):
        submit(200, content=b"<html>sign in</html>", headers=HTML)


# ---- poll


@pytest.mark.parametrize("word", ["running", "In Progress", "QUEUED", "not_started", "pending", "processing"])
@pytest.mark.parametrize("field", ["status", "state", "phase"])
def test_common_words_are_pending(field, word):
    """In any of the three fields, however they are spelt."""
    assert poll(200, {field: word}) == Pending(word)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *[(word, Succeeded) for word in ("succeeded", "success", "completed", "complete", "done", "finished", "DONE")],
        ("failed", Failed),
        ("error", Failed),
        *[(word, Cancelled) for word in ("cancelled", "canceled", "aborted")],
        ("expired", Expired),
    ],
)
def test_common_words_are_endings(word, kind):
    """Each of the words that the table of the contract lists."""
    assert type(poll(200, {"status": word})) is kind


def test_a_word_nobody_knows_is_pending_and_not_known():
    """It is never success."""
    assert poll(200, {"status": "archiving"}) == Pending("archiving", known=False)
    assert poll(202, {"status": "archiving"}) == Pending("archiving", known=False)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(202), Pending("accepted")),
        (Reply(202, content=b"<p>wait</p>", headers=HTML), Pending("accepted")),
        (Reply(202, {"status": "running", "progress": 40}), Pending("running", progress=40.0)),
        (Reply(202, {"status": "succeeded"}), Pending("accepted")),
        (Reply(202, headers={"Location": "/moved"}), Pending("accepted", status_url="/moved")),
    ],
)
def test_202_is_pending_whatever_it_says(reply, verdict):
    """The status is the word; a monitor may move meanwhile."""
    assert ACCEPTED.poll(reply, JOB) == verdict


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_leads_to_the_result(status):
    """Its Location is the result; one without is no answer."""
    assert poll(status, headers={"Location": "/f"}) == Succeeded("see other", results=(Result("/f"),))
    with pytest.raises(ValueError, match=f"HTTP {status} without a Location"):
        poll(status)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ({"status": "done", "result_url": "/a", "result": 1}, Result("/a")),
        ({"status": "done", "resultUrl": "/a"}, Result("/a")),
        ({"status": "done", "links": {"result": "/a"}}, Result("/a")),
        ({"status": "done", "result": {"n": 1}}, Result(data={"n": 1})),
        ({"status": "done", "result": None}, Result(data=None)),
        ({"status": "done", "rows": 3}, Result(data={"status": "done", "rows": 3})),
    ],
)
def test_the_result_is_a_link_the_field_or_the_body(body, result):
    """In this order."""
    assert poll(200, body).results == (result,)


def test_without_a_state_the_body_is_the_result():
    """JSON as a value, anything else as it is, nothing as nothing."""
    assert poll(200, {"rows": 3}) == Succeeded("done", results=(Result(data={"rows": 3}),))
    assert poll(200, {"status": 200}) == Succeeded("done", results=(Result(data={"status": 200}),))
    assert poll(200, content=b"a,b", headers=CSV) == Succeeded("done", results=(Result(data=b"a,b"),))
    assert poll(204) == Succeeded("no content")


@pytest.mark.parametrize("content", [b"", b"<html>sign in</html>", b'{"status": "succ'])
@pytest.mark.parametrize("headers", [HTML, {"Content-Type": "application/json"}, {}], ids=["html", "json", "none"])
def test_what_is_garbled_is_no_result(content, headers):
    """A page, a cut body and an empty one are not read as the end of a job."""
    with pytest.raises(Garbled):
        poll(200, content=content, headers=headers)


def test_a_failure_says_why():
    """From the usual fields."""
    assert poll(200, {"status": "failed", "error": {"code": 7}}).error == {"code": 7}
    assert poll(200, {"status": "failed", "message": "no"}).error == "no"


def test_it_conforms():
    """The rules that hold for every provider hold for the default."""
    check_provider(
        ACCEPTED,
        pending=Reply(202, {"status": "running"}),
        succeeded={"status": "succeeded", "result": 1},
        failed={"status": "failed", "error": "no"},
        cancelled={"status": "cancelled"},
    )
