"""OGC API - Processes: a job or a quick result, three kinds of 404, and a DELETE that may destroy."""

import pytest

from trihop import (
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    Reply,
    ResultUnavailable,
    StatusUnavailable,
    SubmitRejected,
    SurfaceError,
    operation,
)
from trihop.providers import ogc, prefer
from trihop.testing import check_provider

EXCEPTION = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/"
RESULTS = "http://www.opengis.net/def/rel/ogc/1.0/results"


def status(word, **fields):
    return {"jobID": "j1", "processID": "buffer", "type": "process", "status": word, **fields}


def created(location="{url}api/jobs/j1", **fields):
    headers = {} if location is None else {"Location": location, "Preference-Applied": "respond-async"}
    return Reply(201, status("accepted", **fields), headers=headers)


def exception(http_status, kind):
    return Reply(http_status, {"type": EXCEPTION + kind, "title": kind, "status": http_status})


@pytest.fixture
def execute(server, clock):
    """The triangle of one execution; the download."""

    def execute(**options):
        with operation("buffer", deadline=3600, provider=ogc.PROCESSES, clock=clock, **options) as op:
            url = server.url + "api/processes/buffer/execution"
            return op.run("POST", url, headers=prefer.respond_async(), json={"inputs": {}})

    return execute


def asked(server):
    return [f"{call.method} {call.path}" for call in server.calls]


def test_a_job_is_asked_until_it_is_successful_and_its_results_are_fetched(execute, server):
    """201 and Location, the status document, and /results below it."""
    server.script(created(), status("accepted"), status("running", progress=40), status("successful", progress=100))
    server.script({"area": 7})
    progress = []

    assert execute(on_event=lambda event: progress.append(event.progress)).json() == {"area": 7}
    assert asked(server) == [
        "POST /api/processes/buffer/execution",
        *["GET /api/jobs/j1"] * 3,
        "GET /api/jobs/j1/results",
    ]
    assert server.calls[0].headers["Prefer"] == "respond-async"
    assert 40 in progress


@pytest.mark.parametrize("answer", [{"area": 7}, None, 7, "seven", [1], False])
def test_a_server_that_is_quick_answers_with_the_result(server, clock, answer):
    """200 is the result itself, and `null` is one."""
    content = Reply(200, answer).content if answer is not None else b"null"
    server.script(Reply(200, content=content, headers={"Content-Type": "application/json"}))

    with operation("buffer", deadline=60, provider=ogc.PROCESSES, clock=clock) as op:
        ready = op.poll(op.submit("POST", server.url + "processes/buffer/execution", json={}))

    assert (ready.data, ready.complete, len(ready.results)) == (answer, True, 1)
    assert len(server.calls) == 1


def test_a_quick_result_that_is_no_json_comes_as_it_is(execute, server):
    """A raw output has its own media type."""
    server.script(Reply(200, content=b"\x89PNG", headers={"Content-Type": "image/png"}))

    assert execute().content == b"\x89PNG"


def test_an_execution_without_outputs_is_over_without_a_result(execute, server):
    """204: none was asked for."""
    server.script(204)

    assert execute().content == b""


def test_a_page_in_the_place_of_a_quick_result_makes_no_sense(execute, server):
    """A sign-in page is no result."""
    server.script(Reply(200, content=b"<html>sign in</html>", headers={"Content-Type": "text/html"}))

    with pytest.raises(SurfaceError):
        execute()


@pytest.mark.parametrize("answer", [created(None), Reply(201, {"id": "j1", "status": "accepted"})])
def test_a_job_without_a_location_is_beside_the_processes(execute, server, answer):
    """`jobID` (1.0) or `id` is enough, also where the API lives below a path."""
    server.script(answer, status("successful"), {"area": 7})

    assert execute().json() == {"area": 7}
    assert asked(server)[1] == "GET /api/jobs/j1"


def test_a_job_may_be_named_by_a_link(execute, server):
    """`Link: <…>; rel="monitor"` leads to the job as well."""
    link = Reply(201, status("accepted"), headers={"Link": '<{url}m/1>; rel="monitor"'})
    server.script(link, status("successful"), {"area": 7})

    execute()

    assert asked(server)[1] == "GET /m/1"


