"""The submit hop: sent once unless it is safe to send it again, and what its answer comes to."""

import io
import re
import socket
from dataclasses import replace

import pytest
import requests

from trihop import (
    Accepted,
    DeadlineExceeded,
    JobFailed,
    JobPartiallyFailed,
    Partial,
    Pending,
    ReadJob,
    ReadState,
    Rejected,
    Reply,
    RetryPolicy,
    SubmitRejected,
    SubmitUncertain,
    SurfaceError,
    Transient,
    operation,
)
from trihop.providers import generic
from trihop.testing import accepted, delayed, done, reset, short, silent

KEYED = replace(generic.ACCEPTED, idempotency="Idempotency-Key")


@pytest.fixture
def submit(server, clock):
    """Submits in an operation of its own; what is not an argument of the hop is one of the operation."""

    def submit(url=None, *, deadline=600, provider=generic.ACCEPTED, session=None, **options):
        with operation("export", deadline=deadline, clock=clock, provider=provider, session=session) as op:
            return op.submit("POST", url or f"{server.url}jobs", **options)

    return submit


# ---- without a key it goes out once

LOST = {
    "500": (500, "the submit was sent and the server answered HTTP 500", 500),
    "503 with a hint": (Reply(503, headers={"Retry-After": "1"}), "answered HTTP 503", 503),
    "504": (Reply(504, content=b"<html>gateway</html>"), "answered HTTP 504", 504),
    "a reset before a byte": (reset(), "the server never answered (connection_reset)", None),
    "an end before a byte": (short(), "never answered (connection_reset)", None),
    "a body that breaks off": (short({"id": "7"}, 3), "never answered (body_truncated)", None),
}


@pytest.mark.parametrize(("reply", "told", "status"), LOST.values(), ids=LOST)
def test_a_submit_that_was_not_answered_is_uncertain_and_not_sent_again(submit, server, reply, told, status):
    """The server may have started a job: one request, and an error that says how to find out."""
    server.script(reply)

    with pytest.raises(SubmitUncertain, match=re.escape(told)) as caught:
        submit(json={"query": "all"})

    assert (len(server.calls), caught.value.status_code, caught.value.job) == (1, status, None)
    assert "Perhaps there is a job; look for it at the server before submitting again" in str(caught.value)
    assert "Provider(idempotency=…)" in str(caught.value)


def test_a_read_timeout_is_uncertain(submit, server):
    """A server that takes the request and says nothing within `timeout=` may have started a job."""
    server.script(silent())

    with pytest.raises(SubmitUncertain, match=r"never answered \(read_timeout\)") as caught:
        submit(timeout=0.05)

    assert isinstance(caught.value.cause, requests.ReadTimeout)
    assert len(server.calls) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 425, 429])
def test_a_refusal_is_rejected(submit, server, status):
    """A 4xx means that there is no job; what the server said is kept and told."""
    server.script(Reply(status, {"error": {"code": "QUOTA", "message": "too many jobs"}}))

    with pytest.raises(SubmitRejected, match=f"refused the job with HTTP {status}: QUOTA: too many jobs") as caught:
        submit()

    assert caught.value.error == {"error": {"code": "QUOTA", "message": "too many jobs"}}
    assert (len(server.calls), caught.value.status_code, caught.value.job) == (1, status, None)


def test_a_server_that_was_never_reached_is_rejected_with_its_cause(submit):
    """A refused connection sent nothing: there is no job, and submitting again is safe."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    with pytest.raises(SubmitRejected, match=r"never reached \(connect_refused\)") as caught:
        submit(f"http://127.0.0.1:{port}/jobs")

    assert isinstance(caught.value.cause, requests.ConnectionError)
    assert "submitting again is safe" in str(caught.value)


def test_a_name_that_does_not_resolve_is_rejected(submit, monkeypatch):
    """A host nobody knows was not sent anything."""

    def nobody(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(SubmitRejected, match=r"never reached \(name_resolution\)"):
        submit("http://nobody.invalid/jobs")


# ---- with a key it is sent again


@pytest.mark.parametrize(("reply", "told", "status"), LOST.values(), ids=LOST)
def test_with_a_key_it_is_sent_again_with_the_same_key_and_body(submit, server, reply, told, status):
    """Both requests are the same to the byte, and the second one's answer counts."""
    server.script(reply, accepted())

    job = submit(provider=KEYED, json={"query": "all"})

    first, second = server.calls
    assert job.status_url == f"{server.url}jobs/1"
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert len(first.headers["Idempotency-Key"]) == 36
    assert (first.body, first.path) == (second.body, second.path) == (b'{"query": "all"}', "/jobs")


