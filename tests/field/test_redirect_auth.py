"""Credentials that went where they should not, and that were missed where they should."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import Call, Reply, Result, ResultUnavailable, StatusUnavailable

SIGNED = "rows?X-Amz-Signature=sig"
ONE_ONLY = Reply(400, content=b"<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism</Message></Error>")


def store(call):
    """An object store: with credentials beside the signature it refuses."""
    return ONE_ONLY if "Authorization" in call.headers else b"rows"


@pytest.fixture
def session(session):
    """A session that has credentials of every kind but a netrc."""
    session.headers["X-Api-Key"] = "canary-1"
    session.headers["Authorization"] = "Bearer canary-2"
    session.cookies.set("sid", "canary-3")
    session.params = {"token": "canary-4"}
    return session


def is_bare(call):
    """Whether a request has nothing of the session's, nor of the trace."""
    carried = {"authorization", "x-api-key", "cookie", "traceparent", "tracestate", "baggage"}
    return not carried & {name.lower() for name in call.headers} and "canary" not in call.path


def test_auth_01_s3_400(server, other, spans, fetch):
    """A redirect to another origin carries none of the session's credentials there.

    https://github.com/r-lib/httr/issues/626
    """
    server.script(submitted(), state("done", results="/file"), Reply(302, headers={"Location": other.url + SIGNED}))
    other.script(store)

    assert fetch().content == b"rows"
    at_home = {name.lower() for name in server.calls[-1].headers}
    assert {"traceparent", "authorization", "x-api-key", "cookie"} <= at_home
    assert [(call.path, is_bare(call)) for call in other.calls] == [("/" + SIGNED, True)]


def test_auth_03_direct_presigned_fetch(server, other, spans, fetch):
    """A link from the body to another origin is fetched without the session's credentials.

    https://github.com/mattrobinsonsre/terrapod/issues/1077
    """
    server.script(submitted(), state("done", results=other.url + SIGNED))
    other.script(store)

    assert fetch().content == b"rows"
    assert [(call.path, is_bare(call)) for call in other.calls] == [("/" + SIGNED, True)]


def wants_key(call):
    """A second host of the same vendor: the key belongs into the query."""
    return b"rows" if call.query.get("token") == "canary-4" else 401


def keyed_link(reply):
    return [Result(Call("GET", reply.json()["results"], params={"token": "canary-4"}))]


def test_auth_05_needs_auth_elsewhere(server, other, fetch):
    """Another origin gets credentials only where it is named, or where the surface says so for one call.

    https://github.com/planetlabs/planet-client-python/pull/44
    """
    server.on("POST", "/jobs", then_always=submitted())
    server.on("GET", "/file", then_always=Reply(302, headers={"Location": other.url + "rows"}))
    other.script(then_always=wants_key)

    server.on("GET", "/jobs/J1", then_always=state("done", results="/file"))
    with pytest.raises(ResultUnavailable, match="401"):
        fetch()
    assert is_bare(other.calls[-1])
    assert fetch(origins=[other.url]).content == b"rows"

    server.on("GET", "/jobs/J1", then_always=state("done", results=other.url + "rows"))
    assert fetch(provider=replace(JOBS, poll=replace(JOBS.poll, results=keyed_link))).content == b"rows"
    assert "Authorization" not in other.calls[-1].headers


def test_auth_07_anonymous_monitor_401(server, other, wait_for):
    """A status monitor at another origin is asked without credentials; a 401 of its own ends the polls.

    https://github.com/microsoftgraph/msgraph-sdk-dotnet/issues/1797
    """

    def monitor(word):
        return lambda call: state(word) if is_bare(call) else 401

    there = submitted(Location=other.url + "monitor/1")
    server.script(there, there)
    other.script(monitor("running"), monitor("done"), 401)

    assert wait_for().state == "done"
    with pytest.raises(StatusUnavailable, match="HTTP 401"):
        wait_for()
    assert len(other.calls) == 3


def test_auth_09_netrc(server, other, session, fetch, monkeypatch, tmp_path):
    """A netrc with a default entry is for the API's own origin and no other.

    https://github.com/psf/requests/issues/6928
    """
    (tmp_path / "netrc").write_text("default login canary password canary\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    session.trust_env = True
    del session.headers["Authorization"]
    server.script(submitted(), state("done", results=other.url + SIGNED))
    other.script(store)

    assert fetch().content == b"rows"
    assert [call.headers["Authorization"].partition(" ")[0] for call in server.calls] == ["Basic", "Basic"]
    assert is_bare(other.calls[0])


def test_auth_11_basic_to_signed_403(server, other, session, fetch):
    """Basic credentials of the session do not reach a signed link, so no store has to complain of them.

    The report would have an error say that they were sent; only a call that asks for `credentials="always"` sends them.

    https://github.com/earthaccess-dev/earthaccess/issues/188
    """
    session.auth = ("canary", "canary")
    server.on("POST", "/jobs", then_always=submitted())
    server.on("GET", "/jobs/J1", then_always=state("done", results=other.url + SIGNED))
    other.script(then_always=store)

    assert fetch().content == b"rows"
    assert is_bare(other.calls[0])

    def always(reply):
        return [Result(Call("GET", reply.json()["results"], credentials="always"))]

    with pytest.raises(ResultUnavailable, match=r"400.*Only one auth mechanism"):
        fetch(provider=replace(JOBS, poll=replace(JOBS.poll, results=always)))
    assert other.calls[-1].headers["Authorization"].startswith("Basic ")
