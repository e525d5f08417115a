"""One deadline over the whole triangle, on real sockets and the real clock: it strikes wherever it must.

With `-s` a table shows by how much each of these overshot.
"""

import gzip
import threading
from dataclasses import replace

import pytest
import sockets
from requests.adapters import HTTPAdapter
from sockets import OVERSHOOT_S, FromThen, Peer, Server, black_holes, resolve_to, stalls
from urllib3.util import Retry

from trihop import Budget, Call, Content, DeadlineExceeded, LongPoll, Pacing, Reply, Result, Succeeded, operation
from trihop._clock import SystemClock
from trihop.providers import generic
from trihop.testing import (
    ScriptedServer,
    accepted,
    chunked,
    close_delimited,
    deaf,
    delayed,
    done,
    dripped,
    running,
    silent,
)

session = sockets.session

CLOCK = SystemClock()
DEADLINE_S = 0.3
QUICK = replace(generic.ACCEPTED, pacing=Pacing(first=0.01, cap=0.02, floor=0.01))
ROWS = Reply(200, content=b"a,b\n" * 50, headers={"Content-Type": "text/csv"})
PACKED = Reply(200, content=gzip.compress(bytes(range(256))), headers={"Content-Encoding": "gzip"})
SLOWLY = {"every": 0.02, "size": 1}


@pytest.fixture(scope="module")
def overshoots():
    found = {}
    yield found
    print("\n\novershoot in ms")
    for where, seconds in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{seconds * 1000:8.1f}  {where}")


@pytest.fixture
def clock():
    return FromThen()


@pytest.fixture
def then(clock):
    """The reply at whose request the time begins to pass."""

    def then(reply):
        def begin(call):
            clock.begin()
            return reply

        return begin

    return then


@pytest.fixture
def strikes(session, tmp_path, overshoots, request, clock):
    """Walks the triangle under a deadline and says where it struck; the session goes on afterwards."""

    def strikes(url, *, provider=QUICK, at_once=False, begun=False, **as_in_requests):
        if begun:
            clock.begin()
        before_s = clock.monotonic()
        with (
            pytest.raises(DeadlineExceeded) as caught,
            operation("export", deadline=DEADLINE_S, session=session, provider=provider, clock=clock) as op,
        ):
            begun_s = clock.monotonic()
            op.run("POST", url, to=tmp_path / "rows", **as_in_requests)
        struck_s = clock.monotonic()
        over_s = struck_s - begun_s - (0.0 if at_once else DEADLINE_S)
        overshoots[request.node.name.removeprefix("test_it_strikes_")] = over_s
        assert over_s <= OVERSHOOT_S
        assert at_once or struck_s - before_s >= DEADLINE_S - 0.03
        assert list(tmp_path.iterdir()) == []
        error = caught.value
        return error.hop, error.phase, error.asked

    return strikes


FIRST = {
    "submit: never answered": (silent(), "submit", "headers"),
    "submit: an upload that gets stuck": (deaf(), "submit", "headers"),
    "submit: the status line drips": (dripped(accepted(), part="status", **SLOWLY), "submit", "headers"),
    "submit: the headers drip": (dripped(accepted(), part="headers", **SLOWLY), "submit", "headers"),
    "submit: the body drips": (dripped(running(message="x" * 99), **SLOWLY), "submit", "body"),
    "submit: an answer that comes too late": (delayed(1.0, accepted()), "submit", "headers"),
}
THEN = {
    "poll: never answered": (silent(), "poll", "headers"),
    "poll: the status line drips": (dripped(running(), part="status", **SLOWLY), "poll", "headers"),
    "poll: the headers drip": (dripped(running(), part="headers", **SLOWLY), "poll", "headers"),
    "poll: the body drips": (dripped(running(message="x" * 99), **SLOWLY), "poll", "body"),
    "poll: a body of no length drips": (dripped(close_delimited(running(message="x" * 99)), **SLOWLY), "poll", "body"),
    "poll: chunks drip": (dripped(chunked(running(message="x" * 99)), **SLOWLY), "poll", "body"),
    "poll: an error page drips": (dripped(Reply(502, content=b"x" * 99), **SLOWLY), "poll", "body"),
    "poll: silent after the headers": (silent(running()), "poll", "body"),
}
LAST = {
    "download: never answered": (silent(), "download", "headers"),
    "download: the headers drip": (dripped(ROWS, part="headers", **SLOWLY), "download", "headers"),
    "download: the body drips": (dripped(ROWS, **SLOWLY), "download", "body"),
    "download: a body of no length drips": (dripped(close_delimited(ROWS), **SLOWLY), "download", "body"),
    "download: chunks drip": (dripped(chunked(ROWS), **SLOWLY), "download", "body"),
    "download: what gzip packed drips": (dripped(PACKED, **SLOWLY), "download", "body"),
    "download: silent in mid-body": (silent(ROWS, 100), "download", "body"),
}
SCENES = {
    **{name: ([reply], *where) for name, (reply, *where) in FIRST.items()},
    **{name: ([accepted(), running(), reply], *where) for name, (reply, *where) in THEN.items()},
    **{name: ([accepted(), done(result_url="/f"), reply], *where) for name, (reply, *where) in LAST.items()},
    "a redirect to silence": ([accepted(), Reply(307, headers={"Location": "/moved"}), silent()], "poll", "headers"),
}