def test_a_key_of_the_callers_own_is_sent_under_the_providers_name(submit, server):
    """`idempotency_key=` goes out as it is, under the header the API reads."""
    server.script(500, accepted())

    submit(provider=replace(generic.ACCEPTED, idempotency="X-Request-Key"), idempotency_key="order-7")

    assert [call.headers["X-Request-Key"] for call in server.calls] == ["order-7", "order-7"]


def test_a_key_without_a_name_goes_out_as_idempotency_key(submit, server):
    """A provider that names no header gets the draft's."""
    server.script(500, accepted())

    submit(idempotency_key="order-7")

    assert [call.headers["Idempotency-Key"] for call in server.calls] == ["order-7", "order-7"]


def test_a_key_written_as_a_header_is_the_key(submit, server):
    """The caller's own header, however it is spelt, is not replaced by one of ours."""
    server.script(500, accepted())

    submit(provider=KEYED, headers={"idempotency-key": "order-7"})

    assert [call.headers.all("Idempotency-Key") for call in server.calls] == [["order-7"], ["order-7"]]


def test_each_job_of_an_operation_has_a_key_of_its_own(server, clock):
    """A second job is no copy of the first; one that got no answer keeps its key for the next try."""
    server.script(accepted("{url}jobs/1"), *[500] * 3, accepted("{url}jobs/2"))

    with operation("export", deadline=600, clock=clock, provider=KEYED) as op:
        op.submit("POST", f"{server.url}jobs", json={"n": 1})
        with pytest.raises(SubmitUncertain, match="submit again with the same idempotency key and body"):
            op.submit("POST", f"{server.url}jobs", json={"n": 2})
        op.submit("POST", f"{server.url}jobs", json={"n": 2})

    keys = [call.headers["Idempotency-Key"] for call in server.calls]
    assert keys[1:] == [keys[1]] * 4
    assert keys[0] != keys[1]


def test_an_explicit_retry_permits_sending_it_again_without_a_key(submit, server, clock):
    """`retry=` is the caller's word that a second job would do no harm; the pauses between are backoff."""
    server.script(500, reset(), accepted())

    submit(retry=RetryPolicy(attempts=3), json={"n": 1})

    assert [call.body for call in server.calls] == [b'{"n": 1}'] * 3
    assert clock.sleeps == [1, 2]


def test_a_refusal_that_the_policy_names_is_tried_again(submit, server):
    """`retry=` may name a 4xx that a later attempt cures; when it does not, it is the refusal that it is."""
    policy = RetryPolicy(attempts=2, on={404, 409})
    server.script(409, accepted(), 404, Reply(409, {"message": "busy"}))

    assert submit(retry=policy).status_url == f"{server.url}jobs/1"
    with pytest.raises(SubmitRejected, match="HTTP 409: busy"):
        submit(retry=policy)


def test_the_servers_hint_is_the_pause_between_attempts(submit, server, clock):
    """Retry-After on a 429 or a 503 is slept in full before the submit goes out again."""
    server.script(Reply(429, headers={"Retry-After": "40"}), Reply(503, headers={"Retry-After": "7"}), accepted())

    submit(provider=KEYED)

    assert clock.sleeps == [40, 7]


def test_a_hint_that_does_not_fit_is_refused(submit, server):
    """The deadline bounds the whole hop: a pause past it is not begun."""
    server.script(Reply(503, headers={"Retry-After": "3600"}))

    with pytest.raises(DeadlineExceeded, match=r"asked for 3600 s and 600 s are left") as caught:
        submit(provider=KEYED)

    assert (caught.value.hop, caught.value.phase, caught.value.asked) == ("submit", "wait", 3600)


def test_statuses_that_the_policy_does_not_name_are_final(submit, server):
    """A 501 is no reason to try again, however often the policy would."""
    server.script(501)

    with pytest.raises(SubmitUncertain, match="HTTP 501"):
        submit(provider=KEYED)

    assert len(server.calls) == 1


def test_a_conflict_under_a_key_means_that_the_first_is_still_being_worked_on(submit, server, clock):
    """409 with a key is asked again, as the draft for the header says, until there is an answer."""
    server.script(409, 409, accepted())

    assert submit(provider=KEYED).status_url == f"{server.url}jobs/1"
    assert len(server.calls) == 3


@pytest.mark.parametrize("last", [400, 409, 429], ids=str)
@pytest.mark.parametrize("options", [{"retry": RetryPolicy(attempts=2)}, {"provider": KEYED}], ids=["retry", "key"])
def test_after_a_loss_a_refusal_is_no_proof(submit, server, last, options):
    """The attempt that got no answer may have started a job, whatever the next one is told."""
    server.script(reset(), then_always=last)

    with pytest.raises(SubmitUncertain, match=f"answered HTTP {last}"):
        submit(**options)