def test_results_may_be_elsewhere(execute, server):
    """A link with the relation `results` in the status goes before the usual place."""
    links = [{"rel": "self", "href": "j1"}, {"rel": RESULTS, "href": "j1/results?f=json"}]
    server.script(created(), status("successful", links=links), {"area": 7})

    execute()

    assert asked(server)[-1] == "GET /api/jobs/j1/results?f=json"


@pytest.mark.parametrize("http_status", [404, 403])
def test_results_that_are_not_ready_are_asked_for_again(execute, server, http_status):
    """The first kind of 404 is pending: the job is polled, then the results."""
    server.script(created(), status("successful"), exception(http_status, "result-not-ready"))
    server.script(status("successful"), {"area": 7})

    assert execute().json() == {"area": 7}


@pytest.mark.parametrize("kind", ["result-not-available", "no-such-job"])
def test_results_that_will_never_be_are_gone(execute, server, kind):
    """The other two kinds of 404 are final."""
    server.script(created(), status("successful"), exception(404, kind))

    with pytest.raises(ResultUnavailable, match=kind):
        execute()


def test_a_gateways_404_is_judged_by_its_status(execute, server):
    """A page in the place of the results is no exception of OGC's."""
    server.script(created(), status("successful"), Reply(404, content=b"<html>"))

    with pytest.raises(ResultUnavailable, match="404"):
        execute()


def test_a_failed_process_says_why(execute, server):
    """The exception, else the message, is the error."""
    why = {"type": "about:blank", "title": "Bad geometry", "detail": "ring is not closed"}
    server.script(created(), status("running"), status("failed", message="it broke", exception=why))

    with pytest.raises(JobFailed, match="ring is not closed") as caught:
        execute()

    assert caught.value.error == why


def test_a_failed_process_without_an_exception_has_its_message(execute, server):
    """1.0 has no exception in the status."""
    server.script(created(), status("failed", message="Woke up too early"))

    with pytest.raises(JobFailed, match="Woke up too early"):
        execute()


def test_a_job_is_dismissed_while_it_goes_on(server, clock):
    """DELETE on a running job, and the next poll says so."""
    server.script(created(), status("dismissed"), status("dismissed"))

    with operation("buffer", deadline=60, provider=ogc.PROCESSES, clock=clock) as op:
        job = op.submit("POST", server.url + "api/processes/buffer/execution", json={})
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert asked(server)[1] == "DELETE /api/jobs/j1"


def test_a_job_that_is_over_is_not_deleted(server, clock):
    """DELETE removes what is over, results and all: it is not sent."""
    server.script(created(), status("successful"))

    with operation("buffer", deadline=60, provider=ogc.PROCESSES, clock=clock) as op:
        op.poll(op.submit("POST", server.url + "api/processes/buffer/execution", json={}))
        with pytest.raises(ValueError, match="DELETE would remove it with its results"):
            op.cancel()

    assert len(server.calls) == 2


def test_a_job_that_nobody_knows(execute, server):
    """404 at once is a wrong place; after a good answer the job is gone."""
    server.script(created(), exception(404, "no-such-job"))
    with pytest.raises(StatusUnavailable):
        execute()

    server.script(created(), status("running"), exception(404, "no-such-job"))
    with pytest.raises(JobExpired):
        execute()


def test_inputs_that_are_refused(execute, server):
    """400 says what is wrong with them."""
    server.script(Reply(400, {"type": "about:blank", "title": "Bad Request", "detail": "radius is missing"}))

    with pytest.raises(SubmitRejected, match="radius is missing"):
        execute()


def test_the_provider_conforms():
    """Only `successful` is success."""
    check_provider(
        ogc.PROCESSES,
        pending=status("running", progress=40),
        succeeded=status("successful"),
        failed=status("failed", message="it broke"),
        cancelled=status("dismissed"),
        job=Job(id="j1", status_url="https://api.test/jobs/j1", submit_url="https://api.test/processes/b/execution"),
    )
