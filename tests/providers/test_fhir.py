"""FHIR's $export: a GET that makes a job, a manifest of many files, and errors that may or may not be its end."""

import pytest
import requests

from trihop import (
    JobExpired,
    JobFailed,
    PollErrorsExhausted,
    Reply,
    SubmitRejected,
    operation,
)
from trihop.providers import fhir
from trihop.testing import ScriptedServer, check_provider

ACCEPTED = Reply(202, headers={"Content-Location": "{url}fhir/jobs/7"})


def running(progress=None, **headers):
    found = {} if progress is None else {"X-Progress": progress}
    return Reply(202, headers={**found, **headers})


def manifest(output, *, token=True, **more):
    body = {"transactionTime": "2026-03-01T12:00:00Z", "request": "{url}fhir/Patient/$export", "output": output}
    return {**body, "requiresAccessToken": token, "error": [], **more}


def file(kind, path):
    return {"type": kind, "url": path}


def outcome(status, code, diagnostics):
    issue = {"severity": "error", "code": code, "diagnostics": diagnostics}
    body = {"resourceType": "OperationOutcome", "issue": [issue]}
    return Reply(status, body, headers={"Content-Type": "application/fhir+json"})


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = "Bearer of-the-export"
        yield session


@pytest.fixture
def export(server, clock, session, tmp_path):
    """The triangle; the files by name."""

    def export(**options):
        with operation(
            "export", deadline=6 * 3600, session=session, provider=fhir.EXPORT, clock=clock, **options
        ) as op:
            job = op.submit("GET", server.url + "fhir/Patient/$export", headers=fhir.KICK_OFF)
            files = op.download(op.poll(job), into=tmp_path)
            return {name: file.content for name, file in files.items()}

    return export


@pytest.fixture
def other(clock):
    with ScriptedServer(clock=clock) as other:
        yield other


def test_an_export_is_kicked_off_awaited_and_fetched_file_by_file(export, server, clock, tmp_path):
    """GET, Content-Location, pauses as asked, and a file for each entry of the manifest under a name of its own."""
    server.script(ACCEPTED, running("10%", **{"Retry-After": "120"}), running("in progress", **{"Retry-After": "60"}))
    files = [file("Patient", "{url}f/1"), file("Patient", "{url}f/2"), file("Observation", "{url}f/3")]
    problems = [file("OperationOutcome", "{url}f/4")]
    server.script(manifest(files, error=problems, deleted=[{"url": "{url}f/5"}]))
    server.on("GET", "/f/1", b"{1}\n")
    server.on("GET", "/f/2", b"{2}\n")
    server.on("GET", "/f/3", b"{3}\n")
    server.on("GET", "/f/4", b"{4}\n")
    server.on("GET", "/f/5", b"{5}\n")

    assert export() == {
        "output-Patient": b"{1}\n",
        "output-Patient-2": b"{2}\n",
        "output-Observation": b"{3}\n",
        "error-OperationOutcome": b"{4}\n",
        "deleted": b"{5}\n",
    }
    kick_off, *polls = server.calls[:4]
    assert (kick_off.method, kick_off.path) == ("GET", "/fhir/Patient/$export")
    assert (kick_off.headers["Prefer"], kick_off.headers["Accept"]) == ("respond-async", "application/fhir+json")
    assert [(poll.path, poll.headers["Accept"]) for poll in polls] == [("/fhir/jobs/7", "application/json")] * 3
    assert clock.sleeps[1:] == [120, 60]
    assert server.calls[-1].headers["Accept"] == "application/fhir+ndjson"


def test_progress_is_told_in_percent_where_it_is_one_and_in_words(export, server):
    """`X-Progress` is at the server's discretion."""
    told = []
    server.script(ACCEPTED, running("counting"), running("42.5% complete"), manifest([]))

    export(on_event=lambda event: told.append((event.progress, event.message)))

    assert (None, "counting") in told
    assert (42.5, "42.5% complete") in told


def test_a_server_that_is_asked_too_often_is_left_alone_as_long_as_it_says(export, server, clock):
    """429 is no end: its Retry-After is slept in full, as a number or as a date."""
    server.script(ACCEPTED, running(), Reply(429, headers={"Retry-After": "300"}))
    date = {"Retry-After": "Sun, 01 Mar 2026 12:10:06 GMT", "Date": "Sun, 01 Mar 2026 12:05:06 GMT"}
    server.script(Reply(429, headers=date), manifest([]))

    export()

    assert clock.sleeps[-2:] == [300, 300]