def test_after_a_loss_a_server_out_of_reach_is_no_proof(submit, server, monkeypatch):
    """A first attempt that was sent and lost leaves a doubt that a refused connection does not remove."""
    server.script(reset())
    real, calls = socket.getaddrinfo, []

    def once(host, *args, **kwargs):
        if host == "api.test":
            calls.append(host)
            if len(calls) > 1:
                raise socket.gaierror(-2, "Name or service not known")
        return real("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", once)
    with pytest.raises(SubmitUncertain, match="never answered"):
        submit(server.url.replace("127.0.0.1", "api.test") + "jobs", retry=RetryPolicy(attempts=2))


def test_only_refused_connections_leave_it_rejected(submit):
    """Two attempts that were never connected sent nothing."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    with pytest.raises(SubmitRejected, match="never reached"):
        submit(f"http://127.0.0.1:{port}/jobs", provider=KEYED)


def test_a_file_is_sent_again_from_where_it_stood(submit, server):
    """The second attempt has the same body as the first, of `data=` and of `files=`."""
    server.script(500, accepted(), 500, accepted())
    file = io.BytesIO(b"skipped,body")
    file.seek(8)

    submit(provider=KEYED, data=file)
    submit(provider=KEYED, files={"rows": ("rows.csv", io.BytesIO(b"a,b\n"), "text/csv")})

    assert [call.body for call in server.calls[:2]] == [b"body", b"body"]
    assert [b"a,b\n" in call.body for call in server.calls[2:]] == [True, True]


def test_a_body_that_cannot_be_sent_twice_is_sent_once(submit, server):
    """A generator is used up by the first attempt: with a key or without, there is no second."""
    server.script(500)

    with pytest.raises(SubmitUncertain):
        submit(provider=KEYED, data=iter([b"part"]))

    assert [call.body for call in server.calls] == [b"part"]


def test_attempts_fold_into_one_submit_span(submit, server, spans):
    """Three attempts are one span with a resend count and an event for each; a cured error is no error."""
    server.script(503, reset(), accepted())

    submit(provider=KEYED)

    span = spans.named("submit export")
    assert (span.attributes["http.request.resend_count"], span.attributes["http.response.status_code"]) == (2, 202)
    assert span.status.status_code.name == "UNSET"
    assert [
        (event.attributes.get("error.type"), event.attributes.get("trihop.attempt.verdict")) for event in span.events
    ] == [("503", "transient"), ("connection_reset", "transient"), (None, "accepted")]


# ---- what the answer comes to


@pytest.mark.parametrize(
    ("reply", "status_url"),
    [
        (Reply(202, headers={"Location": "/jobs/7"}), "{url}jobs/7"),
        (Reply(202, headers={"Location": "jobs/7"}), "{url}v1/jobs/7"),
        (Reply(202, headers={"Location": "{url}jobs/7?a=%2F"}), "{url}jobs/7?a=%2F"),
        (Reply(201, headers={"Operation-Location": "/jobs/7", "Location": "/things/1"}), "{url}jobs/7"),
        (Reply(202, {"statusQueryGetUri": "/jobs/7"}), "{url}jobs/7"),
        (Reply(303, headers={"Location": "/jobs/7"}), "{url}jobs/7"),
    ],
    ids=["absolute path", "relative", "absolute", "the first header that fits", "in the body", "303"],
)
def test_the_handle_may_be_relative_absolute_or_in_the_body(submit, server, reply, status_url):
    """The status monitor's URL is resolved against the URL that answered, and its bytes are kept."""
    server.script(reply)

    assert submit(f"{server.url}v1/submit").status_url == status_url.replace("{url}", server.url)


def test_a_submit_that_moved_is_followed_with_its_body(submit, server):
    """307 and 308 are followed; the job knows the URL that answered, and relative handles start there."""
    server.script(Reply(308, headers={"Location": "/v2/jobs"}), Reply(202, headers={"Location": "jobs/7"}))

    job = submit(f"{server.url}v1/jobs", json={"n": 1})

    assert [(call.method, call.path, call.body) for call in server.calls] == [
        ("POST", "/v1/jobs", b'{"n": 1}'),
        ("POST", "/v2/jobs", b'{"n": 1}'),
    ]
    assert (job.submit_url, job.status_url) == (f"{server.url}v2/jobs", f"{server.url}v2/jobs/7")


