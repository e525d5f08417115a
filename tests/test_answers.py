"""What waits for the answers of polls that are on their way: a selector, a bell and the times to give up."""

import math
import os
import socket

import pytest

from trihop._clock import SystemClock
from trihop._fleet.answers import Answers

clock = SystemClock()


class Poll:
    """As far as `Answers` knows a flight: over when a full stop has come, given up at a time."""

    def __init__(self, *, until_s=math.inf, is_over=False):
        self.sock, self.server = socket.socketpair()
        self.sock.setblocking(False)
        self.is_over = is_over
        self.given_up = self.dropped = False
        self._until_s = until_s

    def until_s(self, now_s):
        return self._until_s

    def hear(self, now_s):
        try:
            self.is_over = self.sock.recv(100) in (b".", b"")
        except BlockingIOError:
            return False
        return self.is_over

    def give_up(self):
        self.given_up = True

    def drop(self):
        self.dropped = True


@pytest.fixture
def answers():
    answers = Answers()
    yield answers
    answers.close()


@pytest.fixture
def poll():
    """Makes polls, whose sockets are closed at the end."""
    made = []

    def make(**how):
        made.append(Poll(**how))
        return made[-1]

    yield make
    for one in made:
        one.sock.close()
        one.server.close()


def test_only_what_is_over_comes_next(answers, poll):
    """A part of an answer is none; the turn that comes with it is the one it was sent in."""
    first, second = poll(), poll()
    answers.expect(first, "first", 0.0)
    answers.expect(second, "second", 0.0)
    assert answers.next(1.0) is None
    first.server.send(b"half")
    assert answers.next(1.0) is None
    second.server.send(b".")
    assert answers.next(1.0) == ("second", second)
    assert answers.next(1.0) is None
    first.server.close()
    assert answers.next(1.0) == ("first", first)


def test_what_was_not_sent_is_there_at_once(answers, poll):
    """Nobody would ever hear of it."""
    unsent = poll(is_over=True)
    answers.expect(unsent, "turn", 0.0)
    assert answers.until_s == -math.inf
    assert answers.next(0.0) == ("turn", unsent)


def test_it_is_to_be_looked_at_when_the_first_is_given_up(answers, poll):
    """And never where nothing is under way, whatever was."""
    assert answers.until_s == math.inf
    soon, later = poll(until_s=5.0), poll(until_s=9.0)
    answers.expect(later, "later", 0.0)
    answers.expect(soon, "soon", 0.0)
    assert answers.until_s == 5.0
    assert answers.next(4.9) is None
    assert answers.next(5.0) == ("soon", soon)
    assert (soon.given_up, later.given_up) == (True, False)
    assert answers.until_s == 9.0
    later.server.send(b".")
    assert answers.next(6.0) == ("later", later)
    assert not later.given_up
    assert answers.until_s == math.inf
    assert answers.next(20.0) is None


def test_what_has_come_in_time_is_not_given_up(answers, poll):
    """Though it is looked at too late."""
    one = poll(until_s=5.0)
    answers.expect(one, "turn", 0.0)
    one.server.send(b".")
    assert answers.next(50.0) == ("turn", one)
    assert not one.given_up


def test_a_ring_wakes_who_rests(answers):
    """Also one that came before the rest, and however many came; the next rest lasts."""
    answers.open()
    for _ in range(5000):
        answers.ring()
    began_s = clock.monotonic()
    answers.rest(20.0)
    assert clock.monotonic() - began_s < 10.0
    began_s = clock.monotonic()
    answers.rest(0.05)
    assert clock.monotonic() - began_s >= 0.045


def test_something_to_hear_wakes_who_rests(answers, poll):
    """It is heard by whoever looks next."""
    one = poll()
    answers.expect(one, "turn", 0.0)
    one.server.send(b".")
    began_s = clock.monotonic()
    answers.rest(20.0)
    assert clock.monotonic() - began_s < 10.0
    assert answers.next(0.0) == ("turn", one)


def test_all_that_is_under_way_is_dropped(answers, poll):
    """Whether it is heard of or not; nothing is waited for after that."""
    near, far = poll(is_over=True), poll(until_s=7.0)
    answers.expect(near, "near", 0.0)
    answers.expect(far, "far", 0.0)
    assert sorted(answers.drop()) == ["far", "near"]
    assert near.dropped
    assert far.dropped
    assert answers.until_s == math.inf
    far.server.send(b".")
    assert answers.next(0.0) is None


def test_what_the_system_lent_is_given_back(poll):
    """Once; what is dropped after that borrows nothing anew."""
    one, answers = poll(), Answers()
    before = len(os.listdir("/proc/self/fd"))
    answers.ring()
    answers.expect(one, "turn", 0.0)
    assert len(os.listdir("/proc/self/fd")) > before
    answers.close()
    assert answers.drop() == ["turn"]
    answers.ring()
    answers.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_system_that_has_nothing_to_lend_is_told_of_at_once(monkeypatch):
    """And keeps what it has lent of it."""
    before = len(os.listdir("/proc/self/fd"))

    def refuse():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", refuse)
    with pytest.raises(OSError, match="Too many"):
        Answers().open()
    assert len(os.listdir("/proc/self/fd")) == before
