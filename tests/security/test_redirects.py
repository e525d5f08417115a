"""Credentials go to the API's own origin and those that were named, and no further, whatever leads elsewhere."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry import baggage, context, propagate
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InsecureRequestWarning

from security import canaries
from security.canaries import CREDENTIALS, carry
from security.proxy import Proxy
from trihop import (
    Call,
    Content,
    Job,
    OperationError,
    Pending,
    PollErrorsExhausted,
    Provider,
    ReadJob,
    ReadState,
    Reply,
    Result,
    ResultUnavailable,
    StatusUnavailable,
    Succeeded,
    SurfaceError,
    operation,
)
from trihop.providers import generic
from trihop.testing import ReceivedCall, ScriptedServer, VirtualClock, accepted, done, running

KINDS = ("session", "basic", "userinfo", "netrc", "netrc default", "oauth")
# What a stranger may learn: who asks, for what, in which form, and over which connection.
SAID_TO_STRANGERS = {
    *("host", "user-agent", "accept", "accept-encoding", "connection"),
    *("content-type", "content-length", "range", "if-range", "prefer"),
}


@pytest.fixture
def foreign(clock: VirtualClock) -> Iterator[ScriptedServer]:
    """Another port, so another origin, and the same domain for cookies and .netrc."""
    with ScriptedServer(clock=clock) as server:
        yield server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """What the session carries."""
    found: str = request.param
    return found


@pytest.fixture
def session(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[requests.Session]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with requests.Session() as plain:
        session = carry(kind, plain, tmp_path / "netrc", monkeypatch)
        yield session
        session.close()


@pytest.fixture
def plain() -> Iterator[requests.Session]:
    """With a bearer token and nothing else."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {canaries.BEARER}"
        yield session


@pytest.fixture
def jobs(server: ScriptedServer, kind: str) -> str:
    """Where to submit."""
    user = f"{canaries.USER}:{requests.utils.quote(canaries.PASSWORD, safe='')}@" if kind == "userinfo" else ""
    return server.url.replace("//", f"//{user}", 1) + "jobs"


def told(call: ReceivedCall) -> str:
    """Everything in a request."""
    return "\n".join([call.path, *(f"{name}: {value}" for name, value in call.headers.fields), call.text])


def knows(call: ReceivedCall) -> set[str]:
    """The credentials in a request."""
    return {name for name, canary in CREDENTIALS.items() if canary in told(call)}


CARRIED = {
    "session": {
        "the session's bearer token",
        "the session's API key",
        "a cookie of the API's domain",
        "a cookie without a domain",
        "a param of the session",
    },
    "basic": {"auth= as the wire has it"},
    "userinfo": {"auth= as the wire has it"},
    "netrc": {".netrc as the wire has it"},
    "netrc default": {".netrc as the wire has it"},
    "oauth": {"an OAuth token"},
}


def assert_at_home(call: ReceivedCall, kind: str) -> None:
    """The API got all that the session carries."""
    assert knows(call) - {"a token given to op.submit"} >= CARRIED[kind] - (
        {"the session's bearer token"} if canaries.WRITTEN in told(call) else set()
    )


def assert_stranger(server: ScriptedServer, *, calls: int = 1) -> None:
    """The host was asked, and got nothing but the question."""
    assert len(server.calls) == calls
    for call in server.calls:
        assert knows(call) == set()
        assert {name.lower() for name, _ in call.headers.fields} <= SAID_TO_STRANGERS


# ---- every way to a foreign host

Lead = Callable[[ScriptedServer, ScriptedServer], dict[str, Any]]
WAYS: dict[str, Lead] = {}


def way(lead: Lead) -> Lead:
    WAYS[str(lead.__doc__).rstrip(".")] = lead
    return lead


@way
def a_link(home: ScriptedServer, foreign: ScriptedServer) -> dict[str, Any]:
    """A result link."""
    home.script(accepted(), running(), done(result_url=foreign.url + "files/1"))
    foreign.script(b"rows")
    return {}


