"""Azure: where to ask, when it is over, and where the result is."""

from dataclasses import replace

import pytest

from trihop import (
    JobCancelled,
    JobExpired,
    JobFailed,
    PollErrorsExhausted,
    Reply,
    StatusUnavailable,
    SubmitUncertain,
    SurfaceError,
    operation,
)
from trihop.providers import azure
from trihop.testing import check_provider, reset

MONITOR = "{url}operations/7?api-version=2024-05-01"
FOO = {"id": "/foo", "name": "foo", "properties": {"provisioningState": "Succeeded"}}


def accepted(status=202, body=None, **headers):
    return Reply(status, body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def monitor(status, **fields):
    return Reply(200, {"id": "7", "status": status, **fields})


def foo(state):
    return {**FOO, "properties": {"provisioningState": state}}


@pytest.fixture
def walk(server, clock):
    """Submit, poll and download; the JSON that came of it."""

    def walk(method="POST", provider=azure.OPERATION_LOCATION, **as_in_submit):
        with operation("analysis", deadline=3600, provider=provider, clock=clock) as op:
            ready = op.poll(op.submit(method, server.url + "foo", **as_in_submit))
            return op.download(ready).json() if ready.results else None

    return walk


def asked(server):
    return [f"{call.method} {call.path}" for call in server.calls]


# ---- data plane


def test_an_operation_of_a_data_plane_gives_the_result_of_its_monitor(walk, server, clock):
    """Operation-Location is asked, paced by Retry-After, until its status is Succeeded; `result` is the result."""
    server.script(
        accepted(body={"id": "7", "status": "NotStarted"}, Operation_Location=MONITOR, Retry_After="2"),
        Reply(200, {"id": "7", "status": "Running"}, headers={"Retry-After": "5"}),
        monitor("Succeeded", result={"pages": 3}),
    )

    assert walk(json={"model": "invoice"}) == {"pages": 3}
    assert asked(server) == ["POST /foo", *["GET /operations/7?api-version=2024-05-01"] * 2]
    assert clock.sleeps == [2, 5]


def test_an_operation_that_is_over_when_it_is_accepted_is_asked_once(walk, server):
    """A 202 is a status monitor even where it says Succeeded: the poll has the last word."""
    server.script(
        accepted(body={"id": "7", "status": "Succeeded"}, Operation_Location=MONITOR),
        monitor("Succeeded", result={"pages": 3}),
    )

    assert walk() == {"pages": 3}


def test_a_submit_that_was_lost_is_sent_again_under_its_operation_id(walk, server):
    """The same Operation-Id and body is a retry to the server, so a lost answer costs no second operation."""
    server.script(reset(), accepted(Operation_Location=MONITOR), monitor("Succeeded", result=1))

    assert walk(json={"model": "invoice"}) == 1
    first, second = server.calls[:2]
    assert first.headers["Operation-Id"] == second.headers["Operation-Id"]
    assert first.body == second.body


def test_a_service_that_knows_no_operation_id_gets_its_submit_once(walk, server):
    """Without the key a lost submit is uncertain and is not sent again."""
    server.script(reset())

    with pytest.raises(SubmitUncertain):
        walk(provider=replace(azure.OPERATION_LOCATION, idempotency=None))

    assert [call.headers.get("Operation-Id") for call in server.calls] == [None]


def test_a_cancel_goes_to_the_monitor_with_its_query(server, clock):
    """`:cancel` belongs to the path, before the api-version."""
    server.script(accepted(Operation_Location=MONITOR), 202, monitor("Canceled"))

    with operation("analysis", deadline=600, provider=azure.OPERATION_LOCATION, clock=clock) as op:
        job = op.submit("POST", server.url + "foo")
        assert op.cancel()
        with pytest.raises(JobCancelled) as caught:
            op.poll(job)

    assert caught.value.state == "Canceled"
    assert asked(server)[1] == "POST /operations/7:cancel?api-version=2024-05-01"


def test_arm_has_no_way_to_cancel(server, clock):
    """What all services share has no cancel, so none is sent."""
    server.script(accepted(Azure_AsyncOperation=MONITOR))

    with operation("deploy", deadline=600, provider=azure.ASYNC_OPERATION, clock=clock) as op:
        op.submit("POST", server.url + "foo")
        with pytest.raises(ValueError, match="no way to cancel"):
            op.cancel()


def test_a_failed_operation_says_why(walk, server):
    """The error is the monitor's own, and in the message."""
    error = {"code": "InvalidImage", "message": "too small"}
    server.script(accepted(Operation_Location=MONITOR), monitor("Failed", error=error))

    with pytest.raises(JobFailed, match="InvalidImage: too small") as caught:
        walk()

    assert caught.value.error == error


def test_a_monitor_that_is_kept_no_more_is_an_expired_job(walk, server):
    """A 404 after a good answer means that the service forgot the operation."""
    server.script(accepted(Operation_Location=MONITOR), monitor("Running"), 404)

    with pytest.raises(JobExpired):
        walk()


def test_running_words_of_a_service_s_own_are_pending_and_warned_of(walk, server, caplog):
    """Only Succeeded, Failed and Canceled are final; any other word goes on."""
    server.script(
        accepted(Operation_Location=MONITOR), monitor("Updating"), monitor("ImportingSchemas"), monitor("succeeded")
    )

    assert walk() == {"id": "7", "status": "succeeded"}
    assert [record.getMessage() for record in caplog.records if "unknown state" in record.getMessage()] == [
        "operation analysis: unknown state 'ImportingSchemas' counts as pending; "
        "if it is an ending, add it to the provider"
    ]


@pytest.mark.parametrize("answer", [{}, Reply(200), Reply(200, content=b'{"status": "Run'), {"status": ""}])
def test_a_monitor_without_a_status_is_no_answer(walk, server, answer):
    """Absent is finished for a resource, not for a status monitor."""
    server.script(accepted(Operation_Location=MONITOR), then_always=answer)

    with pytest.raises(PollErrorsExhausted):
        walk()


# ---- where to ask


def test_the_monitor_goes_before_the_location(walk, server):
    """With both headers the monitor is polled and Location, however junk it is, is not."""
    server.script(
        accepted(Azure_AsyncOperation=MONITOR, Location="somethingBad"),
        monitor("InProgress"),
        monitor("Succeeded"),
        FOO,
    )

    assert walk("PUT", azure.ASYNC_OPERATION) == FOO
    assert asked(server) == ["PUT /foo", *["GET /operations/7?api-version=2024-05-01"] * 2, "GET /foo"]


def test_a_monitor_may_move_and_be_relative(walk, server):
    """Each poll may name another monitor, relative to the one that answered."""
    server.script(
        accepted(Azure_AsyncOperation="/a/operations/7"),
        Reply(202, {"status": "Accepted"}, headers={"Azure-AsyncOperation": "8?x=1", "Location": "/result"}),
        monitor("Succeeded"),
        [1],
    )

    assert walk("POST", azure.ASYNC_OPERATION) == [1]
    assert asked(server) == ["POST /foo", "GET /a/operations/7", "GET /a/operations/8?x=1", "GET /result"]


def test_a_relative_location_is_the_submits(walk, server):
    """It is resolved against the answer that gave it, not against the monitor that is asked last."""
    server.script(accepted(Azure_AsyncOperation="/a/operations/7", Location="result"), monitor("Succeeded"), [1])

    assert walk("POST", azure.ASYNC_OPERATION) == [1]
    assert asked(server)[-1] == "GET /result"


def test_without_a_monitor_the_location_is_asked_by_its_status(walk, server):
    """202 goes on and may move; 200 is over and is the result."""
    server.script(accepted(Location="/l/1"), accepted(Location="/l/2"), accepted(), {"rows": 2})

    assert walk("POST", azure.ASYNC_OPERATION) == {"rows": 2}
    assert asked(server) == ["POST /foo", "GET /l/1", "GET /l/2", "GET /l/2"]


def test_a_location_that_ends_without_content_left_nothing(walk, server):
    """204 is success without a result."""
    server.script(accepted(Location="/l/1"), 204)

    assert walk("DELETE", azure.ASYNC_OPERATION) is None


@pytest.mark.parametrize(("state", "error"), [("Failed", JobFailed), ("Canceled", JobCancelled)])
def test_a_location_that_answers_200_with_a_failed_resource_is_no_success(walk, server, state, error):
    """The status alone would say success where the provisioningState says that it failed."""
    server.script(accepted(Location="/l/1"), foo("Deleting"), foo(state))

    with pytest.raises(error):
        walk("DELETE", azure.ASYNC_OPERATION)


@pytest.mark.parametrize("page", [Reply(200, content=b"<html>", headers={"Content-Type": "text/html"})])
def test_a_page_at_the_location_is_no_result(walk, server, page):
    """A sign-in page in the place of the Location is a failed poll."""
    server.script(accepted(Location="/l/1"), page, {"rows": 2})

    assert walk("POST", azure.ASYNC_OPERATION) == {"rows": 2}


def test_bytes_at_the_location_are_the_result(server, clock):
    """What is not JSON comes as it is."""
    csv = Reply(200, content=b"a,b\n", headers={"Content-Type": "text/csv"})
    server.script(accepted(Location="/l/1"), csv)

    with operation("report", deadline=600, provider=azure.ASYNC_OPERATION, clock=clock) as op:
        assert op.run("POST", server.url + "foo").content == b"a,b\n"


@pytest.mark.parametrize("status", [302, 303])
def test_a_monitor_that_leads_to_the_result_is_followed_there(walk, server, status):
    """The asynchronous request-reply pattern redirects to the result once it is there."""
    server.script(accepted(Location="/l/1"), accepted(), Reply(status, headers={"Location": "/result"}), {"rows": 2})

    assert walk("POST", azure.ASYNC_OPERATION) == {"rows": 2}
    assert asked(server)[-1] == "GET /result"


@pytest.mark.parametrize("status", [200, 201])
def test_without_any_header_the_resource_itself_is_asked(walk, server, status):
    """A PUT that answers with a provisioningState under way is polled by GET on its own URL."""
    server.script(Reply(status, foo("Creating")), foo("Updating"), FOO)

    assert walk("PUT", azure.ASYNC_OPERATION) == FOO
    assert asked(server) == ["PUT /foo", "GET /foo", "GET /foo"]


def test_a_202_that_names_no_place_is_no_job(walk, server):
    """There is nothing to ask, and the caller is told to look at the server."""
    server.script(accepted())

    with pytest.raises(SurfaceError, match="names no job"):
        walk("POST", azure.ASYNC_OPERATION)


# ---- over at once


@pytest.mark.parametrize("answer", [FOO, Reply(201, FOO), {"id": "/foo", "name": "foo"}, {"values": [1]}])
def test_a_final_answer_to_the_submit_is_the_result(walk, server, answer):
    """A final provisioningState, or a 200 that has none and names no place, needs no poll."""
    server.script(answer)

    assert walk("PUT", azure.ASYNC_OPERATION) == (answer.json() if isinstance(answer, Reply) else answer)
    assert len(server.calls) == 1


def test_a_final_state_goes_before_a_header(walk, server):
    """A 200 that has Succeeded is over, and the place in its header is not asked."""
    server.script(Reply(200, FOO, headers={"Azure-AsyncOperation": "http://localhost/never-ask-this"}))

    assert walk("PATCH", azure.ASYNC_OPERATION) == FOO
    assert len(server.calls) == 1


def test_a_final_state_in_a_202_does_not_go_before_a_header(walk, server):
    """A 202 is asked for, whatever its body says."""
    server.script(accepted(body=FOO, Azure_AsyncOperation=MONITOR), monitor("Failed"))

    with pytest.raises(JobFailed):
        walk("PATCH", azure.ASYNC_OPERATION)


def test_a_resource_that_failed_at_once_is_a_failed_job(walk, server):
    """A 201 with Failed is an ending, not a job."""
    server.script(Reply(201, foo("Failed")))

    with pytest.raises(JobFailed):
        walk("PUT", azure.ASYNC_OPERATION)


@pytest.mark.parametrize("status", [200, 204])
def test_a_delete_without_content_is_over(walk, server, status):
    """200 without a body and 204 are done."""
    server.script(status)

    assert walk("DELETE", azure.ASYNC_OPERATION) is None
    assert len(server.calls) == 1


def test_a_resource_that_says_nothing_of_its_state_is_provisioned(walk, server):
    """Asked by itself, a resource without a provisioningState is finished; a body that is no resource is no answer."""
    server.script(Reply(201, foo("Creating")), {"error": "internal"}, Reply(200), {"id": "/foo", "name": "foo"})

    assert walk("PUT", azure.ASYNC_OPERATION) == {"id": "/foo", "name": "foo"}


# ---- the result


@pytest.mark.parametrize(
    ("method", "final_state_via", "end", "expected"),
    [
        ("PUT", None, {}, "GET /foo"),
        ("PATCH", None, {}, "GET /foo"),
        ("PUT", "location", {}, "GET /where"),
        ("POST", None, {}, "GET /where"),
        ("POST", "location", {}, "GET /where"),
        ("POST", "azure-async-operation", {}, None),
        ("POST", None, {"resourceLocation": "/bar"}, "GET /bar"),
        ("PUT", None, {"resourceLocation": "/bar"}, "GET /bar"),
        ("DELETE", None, {}, None),
    ],
)
def test_the_result_is_where_azure_core_would_look_for_it(walk, server, method, final_state_via, end, expected):
    """final-state-via, resourceLocation, the original of a PUT, the Location of a POST, the monitor: in this order."""
    provider = replace(azure.ASYNC_OPERATION, poll=azure.polling(final_state_via))
    server.script(accepted(Azure_AsyncOperation="/operations/7", Location="/where"), monitor("Succeeded", **end))
    server.script(*([] if expected is None else [FOO]))

    got = walk(method, provider)

    if expected is None:
        assert got == {"id": "7", "status": "Succeeded"}
    else:
        assert (got, asked(server)[-1]) == (FOO, expected)


def test_pages_of_a_list_become_lines(server, clock):
    """`nextLink` is followed to its end, and each item is a row."""
    server.script(accepted(Azure_AsyncOperation="/operations/7", Location="/list"), monitor("Succeeded"))
    server.script({"value": [{"n": 1}, {"n": 2}], "nextLink": "{url}list?skip=2"}, {"value": [{"n": 3}]})

    with operation("list", deadline=600, provider=azure.ASYNC_OPERATION, clock=clock) as op:
        ready = op.poll(op.submit("POST", server.url + "list"))
        assert list(op.download(ready, surface=azure.pages()).iter_rows()) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_an_unreadable_hint_and_a_refused_monitor_are_told(walk, server):
    """A relative monitor that is not there and a Retry-After that is no time: a typed refusal, not a crash."""
    server.script(accepted(Azure_AsyncOperation="/foo2", Location="/foo2", Retry_After="/bar"), 404)

    with pytest.raises(StatusUnavailable) as caught:
        walk("PUT", azure.ASYNC_OPERATION)

    assert caught.value.status_code == 404


@pytest.mark.parametrize("provider", [azure.ASYNC_OPERATION, azure.OPERATION_LOCATION], ids=lambda p: p.name)
def test_the_providers_conform(provider):
    """Nothing that Azure never said is taken for success."""
    check_provider(
        provider,
        pending=monitor("Running"),
        succeeded=monitor("Succeeded", result={"pages": 3}),
        failed=monitor("Failed", error={"code": "x"}),
        cancelled=monitor("Canceled"),
    )