@pytest.mark.parametrize(("replies", "hop", "phase"), SCENES.values(), ids=SCENES)
def test_it_strikes_within_an_exchange(strikes, then, session, replies, hop, phase):
    """Wherever the server is slow, the deadline ends it on time, names the place, and leaves the session usable."""
    *before, fault = replies
    with ScriptedServer() as server:
        server.script(*before, then(fault) if before else fault)
        server.on("GET", "/later", then_always=b"fine")
        body = bytes(30_000_000) if "deaf()" in map(repr, replies) else b"{}"

        struck_at = strikes(f"{server.url}jobs", data=body, begun=not before)

        assert struck_at[:2] == (hop, phase)
        assert session.get(f"{server.url}later", timeout=5).content == b"fine"


@pytest.mark.parametrize("reply", [running(), delayed(0.07, running()), 503], ids=["quick", "slow", "errors"])
def test_it_strikes_on_polls_without_end(strikes, then, reply):
    """A job that never ends is waited for no longer, in whatever its last moment was spent."""
    provider = replace(QUICK, budget=Budget(consecutive_errors=1000))
    with ScriptedServer() as server:
        server.script(accepted(), then_always=then(reply))

        hop, phase, _ = strikes(f"{server.url}jobs", provider=provider)

    assert hop == "poll"
    assert phase in ("wait", "connect", "headers", "body", "between")


@pytest.mark.parametrize("hop", ["submit", "poll", "download"])
def test_it_strikes_while_connecting_to_a_black_hole(strikes, then, hop):
    """A host that drops packets takes no longer than the deadline, on any hop."""
    with ScriptedServer() as server, black_holes() as port:
        hole = f"http://127.0.0.1:{port}/x"
        server.script(*([then(accepted(hole))] if hop == "poll" else [accepted(), then(done(result_url=hole))]))

        url = hole if hop == "submit" else f"{server.url}jobs"
        assert strikes(url, begun=hop == "submit") == (hop, "connect", None)


def test_it_strikes_within_a_tls_handshake(strikes, then):
    """A server that accepts and says nothing is no TLS server within the deadline."""
    with ScriptedServer() as server, Server(stalls) as mute:
        server.script(then(accepted(f"https://127.0.0.1:{mute.port}/jobs/1")))

        assert strikes(f"{server.url}jobs") == ("poll", "tls", None)


def test_it_strikes_while_a_proxy_thinks(strikes, then, session):
    """A proxy that does not answer CONNECT is part of connecting."""
    with ScriptedServer() as server, Server(stalls) as proxy:
        session.proxies["https://api.test"] = f"http://127.0.0.1:{proxy.port}"
        server.script(then(accepted("https://api.test/jobs/1")))

        assert strikes(f"{server.url}jobs") == ("poll", "connect", None)


def test_it_strikes_while_a_name_is_resolved(strikes, then, monkeypatch):
    """A resolver that hangs is left behind."""
    over = threading.Event()
    resolve_to(monkeypatch, "api.test", ["127.0.0.1"], first=lambda: over.wait(5))
    try:
        with ScriptedServer() as server:
            server.script(then(accepted("http://api.test/jobs/1")))

            assert strikes(f"{server.url}jobs") == ("poll", "connect", None)
    finally:
        over.set()


@pytest.mark.parametrize("hop", ["poll", "download"])
def test_a_retry_mounted_underneath_is_bounded(strikes, then, session, hop):
    """A Retry of the session's own would sleep for an hour, as the server asks; it is refused at once."""
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=3, status_forcelist={503})))
    with ScriptedServer() as server:
        busy = then(Reply(503, headers={"Retry-After": "3600"}))
        server.script(accepted(), *([busy] if hop == "poll" else [done(result_url="/f"), busy]))

        assert strikes(f"{server.url}jobs", at_once=True) == (hop, "wait", 3600)


def test_a_retry_that_counts_attempts_is_bounded(strikes, then, session):
    """Resends underneath, each of which is slow, end with the deadline, too."""
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=50, status_forcelist={503})))
    with ScriptedServer() as server:
        server.script(accepted(), then_always=then(delayed(0.07, 503)))

        hop, phase, asked_s = strikes(f"{server.url}jobs")
        assert (hop, asked_s) == ("poll", None)
        assert phase in ("headers", "connect")  # or as the next one takes its connection


