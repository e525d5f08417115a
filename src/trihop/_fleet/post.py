"""Where the workers of one lane wait: the keeper for the time and for answers, the others to be called."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from trihop._fleet.answers import Answers
from trihop._wire.flight import Flight

Turn = TypeVar("Turn")

LOOK_EVERY_S = 1.0
"""At the least: a machine that was suspended wakes on time, and jobs without hope are found."""

_LOOKERS = 8  # more that rest look less often each


class Post(Generic[Turn]):
    """The workers of one lane, of which one is the keeper; all of it is used under one lock.

    The keeper sends polls, waits for their answers and for what is due next. Before
    it waits for anything else it hands that over; where it does not come back from
    a step, as a listener may wait for somebody, it is relieved.

    Args:
        name: Of its threads.
        size: How many there may be.
        lock: The lock, held by whoever calls anything in here.
        serve: What a worker does.
    """

    def __init__(self, name: str, size: int, lock: threading.Lock, serve: Callable[[], None]) -> None:
        self.threads: list[threading.Thread] = []
        self.idle = threading.Condition(lock)
        self.resting = 0
        self.answers: Answers[Turn] = Answers()
        self._name = name
        self._size = size
        self._lock = lock
        self._serve = serve
        self._keeper: threading.Thread | None = None
        self._kept_until_s = -math.inf  # when the keeper looks again by itself, while it rests
        self._looked_s = math.inf  # when it last did, while it does not

    def keep(self, now_s: float) -> bool:
        """Be the keeper, if there is none, or it has been at one step for long; whether this thread is."""
        here = threading.current_thread()
        if self._keeper is None or now_s - self._looked_s > LOOK_EVERY_S:
            self._keeper = here
        if self._keeper is here:
            self._looked_s = now_s
        return self._keeper is here

    def hand_over(self) -> None:
        """Let another one be the keeper: this one is about to wait for somebody."""
        if self._keeper is threading.current_thread():
            self._keeper = None
            self.call()

    def call(self) -> None:
        """Have somebody look who has nothing to do."""
        if self.resting:
            self.idle.notify()
        elif len(self.threads) < self._size:
            name = f"{self._name} {len(self.threads) + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self.threads.append(thread)
            thread.start()

    def call_by(self, due_s: float) -> None:
        """See to it that somebody looks in time."""
        if self._keeper is None:
            self.call()
        elif due_s < self._kept_until_s:
            self._kept_until_s = due_s
            self.answers.ring()

    def expect(self, flight: Flight, turn: Turn, now_s: float) -> None:
        """Have the keeper wait for the answer of a flight."""
        self.answers.expect(flight, turn, now_s)
        if self._keeper is not threading.current_thread():
            self.answers.ring()

    def rest(self, until_s: float, now_s: float) -> None:
        """Wait: the keeper until then, or until it hears something; another one until it is called."""
        if self._keeper is not threading.current_thread():
            self.wait(LOOK_EVERY_S * max(1.0, self.resting / _LOOKERS))
            return
        self._kept_until_s = until_s = min(until_s, self.answers.until_s, now_s + LOOK_EVERY_S)
        self._looked_s = math.inf
        self._lock.release()
        try:
            self.answers.rest(until_s - now_s)
        finally:
            self._lock.acquire()
            self._kept_until_s = -math.inf

    def wait(self, seconds: float | None = None) -> None:
        """Wait to be called, or for so long."""
        self.resting += 1
        try:
            self.idle.wait(seconds)
        finally:
            self.resting -= 1

    def call_all(self) -> None:
        """Have everybody look."""
        self.idle.notify_all()
        self.answers.ring()

    def leave(self) -> None:
        """Go, and put away what is needed no more."""
        if self._keeper in (None, threading.current_thread()):
            self.answers.close()
