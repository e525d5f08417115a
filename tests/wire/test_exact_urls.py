"""A link that a server handed out arrives as it was handed out, on every hop and over every road."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from security.proxy import Proxy
from trihop import Content, DownloadVerdict, ReadJob, Reply, Result, operation
from trihop.providers import generic
from trihop.testing import ScriptedServer, VirtualClock, accepted, done

# What requests, urllib3 or urljoin would each rewrite somewhere: unreserved letters
# that are escaped, lower-case escapes, plus signs, brackets, empty and dot segments.
SIGNED = [
    "files/%7Ejane/%2e%2e/%c3%a9/a+b;v=1//end?X-Amz-Signature=%2b%2F%3d&key=a%20b+c%7e&part=%41",
    "a/../b/./c//?sig=[1]&p=%2e%2e&&q==",
    "list[0];x|y?filter[name]={id}|'~*!$(),;:@/?",
    "%2F%2f?",
    "?sig=%7E",
]


@pytest.fixture
def foreign(clock: VirtualClock) -> Iterator[ScriptedServer]:
    """Where the results are."""
    with ScriptedServer(clock=clock) as server:
        yield server


def paths(server: ScriptedServer) -> list[str]:
    return [call.path for call in server.calls]


@pytest.mark.parametrize("target", SIGNED)
def test_a_signed_link_is_fetched_as_it_is(server, foreign, session, clock, target: str) -> None:
    """From the status monitor's answer to the request target, no byte of the link changes."""
    server.script(accepted(), done(result_url=foreign.url + target))
    foreign.script(b"rows")
    with operation("export", deadline=60, session=session, clock=clock) as op:
        assert op.run("POST", server.url + "jobs").content == b"rows"
    assert paths(foreign) == ["/" + target]


@pytest.mark.parametrize("target", SIGNED)
def test_the_apis_own_urls_are_asked_as_they_are(server, session, clock, target: str) -> None:
    """Submit, status monitor, which moves, and result at home go out byte for byte, credentials and all."""
    session.auth = ("me", "password")
    server.script(
        accepted("{url}1/" + target),
        Reply(202, headers={"Location": "/2/" + target}),
        Reply(202, headers={"Location": "/2/" + target}),
        done(result_url="{url}3/" + target),
        b"rows",
    )
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "0/" + target)
    assert paths(server) == [f"/{n}/{target}" for n in (0, 1, 2, 2, 3)]
    assert {call.headers["Authorization"] for call in server.calls} == {"Basic bWU6cGFzc3dvcmQ="}


@pytest.mark.parametrize("target", SIGNED)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("form", ["{url}x/", "/x/", "//{authority}/x/", ""])
def test_a_redirect_is_followed_to_the_very_url(server, foreign, session, clock, target: str, status: int, form: str):
    """Whether `Location` is absolute, an absolute path, without a scheme or relative."""
    location = form.replace("{authority}", foreign.url.split("/")[2]) + target
    server.script(accepted(), done(result_url=foreign.url + "x/begin?sig=%7e"))
    foreign.script(Reply(status, headers={"Location": location}), b"rows")
    with operation("export", deadline=60, session=session, clock=clock) as op:
        assert op.run("POST", server.url + "jobs").content == b"rows"
    # A relative path loses its own dot segments (RFC 3986 section 5.2.4), and nothing else does.
    arrived = target.replace("a/../b/./c", "b/c") if form == "" else target
    if form == "" and target.startswith("?"):
        arrived = "begin" + target
    assert paths(foreign) == ["/x/begin?sig=%7e", "/x/" + arrived]


@pytest.mark.parametrize("target", SIGNED)
def test_polls_and_submits_follow_redirects_to_the_very_url(server, session, clock, target: str) -> None:
    """307 and 308 keep method and body, and the bytes of where they lead."""
    server.script(
        Reply(307, headers={"Location": "/1/" + target}),
        accepted("/2"),
        Reply(308, headers={"Location": "/3/" + target}),
        done(result=1),
    )
    with operation("export", deadline=60, session=session, clock=clock) as op:
        op.run("POST", server.url + "0", data=b"body")
    assert [(call.method, call.path, call.body) for call in server.calls] == [
        ("POST", "/0", b"body"),
        ("POST", "/1/" + target, b"body"),
        ("GET", "/2", b""),
        ("GET", "/3/" + target, b""),
    ]


