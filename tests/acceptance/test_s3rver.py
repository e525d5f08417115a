"""Signed links at s3rver: no second auth mechanism goes there, nothing it echoes is shown, and bad links end quickly.

The requests go through a scripted server that hands them on: it sees what was asked, byte for byte, and it is
another origin than the job API's.
"""

from __future__ import annotations

import datetime as dt
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from acceptance.conftest import Table
from acceptance.servers import s3rver
from trihop import Call, OperationError, Reply, Result, ResultUnavailable, operation
from trihop._clock import SystemClock, utc
from trihop.testing import ReceivedCall, ScriptedServer, SpanLog, accepted, done, short

CSV = b"a,b\n1,2\n"
NOW = utc(SystemClock().time_ns())
PROVIDER = "generic.accepted"

# What a session signs with, and what of it nobody may read.
AUTH = {
    "Bearer": ("Bearer secret-token-4711", ["secret-token-4711"]),
    "Basic": ("Basic dXNlcjpzZWNyZXQtcGFzc3dvcmQ=", ["dXNlcjpzZWNyZXQtcGFzc3dvcmQ=", "secret-password"]),
    "of its own kind": ("token secret-token-0815", ["secret-token-0815"]),
    "SigV4": (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260301/us-east-1/s3/aws4_request, Signature=beef00beef",
        ["AKIDEXAMPLE", "beef00beef"],
    ),
}
BEARER, (TOKEN,) = AUTH["Bearer"]


