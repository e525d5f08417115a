"""Requests prepared once and sent again, what of the session they are made from, and how they are answered."""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from http.cookiejar import DefaultCookiePolicy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict

from trihop import (
    Call,
    Event,
    Pending,
    PollErrorsExhausted,
    Reply,
    Result,
    ResultUnavailable,
    StatusUnavailable,
    SubmitRejected,
    SubmitUncertain,
    Succeeded,
    operation,
)
from trihop._origin import Trusted
from trihop._wire.network import BodyTooLarge, read_parsed
from trihop._wire.prepare import Preparing
from trihop.providers import generic
from trihop.testing import ReceivedCall, ScriptedServer, VirtualClock, accepted, done, reset, running, short


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that were prepared, in order."""
    urls: list[str] = []

    def counted(way: str) -> Callable[..., Any]:
        original = getattr(Preparing, way)

        def prepare(self: Preparing, call: Call, *args: Any) -> Any:
            kept = original(self, call, *args)
            if kept is not None:
                urls.append(kept.full_url)
            return kept

        return prepare

    for way in ("_prepare", "_after_the_model"):
        monkeypatch.setattr(Preparing, way, counted(way))
    return urls


def after_poll(number: int, do: Callable[[], object]) -> Callable[[Event], None]:
    """A listener that does something once so many polls were answered."""

    def listen(event: Event) -> None:
        if event.kind in ("polled", "state_changed") and event.polls == number:
            do()

    return listen


def polls(server: ScriptedServer) -> list[ReceivedCall]:
    return [call for call in server.calls if call.path.startswith("/jobs/1")]


# ---- prepared once


def test_many_polls_are_prepared_once(server, session, clock, spans, prepared: list[str]) -> None:
    """Twenty polls after the submit are one preparing; only `traceparent` is put in anew, and left out in the end."""
    session.headers["X-Api-Key"] = "k3y"
    session.auth = ("me", "pw")
    session.params = {"tenant": "7"}
    server.script(accepted(), *[running()] * 19, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert prepared == [server.url + "jobs?tenant=7", server.url + "jobs/1?tenant=7"]
    alike = {
        tuple((name, value) for name, value in call.headers.fields if name.lower() != "traceparent")
        for call in polls(server)
    }
    assert len(alike) == 1
    assert {"X-Api-Key": "k3y", "Authorization": "Basic bWU6cHc="}.items() <= dict(*alike).items()
    assert {call.path for call in polls(server)} == {"/jobs/1?tenant=7"}
    assert ["traceparent" in call.headers for call in polls(server)] == [True] * 8 + [False] * 12


def test_a_poll_with_a_body_is_prepared_once(server, session, clock, prepared: list[str]) -> None:
    """JSON, a form and bytes can be sent again as they are."""
    for body in ({"json": {"id": "{id}"}}, {"data": {"id": "{id}"}}, {"data": b"raw"}):
        prepared.clear()
        provider = replace(generic.ACCEPTED, status=Call("POST", "{status_url}", **body))  # type: ignore[arg-type]
        server.script(Reply(202, {"id": "7"}, headers={"Location": "/jobs/1"}), *[running()] * 3, done(result=1))
        with operation("export", deadline=3600, session=session, clock=clock, provider=provider) as op:
            op.run("POST", server.url + "jobs")
        assert len(prepared) == 2
        assert len({call.body for call in server.calls[-4:]}) == 1
    assert {call.body for call in polls(server)} == {b'{"id": "7"}', b"id=7", b"raw"}


def test_a_job_that_moves_is_prepared_anew(server, session, clock, prepared: list[str]) -> None:
    """What is asked is part of what a request is made from."""
    server.script(accepted(), Reply(202), *[Reply(202, headers={"Location": "/jobs/1/b"})] * 3, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert [url[len(server.url) :] for url in prepared] == ["jobs", "jobs/1", "jobs/1/b"]


# ---- prepared anew

Change = Callable[[requests.Session], object]


class Signing(requests.auth.AuthBase):
    """Signs each request, as SigV4 does."""

    def __init__(self) -> None:
        self.signed = 0

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        self.signed += 1
        request.headers["X-Signature"] = f"signature-{self.signed}"
        return request


CHANGES: dict[str, tuple[Change, Callable[[ReceivedCall], object]]] = {
    "a header": (lambda session: session.headers.update({"X-Key": "new"}), lambda call: call.headers["X-Key"]),
    "a header taken away": (
        lambda session: session.headers.pop("X-Old"),
        lambda call: "new" if "X-Old" not in call.headers else "old",
    ),
    "all headers": (
        lambda session: setattr(session, "headers", requests.structures.CaseInsensitiveDict({"X-Key": "new"})),
        lambda call: call.headers["X-Key"],
    ),
    "params": (lambda session: session.params.update({"p": "new"}), lambda call: call.query["p"]),
    "params in a list": (
        lambda session: session.params["l"].append("new"),
        lambda call: call.path.rpartition("=")[2],
    ),
    "auth": (
        lambda session: setattr(session, "auth", ("me", "pw")),
        lambda call: "new" if call.headers["Authorization"] == "Basic bWU6cHc=" else "old",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_in_the_session_changes_the_next_poll(server, session, clock, what: str) -> None:
    """A token that the caller renews while a job runs is what the next poll is sent with."""
    change, read = CHANGES[what]
    session.headers["X-Old"] = "old"
    session.params = {"a": "b", "l": ["old"]}
    server.script(accepted(), *[running()] * 4, done(result=1))
    listen = after_poll(2, lambda: change(session))
    with operation("export", deadline=3600, session=session, clock=clock, on_event=listen) as op:
        op.run("POST", server.url + "jobs")
    assert [read(call) for call in polls(server)[2:]] == ["new"] * 3


class Recording(HTTPAdapter):
    """Notes what it is sent with."""

    def __init__(self) -> None:
        super().__init__()
        self.options: list[dict[str, Any]] = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        self.options.append({**options, "proxies": dict(options["proxies"])})
        return super().send(request, **{**options, "cert": None, "proxies": {}, "verify": False})


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("verify", "/ca.pem", "/ca.pem"),
        ("cert", "/client.pem", "/client.pem"),
        ("proxies", {"http": "http://proxy.test"}, {"http": "http://proxy.test"}),
        ("trust_env", True, {"http": "http://env.test"}),
    ],
)
def test_how_the_network_is_reached_may_change_between_polls(
    server, session, clock, monkeypatch, name: str, value: object, seen: object
) -> None:
    """`verify`, `cert`, `proxies` and `trust_env` hold from the next poll on."""
    monkeypatch.setenv("HTTP_PROXY", "http://env.test")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    adapter = Recording()
    session.mount("http://", adapter)
    server.script(accepted(), *[running()] * 3, done(result=1))
    listen = after_poll(2, lambda: setattr(session, name, value))
    with operation("export", deadline=3600, session=session, clock=clock, on_event=listen) as op:
        op.run("POST", server.url + "jobs")
    option = "proxies" if name == "trust_env" else name
    found = [options[option] for options in adapter.options[1:]]
    assert [one == seen for one in found] == [False, False, True, True]


def test_a_hook_that_is_added_runs_from_the_next_poll_on(server, session, clock) -> None:
    """And hooks that were there run on each poll."""
    seen: list[str] = []
    session.hooks["response"].append(lambda response, **_: seen.append("old"))
    server.script(accepted(), *[running()] * 3, done(result=1))
    listen = after_poll(2, lambda: session.hooks["response"].append(lambda response, **_: seen.append("new")))
    with operation("export", deadline=3600, session=session, clock=clock, on_event=listen) as op:
        op.run("POST", server.url + "jobs")
    assert seen == ["old", "old", "old", "old", "new", "old", "new"]


def test_a_callable_signs_each_poll(server, session, clock, prepared: list[str]) -> None:
    """A signature has a time, so a request that was signed once is not sent again."""
    session.auth = Signing()
    server.script(accepted(), *[running()] * 3, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert [call.headers["X-Signature"] for call in server.calls] == [f"signature-{n}" for n in range(1, 6)]
    assert len(prepared) == 5


def test_auth_given_to_the_submit_signs_each_poll_too(server, session, clock) -> None:
    """`auth=` of the submit is how the API is reached, by all hops."""
    server.script(accepted(), *[running()] * 2, done(result_url="/file"), b"rows")
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs", auth=Signing())
    assert [call.headers["X-Signature"] for call in server.calls] == [f"signature-{n}" for n in range(1, 6)]


def test_a_full_cookie_jar_is_asked_for_each_poll(server, session, clock, prepared: list[str]) -> None:
    """Cookies run out, and are meant for some paths: who has any prepares each time."""
    session.cookies.set("sid", "1")
    server.script(accepted(), *[running()] * 3, done(result=1))
    listen = after_poll(2, lambda: session.cookies.set("sid", "2"))
    with operation("export", deadline=3600, session=session, clock=clock, on_event=listen) as op:
        op.run("POST", server.url + "jobs")
    assert [call.headers["Cookie"] for call in server.calls] == ["sid=1"] * 3 + ["sid=2"] * 2
    assert len(prepared) == 5


def test_a_cookie_that_a_poll_sets_is_sent_by_the_next(server, session, clock) -> None:
    """Load balancers pin a client to a machine in this way."""
    server.script(
        accepted(), running(), Reply(200, {"status": "running"}, headers={"Set-Cookie": "node=7"}), running(),
        done(result=1),
    )  # fmt: skip
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert [call.headers.get("Cookie") for call in polls(server)] == [None, None, "node=7", "node=7"]


@pytest.mark.parametrize(
    "reply",
    [503, 429, 500, Reply(307, headers={"Location": "/moved"}), reset()],
    ids=["503", "429", "500", "a redirect", "a reset"],
)
def test_a_poll_that_did_not_go_well_is_prepared_anew(server, session, clock, prepared: list[str], reply: Any) -> None:
    """What was wrong may have been what it was made from: a proxy of the environment, `.netrc`, a token."""
    server.script(accepted(), running(), running(), reply, running(), running(), done(result=1))
    server.on("GET", "/moved", then_always=running())
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    moved = [url for url in prepared if url.endswith("/moved")]
    assert [url for url in prepared if url not in moved] == [server.url + "jobs", *[server.url + "jobs/1"] * 2]


def test_a_cookie_that_the_jar_refuses_makes_the_next_poll_anew(server, session, clock, prepared: list[str]) -> None:
    """Whatever `Set-Cookie` came to, the session had its say."""
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    server.script(
        accepted(), running(), Reply(200, {"status": "running"}, headers={"Set-Cookie": "a=b"}), running(),
        done(result=1),
    )  # fmt: skip
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert len(prepared) == 3
    assert not any("Cookie" in call.headers for call in server.calls)


def test_a_401_is_asked_again_with_the_credentials_as_they_are_now(server, session, clock, prepared) -> None:
    """Once, and only if they changed."""
    session.headers["Authorization"] = "Bearer old"
    server.script(accepted(), running(), 401)
    with (
        pytest.raises(StatusUnavailable, match="HTTP 401"),
        operation("export", deadline=3600, session=session, clock=clock) as op,
    ):
        op.run("POST", server.url + "jobs")
    server.assert_done()

    def renewed(call: ReceivedCall) -> Reply:
        session.headers["Authorization"] = "Bearer new"
        return Reply(401)

    server.script(accepted(), running(), renewed, running(), done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert [call.headers["Authorization"][7:] for call in server.calls[-4:]] == ["old", "old", "new", "new"]


def test_netrc_and_the_environments_proxies_are_read_again_when_a_poll_fails(
    server, session, clock, tmp_path: Path, monkeypatch
) -> None:
    """Between polls that went well they stay as they were: reading them is a good part of what a request costs."""
    netrc = tmp_path / "netrc"
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    session.trust_env = True

    def write(password: str) -> None:
        netrc.write_text(f"machine 127.0.0.1 login me password {password}\n")

    write("a")
    server.script(accepted(), running(), running(), running(), 503, done(result=1))
    listen = after_poll(2, lambda: write("b"))
    with operation("export", deadline=3600, session=session, clock=clock, on_event=listen) as op:
        op.run("POST", server.url + "jobs")
    a, b = "Basic bWU6YQ==", "Basic bWU6Yg=="
    assert [call.headers["Authorization"] for call in polls(server)] == [a, a, a, a, b]


def test_a_body_that_can_be_read_once_is_prepared_each_time(session) -> None:
    """A stream that was sent is at its end."""
    trusted = Trusted()
    trusted.adopt("https://api.test")
    preparing = Preparing(session, trusted)
    call = Call("POST", "https://api.test/jobs/1")
    for body, kept in ((b"bytes", True), ("text", True), (None, True), (io.BytesIO(b"stream"), False)):
        preparing.forget()
        preparing.transmit(call, {"data": body}, None, repeat=True)
        assert (preparing._kept is not None) is kept


def test_what_a_second_submit_says_is_not_mixed_with_the_first(server, session, clock) -> None:
    """Options of a submit hold for its own polls."""
    adapter = Recording()
    session.mount("http://", adapter)
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        for verify in ("/one.pem", "/two.pem"):
            server.script(accepted(), running(), done(result=1))
            op.run("POST", server.url + "jobs", verify=verify)
    assert [options["verify"] for options in adapter.options] == ["/one.pem"] * 3 + ["/two.pem"] * 3


# ---- sessions with ways of their own


class OAuthLike(requests.Session):
    """Signs in `request`, with a token that is refreshed when it has run out, as OAuth2Session does."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.token, self.uses = 1, 0

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        if self.uses == 2:
            self.token, self.uses = self.token + 1, 0
        self.uses += 1
        headers = {**(kwargs.pop("headers", None) or {}), "Authorization": f"Bearer {self.token}"}
        return super().request(method, url, headers=headers, **kwargs)