def test_a_bare_string_is_sent_as_json(submit, server):
    """`json="text"` goes out as a JSON string, as in requests; so does an empty list."""
    server.script(accepted(), accepted())

    submit(json="SELECT 1")
    submit(json=[])

    assert [(call.body, call.headers["Content-Type"]) for call in server.calls] == [
        (b'"SELECT 1"', "application/json"),
        (b"[]", "application/json"),
    ]


def test_arguments_are_those_of_requests(submit, server):
    """params, data, headers, auth and cookies reach the wire."""
    server.script(accepted())

    submit(params={"v": 2}, data={"a": "1"}, headers={"X-Tenant": "acme"}, auth=("me", "pw"), cookies={"seen": "yes"})

    [call] = server.calls
    assert (call.path, call.body, call.headers["X-Tenant"], call.headers["Cookie"], call.headers["Authorization"]) == (
        "/jobs?v=2",
        b"a=1",
        "acme",
        "seen=yes",
        "Basic bWU6cHc=",
    )


def test_a_job_that_is_finished_at_once_is_not_polled(server, clock):
    """200 with the ending in the body: poll() asks nothing."""
    server.script(done(result={"rows": 3}))

    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        ready = op.poll(job)

    assert (ready.data, ready.state, job.ready.data, op.job.state) == (
        {"rows": 3},
        "succeeded",
        {"rows": 3},
        "succeeded",
    )
    assert (len(server.calls), clock.sleeps) == (1, [])


def test_a_202_that_is_already_finished_is_not_polled(server, clock):
    """202 whose body says that the job succeeded, with its result, is the end of it."""
    server.script(Reply(202, {"status": "succeeded", "result_url": "/files/1"}), b"rows")

    with operation("export", deadline=60, clock=clock) as op:
        assert op.run("POST", f"{server.url}jobs").content == b"rows"

    assert [call.path for call in server.calls] == ["/jobs", "/files/1"]


def test_a_202_that_names_a_monitor_is_polled_though_its_body_says_done(server, clock):
    """Where a success names no result but a monitor, the monitor is asked for it."""
    server.script(Reply(202, {"status": "succeeded"}, headers={"Location": "/jobs/1"}), done(result="rows"))

    with operation("export", deadline=60, clock=clock) as op:
        assert op.run("POST", f"{server.url}jobs").text == "rows"


def test_the_result_in_the_submits_answer_is_the_result(server, clock):
    """200 whose body has no state at all is what was asked for, null included."""
    server.script(Reply(200, content=b"null", headers={"Content-Type": "application/json"}))

    with operation("export", deadline=60, clock=clock) as op:
        assert op.run("POST", f"{server.url}jobs").content == b"null"


def test_a_job_that_failed_at_once_raises_from_the_submit(submit, server):
    """200 with a failure in the body is the job's failure, not the submit's."""
    server.script({"status": "failed", "error": "no such column"})

    with pytest.raises(JobFailed, match="no such column") as caught:
        submit()

    assert (caught.value.hop, caught.value.state) == ("submit", "failed")


def test_a_job_partly_failed_at_once_raises_from_the_poll(server, clock, spans):
    """The submit hands the job over; poll() raises, or hands the partial result over where that is allowed."""
    server.script(then_always=200)
    provider = replace(generic.ACCEPTED, submit=lambda reply: Partial("mixed", counts={"failed": 3}))

    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        job = op.submit("POST", f"{server.url}jobs")
        with pytest.raises(JobPartiallyFailed) as caught:
            op.poll(job)
        assert op.poll(job, allow_partial=True) == caught.value.ready

    assert (caught.value.ready.complete, caught.value.ready.counts) == (False, {"failed": 3})
    assert spans.named("export").attributes["trihop.operation.result"] == "partial"


@pytest.mark.parametrize("body", [{"errors": [{"message": "bad"}]}, {"errors": "bad"}], ids=["list", "text"])
def test_an_error_inside_a_200_is_a_rejection(submit, server, body):
    """Where the provider's `rejected` field is there, the job was refused whatever the status."""
    server.script(body)
    provider = replace(generic.ACCEPTED, submit=ReadJob(id="id", status_url=None, rejected="errors"), status="j/{id}")

    with pytest.raises(SubmitRejected, match="HTTP 200: bad") as caught:
        submit(provider=provider)

    assert caught.value.error == body["errors"]


