"""A urllib3 Retry that the user mounted: its pauses fit before the deadline, or are not begun."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import requests
import sockets
from requests.adapters import HTTPAdapter
from sockets import CLOCK, Peer, Server, answer, drips, expect_cut, hangs_up, replies, silent, stalls, until
from urllib3.util import Retry

from trihop._wire.exchange import DeadlineCut, Exchange, bounded, install

install()

session = sockets.session


def busy(hint: str = "") -> bytes:
    return f"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n{hint}\r\n".encode()


class Logged(Retry):
    """A subclass as people write them: one that tells when it sleeps."""

    slept = 0

    def sleep(self, response: Any = None) -> None:
        type(self).slept += 1
        super().sleep(response)


class Deaf(Retry):
    """A subclass whose sleep is its own."""

    def sleep(self, response: Any = None) -> None:
        time.sleep(self.get_backoff_time())  # noqa: TID251


class Stubborn(Retry):
    """A subclass with a backoff of its own."""

    def get_backoff_time(self) -> float:
        return 500.0


def mount(session: requests.Session, retry: Retry, **options: Any) -> HTTPAdapter:
    adapter = HTTPAdapter(max_retries=retry, **options)
    session.mount("http://", adapter)
    return adapter


REFUSED = {
    "Retry-After": (Retry(3, status_forcelist=[503]), "Retry-After: 3600\r\n", 3600),
    "Retry-After in a subclass": (Logged(3, status_forcelist=[503]), "Retry-After: 3600\r\n", 3600),
    "a date": (Retry(3, status_forcelist=[503]), "Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n", None),
    "a subclass's backoff": (Stubborn(3, status_forcelist=[503]), "", 500),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_pause_that_does_not_fit_is_not_begun(session: requests.Session, case: str) -> None:
    """The caller learns at once what was asked for, and the pool has all its connections."""
    retry, hint, asked_s = REFUSED[case]
    adapter = mount(session, retry, pool_block=True, pool_maxsize=1)
    with Server(replies(busy(hint), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as server:
        with pytest.raises(DeadlineCut) as cut, bounded(Exchange(until(5))) as exchange:
            session.get(server.url)
        assert cut.value.phase == "wait"
        assert exchange.remaining() > 4.5
        assert exchange.requests == 1
        if asked_s is not None:
            assert cut.value.asked_s == asked_s
        pool = sockets.pool_of(adapter)
        assert pool.pool.qsize() == 1
        with bounded(Exchange(until(5))):
            assert session.get(server.url).content == b"ok"


@pytest.mark.parametrize("kind", [Retry, Logged, Deaf])
def test_a_backoff_that_does_not_fit_is_not_begun(session: requests.Session, kind: type[Retry]) -> None:
    """The second pause of an exponential backoff is refused where the first was short."""
    mount(session, kind(5, status_forcelist=[503], backoff_factor=600))
    with Server(replies(busy(), busy(), busy())) as server:
        with pytest.raises(DeadlineCut) as cut, bounded(Exchange(until(5))) as exchange:
            session.get(server.url)
        assert (cut.value.phase, cut.value.asked_s) == ("wait", 120)
        assert exchange.requests == 2
        assert exchange.remaining() > 4.5


def test_a_pause_after_a_lost_connection_is_refused_too(session: requests.Session) -> None:
    """Backoff between failures, not only after an answer, has to fit."""
    mount(session, Retry(5, backoff_factor=600))
    with Server(hangs_up) as server:
        with pytest.raises(DeadlineCut) as cut, bounded(Exchange(until(5))) as exchange:
            session.get(server.url)
        assert (cut.value.phase, cut.value.asked_s) == ("wait", 120)
        assert exchange.requests == 2


def test_a_pause_that_fits_is_slept_as_the_users_retry_would(session: requests.Session) -> None:
    """A short backoff passes, through the subclass's own method, and the answer comes."""
    Logged.slept = 0
    retry = Logged(5, status_forcelist=[503], backoff_factor=0.1)
    mount(session, retry)
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    begun_s = CLOCK.monotonic()
    with Server(replies(busy(), busy(), ok)) as server, bounded(Exchange(until(5))) as exchange:
        response = session.get(server.url)
    assert response.content == b"ok"
    assert CLOCK.monotonic() - begun_s >= 0.2
    assert Logged.slept == 2
    assert exchange.requests == 3
    assert type(response.raw.retries) is Logged
    assert vars(response.raw.retries).keys() == vars(retry).keys()


def test_a_pause_drawn_at_random_is_the_one_that_was_looked_at(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jitter is drawn once: the draw that fitted is the draw that is slept."""

    class Jittery(Retry):
        draws = iter((0.0, 0.05, 900.0))

        def get_backoff_time(self) -> float:
            return next(self.draws)

    mount(session, Jittery(5, status_forcelist=[503]))
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with Server(replies(busy(), busy(), ok)) as server, bounded(Exchange(until(5))):
        assert session.get(server.url).content == b"ok"


def test_an_unreadable_hint_stays_urllib3s_own_error(session: requests.Session) -> None:
    """A Retry-After that urllib3 cannot read fails as it does outside an exchange."""
    mount(session, Retry(3, status_forcelist=[503]))
    with Server(replies(busy("Retry-After: soon\r\n"))) as server:
        with pytest.raises(requests.exceptions.InvalidHeader) as outside:
            session.get(server.url)
        session.close()
        with pytest.raises(type(outside.value)), bounded(Exchange(until(5))):
            session.get(server.url)


def test_attempts_of_a_retry_share_one_deadline(session: requests.Session) -> None:
    """What the first two attempts took, the third no longer has."""
    mount(session, Retry(9, status_forcelist=[503]))

    def slow(peer: Peer) -> None:
        for _ in range(2):
            peer.head()
            peer.server.over.wait(0.05)
            peer.send(busy())
        stalls(peer)

    with Server(slow) as server, expect_cut("headers") as exchange:
        session.get(server.url)
    assert exchange.requests == 3


def test_the_body_of_a_refusal_is_bounded(session: requests.Session) -> None:
    """What a Retry reads to empty a connection cannot outlast the deadline."""
    mount(session, Retry(3, status_forcelist=[503]))
    head = b"HTTP/1.1 503 Busy\r\nContent-Length: 90\r\n\r\n"
    with Server(drips(b"x" * 90, first=head), answer) as server:
        with expect_cut("body"):
            session.get(server.url)
        with bounded(Exchange(until(5))):
            assert session.get(server.url).content == b"ok"


def test_read_timeouts_are_retried_as_the_user_asked(session: requests.Session) -> None:
    """The caller's own timeout leads to the caller's own retry, and the answer may still come in time."""
    mount(session, Retry(9))
    with Server(silent, silent, answer) as server, bounded(Exchange(until(5))) as exchange:
        assert session.get(server.url, timeout=(5, 0.1)).content == b"ok"
    assert exchange.requests == 3


def test_the_users_retry_sleeps_as_ever_outside() -> None:
    """Outside an exchange `increment` makes the plain copy it always made."""
    retry = Retry(3, backoff_factor=random.random())
    assert "sleep" not in vars(retry.increment("GET", "/", response=None, error=OSError()))
