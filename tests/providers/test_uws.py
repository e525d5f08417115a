"""UWS: 303 to a job that waits to be run, phases in XML or as text, and answers that are held."""

from dataclasses import replace

import pytest

from trihop import (
    JobCancelled,
    JobExpired,
    JobFailed,
    OutcomeAmbiguous,
    Pacing,
    PollErrorsExhausted,
    Reply,
    ResultUnavailable,
    SubmitRejected,
    operation,
)
from trihop.providers import uws
from trihop.testing import check_provider, delayed

XMLNS = 'xmlns:uws="http://www.ivoa.net/xml/UWS/v1.0" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1"'
CREATED = Reply(303, headers={"Location": "{url}tap/async/7"})
RUNNING = Reply(303, headers={"Location": "{url}tap/async/7"})
TABLE = '<uws:result id="result" xlink:href="{url}tap/async/7/results/result" mime-type="application/x-votable+xml"/>'


def job(phase, results="", error="", prefix="uws:"):
    body = f"""<?xml version="1.0" encoding="UTF-8"?>
    <uws:job {XMLNS}>
      <uws:jobId>7</uws:jobId><uws:ownerId/>
      <uws:phase>{phase}</uws:phase>
      <uws:quote>2026-03-01T12:30:00Z</uws:quote>
      <uws:parameters><uws:parameter id="LANG">ADQL</uws:parameter></uws:parameters>
      <uws:results>{results}</uws:results>
      {error and f'<uws:errorSummary type="fatal"><uws:message>{error}</uws:message></uws:errorSummary>'}
    </uws:job>"""
    if prefix == "":
        body = body.replace("uws:", "").replace("xmlns:uws", "xmlns")
    return Reply(200, content=body.encode(), headers={"Content-Type": "application/xml"})


@pytest.fixture
def query(server, clock, session):
    """Submit, run once, wait and download."""

    def query(provider=uws.JOBS, **options):
        with operation("tap query", deadline=3600, session=session, provider=provider, clock=clock, **options) as op:
            submitted = op.submit("POST", server.url + "tap/async", data={"LANG": "ADQL", "QUERY": "SELECT 1"})
            for _ in range(2):
                op.once("run", lambda: uws.run(session, submitted))
            return op.download(op.poll(submitted))

    return query


def asked(server):
    return [f"{call.method} {call.path}" for call in server.calls]


def test_a_job_is_created_run_once_awaited_and_fetched(query, server):
    """303 is read, PHASE=RUN is said once however often the step is passed, and the reference is fetched."""
    server.script(CREATED, RUNNING, job("QUEUED"), job("EXECUTING"), job("COMPLETED", TABLE), b"<VOTABLE/>")

    assert query().content == b"<VOTABLE/>"
    assert asked(server) == [
        "POST /tap/async",
        "POST /tap/async/7/phase",
        "GET /tap/async/7?WAIT=60",
        "GET /tap/async/7?WAIT=60&PHASE=QUEUED",
        "GET /tap/async/7?WAIT=60&PHASE=EXECUTING",
        "GET /tap/async/7/results/result",
    ]
    assert server.calls[1].text == "PHASE=RUN"


def test_a_server_that_holds_its_answers_is_asked_again_at_once(query, server, clock):
    """The wait was the server's: what is left of the pause, if anything, is ours."""
    server.script(
        CREATED, RUNNING, job("EXECUTING"), delayed(58, job("EXECUTING")), delayed(40, job("COMPLETED", TABLE))
    )
    server.script(b"<VOTABLE/>")

    query(provider=replace(uws.JOBS, pacing=Pacing(first=1, cap=30)))

    assert clock.sleeps == [1, 1]


def test_a_1_0_server_that_answers_at_once_is_paced(query, server, clock):
    """Without blocking our own pacing keeps the server from a hot loop."""
    server.script(CREATED, RUNNING, *[job("EXECUTING")] * 3, job("COMPLETED", TABLE), b"<VOTABLE/>")

    query(provider=replace(uws.JOBS, pacing=Pacing(first=1, factor=2, cap=30)))

    assert clock.sleeps == [1, 1, 2, 4]


def test_a_job_that_was_never_run_says_what_it_waits_for(server, clock, session):
    """PENDING is pending, and its message tells the caller what is missing."""
    messages = []
    server.script(CREATED, job("PENDING"), job("COMPLETED", TABLE))

    with operation(
        "tap query",
        deadline=600,
        session=session,
        provider=uws.JOBS,
        clock=clock,
        on_event=lambda event: messages.append(event.message),
    ) as op:
        op.poll(op.submit("POST", server.url + "tap/async"))

    assert "it waits for PHASE=RUN" in messages


@pytest.mark.parametrize("prefix", ["uws:", ""])
@pytest.mark.parametrize("phase", ["QUEUED", "EXECUTING", "SUSPENDED", "UNKNOWN", "queued"])
def test_phases_that_go_on_by_themselves_are_pending(query, server, phase, prefix):
    """With and without a namespace prefix."""
    server.script(CREATED, RUNNING, job(phase, prefix=prefix), job("COMPLETED", TABLE, prefix=prefix), b"<VOTABLE/>")

    assert query().content == b"<VOTABLE/>"


def test_a_job_that_is_held_is_for_somebody_to_look_at(query, server):
    """HELD waits for a hand: not success, not failure, never submitted again."""
    server.script(CREATED, RUNNING, job("HELD"))

    with pytest.raises(OutcomeAmbiguous) as caught:
        query()

    assert caught.value.state == "HELD"
    assert asked(server).count("POST /tap/async") == 1