@way
def a_call(home: ScriptedServer, foreign: ScriptedServer) -> dict[str, Any]:
    """A result that is a call with headers."""
    headers = {
        "X-Api-Key": canaries.API_KEY,
        "authorization": f"Bearer {canaries.BEARER}",
        "Cookie": f"a={canaries.COOKIE_HOME}",
        "X-Amz-Security-Token": canaries.BEARER,
        "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
        "baggage": "a=b",
        "Accept": "text/csv",
    }
    result = Result(Call("POST", foreign.url + "files/1", headers=headers, json={"q": 1}))
    home.script(accepted(), running(), done())
    foreign.script(b"rows")

    def poll(reply: Reply, job: Job) -> Pending | Succeeded:
        return Pending("running") if reply.json()["status"] == "running" else Succeeded("done", results=(result,))

    return {"provider": replace(generic.ACCEPTED, poll=poll)}


for status in (301, 302, 303, 307, 308):

    def redirected(home: ScriptedServer, foreign: ScriptedServer, status: int = status) -> dict[str, Any]:
        home.script(accepted(), running(), done(result_url="{url}files/1"))
        home.script(Reply(status, headers={"Location": foreign.url + "files/1", "Set-Cookie": "a=b"}))
        foreign.script(b"rows")
        return {}

    WAYS[f"A download redirected with {status}"] = redirected


for status in (307, 308):

    def poll_redirected(home: ScriptedServer, foreign: ScriptedServer, status: int = status) -> dict[str, Any]:
        home.script(accepted(), running(), Reply(status, headers={"Location": foreign.url + "jobs/1"}))
        foreign.script(done(result=1))
        return {}

    WAYS[f"A poll redirected with {status}"] = poll_redirected

    def submit_redirected(home: ScriptedServer, foreign: ScriptedServer, status: int = status) -> dict[str, Any]:
        home.script(Reply(status, headers={"Location": foreign.url + "jobs"}))
        home.script(running(), done(result=1))
        foreign.script(Reply(202, headers={"Location": home.url + "jobs/1"}))
        return {}

    WAYS[f"A submit redirected with {status}"] = submit_redirected


@way
def a_monitor(home: ScriptedServer, foreign: ScriptedServer) -> dict[str, Any]:
    """A status monitor elsewhere."""
    home.script(accepted(foreign.url + "jobs/1"))
    foreign.script(done(result=1))
    return {}


@way
def a_monitor_that_moves(home: ScriptedServer, foreign: ScriptedServer) -> dict[str, Any]:
    """A status monitor that moves."""
    home.script(accepted(), running(), Reply(202, headers={"Location": foreign.url + "jobs/1"}))
    foreign.script(done(result=1))
    return {}


@way
def a_page(home: ScriptedServer, foreign: ScriptedServer) -> dict[str, Any]:
    """A next page elsewhere."""
    headers = {"X-Secretive": canaries.API_KEY, "X-Tenant": canaries.BEARER}
    home.script(accepted(), running(), done())
    home.script(b"page 1")
    foreign.script(b"page 2")
    listed = [Result(Call("GET", "files/1", headers=headers))]
    poll = ReadState("status", pending={"running"}, succeeded={"succeeded"}, results=listed)

    def page(reply: Reply, result: Result) -> Content:
        return Content(next=foreign.url + "files/2" if home.url in reply.url else None)

    return {"provider": replace(generic.ACCEPTED, poll=poll, download=page)}


@pytest.mark.parametrize("lead", WAYS.values(), ids=WAYS)
def test_a_foreign_host_gets_nothing(server, foreign, session, kind, jobs, clock, spans, lead: Lead) -> None:
    """None of the session's credentials, no header that the caller wrote, no traceparent and no cookie."""
    options = lead(server, foreign)
    written = {"X-Written-Token": canaries.WRITTEN, "Idempotency-Key": canaries.WRITTEN, "traceparent": "00-x"}
    with operation("export", deadline=60, session=session, clock=clock, **options) as op:
        job = op.submit("POST", jobs, json={"q": 1}, headers=written)
        op.download(op.poll(job))
    assert_stranger(foreign)
    for call in server.calls:
        assert_at_home(call, kind)
        assert "traceparent" in call.headers


