"""The conformance kit finds what is wrong with a provider, and nothing where nothing is."""

import datetime as dt
import itertools
from dataclasses import replace

import pytest

from trihop import (
    Call,
    Cancelled,
    Failed,
    Job,
    Partial,
    Pending,
    Provider,
    ReadJob,
    ReadState,
    Reply,
    Result,
    Succeeded,
    Transient,
    header,
    text,
    xml,
)
from trihop.testing import check_provider

STATES = ReadState(
    pending={"running"},
    succeeded={"done"},
    failed={"failed"},
    cancelled={"cancelled"},
    bad_items="counts.bad",
    results="files[].url",
    error="error",
)
GOOD = Provider("acme.exports", poll=STATES, cancel=Call("DELETE", "{status_url}"))
PENDING = {"status": "running"}
SUCCEEDED = {"status": "done", "files": [{"url": "/files/1"}], "counts": {"bad": 0}}
ANSWERS = {"pending": PENDING, "succeeded": SUCCEEDED}


def findings(provider, **answers):
    """What the kit says, line by line."""
    with pytest.raises(AssertionError) as raised:
        check_provider(provider, **{**ANSWERS, **answers})
    first, *lines = str(raised.value).split("\n")
    assert first == f"provider {provider.name!r} does not conform, {len(lines)} to mend:"
    return lines


def polled_by(poll):
    """The good provider with another poll surface."""
    return replace(GOOD, poll=poll)


def test_a_sound_provider_passes_with_every_ending():
    """Nothing is found where every answer is judged as it should be."""
    check_provider(
        GOOD,
        **ANSWERS,
        failed=Reply(200, {"status": "failed", "error": "disk full"}),
        partial={**SUCCEEDED, "counts": {"bad": 3}},
        cancelled={"status": "cancelled"},
    )


def test_a_state_in_a_text_passes():
    """A provider whose status is plain text conforms."""
    poll = ReadState(text, pending={"queued"}, succeeded={"done"}, results=[Result("{status_url}/result")])

    check_provider(
        Provider("acme.plain", status="{status_url}/state", poll=poll),
        pending=Reply(content=b"queued\n"),
        succeeded=Reply(content=b"done\n"),
    )


def test_a_state_in_xml_passes():
    """A provider whose status is XML conforms."""
    poll = ReadState(
        xml("phase"), pending={"EXECUTING"}, succeeded={"COMPLETED"}, results=[Result("{status_url}/results")]
    )
    phase = b'<u:job xmlns:u="http://www.ivoa.net/xml/UWS/v1.0"><u:phase>%b</u:phase></u:job>'

    check_provider(
        Provider("uws.jobs", poll=poll),
        pending=Reply(content=phase % b"EXECUTING"),
        succeeded=Reply(content=phase % b"COMPLETED"),
    )


def test_a_state_in_a_header_passes():
    """A provider whose status is a header field conforms, whatever its bodies are."""
    poll = ReadState(header("X-State"), pending={"busy"}, succeeded={"ready"}, results=header("Location"))

    check_provider(
        Provider("acme.headers", poll=poll),
        pending=Reply(headers={"X-State": "busy"}),
        succeeded=Reply(200, {"any": "thing"}, headers={"X-State": "ready", "Location": "/files/1"}),
    )


def test_a_state_in_the_http_status_passes():
    """Where 202 and 200 are the words, any JSON object at 200 is a result, but a proxy's page is not."""

    def poll(reply, job):
        if reply.status_code == 202:
            return Pending("in-progress")
        return Succeeded("complete", results=[Result(entry["url"]) for entry in reply.json().get("output", [])])

    check_provider(
        Provider("fhir.export", submit=ReadJob(status_url=header("Content-Location")), poll=poll),
        pending=Reply(202),
        succeeded=Reply(200, {"output": [{"url": "https://files.test/1"}]}),
    )


def test_a_provider_with_a_memo_passes_with_its_own_job():
    """What the submit surface keeps is given with job=."""
    provider = replace(GOOD, cancel=None, status="/projects/{memo.project}/jobs/{id}")

    check_provider(provider, **ANSWERS, job=Job(id="7", submit_url="https://acme.test/jobs", memo={"project": "p1"}))
    assert findings(provider) == [
        "  1. status_call() raises LookupError: the job has no memo.project, which {memo.project} needs: status= needs "
        "what this job does not have; give check_provider() a job= as your submit surface makes it"
    ]


# ---- planted faults


def test_success_by_exclusion_is_found():
    """Everything that is not a known other state taken for success: the most common fault of a loop."""

    def poll(reply, job):
        state = reply.json().get("status")
        return Pending(state) if state == "running" else Succeeded(str(state), results=[Result("/files/1")])

    found = findings(polled_by(poll))

    assert [line.partition(" is taken for Succeeded")[0] for line in found] == [
        "  1. the JSON {}",
        '  2. the JSON {"error": "internal"}',
        "  3. the succeeded answer with 'a-word-never-seen' for a state",
        "  4. the succeeded answer with '' for a state",
        "  5. the succeeded answer with None for a state",
    ]