def test_a_job_in_error_says_why_and_offers_no_results(query, server):
    """Results of a job in ERROR are not to be trusted."""
    server.script(CREATED, RUNNING, job("ERROR", TABLE, error="no such column: ra2000"))

    with pytest.raises(JobFailed, match="no such column: ra2000") as caught:
        query()

    assert caught.value.ready.results == ()


@pytest.mark.parametrize(("phase", "error"), [("ABORTED", JobCancelled), ("ARCHIVED", JobExpired)])
def test_the_other_ends(query, server, phase, error):
    """ABORTED was cancelled; of an ARCHIVED job the results are deleted."""
    server.script(CREATED, RUNNING, job(phase))

    with pytest.raises(error):
        query()


def test_a_job_is_aborted_by_its_phase(server, clock, session):
    """PHASE=ABORT, answered by 303 to the job, was taken; DELETE would destroy it and is not sent."""
    server.script(CREATED, RUNNING, job("ABORTED"))

    with operation("tap query", deadline=600, session=session, provider=uws.JOBS, clock=clock) as op:
        submitted = op.submit("POST", server.url + "tap/async")
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(submitted)

    assert (asked(server)[1], server.calls[1].text) == ("POST /tap/async/7/phase", "PHASE=ABORT")


def test_several_results_have_their_names(server, clock, session, tmp_path):
    """Each reference is a file under its id; one without an address is below the job."""
    references = '<uws:result id="image" xlink:href="/files/i.fits"/><uws:result id="log/1?"/>'
    server.script(CREATED, job("COMPLETED", references), b"FITS", b"LOG")

    with operation("cutout", deadline=600, session=session, provider=uws.JOBS, clock=clock) as op:
        files = op.download(op.poll(op.submit("POST", server.url + "tap/async")), into=tmp_path)

    assert {name: file.content for name, file in files.items()} == {"image": b"FITS", "log/1?": b"LOG"}
    assert asked(server)[-2:] == ["GET /files/i.fits", "GET /tap/async/7/results/log%2F1%3F"]


def test_a_completed_job_without_results_left_none(query, server):
    """COMPLETED is success even where there is nothing to fetch."""
    server.script(CREATED, RUNNING, job("COMPLETED"))

    assert query().content == b""


def test_the_phase_alone_is_read_as_text(query, server):
    """`{job}/phase` answers with the bare word; the results are then known by their list."""
    by_phase = replace(uws.JOBS, status="{status_url}/phase", long_poll=None)
    server.script(CREATED, RUNNING, "EXECUTING\n", "COMPLETED", b"<uws:results/>")

    assert query(provider=by_phase).content == b"<uws:results/>"
    assert asked(server)[2:] == ["GET /tap/async/7/phase"] * 2 + ["GET /tap/async/7/results"]


def test_a_bomb_is_refused_before_it_grows(query, server):
    """Entities are not expanded: a billion laughs is a poll that failed, a few bytes long."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE job [<!ENTITY l0 "lol">{entities}]><job><phase>&l9;</phase></job>'
    server.script(CREATED, RUNNING, job("EXECUTING"), then_always=Reply(200, content=bomb.encode()))

    with pytest.raises(PollErrorsExhausted, match="not_xml"):
        query()


def test_an_external_entity_is_not_fetched(query, server):
    """Nothing outside the document is read."""
    reads = '<!DOCTYPE job [<!ENTITY x SYSTEM "{url}stolen">]><job><phase>&x;</phase></job>'
    server.script(CREATED, RUNNING, then_always=Reply(200, content=reads.encode()))

    with pytest.raises(PollErrorsExhausted, match="not_xml"):
        query()

    assert not [call for call in server.calls if "stolen" in call.path]


@pytest.mark.parametrize("answer", [Reply(200), Reply(200, content=b"<html>"), Reply(200, content=b"<html></html>")])
def test_what_is_no_job_is_no_answer(query, server, answer):
    """A gateway's page, well-formed or not, says nothing of the job."""
    server.script(CREATED, RUNNING, answer, job("COMPLETED", TABLE), b"<VOTABLE/>")

    assert query().content == b"<VOTABLE/>"


def test_a_job_that_is_refused(query, server):
    """403 with the reason."""
    server.script(Reply(403, content=b"quota exceeded"))

    with pytest.raises(SubmitRejected, match="quota exceeded"):
        query()


def test_a_result_that_was_destroyed_is_told(query, server):
    """After its destruction the job's results answer 404."""
    server.script(CREATED, RUNNING, job("COMPLETED", TABLE), 404, job("COMPLETED", TABLE))

    with pytest.raises(ResultUnavailable):
        query()


def test_the_provider_conforms():
    """Only COMPLETED is success, in a job's document and as text."""
    check_provider(
        uws.JOBS,
        pending=job("EXECUTING"),
        succeeded=job("COMPLETED", TABLE.replace("{url}", "https://api.test/")),
        failed=job("ERROR", error="no"),
        cancelled=job("ABORTED"),
    )
    check_provider(
        uws.JOBS,
        pending=Reply(200, content=b"EXECUTING"),
        succeeded=Reply(200, content=b"COMPLETED"),
        failed=Reply(200, content=b"ERROR"),
        cancelled=Reply(200, content=b"ABORTED"),
    )