def test_a_cancel_at_a_foreign_monitor_gets_nothing(server, foreign, session, jobs, clock, spans) -> None:
    """Not even where the caller asks for it."""
    provider = replace(generic.ACCEPTED, cancel=Call("DELETE", "{status_url}", headers={"X-Api-Key": "{id}"}))
    server.script(Reply(202, {"id": canaries.API_KEY}, headers={"Location": foreign.url + "jobs/1"}))
    foreign.script(200)
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        op.submit("POST", jobs)
        assert op.cancel() is True
    assert_stranger(foreign)


# ---- there and back


def test_credentials_come_back_only_with_a_trusted_origin(server, foreign, session, kind, jobs, clock, spans) -> None:
    """Home, elsewhere, home: the session's own return, as its origin does; what the call carried does not."""
    headers = {"X-Api-Token": canaries.WRITTEN, "X-Tenant": canaries.WRITTEN}
    listed = [Result(Call("GET", "files/1", headers=headers))]
    provider = replace(generic.ACCEPTED, poll=ReadState("status", succeeded={"succeeded"}, results=listed))
    server.script(accepted(), done())
    server.on("GET", "/files/1", Reply(302, headers={"Location": foreign.url + "there"}))
    foreign.script(Reply(302, headers={"Location": server.url + "back"}))
    server.on("GET", "/back", b"rows")
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        assert op.run("POST", jobs).content == b"rows"
    assert_stranger(foreign)
    there, back = server.calls[2:]
    assert "a token given to op.submit" in knows(there)
    assert "a token given to op.submit" not in knows(back)
    for call in (there, back):
        assert_at_home(call, kind)


def test_a_foreign_link_may_lead_home(server, foreign, session, kind, jobs, clock, spans) -> None:
    """A redirect from elsewhere to the API's own origin is asked with its credentials."""
    server.script(accepted(), done(result_url=foreign.url + "files/1"))
    foreign.script(Reply(302, headers={"Location": server.url + "back"}))
    server.script(b"rows")
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", jobs)
    assert_stranger(foreign)
    assert_at_home(server.calls[-1], kind)


def test_a_redirect_at_home_keeps_what_the_submit_was_given(server, session, kind, jobs, clock, spans) -> None:
    """Headers, cookies and body go on to the same origin; params do not, as `Location` has its own."""
    server.script(Reply(307, headers={"Location": "/v2/jobs"}), done(result=1))
    given = {"X-Written-Token": canaries.WRITTEN}
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.submit("POST", jobs, json={"q": 1}, headers=given, cookies={"chosen": "c0okie"}, params={"a": "b"})
    first, second = server.calls
    assert (first.path.startswith("/jobs?"), second.path.partition("?")[0]) == (True, "/v2/jobs")
    assert "a=b" in first.path
    assert "a=b" not in second.path
    for call in (first, second):
        assert (call.headers["X-Written-Token"], call.json()) == (canaries.WRITTEN, {"q": 1})
        assert "chosen=c0okie" in call.headers["Cookie"]
        assert_at_home(call, kind)


# ---- what may be said otherwise


def test_named_origins_are_as_good_as_home(server, foreign, session, kind, jobs, clock, spans) -> None:
    """`origins=`, of the operation or the provider, gets credentials and trace headers."""
    for options in (
        {"origins": [foreign.url]},
        {"provider": replace(generic.ACCEPTED, origins=[foreign.url.rstrip("/")])},
    ):
        server.script(accepted(), done(result_url=foreign.url + "files/1"))
        foreign.script(b"rows")
        with operation("export", deadline=60, session=session, clock=clock, **options) as op:
            op.run("POST", jobs)
    assert len(foreign.calls) == 2
    if kind == "userinfo":
        return  # the user of a URL is that origin's own
    for call in foreign.calls:
        assert_at_home(call, kind)
        assert "traceparent" in call.headers