def test_an_empty_error_list_is_no_rejection(submit, server):
    """An API that always sends the field sends it empty when all is well."""
    server.script({"id": 7, "errors": []})
    provider = replace(generic.ACCEPTED, submit=ReadJob(id="id", status_url=None, rejected="errors"), status="j/{id}")

    assert submit(provider=provider).id == "7"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(202), "names no job to ask for: the job has no status_url"),
        (Reply(202, content=b"<html>welcome</html>", headers={"Content-Type": "text/html"}), "names no job to ask for"),
    ],
    ids=["empty", "html"],
)
def test_an_answer_that_names_no_job_makes_no_sense(submit, server, reply, told):
    """202 without a handle is told as what it is, with the reply and the doubt that a job was started."""
    server.script(reply)

    with pytest.raises(SurfaceError, match=told) as caught:
        submit()

    assert caught.value.reply.status_code == 202
    assert "The server may have started a job" in str(caught.value)


def test_a_captive_portal_at_200_is_no_job(submit, server):
    """An HTML page where the provider expects JSON is nonsense, not an acceptance."""
    server.script(Reply(200, content=b"<html>sign in</html>", headers={"Content-Type": "text/html"}))
    provider = replace(generic.ACCEPTED, submit=ReadJob(id="id", status_url=None), status="j/{id}")

    with pytest.raises(SurfaceError, match=r"\(HTTP 200\) made no sense: not_json"):
        submit(provider=provider)


@pytest.mark.parametrize("nonsense", [None, "job-7", {"id": 7}, Accepted, 202], ids=repr)
def test_a_surface_that_returns_nonsense_is_told_what_is_expected(submit, server, nonsense):
    """The message names the operation, what came and what may come."""
    server.script(202)

    with pytest.raises(SurfaceError, match=r"the surface returned \w+, expected one of Accepted, Rejected.*export"):
        submit(surface=lambda reply: nonsense)


def test_a_fault_in_a_surface_is_the_callers_own(submit, server):
    """What is no stumbling over a body comes through as it was raised."""
    server.script(202)

    with pytest.raises(ZeroDivisionError):
        submit(surface=lambda reply: 1 / 0)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Accepted("7", "/state/7", memo={"k": 1}), ("7", "{url}state/7", {"k": 1}, None)),
        (Pending("queued", status_url="/state/7", memo={"k": 1}), (None, "{url}state/7", {"k": 1}, None)),
        (Pending("queued", status_url="/state/7", after=9), (None, "{url}state/7", {}, 9)),
    ],
    ids=["accepted", "pending", "pending with a hint"],
)
def test_a_surface_may_accept_in_several_ways(server, clock, verdict, expected):
    """Accepted, and any poll verdict that the job goes on, make a job."""
    server.script(202, done())
    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs", surface=lambda reply: verdict)
        op.poll(job)

    id_, url, memo, pause = expected
    assert (job.id, job.status_url, job.memo) == (id_, url.replace("{url}", server.url), memo)
    assert clock.sleeps == [1 if pause is None else pause]


def test_a_surface_may_reject_and_doubt(submit, server):
    """Rejected is a rejection; Transient is no answer, and without a key an uncertain submit."""
    server.script(200, 200)

    with pytest.raises(SubmitRejected, match="no money"):
        submit(surface=lambda reply: Rejected({"message": "no money"}))
    with pytest.raises(SubmitUncertain):
        submit(surface=lambda reply: Transient("busy"))


def test_the_submits_hint_is_counted_from_its_answer(server, clock):
    """Work between submit and poll is taken off the first pause."""
    server.script(accepted(hint_s=30), done())

    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        clock.advance(20)
        op.poll(job)

    assert clock.sleeps == [10]
    assert [call.at for call in server.calls] == [0, 30]


def test_the_submit_span_lasts_until_the_first_poll(server, clock, spans):
    """Steps after the submit belong to it; its attributes say which job came of it."""
    server.script(Reply(202, {"id": "j-7", "status_url": "/jobs/j-7"}), done())

    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        clock.advance(20)
        op.poll(job)

    span = spans.named("submit export")
    assert (span.end_time - span.start_time) / 1e9 == 20
    assert span.attributes["trihop.job.id"] == "j-7"
    assert spans.named("export").attributes["trihop.job.id"] == "j-7"


def test_a_slow_answer_is_waited_for(submit, server):
    """The server may do all its work before it answers: only the deadline bounds that."""
    server.script(delayed(300, accepted()))

    assert submit().status_url == f"{server.url}jobs/1"


def test_polls_are_not_sent_where_a_submit_surface_reads_states(submit, server):
    """A ReadState is no submit surface for want of a job, and says so as a plain TypeError of the call."""
    server.script(202)

    with pytest.raises(SurfaceError, match="TypeError"):
        submit(surface=ReadState("status"))