class Signing(requests.auth.AuthBase):
    """Adds an `Authorization` to each request that it is asked to sign."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self.value
        return request


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3rver.running(tmp_path_factory.mktemp("s3rver")) as url:
        yield url


@pytest.fixture
def hand_on(s3: str) -> Callable[[ReceivedCall], Reply]:
    """Asks s3rver what was asked here."""

    def hand_on(call: ReceivedCall) -> Reply:
        passed_on = ("Authorization", "Range", "If-Range", "X-Amz-Date", "X-Amz-Content-SHA256")
        headers = {name: call.headers[name] for name in passed_on if name in call.headers}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.send(_exact(call.method, s3 + call.path, headers), timeout=10)
        kept = ("Content-Type", "Content-Range", "Content-Disposition", "ETag", "Last-Modified", "Accept-Ranges")
        headers = {name: answer.headers[name] for name in kept if name in answer.headers}
        return Reply(answer.status_code, content=answer.content, headers=headers)

    return hand_on


def _exact(method: str, url: str, headers: dict[str, str]) -> requests.PreparedRequest:
    request = requests.Request(method, url, headers=headers).prepare()
    request.url = url
    return request


@pytest.fixture
def storage(s3: str, hand_on: Callable[[ReceivedCall], Reply]) -> Iterator[ScriptedServer]:
    """The origin of the links; `out/r.csv` is there."""
    assert s3rver.put(f"{s3}/out/r.csv", CSV, at=NOW) == 200
    with ScriptedServer() as storage:
        storage.script(then_always=hand_on)
        yield storage


class Run:
    """A job whose result is behind a link."""

    def __init__(self, api: ScriptedServer, spans: SpanLog) -> None:
        self.api = api
        self.spans = spans
        self.error: OperationError | None = None

    def __call__(self, *links: str, auth: str | None = None, credentials: str | None = None) -> Any:
        """Its bytes, or what was raised; a link for each time that the job is asked for it.

        Args:
            auth: What the session signs with.
            credentials: "always" sends it along with the link, wherever that leads.
        """
        self.api.script(accepted(), *[done(result_url=link) for link in links])
        with requests.Session() as session:
            session.trust_env = False
            session.auth = None if auth is None else Signing(auth)
            try:
                with operation("export", deadline=60, session=session) as op:
                    ready = op.poll(op.submit("POST", f"{self.api.url}jobs"))
                    if credentials is None:
                        return op.download(ready).text.encode()
                    return op.download(Result(Call("GET", links[0], credentials=credentials))).text.encode()
            except OperationError as error:
                self.error = error
                return type(error).__name__

    @property
    def told(self) -> str:
        """All that is told of it anywhere."""
        error = self.error
        if error is None:
            return self.spans.tree()
        texts = (str(error), repr(error), *traceback.format_exception(type(error), error, error.__traceback__))
        return "\n".join([self.spans.tree(), *texts, repr(error.cause), repr(pickle.dumps(error))])


@pytest.fixture
def run(server: ScriptedServer, spans: SpanLog) -> Run:
    return Run(server, spans)


def link_to(storage: ScriptedServer, key: str = "r.csv", **options: Any) -> str:
    return s3rver.signed(f"{storage.url}out/{key}", **{"at": NOW, **options})


def test_put(s3: str, table: Table) -> None:
    table.row(PROVIDER, "put the result", expected=200, got=s3rver.put(f"{s3}/out/r.csv", CSV, at=NOW))


def test_a_signed_link(run: Run, storage: ScriptedServer, table: Table) -> None:
    link = link_to(storage)

    got = (run(link), storage.calls[0].path == link.removeprefix(storage.url.rstrip("/")))
    table.row(PROVIDER, "signed link, byte for byte", expected=(CSV, True), got=got)


@pytest.mark.parametrize("kind", AUTH)
def test_the_sessions_auth_stays_at_home(run: Run, storage: ScriptedServer, table: Table, kind: str) -> None:
    value, _ = AUTH[kind]

    content = run(link_to(storage), auth=value)

    at_home = {call.headers.get("Authorization") for call in run.api.calls}
    got = (content, at_home == {value}, [call.headers.get("Authorization") for call in storage.calls])
    table.row(PROVIDER, f"session auth {kind}: not sent along", expected=(CSV, True, [None]), got=got)


@pytest.mark.parametrize("kind", AUTH)
def test_an_echoed_token_is_not_shown(run: Run, storage: ScriptedServer, table: Table, kind: str) -> None:
    value, secrets = AUTH[kind]

    ending = run(link_to(storage), auth=value, credentials="always")

    echoed = value in requests.get(link_to(storage), headers={"Authorization": value}, timeout=10).text
    shown = [secret for secret in secrets if secret in run.told]
    got = (ending, run.error and run.error.status_code, echoed, shown)
    expected = ("ResultUnavailable", 400, True, [])
    table.row(PROVIDER, f"{kind} sent all the same: echoed, not shown", expected=expected, got=got)


def test_a_plain_url_with_a_token(run: Run, storage: ScriptedServer, table: Table) -> None:
    ending = run(f"{storage.url}out/r.csv", auth=BEARER, credentials="always")

    got = (ending, "Unsupported Authorization Type" in str(run.error), TOKEN in run.told)
    table.row(PROVIDER, "plain URL with a token", expected=("ResultUnavailable", True, False), got=got)


def test_an_expired_link_is_renewed_before_it_is_asked(run: Run, storage: ScriptedServer, table: Table) -> None:
    expired = link_to(storage, at=NOW - dt.timedelta(hours=1), expires_s=1)

    got = (run(expired, link_to(storage)), len(storage.calls))
    table.row(PROVIDER, "expired V4 link, a fresh one at the next poll", expected=(CSV, 1), got=got)


def test_an_expired_link_that_stays(run: Run, storage: ScriptedServer, table: Table) -> None:
    expired = link_to(storage, at=NOW - dt.timedelta(hours=1), expires_s=1)

    ending = run(expired, expired)

    got = (ending, len(storage.calls), "same link" in str(run.error), "Request has expired" in str(run.error))
    table.row(PROVIDER, "expired V4 link that stays", expected=("ResultUnavailable", 1, True, True), got=got)
    assert "X-Amz-Signature" not in run.told or expired.rpartition("=")[2] not in run.told


def test_a_v2_link(run: Run, storage: ScriptedServer, table: Table) -> None:
    link = s3rver.signed_v2(f"{storage.url}out/r.csv", until=NOW + dt.timedelta(hours=6))

    table.row(PROVIDER, "V2 link", expected=CSV, got=run(link, auth=BEARER))


def test_a_tampered_v2_link(run: Run, storage: ScriptedServer, table: Table) -> None:
    link = s3rver.signed_v2(f"{storage.url}out/r.csv", until=NOW + dt.timedelta(hours=6))
    tampered = link[:-6] + "AAA%3D"

    ending = run(tampered, tampered)

    got = (ending, len(storage.calls), "SignatureDoesNotMatch" in str(run.error), tampered[-20:-3] in run.told)
    table.row(PROVIDER, "V2 link, tampered", expected=("ResultUnavailable", 1, True, False), got=got)


def test_an_expired_v2_link(run: Run, storage: ScriptedServer, table: Table) -> None:
    link = s3rver.signed_v2(f"{storage.url}out/r.csv", until=NOW - dt.timedelta(seconds=5))

    ending = run(link, link)

    got = (ending, len(storage.calls), run.error is not None and run.error.elapsed < 5)
    table.row(PROVIDER, "V2 link, expired", expected=("ResultUnavailable", 1, True), got=got)


def test_a_missing_key(run: Run, storage: ScriptedServer, table: Table) -> None:
    link = link_to(storage, "none")

    got = (run(link, link), "NoSuchKey" in str(run.error))
    table.row(PROVIDER, "missing key", expected=("ResultUnavailable", True), got=got)


def test_a_transfer_that_breaks_off(
    run: Run, storage: ScriptedServer, hand_on: Callable[[ReceivedCall], Reply], table: Table
) -> None:
    storage.script(short(hand_on, 4))

    got = (run(link_to(storage)), [call.headers.get("Range") for call in storage.calls])
    table.row(PROVIDER, "broken off after 4 bytes, the rest by range", expected=(CSV, [None, "bytes=4-"]), got=got)


def test_a_range(storage: ScriptedServer, table: Table) -> None:
    with operation("export", deadline=60) as op:
        got = op.download(Call("GET", link_to(storage), headers={"Range": "bytes=4-"})).text

    table.row(PROVIDER, "a range", expected="1,2\n", got=got)


def test_a_query_of_its_own(run: Run, storage: ScriptedServer, table: Table) -> None:
    link = link_to(storage, **{"response-content-disposition": 'attachment; filename="x.csv"'})

    got = (run(link), storage.calls[0].query["response-content-disposition"])
    expected = (CSV, 'attachment; filename="x.csv"')
    table.row(PROVIDER, "response-content-disposition", expected=expected, got=got)


def test_a_bad_link_raises_what_it_should(run: Run, storage: ScriptedServer) -> None:
    """The class itself, not only its name."""
    link = link_to(storage, "none")

    run(link, link)

    assert isinstance(run.error, ResultUnavailable)