def test_success_by_exclusion_is_found_for_states_deep_in_a_body():
    """The state word is found where it stands, under lists and objects."""

    def poll(reply, job):
        state = reply.json()["jobs"][0]["status"]["state"]
        return Pending(state) if state == "BUSY" else Succeeded(state)

    found = findings(
        polled_by(poll),
        pending={"jobs": [{"status": {"state": "BUSY"}}]},
        succeeded={"jobs": [{"status": {"state": "OVER"}}]},
    )

    assert len(found) == 2  # None makes no Succeeded
    assert all("for a state is taken for Succeeded" in line for line in found)


def test_any_page_of_200_taken_for_success_is_found():
    """A surface that looks at the status alone takes a captive proxy's page for a result."""

    def poll(reply, job):
        return Pending("running") if b"running" in reply.content else Succeeded("done")

    found = "\n".join(findings(polled_by(poll)))

    assert "an HTML page is taken for Succeeded" in found
    assert "an empty body is taken for Succeeded" in found
    assert "the JSON null is taken for Succeeded" in found


def test_a_proxys_page_taken_for_success_is_found_where_the_status_is_the_word():
    """A 200 of HTML is no JSON result, even where 200 means done."""

    def poll(reply, job):
        return Pending("running") if reply.status_code == 202 else Succeeded("done")

    found = findings(polled_by(poll), pending=Reply(202), succeeded={"rows": []})

    assert [line[5:20] for line in found] == ["an HTML page is", "half of the suc"]


def test_a_misspelled_word_is_found():
    """A pending answer with a word that is not listed names the word and the option."""
    assert findings(GOOD, pending={"status": "Runing"}) == [
        "  1. pending: 'Runing' is a word the surface does not list: ReadState(..., pending={'Runing'})"
    ]


def test_a_misspelled_field_is_found():
    """A state field that is not there names the field."""
    found = findings(polled_by(replace(STATES, state="state")))

    assert found[0] == "  1. pending: no answer (no_state): is ReadState('state') the field with the state?"


def test_a_misspelled_results_field_is_found():
    """A success without the results it should have is a result lost."""
    assert findings(polled_by(replace(STATES, results="file[].url"))) == [
        "  1. succeeded: results='file[].url' and data=None find nothing in this answer"
    ]


def test_a_wrong_ending_is_found():
    """An ending judged as another is named with what was expected."""
    found = findings(GOOD, failed={"status": "cancelled"}, partial=SUCCEEDED)

    assert len(found) == 2
    assert "failed: the poll surface gives Cancelled(state='cancelled'" in found[0]
    assert found[0].endswith("expected Failed")
    assert found[1].endswith("expected Partial")


def test_a_surface_that_counts_is_found():
    """A surface with a memory of its own gives another verdict for the same answer."""
    counter = itertools.count()

    def poll(reply, job):
        return replace(STATES(reply, job), message=f"poll {next(counter)}")

    found = findings(polled_by(poll))

    assert [line[5:45] for line in found] == [
        "succeeded: the same answer twice gives S",
        "pending: the same answer twice gives Pen",
    ]


def test_a_surface_that_remembers_an_ending_is_found():
    """What one answer left behind is met by the next."""
    seen = []

    def poll(reply, job):
        verdict = STATES(reply, job)
        seen.append(verdict)
        return next((done for done in seen if isinstance(done, Succeeded)), verdict)

    assert any("pending: the same answer twice gives Pending" in line for line in findings(polled_by(poll)))


def test_a_surface_that_changes_what_it_reads_is_found():
    """A surface that takes a reply or a job apart is told which."""

    def poll(reply, job):
        job.memo["seen"] = reply.json().pop("counts", None)
        return STATES(reply, job)

    found = findings(polled_by(poll), pending={**PENDING, "counts": {"bad": 0}})

    assert "  1. pending: the poll surface changed the reply; let it copy what it takes apart" in found
    assert "  2. pending: the poll surface changed the job; let it return Pending(memo=...) instead" in found


def test_a_surface_that_gives_no_verdict_is_found():
    """None, for an answer that a function forgot, is no verdict."""

    def poll(reply, job):
        state = reply.json().get("status")
        return Pending(state) if state == "running" else Succeeded(state) if state == "done" else None

    found = findings(polled_by(poll))

    assert "the JSON {}: the surface returned NoneType, expected one of Pending, Transient, Ending" in found[0]


