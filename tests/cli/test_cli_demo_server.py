"""The demo's job server, on real sockets and as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from trihop._clock import SystemClock
from trihop.demo._links import LIFETIME_S, refusal, signed
from trihop.demo._server import DemoServer

QUERY = {"operation": "query", "query": "SELECT Id FROM Account"}


class SwiftClock(SystemClock):
    """Real time, but nobody sleeps; `ahead_s` sets it forward."""

    ahead_s = 0

    def time_ns(self) -> int:
        return super().time_ns() + self.ahead_s * 10**9

    def sleep(self, seconds: float) -> None:
        del seconds


@pytest.fixture
def server() -> Iterator[DemoServer]:
    with DemoServer(SwiftClock()) as server:
        yield server


@pytest.fixture
def api(server: DemoServer) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {server.token}"
        yield session


@pytest.fixture
def stranger() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


def submit(server: DemoServer, api: requests.Session, **more: object) -> str:
    reply = api.post(f"{server.api}/jobs/query", json={**QUERY, **more}, timeout=5)
    assert reply.status_code == 200
    assert reply.json()["state"] == "UploadComplete"
    return f"{server.api}/jobs/query/{reply.json()['id']}"


def polls(api: requests.Session, url: str, number: int) -> list[requests.Response]:
    return [api.get(url, timeout=5) for _ in range(number)]


def test_a_job_runs_breaks_down_once_and_completes(server: DemoServer, api: requests.Session):
    """In progress with hints, one 503, then complete with a link; always at 200 otherwise."""
    replies = polls(api, submit(server, api), 5)

    assert [reply.status_code for reply in replies] == [200, 200, 503, 200, 200]
    assert [reply.headers.get("Retry-After") for reply in replies] == ["1", "1", "1", "1", None]
    assert [reply.json()["state"] for reply in replies if reply.ok] == ["InProgress"] * 3 + ["JobComplete"]
    assert [reply.json()["progress"] for reply in replies if reply.ok] == [12, 45, 71, 100]


def test_the_link_leads_to_the_file_on_another_origin(
    server: DemoServer, api: requests.Session, stranger: requests.Session
):
    """The result lies on a second port, behind a signature instead of a token."""
    link = polls(api, submit(server, api), 5)[-1].json()["resultUrl"]
    reply = stranger.get(link, timeout=5)

    assert link.startswith(server.files)
    assert server.files != server.api
    assert set(parse_qs(urlsplit(link).query)) == {"X-Amz-Date", "X-Amz-Expires", "X-Amz-Signature"}
    assert reply.status_code == 200
    assert len(reply.content.splitlines()) == 20_001


def test_a_file_is_refused_without_its_signature(server: DemoServer, api: requests.Session, stranger: requests.Session):
    """Unsigned, altered and expired links are 403; a link beside credentials is 400."""
    link = polls(api, submit(server, api), 5)[-1].json()["resultUrl"]

    assert stranger.get(link.split("?")[0], timeout=5).status_code == 403
    assert stranger.get(link.replace("Expires=60", "Expires=6000"), timeout=5).status_code == 403
    assert stranger.get(f"{server.files}/?{link.split('?')[1]}", timeout=5).status_code == 403
    refused = api.get(link, timeout=5)
    assert (refused.status_code, "InvalidArgument" in refused.text) == (400, True)
    assert isinstance(server.clock, SwiftClock)
    server.clock.ahead_s = LIFETIME_S + 2
    assert "expired" in stranger.get(link, timeout=5).text


@pytest.mark.parametrize("target", ["/x", "/x?X-Amz-Signature=é", "/x?X-Amz-Expires=a&X-Amz-Date=b&X-Amz-Signature=c"])
def test_no_made_up_target_is_let_through(target: str):
    """A signature is compared before anything else is made of the query."""
    assert refusal(target, b"secret", now_s=0) == "the signature does not fit"


def test_a_link_holds_for_its_lifetime():
    """To the second."""
    target = signed("", "/a", b"secret", now_s=100)

    assert refusal(target, b"secret", now_s=100 + LIFETIME_S) is None
    assert refusal(target, b"secret", now_s=101 + LIFETIME_S) == "the link has expired"
    assert refusal(target, b"other", now_s=100) is not None


def test_the_api_wants_its_token(server: DemoServer, stranger: requests.Session):
    """Without it every question is a 401 that says what is wanted."""
    reply = stranger.post(f"{server.api}/jobs/query", json=QUERY, timeout=5)

    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert reply.json()[0]["errorCode"] == "INVALID_SESSION_ID"
    assert stranger.get(f"{server.api}/jobs/query/1", timeout=5).status_code == 401
    assert server.jobs == {}


def test_a_job_may_fail(server: DemoServer, api: requests.Session):
    """A failed job is a 200 with the reason in it."""
    last = polls(api, submit(server, api, scenario="job"), 4)[-1]

    assert (last.status_code, last.json()["state"]) == (200, "Failed")
    assert last.json()["errorMessage"].startswith("INVALID_FIELD")


def test_a_job_may_fail_in_part(server: DemoServer, api: requests.Session):
    """Complete, but three records failed: the state alone does not tell."""
    last = polls(api, submit(server, api, scenario="partial"), 4)[-1].json()

    assert (last["state"], last["numberRecordsProcessed"], last["numberRecordsFailed"]) == ("JobComplete", 20_000, 3)


def test_a_job_may_never_end_but_can_be_aborted(server: DemoServer, api: requests.Session):
    """It stays in progress until somebody sets it to Aborted."""
    url = submit(server, api, scenario="endless")

    assert {reply.json()["state"] for reply in polls(api, url, 40) if reply.ok} == {"InProgress"}
    assert api.patch(url, json={"state": "Open"}, timeout=5).status_code == 400
    assert api.patch(url, json={"state": "Aborted"}, timeout=5).json()["state"] == "Aborted"
    assert api.get(url, timeout=5).json()["state"] == "Aborted"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"query":"x","scenario":"odd"}', 400), (b"[" * 50_000, 400), (b"x" * 70_000, 413)],
)
def test_a_bad_request_is_answered(server: DemoServer, api: requests.Session, body: bytes, status: int):
    """Whatever is sent, an answer comes, and the connection goes on to serve."""
    assert api.post(f"{server.api}/jobs/query", data=body, timeout=5).status_code == status
    assert api.get(f"{server.api}/jobs/query/none", timeout=5).status_code == 404
    assert api.post(f"{server.api}/elsewhere", json=QUERY, timeout=5).status_code == 404


def test_the_process_says_where_it_listens_and_ends_with_its_input():
    """One JSON line when it is ready; it cannot outlive whoever holds its standard input."""
    command = [sys.executable, "-W", "error", "-m", "trihop.demo"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        told = json.loads(process.stdout.readline())
        with requests.Session() as session:
            session.trust_env = False
            session.headers["Authorization"] = f"Bearer {told['token']}"
            reply = session.post(f"{told['api']}/jobs/query", json=QUERY, timeout=5)
        process.stdin.close()

        assert reply.status_code == 200
        assert urlsplit(told["api"]).hostname == urlsplit(told["files"]).hostname == "127.0.0.1"
        assert process.wait(10) == 0
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