@pytest.mark.parametrize(("token", "sent"), [(True, "Bearer of-the-export"), (False, None)])
def test_the_manifest_says_whether_files_need_the_token(export, server, other, token, sent):
    """True: also at another origin. False: not even at the API's own."""
    server.script(ACCEPTED, manifest([file("Patient", "{url}f/1"), file("Group", other.url + "f/2")], token=token))
    server.on("GET", "/f/1", b"{1}\n")
    other.script(b"{2}\n")

    export()

    assert [call.headers.get("Authorization") for call in (server.calls[-1], *other.calls)] == [sent, sent]


def test_a_manifest_that_says_nothing_of_a_token_keeps_it_at_home(export, server, other):
    """An old server leaves the field out: then the API's own origin gets it, and no other."""
    server.script(ACCEPTED, manifest([file("Patient", "{url}f/1"), file("Group", other.url + "f/2")], token=None))
    server.on("GET", "/f/1", b"{1}\n")
    other.script(b"{2}\n")

    export()

    assert server.calls[-1].headers["Authorization"] == "Bearer of-the-export"
    assert other.calls[0].headers.get("Authorization") is None


def test_a_manifest_in_pages_is_read_to_its_end(export, server):
    """`link` with the relation `next` leads to more files, which may still be in the making."""
    more = [{"relation": "next", "url": "/fhir/jobs/7?page=2"}]
    server.script(ACCEPTED, manifest([file("Patient", "/f/1")], link=more), running("page 2"))
    server.script(manifest([file("Patient", "/f/2")], outcome=[file("OperationOutcome", "/f/3")]))
    for number in (1, 2, 3):
        server.on("GET", f"/f/{number}", f"{{{number}}}\n".encode())

    assert export() == {"output-Patient": b"{1}\n", "output-Patient-2": b"{2}\n", "outcome-OperationOutcome": b"{3}\n"}
    assert [call.path for call in server.calls[1:4]] == ["/fhir/jobs/7", *["/fhir/jobs/7?page=2"] * 2]


def test_an_export_that_failed_says_why(export, server):
    """A 500 with an OperationOutcome is the end of the export."""
    server.script(ACCEPTED, running(), outcome(500, "processing", "disk full"))

    with pytest.raises(JobFailed, match="processing: disk full"):
        export()


@pytest.mark.parametrize("passing", [outcome(500, "transient", "later"), outcome(400, "timeout", "later"), 500, 503])
def test_a_poll_that_failed_is_not_the_end(export, server, passing):
    """A transient code, or no OperationOutcome at all, is about this poll."""
    server.script(ACCEPTED, running(), passing, manifest([]))

    assert export() == {}


def test_a_manifest_without_output_is_no_answer(export, server):
    """`output` is in every manifest, if only an empty one: a 200 of another shape is not success."""
    server.script(ACCEPTED, then_always={"status": "ok"})

    with pytest.raises(PollErrorsExhausted):
        export()


def test_an_export_that_is_gone_has_expired(export, server):
    """404 after a good answer."""
    server.script(ACCEPTED, running(), outcome(404, "not-found", "no such job"))

    with pytest.raises(JobExpired, match="no such job"):
        export()


def test_another_export_under_way_is_a_refusal(export, server):
    """429 at the kick-off: there is no job."""
    server.script(outcome(429, "throttled", "one at a time"))

    with pytest.raises(SubmitRejected, match="one at a time"):
        export()


def test_a_cancel_deletes_the_export_even_while_its_manifest_is_read(server, clock, session):
    """DELETE goes to the Content-Location of the kick-off, not to a page of the manifest."""
    more = [{"relation": "next", "url": "/fhir/jobs/7?page=2"}]
    server.script(Reply(202, headers={"Content-Location": "jobs/7"}), manifest([], link=more), running(), 202)
    asked = []

    def stop(event):
        if event.kind == "polled" and len(asked) == 0:
            asked.append(op.cancel())

    with operation("export", deadline=600, session=session, provider=fhir.EXPORT, clock=clock, on_event=stop) as op:
        job = op.submit("GET", server.url + "fhir/$export", headers=fhir.KICK_OFF)
        server.script(manifest([]))
        op.poll(job)

    assert asked == [True]
    assert [f"{call.method} {call.path}" for call in server.calls][-2:] == [
        "DELETE /fhir/jobs/7",
        "GET /fhir/jobs/7?page=2",
    ]


def test_the_provider_conforms():
    """The status is the word, and a manifest is what success looks like."""
    check_provider(
        fhir.EXPORT,
        pending=running("50%"),
        succeeded=manifest([file("Patient", "https://api.test/f/1")]),
        failed=outcome(500, "processing", "disk full"),
    )