def test_a_call_may_take_credentials_anywhere(server, foreign, session, kind, jobs, clock, spans) -> None:
    """`credentials="always"` sends them to a foreign host, over redirects too, but never the trace."""
    headers = {"X-Written-Token": canaries.WRITTEN}
    result = Result(Call("GET", "{status_url}/file", headers=headers, credentials="always"))
    provider = replace(generic.ACCEPTED, poll=ReadState("status", succeeded={"succeeded"}, results=[result]))
    server.script(accepted(foreign.url + "jobs/1"))
    foreign.on("GET", "/jobs/1", done())
    foreign.on(
        "GET", "/jobs/1/file", Reply(302, headers={"Location": "http://localhost:" + foreign.url.split(":")[2] + "x"})
    )
    foreign.on("GET", "/x", b"rows")
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        op.run("POST", jobs)
    poll, first, second = foreign.calls
    assert knows(poll) == set()
    for call in (first, second):
        assert "a token given to op.submit" in knows(call)
        assert "traceparent" not in call.headers
        assert "baggage" not in call.headers
    if kind not in ("userinfo", "netrc"):
        assert_at_home(first, kind)


def test_a_call_may_leave_credentials_at_home(server, session, jobs, clock, spans) -> None:
    """`credentials="never"` sends none even there, and still the trace."""
    provider = Provider(
        "open",
        submit=ReadJob("id", None),
        status=Call("GET", "jobs/{id}", credentials="never"),
        poll=ReadState("status", succeeded={"done"}, results=[Result(Call("GET", "files/1", credentials="never"))]),
    )
    server.script({"id": "1"}, {"status": "done"}, b"rows")
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        op.run("POST", jobs)
    for call in server.calls[1:]:
        assert knows(call) == set()
        assert "traceparent" in call.headers


# ---- what is the session's own


def test_hooks_and_certificate_stay_at_home_and_proxies_and_verify_do_not(server, foreign, plain, clock) -> None:
    """A hook of the session sees the API's replies alone; how the network is reached is the same for all."""
    seen: list[str] = []
    sent: list[tuple[str, object, object, object]] = []

    class Recording(HTTPAdapter):
        def send(self, request, **options):  # type: ignore[no-untyped-def]
            sent.append((str(request.url), options["cert"], options["verify"], dict(options["proxies"])))
            return super().send(request, **{**options, "cert": None, "proxies": {}, "verify": False})

    plain.mount("http://", Recording())
    plain.cert, plain.verify, plain.proxies = "/some/client.pem", "/some/ca.pem", {"http": "http://proxy.test:3128"}
    plain.hooks["response"].append(lambda response, **_: seen.append(response.url))
    server.script(accepted(), done(result_url=foreign.url + "1"))
    foreign.script(b"rows")
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    at_home = [server.url + "jobs", server.url + "jobs/1"]
    assert seen == at_home
    assert sent == [
        *((url, "/some/client.pem", "/some/ca.pem", {"http": "http://proxy.test:3128"}) for url in at_home),
        (foreign.url + "1", None, "/some/ca.pem", {"http": "http://proxy.test:3128"}),
    ]


def test_an_auth_of_ones_own_signs_for_home_alone(server, foreign, plain, clock) -> None:
    """A callable is not asked to sign what goes elsewhere."""
    signed: list[str] = []

    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        signed.append(str(request.url))
        request.headers["X-Signed"] = canaries.BEARER
        return request

    plain.auth = sign
    server.script(accepted(), done(result_url=foreign.url + "1"))
    foreign.script(b"rows")
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert signed == [server.url + "jobs", server.url + "jobs/1"]
    assert_stranger(foreign)


def test_a_foreign_host_cannot_reach_into_the_cookie_jar(server, foreign, plain, clock) -> None:
    """Cookies know no ports: what another service of the host sets, or deletes, is not let into the session."""
    plain.cookies.set("sid", "ours", domain="127.0.0.1", path="/")
    planted = Reply(302, headers={"Location": "/2", "Set-Cookie": "sid=theirs; Path=/"})
    server.script(accepted(), done(result_url=foreign.url + "1"))
    foreign.script(planted, Reply(200, content=b"rows", headers={"Set-Cookie": "sid=x; Max-Age=0; Path=/"}))
    server.script(Reply(200, content=b"rows", headers={"Set-Cookie": "fresh=1"}))
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.run("POST", server.url + "jobs")
        assert plain.cookies.get_dict() == {"sid": "ours"}
        op.download(Result(server.url + "2"))
    assert plain.cookies.get_dict() == {"sid": "ours", "fresh": "1"}
    assert server.calls[-1].headers["Cookie"] == "sid=ours"
    assert "Cookie" not in foreign.calls[1].headers