def test_a_session_that_signs_in_request_is_asked_each_time(server, clock, spans) -> None:
    """A token that has run out is refreshed in time for the poll that needs it."""
    server.script(accepted(), *[running()] * 4, done(result_url="/file"), b"rows")
    with OAuthLike() as session, operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs", json={"q": 1}, headers={"X-Own": "1"})
    assert [call.headers["Authorization"] for call in server.calls] == [
        f"Bearer {token}" for token in (1, 1, 2, 2, 3, 3, 4)
    ]
    assert (server.calls[0].json(), server.calls[0].headers["X-Own"]) == ({"q": 1}, "1")
    assert all("traceparent" in call.headers for call in server.calls)


def test_a_401_lets_an_oauth_session_refresh(server, clock) -> None:
    """There is no telling beforehand what it would send, so it is asked once more."""
    server.script(accepted(), 401, running(), done(result=1))
    with OAuthLike() as session, operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert [call.headers["Authorization"] for call in server.calls] == [f"Bearer {token}" for token in (1, 1, 2, 2)]


OVERRIDES = ("request", "prepare_request", "merge_environment_settings")


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("where", ["a subclass", "the instance", "requests' own class"])
def test_an_overridden_method_is_asked_each_time(server, clock, monkeypatch, name: str, where: str) -> None:
    """By a subclass, on one session, or by somebody who patched `requests.Session` itself, as mocks do."""
    asked: list[str] = []
    original = getattr(requests.Session, name)

    def spy(self: requests.Session, *args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return original(self, *args, **kwargs)

    kind: type[requests.Session] = (
        type("Own", (requests.Session,), {name: spy}) if where == "a subclass" else requests.Session
    )
    with kind() as session:
        session.trust_env = False
        if where == "the instance":
            setattr(session, name, lambda *args, **kwargs: spy(session, *args, **kwargs))
        elif where == "requests' own class":
            monkeypatch.setattr(requests.Session, name, spy)
        server.script(accepted(), *[running()] * 3, done(result=1))
        with operation("export", deadline=3600, session=session, clock=clock) as op:
            op.run("POST", server.url + "jobs")
    assert asked == [name] * 5


def test_a_method_that_is_overridden_in_mid_operation_is_asked_from_then_on(server, session, clock) -> None:
    """The look is taken at every poll."""
    asked: list[str] = []

    def spy(method: str, url: str, **kwargs: Any) -> requests.Response:
        asked.append(method)
        return requests.Session.request(session, method, url, **kwargs)

    server.script(accepted(), *[running()] * 3, done(result=1))
    listen = after_poll(2, lambda: setattr(session, "request", spy))
    with operation("export", deadline=3600, session=session, clock=clock, on_event=listen) as op:
        op.run("POST", server.url + "jobs")
    assert asked == ["GET", "GET"]


# ---- adapters and hooks of the caller's own


class Caching(HTTPAdapter):
    """Adds validators and takes headers away, as caches do."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        assert "If-None-Match" not in request.headers, "an earlier send has left its mark"
        request.headers["If-None-Match"] = '"v1"'
        request.headers.pop("X-Once")
        request.url = str(request.url) + "?mark=1"
        response: requests.Response = super().send(request, **options)
        request.headers.clear()
        return response


def test_an_adapter_that_changes_requests_does_not_spoil_the_next_poll(server, session, clock, prepared) -> None:
    """Each send has headers and a URL of its own, though it was prepared once."""
    session.headers["X-Once"] = "1"
    session.mount("http://", Caching())
    server.script(accepted(), *[running()] * 4, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert {(call.path, call.headers["If-None-Match"]) for call in polls(server)} == {("/jobs/1?mark=1", '"v1"')}
    assert len(prepared) == 2


def test_a_hook_that_changes_its_request_does_not_spoil_the_next_poll(server, session, clock) -> None:
    """A response has its request, which a hook may do with as it likes."""
    session.headers["X-Once"] = "1"
    session.hooks["response"].append(lambda response, **_: response.request.headers.clear())
    server.script(accepted(), *[running()] * 3, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert {call.headers["X-Once"] for call in server.calls} == {"1"}


def raise_for_status(response: requests.Response, **_: object) -> None:
    """As many sessions have it among their hooks."""
    response.raise_for_status()


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ([Reply(422, {"message": "no such column"})], SubmitRejected),
        ([Reply(503)], SubmitUncertain),
        ([accepted(), running(), Reply(403, {"message": "no such column"})], StatusUnavailable),
        ([accepted(), *[503] * 5], PollErrorsExhausted),
        ([accepted(), done(result_url="/f"), 404, done(result_url="/f")], ResultUnavailable),
    ],
    ids=["submit 422", "submit 503", "poll 403", "polls 503", "download 404"],
)
def test_a_hook_that_raises_for_a_status_does_not_judge_it(server, session, clock, replies, error) -> None:
    """The status is judged as without the hook, and what the server said is read."""
    session.hooks["response"].append(raise_for_status)
    server.script(*replies)
    with pytest.raises(error) as raised, operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    if replies[-1] not in (503, 404) and getattr(replies[-1], "status_code", 0) in (403, 422):
        assert "no such column" in str(raised.value)


def test_an_error_of_a_hooks_own_reaches_the_caller(server, session, clock) -> None:
    """A fault in the caller's code is the caller's to see, and no failed poll."""

    def fail(response: requests.Response, **_: object) -> None:
        raise ValueError("mend me")

    session.hooks["response"].append(fail)
    server.script(accepted())
    with (
        pytest.raises(ValueError, match="mend me"),
        operation("export", deadline=3600, session=session, clock=clock) as op,
    ):
        op.run("POST", server.url + "jobs")


def test_a_session_that_swallows_its_answer_is_told_apart_from_a_server_that_was_not_reached(server, clock) -> None:
    """Something was sent, so nobody may say that submitting again is safe."""

    class Silent(requests.Session):
        def send(self, request: requests.PreparedRequest, **kwargs: Any) -> Any:
            super().send(request, **kwargs).close()

    server.script(accepted())
    with (
        Silent() as session,
        pytest.raises(TypeError, match=r"the session's send.* returned None, expected a requests"),
        operation("export", deadline=60, session=session, clock=clock) as op,
    ):
        op.submit("POST", f"{server.url}jobs")


def test_the_callers_timeout_reaches_the_adapter_as_it_is(server, session, clock) -> None:
    """Mocks and adapters read it; without one, each hop has its own."""
    adapter = Recording()
    session.mount("http://", adapter)
    server.script(accepted(), done(result_url="/f"), b"rows", accepted(), done(result_url="/f"), b"rows")
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.download(op.poll(op.submit("POST", server.url + "jobs", timeout=1.5), timeout=(1, None)), timeout=7)
        op.run("POST", server.url + "jobs")
    assert [options["timeout"] for options in adapter.options] == [
        *(1.5, (1, None), 7),
        *((10.0, None), (10.0, 60.0), (10.0, 60.0)),
    ]
    assert {options["stream"] for options in adapter.options} == {True}


# ---- connections that had gone stale


@pytest.mark.parametrize("way", [short, reset])
def test_a_stale_connection_costs_a_poll_one_silent_resend(server, session, clock, spans, way) -> None:
    """The server closed it while our request was on its way: asked again at once, counted as no error."""
    server.script(accepted(), running(), way(), running(), way(), done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    poll = spans.named("poll export").attributes
    assert (poll["trihop.poll.attempts"], poll["trihop.poll.errors"]) == (3, 0)
    assert len(polls(server)) == 5
    assert clock.sleeps == [1.0, 1.0, 2.0] or len(clock.sleeps) == 3
    assert [call.connection for call in server.calls] == [1, 1, 1, 2, 2, 3]


def test_a_fresh_connection_that_is_reset_is_an_error(server, session, clock, spans) -> None:
    """One resend and no more: the second connection was not stale."""
    server.script(accepted(), running(), reset(), reset(), running(), done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    poll = spans.named("poll export").attributes
    assert (poll["trihop.poll.attempts"], poll["trihop.poll.errors"]) == (4, 1)


def test_a_submit_is_never_sent_again_by_itself(server, session, clock) -> None:
    """On a stale connection, too, the server may have taken it."""
    server.script(accepted(), done(result=1), reset())
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
        with pytest.raises(SubmitUncertain, match="never answered"):
            op.submit("POST", server.url + "jobs")
    assert [(call.method, call.connection) for call in server.calls] == [("POST", 1), ("GET", 1), ("POST", 1)]


def test_a_poll_by_post_is_not_sent_again_by_itself(server, session, clock, spans) -> None:
    """Only GET and HEAD are safe to repeat unasked; the poll counts as an error and is asked again in time."""
    provider = replace(generic.ACCEPTED, status=Call("POST", "{status_url}", json={}))
    server.script(accepted(), running(), reset(), done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock, provider=provider) as op:
        op.run("POST", server.url + "jobs")
    poll = spans.named("poll export").attributes
    assert (poll["trihop.poll.attempts"], poll["trihop.poll.errors"]) == (3, 1)


# ---- redirects


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
def test_a_redirect_keeps_method_and_body_or_becomes_a_get(server, session, clock, status: int, method: str) -> None:
    """As RFC 9110 section 15.4 has it, and as requests does."""
    server.script(Reply(status, headers={"Location": "/2"}), b"rows")
    with operation("fetch", deadline=60, session=session, clock=clock) as op:
        op.download(Call("POST", server.url + "1", json={"q": 1}, headers={"Accept": "text/csv"}))
    second = server.calls[1]
    assert (second.method, second.body) == (method, b'{"q": 1}' if method == "POST" else b"")
    assert ("Content-Type" in second.headers) is (method == "POST")
    assert second.headers["Accept"] == "text/csv"


def test_a_head_stays_one(server, session, clock) -> None:
    """Also where a POST would become a GET."""
    server.script(Reply(302, headers={"Location": "/2"}), 200)
    with operation("fetch", deadline=60, session=session, clock=clock) as op:
        op.download(Call("HEAD", server.url + "1"))
    assert [call.method for call in server.calls] == ["HEAD", "HEAD"]


def test_a_file_is_sent_again_from_its_start(server, session, clock) -> None:
    """A 307 after an upload takes the whole body along."""
    server.script(Reply(307, headers={"Location": "/2"}), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.submit("POST", server.url + "1", data=io.BytesIO(b"rows" * 100))
    assert [call.body for call in server.calls] == [b"rows" * 100] * 2


def test_redirects_have_an_end(server, session, clock) -> None:
    """At the session's own limit; on a poll it is an error like others, and the job goes on."""
    session.max_redirects = 3
    server.script(accepted(), *[Reply(307, headers={"Location": "/jobs/1/again"})] * 4, done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert len(server.calls) == 6


@pytest.mark.parametrize("status", [301, 302, 303])
def test_polls_and_submits_are_shown_what_downloads_follow(server, session, clock, status: int) -> None:
    """301 to 303 on a submit or a poll mean something to an API; requests would swallow it."""
    server.script(Reply(status, headers={"Location": "/jobs/1"}), Reply(status, headers={"Location": "/file"}), b"rows")
    with operation("export", deadline=60, session=session, clock=clock) as op:
        assert op.run("POST", server.url + "jobs").content == b"rows"
    assert [(call.method, call.path) for call in server.calls] == [
        ("POST", "/jobs"),
        ("GET", "/jobs/1"),
        ("GET", "/file"),
    ]


def test_a_mock_of_requests_sees_every_hop(clock: VirtualClock) -> None:
    """`responses` stands in for the network without knowing of us."""
    import responses

    with responses.RequestsMock() as mock:
        mock.post("http://api.test/jobs", status=202, headers={"Location": "http://api.test/jobs/1"})
        mock.get("http://api.test/jobs/1", json={"status": "running"})
        mock.get("http://api.test/jobs/1", json={"status": "done", "result_url": "http://files.test/1"})
        mock.get("http://files.test/1", body=b"rows")
        with operation("export", deadline=60, clock=clock) as op:
            assert op.run("POST", "http://api.test/jobs").content == b"rows"
        assert [call.request.url for call in mock.calls][-1] == "http://files.test/1"


# ---- after the model of the request before


def netrc(session: requests.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session.trust_env = True
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password pw\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.mark.parametrize("kind", ["plain", "headers", "basic", "netrc"])
def test_what_follows_a_submit_goes_out_as_the_session_would_send_it(
    server, session, clock, tmp_path, monkeypatch, kind: str
) -> None:
    """Poll and download have the session's headers and credentials, and nothing of the submit's own."""
    if kind == "headers":
        session.headers.update({"X-Api-Key": "k3y", "Accept": "application/json"})
        session.headers["Content-Type"] = "application/json"
    elif kind == "basic":
        session.auth = ("me", "pw")
    elif kind == "netrc":
        netrc(session, tmp_path, monkeypatch)
    server.script(accepted(), done(), Reply(200, 1), Reply(200), Reply(200))
    provider = replace(generic.ACCEPTED, poll=lambda reply, job: Succeeded("done", results=[Result("/files/1")]))
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        op.run("POST", server.url + "jobs", json={"q": 1}, headers={"X-Once": "yes", "Accept": "text/csv"})
    session.get(server.url + "jobs/1")
    session.get(server.url + "files/1", headers={"Accept-Encoding": "identity"})
    _, polled, fetched, *by_hand = server.calls
    told = [(call.method, call.path, {**call.headers, "traceparent": ""}) for call in (polled, fetched)]
    assert told == [(call.method, call.path, {**call.headers, "traceparent": ""}) for call in by_hand]


def test_a_submits_own_authorization_is_the_submits(server, session, clock) -> None:
    """A header that was written for one request does not sign the next."""
    server.script(accepted(), running(), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs", headers={"authorization": "Bearer one-time"})
    assert [call.headers.get("Authorization") for call in server.calls] == ["Bearer one-time", None, None]


def test_a_submits_own_hooks_are_the_submits(server, session, clock) -> None:
    """A hook that was given for one request does not run for the next."""
    seen: list[str] = []
    server.script(accepted(), running(), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs", hooks={"response": lambda reply, **_: seen.append(reply.request.method)})
    assert seen == ["POST"]


def test_a_token_set_after_the_submit_signs_what_follows(server, session, clock) -> None:
    """The model holds as long as the session is what it was."""
    server.script(accepted(), running(), done(result=1))
    with operation("export", deadline=60, session=session, clock=clock) as op:
        job = op.submit("POST", server.url + "jobs")
        session.auth = ("me", "pw")
        op.poll(job)
    assert [call.headers.get("Authorization") for call in polls(server)] == ["Basic bWU6cHc="] * 2


@pytest.mark.parametrize("environment", [{}, {"REQUESTS_CA_BUNDLE": "/a.pem"}, {"CURL_CA_BUNDLE": "/b.pem"}])
@pytest.mark.parametrize(
    "network", [{}, {"HTTPS_PROXY": "http://p.test"}, {"ALL_PROXY": "http://q.test"}, {"No_Proxy": "*"}]
)
@pytest.mark.parametrize("trust_env", [True, False])
def test_the_environment_says_what_it_says_to_requests(
    monkeypatch, environment: dict[str, str], network: dict[str, str], trust_env: bool
) -> None:
    """Proxies, certificates and what the session and the submit say of them come out as in `Session.request`."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.endswith("CA_BUNDLE"):
            monkeypatch.delenv(name)
    for name, value in {**environment, **network}.items():
        monkeypatch.setenv(name, value)
    url = "https://api.test/jobs"
    with requests.Session() as session:
        session.trust_env = trust_env
        for own, verify, cert, proxies in product(
            (True, False, "/own.pem"),
            (None, True, False, "/given.pem"),
            (None, "/c.pem"),
            (None, {"https": "http://r.test"}),
        ):
            session.verify, session.cert = own, "/session.pem"
            expected = session.merge_environment_settings(url, dict(proxies or {}), True, verify, cert)
            assert Preparing(session, Trusted())._merged(url, proxies, verify, cert) == expected


# ---- as in requests


@pytest.mark.parametrize("own", ["Job tok", b"Job tok"])
def test_a_credential_that_a_call_has_of_its_own_stands(server, session, clock, own: Any) -> None:
    """Before the session's header, in polls and in downloads, as in requests; after `auth`, which comes last there."""
    session.headers["Authorization"] = "Bearer session"
    result = Result(Call("GET", "/file", headers={"Authorization": own}))
    provider = replace(
        generic.ACCEPTED,
        status=Call("GET", "{status_url}", headers={"Authorization": own}),
        poll=lambda reply, job: (
            Succeeded("done", results=(result,)) if reply.json()["status"] != "running" else Pending("running")
        ),
    )
    for auth, seen in ((None, "Job tok"), (("me", "pw"), "Basic bWU6cHc=")):
        session.auth = auth
        server.script(accepted(), running(), running(), done(result=1), b"rows")
        with operation("export", deadline=3600, session=session, clock=clock, provider=provider) as op:
            op.run("POST", server.url + "jobs")
        assert [call.headers["Authorization"] for call in server.calls[-4:]] == [seen] * 4


class Registering(HTTPAdapter):
    """Registers a hook on each request, as adapters that count or record do."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[int] = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.ran.append(0)
        request.register_hook("response", self.count)
        return super().send(request, **options)

    def count(self, response: requests.Response, **_: Any) -> None:
        self.ran[-1] += 1


def test_a_hook_that_an_adapter_registers_runs_once_a_request(server, session, clock) -> None:
    """For the submit as for the polls, and none is left over for the next."""
    adapter = Registering()
    session.mount("http://", adapter)
    server.script(accepted(), *[running()] * 3, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        op.run("POST", server.url + "jobs")
    assert adapter.ran == [1] * 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hooks", None),
        ("hooks", {"response": None}),
        ("hooks", {"response": lambda response, **_: None}),
        ("headers", None),
        ("headers", {"X-A": "1"}),
        ("headers", CaseInsensitiveDict({b"X-A": "1"})),
        ("proxies", None),
        ("params", None),
    ],
)
def test_what_requests_takes_on_a_session_is_taken(server, session, clock, name: str, value: Any) -> None:
    """Also where it is not of the kind that a new session has."""
    setattr(session, name, value)
    server.script(accepted(), *[running()] * 3, done(result=1))
    with operation("export", deadline=3600, session=session, clock=clock) as op:
        assert op.run("POST", server.url + "jobs").json() == 1
    if name == "headers" and value is not None:
        assert [call.headers["X-A"] for call in server.calls] == ["1"] * 5


@pytest.mark.parametrize(
    ("content", "charset", "message"),
    [
        ('{"result": "gr\u00fcn"}'.encode("latin-1"), "; charset=iso-8859-1", "gr\u00fcn"),
        (b'{"result": "gr\xff"}', "", "gr\ufffd"),
        ('{"result": "gr\u00fcn"}'.encode("utf-16"), "", "gr\u00fcn"),
    ],
)
def test_json_in_another_charset_is_read(content: bytes, charset: str, message: str) -> None:
    """As requests reads it: what is told of the charset, and a byte that is wrong replaced."""
    assert (
        Reply(200, content=content, headers={"Content-Type": f"application/json{charset}"}).json()["result"] == message
    )


def test_a_body_in_chunks_is_bounded_whatever_was_announced(session, monkeypatch) -> None:
    """Who announces five bytes and sends a flood in chunks is not read to the end."""
    monkeypatch.setattr("trihop._wire.network.MAX_PARSED_BYTES", 100_000)
    flood = b"%x\r\n%b\r\n0\r\n\r\n" % (300_000, b" " * 300_000)

    def answer(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + flood)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        with session.get(f"http://127.0.0.1:{listener.getsockname()[1]}/", stream=True) as response:
            with pytest.raises(BodyTooLarge):
                read_parsed(response)
            response.content  # noqa: B018 - so that the server comes to its end
        thread.join(10)