def test_pages_are_asked_for_as_the_surface_names_them(server, foreign, session, clock) -> None:
    """A next page that is only a query leaves the path of the page before it alone."""

    def page(reply: Reply, result: Result) -> DownloadVerdict:
        return Content(next=reply.headers.get("X-Next"))

    server.script(accepted(), done(result_url=foreign.url + "a/%7e//b?sig=%2b"))
    foreign.script(
        Reply(200, content=b"1", headers={"X-Next": "?page=%7e+[2]"}),
        Reply(200, content=b"2", headers={"X-Next": "%2e%2e//c;d?sig=%41"}),
        b"3",
    )
    provider = replace(generic.ACCEPTED, download=page)
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        assert op.run("POST", server.url + "jobs").content == b"123"
    assert paths(foreign) == ["/a/%7e//b?sig=%2b", "/a/%7e//b?page=%7e+[2]", "/a/%7e//%2e%2e//c;d?sig=%41"]


@pytest.mark.parametrize("target", SIGNED)
def test_a_forwarding_proxy_gets_the_very_url(server, foreign, session, clock, target: str) -> None:
    """Through an HTTP proxy the whole URL is the request target, for home and foreign hosts alike."""
    server.script(accepted("/jobs/" + target), done(result_url=foreign.url + target))
    foreign.script(b"rows")
    with Proxy() as proxy:
        session.proxies = {"http": proxy.url}
        with operation("export", deadline=60, session=session, clock=clock) as op:
            assert op.run("POST", server.url + "jobs").content == b"rows"
        assert proxy.targets == [server.url + "jobs", server.url + "jobs/" + target, foreign.url + target]
    assert paths(server) == ["/jobs", "/jobs/" + target]
    assert paths(foreign) == ["/" + target]


@pytest.mark.parametrize("target", SIGNED)
def test_a_tunnel_carries_the_very_url(session, clock, target: str) -> None:
    """Behind CONNECT and TLS the target is path and query, and the proxy learns the authority alone."""
    with ScriptedServer(tls=True, clock=clock) as server, Proxy() as proxy:
        session.proxies, session.verify = {"https": proxy.url}, server.ca_file
        server.script(accepted("/jobs/" + target), done(result_url="{url}" + target), b"rows")
        with operation("export", deadline=60, session=session, clock=clock) as op:
            assert op.run("POST", server.url + "jobs").content == b"rows"
        assert paths(server) == ["/jobs", "/jobs/" + target, "/" + target]
        assert set(proxy.targets) == {server.url.split("/")[2]}


def test_params_of_the_session_are_added_to_the_apis_own_urls_which_are_then_written_by_requests(
    server, foreign, session, clock
) -> None:
    """A signed link at home would not survive the session's params; a foreign one gets none and stays as it is."""
    session.params = {"tenant": "7"}
    server.script(accepted("/jobs/%7E1?sig=%2e"), done(result_url=foreign.url + "%7E1?sig=%2e"))
    foreign.script(b"rows")
    with operation("export", deadline=60, session=session, clock=clock) as op:
        job = op.submit("POST", server.url + "jobs")
        op.download(op.poll(job))
    assert paths(server) == ["/jobs?tenant=7", "/jobs/~1?sig=.&tenant=7"]
    assert paths(foreign) == ["/%7E1?sig=%2e"]
    assert (job.submit_url, job.status_url) == (server.url + "jobs", server.url + "jobs/%7E1?sig=%2e")


def test_a_jobs_urls_are_what_was_asked_and_not_what_the_session_made_of_it(server, session, clock) -> None:
    """Its own params are part of the submit's URL, which a template may begin with; the session's are not."""
    session.params = {"api_key": "canary"}
    server.script({"id": "7"}, {"status": "done", "result": 1})
    provider = replace(generic.ACCEPTED, submit=ReadJob("id", None), status="{submit_url}&job={id}")
    with operation("export", deadline=60, session=session, clock=clock, provider=provider) as op:
        job = op.submit("POST", server.url + "jobs", params={"kind": "a b"})
        op.poll(job)
    assert job.submit_url == server.url + "jobs?kind=a+b"
    assert paths(server) == ["/jobs?api_key=canary&kind=a+b", "/jobs?kind=a+b&job=7&api_key=canary"]