class Crates(TextMapPropagator):
    """Keeps baggage in headers of its own, as Jaeger's does."""

    def extract(self, carrier, context=None, getter=None):  # type: ignore[no-untyped-def]
        return context

    def inject(self, carrier, context=None, setter=None):  # type: ignore[no-untyped-def]
        for name, value in baggage.get_all(context).items():
            carrier[f"uberctx-{name}"] = str(value)

    @property
    def fields(self) -> set[str]:
        return set()


def test_ambient_baggage_is_sent_to_nobody(server, plain, clock, spans) -> None:
    """Baggage is the caller's, for the caller's services; not even the API gets it, whatever header it goes by."""
    before = propagate.get_global_textmap()
    token = context.attach(baggage.set_baggage("user", canaries.USER))
    propagate.set_global_textmap(
        CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator(), Crates()])
    )
    try:
        server.script(accepted(), done(result=1))
        with operation("export", deadline=60, session=plain, clock=clock) as op:
            op.run("POST", server.url + "jobs")
    finally:
        propagate.set_global_textmap(before)
        context.detach(token)
    for call in server.calls:
        assert "traceparent" in call.headers
        assert canaries.USER not in told(call)


# ---- https never falls to http


@pytest.fixture
def secure(clock: VirtualClock, plain: requests.Session) -> Iterator[ScriptedServer]:
    with ScriptedServer(tls=True, clock=clock) as server:
        plain.verify = server.ca_file
        yield server


def test_links_of_the_same_host_are_asked_over_tls(secure, plain, clock) -> None:
    """Monitor, redirect and result that forget their TLS are asked with it, credentials and all."""
    clear = secure.url.replace("https:", "HTTP:")
    secure.script(
        accepted(clear + "1"),
        Reply(308, headers={"Location": clear + "2"}),
        done(result_url=clear + "3"),
        Reply(302, headers={"Location": clear + "4"}),
        b"rows",
    )
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.run("POST", secure.url.replace("https:", "HTTPS:") + "jobs")
    assert [(call.path, call.headers["Authorization"]) for call in secure.calls] == [
        (path, f"Bearer {canaries.BEARER}") for path in ("/jobs", "/1", "/2", "/3", "/4")
    ]


@pytest.mark.parametrize(
    ("replies", "error", "words"),
    [
        ([accepted("{f}1")], SurfaceError, "leads from https to http"),
        ([accepted(), Reply(202, headers={"Location": "{f}1"})], SurfaceError, "leads from https to http"),
        ([accepted(), *[Reply(307, headers={"Location": "{f}1"})] * 5], PollErrorsExhausted, "insecure_redirect"),
        ([accepted(), done(result_url="{f}1")], ResultUnavailable, "leads from https to http"),
        (
            [accepted(), done(result_url="/1"), *[Reply(302, headers={"Location": "{f}1"})] * 3],
            ResultUnavailable,
            "insecure_redirect",
        ),
        ([Reply(307, headers={"Location": "{f}1"})], OperationError, "insecure_redirect"),
    ],
    ids=["monitor", "monitor that moves", "poll redirect", "result", "download redirect", "submit redirect"],
)
@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_nothing_of_an_https_api_is_asked_of_another_host_over_http(
    secure, foreign, plain, clock, replies, error, words, scheme
) -> None:
    """It is refused before a byte goes there, in words that say so."""

    def pointed(reply: Reply) -> Reply:
        headers = {name: value.replace("{f}", foreign.url) for name, value in reply.headers.items()}
        content = reply.content.replace(b"{f}", foreign.url.encode())
        return Reply(reply.status_code, headers=headers, content=content)

    secure.script(*map(pointed, replies))
    with (
        pytest.raises(error, match=words),
        operation("export", deadline=600, session=plain, clock=clock) as op,
    ):
        op.run("POST", secure.url.replace("https", scheme) + "jobs")
    assert foreign.calls == []
    secure.assert_done()


