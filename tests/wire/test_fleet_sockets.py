"""A fleet over real sockets, in real time: who waits for whom, and who gets which credentials."""

import threading

import pytest
import requests

from trihop import Call, Fleet, Pacing, Provider, ReadJob, ReadState, Reply
from trihop._clock import SystemClock
from trihop.testing import ScriptedServer

QUICK = Provider(
    "quick",
    submit=ReadJob(id="id", status_url=None),
    status="/jobs/{id}",
    poll=ReadState("state", pending={"running"}, succeeded={"done"}, results="file"),
    pacing=Pacing(first=0.02, cap=0.02),
)
clock = SystemClock()


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture
def other():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def one():
    with ScriptedServer() as server:
        yield server


def serve(server, *, before=lambda path: None, file=None):
    """Jobs under the names they are submitted with: one poll says running, the next that it is done."""
    seen = set()

    def answer(call):
        before(call.path)
        if call.method == "POST":
            return {"id": call.json()["name"]}
        _, what, name = call.path.split("/")
        if what == "files":
            return name.encode()
        if name not in seen:
            seen.add(name)
            return {"state": "running"}
        return {"state": "done", "file": f"/files/{name}" if file is None else file}

    server.script(then_always=answer)


def job(server, name):
    return Call("POST", f"{server.url}jobs", json={"name": name})


def test_a_slow_server_does_not_starve_another(one, other, session):
    """Twelve jobs at a server that takes a tenth of a second for each answer; five at a quick one are over before."""
    serve(one, before=lambda path: clock.sleep(0.1))
    serve(other)
    over = {}
    began_s = clock.monotonic()
    with Fleet(session=session, provider=QUICK) as fleet:
        for number in range(12):
            fleet.start("export", job(one, f"slow-{number}"), key=f"slow-{number}", deadline=60)
        for number in range(5):
            fleet.start("export", job(other, f"quick-{number}"), key=f"quick-{number}", deadline=60)
        for outcome in fleet.outcomes():
            assert outcome.error is None
            over[outcome.key] = clock.monotonic() - began_s

    quick = [over[key] for key in over if key.startswith("quick")]
    slow = [over[key] for key in over if key.startswith("slow")]
    assert len(quick) == 5
    assert max(quick) < min(slow)


def test_downloads_keep_no_poll_waiting(one, session):
    """While two files come slowly, jobs are submitted, polled and known to be over."""
    gate, seen = threading.Event(), threading.Event()

    def before(path):
        if path.startswith("/files/long"):
            gate.wait(10)

    serve(one, before=before)
    with Fleet(session=session, provider=QUICK, workers=2, per_origin=2) as fleet:
        fleet.start("export", job(one, "long-1"), key="long-1", deadline=60)
        while not any(call.path == "/files/long-1" for call in one.calls):
            seen.wait(0.01)
        for number in range(5):
            fleet.start("export", job(one, f"more-{number}"), key=f"more-{number}", deadline=60)
        while sum(call.path.startswith("/jobs/more") for call in one.calls) < 10:
            seen.wait(0.01)
        assert not any(call.path.startswith("/files/more") for call in one.calls)
        gate.set()
        outcomes = list(fleet.outcomes())

    assert [outcome.error for outcome in outcomes] == [None] * 6


def test_jobs_share_no_credentials_across_origins(one, other, session):
    """A result that one job's server has at another gets none there, though another job is submitted there."""
    session.headers["Authorization"] = "Bearer secret-of-the-session"
    serve(one, file=f"{other.url}elsewhere/1")
    serve(other)
    other.on("GET", "/elsewhere/1", b"rows")
    with Fleet(session=session, provider=QUICK) as fleet:
        fleet.start("export", job(other, "there"), key="there", deadline=60)
        fleet.start("export", job(one, "here"), key="here", deadline=60)
        outcomes = {outcome.key: outcome for outcome in fleet.outcomes()}

    assert {key: outcome.download.text for key, outcome in outcomes.items()} == {"here": "rows", "there": "there"}
    sent = {call.path: "Authorization" in call.headers for call in (*one.calls, *other.calls)}
    assert sent["/elsewhere/1"] is False
    assert [path for path, had in sent.items() if not had] == ["/elsewhere/1"]


def test_credentials_that_change_are_used_by_every_job(one, session):
    """Polls are prepared once, from a session that may be signed in anew meanwhile."""
    session.headers["Authorization"] = "Bearer first"
    asked, enough = [], threading.Event()

    def answer(call):
        if call.method == "POST":
            return {"id": call.json()["name"]}
        asked.append(call.headers["Authorization"])
        if len(asked) >= 20:
            enough.set()
        return {"state": "done"} if asked.count("Bearer second") > 12 else {"state": "running"}

    one.script(then_always=answer)
    with Fleet(session=session, provider=QUICK) as fleet:
        for number in range(4):
            fleet.start("export", job(one, str(number)), deadline=60)
        enough.wait(10)
        session.headers["Authorization"] = "Bearer second"
        outcomes = list(fleet.outcomes())

    assert [outcome.error for outcome in outcomes] == [None] * 4
    assert set(asked) == {"Bearer first", "Bearer second"}
    assert asked[-1] == "Bearer second"


def test_each_request_carries_the_trace_of_its_own_job(one, session, spans):
    """Also where jobs share what their requests were prepared from."""
    serve(one)
    with Fleet(session=session, provider=QUICK) as fleet:
        for number in range(6):
            fleet.start("export", job(one, str(number)), deadline=60)

    root_of = {span.attributes["trihop.job.id"]: span.context.trace_id for span in spans.all if span.name == "export"}
    for call in one.calls:
        if call.path.startswith("/jobs/"):
            name = call.path.split("/")[2]
            assert call.headers["traceparent"].split("-")[1] == f"{root_of[name]:032x}"


def test_a_reply_that_holds_the_origin_holds_its_next_requests(one, session):
    """Half a second after a 503 nobody asks there."""
    held, at = [], []

    def answer(call):
        at.append(clock.monotonic())
        if call.method == "POST":
            return {"id": call.json()["name"]}
        if not held:
            held.append(at[-1])
            return Reply(503, headers={"Retry-After": "0.6"})
        return {"state": "done"}

    one.script(then_always=answer)
    with Fleet(session=session, provider=QUICK, workers=1) as fleet:
        for number in range(6):
            fleet.start("export", job(one, str(number)), deadline=60)

    after = [when for when in at if when > held[0]]
    assert min(after) >= held[0] + 0.55
