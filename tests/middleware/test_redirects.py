"""Redirects that `requests` follows, or hands out: where `traceparent` goes, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from trihop import Reply, operation
from trihop.testing import ScriptedServer, SpanLog, VirtualClock, accepted, dripped, running


@pytest.fixture
def other(clock: VirtualClock) -> Iterator[ScriptedServer]:
    """A server of another origin."""
    with ScriptedServer(clock=clock) as other:
        yield other


def redirect(status: int, to: str) -> Reply:
    return Reply(status, headers={"Location": to})


def below(spans: SpanLog) -> list[str]:
    """The names of the spans below the root."""
    return sorted(span.name for span in spans.children(spans.named("export")))


def test_the_next_request_of_a_redirect_carries_nothing_of_ours(session, server, other, clock, spans):
    """`response.next` is made while we send: what we added to the request it was made of does not go along."""
    server.script(redirect(302, f"{other.url}x"))
    other.script("x")
    with operation("export", deadline=60, session=session, clock=clock):
        response = session.get(server.url, allow_redirects=False)
        assert "traceparent" not in response.next.headers
        session.send(response.next)

    assert "traceparent" in server.calls[0].headers
    assert "traceparent" not in other.calls[0].headers


def test_what_is_kept_of_a_response_carries_nothing_of_ours(session, server, clock, spans):
    """No request in a response or its history, asked again with credentials or elsewhere, keeps our header."""
    challenge = Reply(401, headers={"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'})
    server.script(redirect(302, "/there"), challenge, "in")
    with operation("export", deadline=60, session=session, clock=clock):
        response = session.get(server.url, auth=requests.auth.HTTPDigestAuth("me", "pw"))

    kept = [response, *response.history]
    assert [one.status_code for one in kept] == [200, 302]
    assert not any("traceparent" in one.request.headers for one in kept)
    assert all("traceparent" in call.headers for call in server.calls)


def test_a_page_that_moved_is_no_job(session, server, clock, spans):
    """What is asked under an old address at each step of a loop is no poll, and its redirect no submit."""
    moved, left = redirect(301, "/account/quota-5"), {"left": 5}
    server.script(moved, left, accepted("/jobs/J-1"), running(), moved, left, running(), moved, left)
    with operation("export", deadline=60, session=session, clock=clock):
        session.get(f"{server.url}quota")
        session.post(f"{server.url}jobs")
        for _ in range(2):
            session.get(f"{server.url}jobs/J-1")
            session.get(f"{server.url}quota")

    assert below(spans) == [*["GET"] * 6, "poll export", "submit export"]


@pytest.mark.parametrize("slash", ["/", ""], ids=["a slash added", "a slash taken away"])
def test_a_poll_that_is_sent_on_to_its_proper_address_is_one_poll(session, server, clock, spans, slash):
    """Each poll is one attempt, however many requests it took; relative references start where the answer was."""
    asked, proper = ("/jobs/7", "/jobs/7/") if slash else ("/jobs/7/", "/jobs/7")
    result = "/jobs/7/result" if slash else "/jobs/result"
    server.script(accepted(asked))
    for state in ("running", "running"):
        server.script(redirect(308, proper), {"state": state})
    done = Reply(200, {"state": "done"}, headers={"Content-Location": "result"})
    server.script(redirect(308, proper), done, "rows")
    with operation("export", deadline=60, session=session, clock=clock):
        session.post(f"{server.url}jobs")
        for _ in range(3):
            session.get(server.url.rstrip("/") + asked)
            clock.advance(5)
        session.get(server.url.rstrip("/") + result)

    assert below(spans) == ["download export", "poll export", "submit export"]
    poll = spans.named("poll export").attributes
    told = poll["trihop.poll.attempts"], poll["trihop.poll.statuses"], poll["trihop.poll.wait_time"], poll["url.full"]
    assert told == (3, ("200=3",), 10, server.url.rstrip("/") + asked)
    assert spans.named("export").attributes["trihop.operation.polls"] == 3


def test_a_download_through_a_redirect_is_one_download(session, server, other, clock, spans):
    """As of artifacts that are kept in a storage: one span, as long as its body, with both requests as attempts."""
    server.script(accepted("/jobs/J-1"), running(), running("done", href="/files/f-1"))
    server.script(redirect(302, f"{other.url}blob?sig=1"))
    other.script(dripped("x" * 10, every=3))
    with operation("export", deadline=600, session=session, clock=clock):
        session.post(f"{server.url}jobs")
        for _ in range(2):
            session.get(f"{server.url}jobs/J-1")
        with session.get(f"{server.url}files/f-1", stream=True) as response:
            assert b"".join(response.iter_content(4)) == b"x" * 10

    assert below(spans) == ["download export", "poll export", "submit export"]
    download = spans.named("download export")
    assert [event.attributes["http.response.status_code"] for event in download.events] == [302, 200]
    assert download.attributes["trihop.download.size"] == 10
    assert (download.end_time - download.start_time) / 1e9 == pytest.approx(30, abs=4)
    assert "traceparent" not in other.calls[0].headers


def test_of_polls_that_carry_no_trace_any_more_neither_do_the_redirects(session, server, clock, spans):
    """The first eight of many polls carry it, wherever they are sent on to."""
    server.script(accepted("/jobs/J-1"))
    for number in range(12):
        server.script(redirect(301, "/jobs/J-1/"), {"state": "running", "step": number})
    with operation("export", deadline=60, session=session, clock=clock):
        session.post(f"{server.url}jobs")
        for _ in range(12):
            session.get(f"{server.url}jobs/J-1")

    assert ["traceparent" in call.headers for call in server.calls] == [True] * 17 + [False] * 8


def test_each_redirect_is_bounded_by_the_deadline(session, server, clock, spans):
    """A chain of redirects ends with the deadline, not with its thirtieth."""

    def slowly(call):
        clock.advance(4)
        return redirect(302, f"/{call.path.strip('/')}x")

    server.script(then_always=slowly)
    with pytest.raises(TimeoutError), operation("export", deadline=10, session=session, clock=clock):
        session.get(server.url)

    assert len(server.calls) == 3