def test_a_plain_origin_is_asked_where_the_caller_says_so(secure, foreign, plain, clock) -> None:
    """Named in `origins=`, or written by the caller."""
    secure.script(accepted(), done(result_url=foreign.url + "1"))
    foreign.script(b"named", b"written")
    with operation("export", deadline=60, session=plain, clock=clock, origins=[foreign.url]) as op:
        assert op.run("POST", secure.url + "jobs").content == b"named"
    secure.script(accepted(), done(result=1))
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.run("POST", secure.url + "jobs")
        assert op.download(foreign.url + "1").content == b"written"
    assert [call.headers.get("Authorization") for call in foreign.calls] == [f"Bearer {canaries.BEARER}", None]


# ---- hosts that can be read in two ways


@pytest.mark.parametrize(
    "trick", ["http://{f}\\@{h}/x", "http://{h}\\@{f}/x", "http://{f}%2F@{h}\t/x", "http://{f}/\\@{h}/x"]
)
def test_a_host_that_can_be_read_in_two_ways_is_not_asked(server, foreign, plain, clock, trick: str) -> None:
    """A backslash ends the host for one parser and not for the next: neither host gets the other's credentials."""
    location = trick.format(f=foreign.url.split("/")[2], h=server.url.split("/")[2])
    foreign.script(then_always=b"caught")
    server.script(accepted(), done(result_url=location))
    server.script(then_always=404)
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        ready = op.poll(op.submit("POST", server.url + "jobs"))
        try:
            op.download(ready)
        except ResultUnavailable:
            assert foreign.calls == []
        else:
            assert_stranger(foreign)
    assert len(server.calls) == 2


@pytest.mark.parametrize("location", ["/x\r\n\tInjected: 1", "/x%0d%0aInjected:%201", "http://{h}/x\tInjected: 1"])
def test_a_location_cannot_inject_a_header(server, plain, clock, location: str) -> None:
    """What a folded or escaped `Location` hides stays part of the target."""
    location = location.format(h=server.url.split("/")[2])
    server.script(accepted(), done(result_url="{url}1"), Reply(302, headers={"Location": location}), b"rows")
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert "Injected" not in server.calls[-1].headers
    assert server.calls[-1].path.startswith("/x")


# ---- who goes on with a job


def test_a_job_never_makes_a_strangers_host_its_home(server, foreign, plain, clock) -> None:
    """A submit that was redirected elsewhere: whoever goes on with its job, pickled or not, tells that host nothing."""
    server.script(Reply(307, headers={"Location": foreign.url + "jobs"}))
    foreign.script(Reply(202, headers={"Location": "/jobs/1"}), 403, 403)
    for job in (None, lambda job: job, lambda job: pickle.loads(pickle.dumps(job))):
        with pytest.raises(StatusUnavailable), operation("export", deadline=60, session=plain, clock=clock) as op:
            if job is None:
                foreign.script(403)
                found = op.submit("POST", server.url + "jobs")
                op.poll(found)
            else:
                op.poll(job(found))
    assert_stranger(foreign, calls=4)
    assert found == Job(status_url=foreign.url + "jobs/1", submit_url=server.url + "jobs", submit_method="POST")


def test_what_a_job_left_is_fetched_from_its_home_by_whoever_comes_later(server, foreign, plain, clock) -> None:
    """`download(ready)` in an operation of its own: credentials for the API's own results, none for the others."""
    listed = [Result("files/1"), Result(foreign.url + "2", name="other")]
    provider = replace(generic.ACCEPTED, poll=ReadState("status", succeeded={"succeeded"}, results=listed))
    server.script(accepted(), done(), b"one")
    foreign.script(b"two")
    with operation("export", deadline=60, session=plain, clock=clock, provider=provider) as op:
        ready = op.poll(op.submit("POST", server.url + "jobs"))
    ready = pickle.loads(pickle.dumps(ready))
    with operation("fetch", deadline=60, session=plain, clock=clock) as op:
        assert op.download(ready["result"]).content == b"one"
        assert op.download(ready["other"]).content == b"two"
    assert server.calls[-1].headers["Authorization"] == f"Bearer {canaries.BEARER}"
    assert_stranger(foreign)