@pytest.mark.parametrize("reply", [running(hint_s=5), Reply(503, headers={"Retry-After": "5"})], ids=["200", "503"])
def test_a_pause_that_does_not_fit_is_not_begun(strikes, then, reply):
    """The error comes at once, not when the deadline would have struck."""
    with ScriptedServer() as server:
        server.script(accepted(), then(reply))

        assert strikes(f"{server.url}jobs", at_once=True) == ("poll", "wait", 5)


def test_it_strikes_on_a_later_page(strikes, then):
    """The pages before it have taken their part of the time."""
    provider = replace(
        QUICK,
        poll=lambda reply, job: Succeeded("done", results=(Result("/1"),)),
        download=lambda reply, result: Content(next=reply.headers.get("X-Next")),
    )
    with ScriptedServer() as server:
        first = then(delayed(0.1, Reply(200, content=b"1", headers={"X-Next": "/2"})))
        server.script(accepted(), 200, first, silent())

        assert strikes(f"{server.url}jobs", provider=provider) == ("download", "headers", None)


def test_it_strikes_on_a_long_poll(strikes, then):
    """A server that holds the request for as long as it was told to is cut off all the same."""
    with ScriptedServer() as server:
        server.script(accepted(), then(silent()))

        provider = replace(QUICK, long_poll=LongPoll(seconds=60, params={"wait": "{seconds}"}))
        assert strikes(f"{server.url}jobs", provider=provider) == ("poll", "headers", None)


def test_it_strikes_between_hops(session, overshoots):
    """Once the caller's own work has used the time up, the next hop sends nothing."""
    with ScriptedServer() as server:
        server.script(accepted())
        with (
            pytest.raises(DeadlineExceeded) as caught,
            operation("export", deadline=0.2, session=session, provider=QUICK) as op,
        ):
            job = op.submit("POST", f"{server.url}jobs")
            CLOCK.sleep(0.2)
            before_s = CLOCK.monotonic()
            op.poll(job)
        overshoots["between hops"] = took_s = CLOCK.monotonic() - before_s

        assert took_s < OVERSHOOT_S
        assert (caught.value.phase, caught.value.hop, len(server.calls)) == ("between", "poll", 1)


def test_the_cancel_after_an_interrupt_is_bounded(session, overshoots, monkeypatch):
    """A server that does not answer the cancel holds Ctrl-C up for its few seconds and no longer."""
    monkeypatch.setattr("trihop._block._INTERRUPTED_WITHIN_S", 0.2)
    provider = replace(QUICK, cancel=Call("DELETE", "{status_url}"))
    with ScriptedServer() as server:
        server.script(accepted(), silent())
        with (
            pytest.raises(KeyboardInterrupt),
            operation("export", deadline=60, session=session, provider=provider, on_interrupt="cancel") as op,
        ):
            op.submit("POST", f"{server.url}jobs")
            begun_s = CLOCK.monotonic()
            raise KeyboardInterrupt
        overshoots["the cancel after an interrupt"] = over_s = CLOCK.monotonic() - begun_s - 0.2

        assert -0.02 <= over_s <= OVERSHOOT_S
        assert [call.method for call in server.calls] == ["POST", "DELETE"]


def test_the_callers_own_timeout_still_counts(session):
    """A timeout below the deadline is a poll error, after which there is another poll."""
    with ScriptedServer() as server:
        server.script(accepted(), silent(), then_always=done(result=1))
        with operation("export", deadline=30, session=session, provider=QUICK) as op:
            assert op.poll(op.submit("POST", f"{server.url}jobs"), timeout=0.1).data == 1


def test_without_a_deadline_nothing_strikes(session):
    """None bounds nothing: a slow body is read to its end."""
    with ScriptedServer() as server:
        server.script(accepted(), dripped(done(result=1), every=0.005))
        with operation("export", deadline=None, session=session, provider=QUICK) as op:
            assert op.run("POST", f"{server.url}jobs").json() == 1


def test_a_deadline_that_struck_leaves_a_pool_that_works(session):
    """Operations that were cut leave no connection behind that a later request could read from."""

    def half(peer: Peer) -> None:
        while peer.head():
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    with Server(half) as server:
        for _ in range(5):
            with pytest.raises(DeadlineExceeded), operation("x", deadline=0.05, session=session, provider=QUICK) as op:
                op.download(f"{server.url}/f")
        with ScriptedServer() as good:
            good.script(then_always=b"whole")
            assert session.get(good.url, timeout=5).content == b"whole"
        assert server.accepted == 5
