"""Where the job is, and where the next page or the result is, in references that misled other clients."""

from __future__ import annotations

import pytest

from field.jobs import JOBS, state, submitted
from trihop import Content, Provider, ReadJob, ReadState, Reply, Result, SurfaceError, operation
from trihop.providers import generic
from trihop.testing import ScriptedServer


def test_loc_01_relative_wrong_base(server, session, clock):
    """A relative Location is resolved against the URL that answered the submit, after its redirects.

    https://github.com/Availity/sdk-js/issues/77
    """
    server.on("POST", "/uploads", Reply(307, headers={"Location": "/api/v1/uploads/"}))
    server.on("POST", "/api/v1/uploads/", Reply(202, {"id": "J1"}, headers={"Location": "abcdefg"}))
    server.on("GET", "/api/v1/uploads/abcdefg", state("done"))

    with operation("upload", deadline=60, session=session, provider=JOBS, clock=clock) as op:
        ready = op.poll(op.submit("POST", server.url + "uploads", json={}))

    assert ready.job.status_url == server.url + "api/v1/uploads/abcdefg"
    assert ready.job.submit_url == server.url + "api/v1/uploads/"


def test_loc_03_http_behind_tls_proxy(session, clock, spans, other):
    """A Location that falls from https to http is asked for over TLS on the same host, and refused on another.

    https://github.com/ankitpokhrel/tus-php/issues/414
    """
    session.headers["Authorization"] = "Bearer canary"
    with ScriptedServer(tls=True, clock=clock) as server:
        session.verify = server.ca_file
        clear = server.url.replace("https:", "http:") + "files/1"
        server.script(Reply(201, {"id": "J1"}, headers={"Location": clear}), state("done"))

        with operation("upload", deadline=60, session=session, provider=JOBS, clock=clock) as op:
            op.poll(op.submit("POST", server.url + "files", json={}))

        assert [(call.path, call.headers["Authorization"]) for call in server.calls] == [
            ("/files", "Bearer canary"),
            ("/files/1", "Bearer canary"),
        ]
        assert spans.named("poll upload").attributes["url.full"] == server.url + "files/1"

        server.script(Reply(201, {"id": "J1"}, headers={"Location": other.url + "files/1"}))
        with (
            pytest.raises(SurfaceError, match="leads from https to http"),
            operation("upload", deadline=60, session=session, provider=JOBS, clock=clock) as op,
        ):
            op.submit("POST", server.url + "files", json={})
        assert other.calls == []


def test_loc_05_202_not_understood(server, wait_for):
    """A 202 with a handle starts the polls whatever its body is; one without a handle is a SurfaceError with the reply.

    https://github.com/datacenter/cobra/issues/114
    """
    told = {"content": b"taken; see the link", "headers": {"Content-Type": "text/plain", "Location": "/jobs/1"}}
    server.script(Reply(202, **told), Reply(200, {"status": "succeeded", "result": 7}))
    assert wait_for(provider=generic.ACCEPTED).data == 7

    server.script(Reply(202, content=b"taken", headers={"Content-Type": "text/plain"}))
    with pytest.raises(SurfaceError, match="names no job to ask for") as lost:
        wait_for(provider=generic.ACCEPTED)
    assert (lost.value.reply.status_code, lost.value.reply.text) == (202, "taken")


def page(reply, result):
    locator = reply.headers.get("Sforce-Locator", "null")
    return Content(header_lines=1, next=None if locator == "null" else f"?locator={locator}")


def test_loc_07_client_built_double_slash(server, session, clock):
    """The next page's URL is a reference resolved against the page that named it, so no slash is ever doubled.

    https://github.com/forcedotcom/cli/issues/2968
    """
    bulk = Provider(
        "bulk",
        submit=ReadJob("id", None),
        status="query/{id}",
        poll=ReadState("state", succeeded={"JobComplete"}, results=[Result("query/{id}/results")]),
        download=page,
    )
    server.script(
        {"id": "750R", "state": "UploadComplete"},
        state("JobComplete"),
        Reply(200, content=b"Id\n1\n", headers={"Content-Type": "text/csv", "Sforce-Locator": "MTAw"}),
        Reply(200, content=b"Id\n2\n", headers={"Content-Type": "text/csv", "Sforce-Locator": "null"}),
    )

    with operation("query", deadline=60, session=session, provider=bulk, clock=clock) as op:
        assert op.run("POST", server.url + "jobs/query", json={}).content == b"Id\n1\n2\n"

    assert [call.path for call in server.calls] == [
        "/jobs/query",
        "/jobs/query/750R",
        "/jobs/query/750R/results",
        "/jobs/query/750R/results?locator=MTAw",
    ]


@pytest.mark.parametrize("target", ["x?sig=a%2Bb%7Ec&p=%2e%2e", "a/../%c3%a9//x?sig=[1]&q=~'%2f"])
def test_loc_09_normalisation_breaks_signature(server, other, fetch, target):
    """A link that the server handed out goes over the wire byte for byte.

    https://github.com/jumpstarter-dev/jumpstarter/pull/662
    """
    server.script(submitted(), state("done", results=other.url + target))
    other.script(b"rows")

    assert fetch().content == b"rows"
    assert [call.path for call in other.calls] == ["/" + target]