def test_a_url_of_the_callers_own_is_home_if_there_is_no_other(server, foreign, plain, clock) -> None:
    """As with `session.get(url)`; a signed link has its own permission, and a second one would spoil it."""
    server.script(b"rows", b"rows")
    with operation("fetch", deadline=60, session=plain, clock=clock) as op:
        op.download(server.url + "files/1")
    with operation("fetch", deadline=60, session=plain, clock=clock) as op:
        op.download(server.url + "files/1?X-Amz-Signature=abc")
    assert [call.headers.get("Authorization") for call in server.calls] == [f"Bearer {canaries.BEARER}", None]


def test_user_and_password_of_a_url_are_no_part_of_the_job(server, plain, clock) -> None:
    """They are `auth=` for the whole operation; the job, which is pickled and stored, is known by the rest."""
    del plain.headers["Authorization"]
    server.script(accepted("/jobs/1"), done(result_url="/files/1"), b"rows")
    url = server.url.replace("//", "//me:p%40w@")
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        job = op.submit("POST", url + "jobs?a=b")
        op.download(op.poll(job))
    assert {call.headers["Authorization"] for call in server.calls} == {"Basic bWU6cEB3"}
    assert (job.submit_url, job.status_url) == (server.url + "jobs?a=b", server.url + "jobs/1")

    server.script(done(result=1))
    with operation("wait", deadline=60, session=plain, clock=clock) as op:
        op.poll(url + "jobs/1")
        assert op.job is not None
        assert op.job.status_url == server.url + "jobs/1"
    assert server.calls[-1].headers["Authorization"] == "Basic bWU6cEB3"


@pytest.mark.parametrize("auth", ["given", "session"])
def test_auth_that_was_given_goes_before_the_user_of_a_url(server, plain, clock, auth: str) -> None:
    """As in requests, where the URL is asked last."""
    del plain.headers["Authorization"]
    if auth == "session":
        plain.auth = ("you", "pw")
    options: dict[str, Any] = {"auth": ("you", "pw")} if auth == "given" else {}
    server.script(accepted("/jobs/1"), done(result=1))
    with operation("export", deadline=60, session=plain, clock=clock) as op:
        op.poll(op.submit("POST", server.url.replace("//", "//me:p%40w@") + "jobs", **options))
    assert {call.headers["Authorization"] for call in server.calls} == {"Basic eW91OnB3"}


# ---- proxies


def test_a_proxys_password_is_told_to_the_proxy_alone(secure, plain, clock) -> None:
    """In CONNECT, and behind it neither the API nor a foreign host learns of it; the proxy learns no credential."""
    with ScriptedServer(tls=True, clock=clock) as other, Proxy(("me", canaries.PROXY)) as proxy:
        plain.proxies, plain.verify = {"https": proxy.url}, False
        secure.script(accepted(), done(result_url=other.url + "1"))
        other.script(b"rows")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureRequestWarning)
            with operation("export", deadline=60, session=plain, clock=clock) as op:
                op.run("POST", secure.url + "jobs")
        assert_stranger(other)
        assert len(secure.calls) == 2
        assert not any("Proxy-Authorization" in call.headers for call in secure.calls)
        heads = [head.decode() for head in proxy.heads]
        assert [head.split(" ")[0] for head in heads] == ["CONNECT", "CONNECT"]
        assert all("Proxy-Authorization: Basic" in head and canaries.BEARER not in head for head in heads)


def test_a_forwarding_proxy_is_told_its_password_with_every_request(server, foreign, plain, clock) -> None:
    """Over http each request is the proxy's to forward; what it forwards to a stranger has no credential of the API."""
    with Proxy(("me", canaries.PROXY)) as proxy:
        plain.proxies = {"http": proxy.url}
        server.script(accepted(), done(result_url=foreign.url + "1"))
        foreign.script(b"rows")
        with operation("export", deadline=60, session=plain, clock=clock) as op:
            op.run("POST", server.url + "jobs")
        assert len(proxy.heads) == 3
        assert all(b"Proxy-Authorization: Basic" in head for head in proxy.heads)
        assert canaries.BEARER.encode() not in proxy.heads[2]
    assert_stranger(foreign)