def test_a_surface_that_stumbles_over_a_real_answer_is_found():
    """An exception on an answer that was given is a finding, with its text."""
    found = findings(GOOD, failed=Reply(content=b"<failed/>"))

    assert "failed: the poll surface raises Garbled: the body is not JSON" in found[0]


def test_an_exception_that_would_end_the_operation_is_found():
    """Of garbled pages the engine understands four exceptions; others end the operation."""

    def poll(reply, job):
        if not reply.content:
            raise RuntimeError("no body")
        return STATES(reply, job)

    assert findings(polled_by(poll)) == [
        "  1. an empty body: the poll surface raises RuntimeError: no body, which ends the operation; raise ValueError"
    ]


def test_a_status_that_no_surface_is_shown_is_found():
    """An answer of 404 reaches a surface only if it accepts it."""
    assert findings(GOOD, failed=Reply(404, {"status": "failed"})) == [
        "  1. failed: a poll surface is never shown HTTP 404, unless it is marked with @accepts(404)"
    ]


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (Job(id="1"), "status_call() raises LookupError"),
        (Job(id="1", status_url="ftp://x/1"), "status_call() asks 'ftp://x/1', no http URL"),
    ],
)
def test_a_status_call_that_leads_nowhere_is_found(job, told):
    """The status call must be built from the job and be absolute."""
    assert any(told in line for line in findings(GOOD, job=job))


def test_a_cancel_call_that_leads_nowhere_is_found():
    """The cancel call is checked like the status call."""
    found = findings(replace(GOOD, cancel=Call("POST", "ftp://x/{id}")))

    assert found == [
        "  1. cancel_call() asks 'ftp://x/job-1', no http URL: begin cancel= with {status_url} or {submit_url}"
    ]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Result("/files/{id}"), "{id} is filled only in results that ReadState lists"),
        (Result("ftp://files.test/1"), "which leads to no http URL"),
        (Result("/files/1", expires_at=dt.datetime(2026, 3, 1)), "is naive; give it a time zone"),
        ("/files/1", "takes Results, such as [Result('/files/1')], got str on this real answer, expected Succeeded"),
    ],
)
def test_a_result_that_cannot_be_fetched_is_found(result, told):
    """Results are places that lead somewhere, or data."""

    def poll(reply, job):
        verdict = STATES(reply, job)
        return replace(verdict, results=[result]) if isinstance(verdict, Succeeded) else verdict

    (found,) = findings(polled_by(poll))

    assert found.startswith("  1. succeeded: ")
    assert found.endswith(told)


def test_a_result_at_hand_is_no_place():
    """A result with data needs no URL."""

    def poll(reply, job):
        verdict = STATES(reply, job)
        return replace(verdict, results=[Result(data=[1])]) if isinstance(verdict, Succeeded) else verdict

    check_provider(polled_by(poll), **ANSWERS)


@pytest.mark.parametrize("progress", [-1, 250.0])
def test_progress_that_is_no_percentage_is_found(progress):
    """Progress is percent."""
    found = findings(polled_by(replace(STATES, progress="done")), pending={**PENDING, "done": progress})

    assert found == [f"  1. pending: progress is percent, 0 to 100, got {progress:g}"]


@pytest.mark.parametrize("name", ["acme exports", "https://acme.test/", "x" * 65])
def test_a_name_unfit_for_a_span_is_found(name):
    """A provider's name is an attribute on every span."""
    assert findings(replace(GOOD, name=name)) == [
        "  1. the name is on every span: use letters, digits, '.', '_' and '-', 64 at most"
    ]


def test_all_findings_come_at_once():
    """One run tells everything, so that it is mended in one go."""
    broken = replace(
        GOOD,
        name="not a name",
        cancel="{memo.token}",
        poll=lambda reply, job: Partial("done") if job.id else Transient("never"),
    )

    found = findings(broken, failed={"status": "failed"})

    told = [line.split(". ", 1)[1] for line in found]
    assert [line.partition(" ")[0] for line in told[:6]] == [
        "the",
        "cancel_call()",
        "pending:",
        "succeeded:",
        "failed:",
        "the",
    ]
    assert told[2].startswith("pending: the poll surface gives Partial(state='done'")
    assert told[2].endswith("expected Pending")
    assert len(found) > 10


def test_failed_and_cancelled_are_told_apart():
    """The kinds of endings are compared exactly, not by their common parent."""

    def poll(reply, job):
        verdict = STATES(reply, job)
        return Cancelled(verdict.state) if isinstance(verdict, Failed) else verdict

    (found,) = findings(polled_by(poll), failed={"status": "failed"})

    assert found.endswith("expected Failed")


def test_what_is_no_provider_is_refused():
    """A surface instead of a provider is a TypeError."""
    with pytest.raises(TypeError, match="takes a Provider, got ReadState"):
        check_provider(STATES, **ANSWERS)
