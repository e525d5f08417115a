"""The parts of a simulated world: a job, a server that answers, a database that takes turns, what was seen."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from heapq import heapreplace
from random import Random
from typing import NamedTuple

from simulate.setting import Server

BUCKET_S = 10.0


class Job:
    """One job: when it is over, and how often it was asked."""

    __slots__ = ("asking", "due_s", "ended", "ends_s", "entry", "errors", "pauses", "polls", "server", "token")

    def __init__(self, server: Answering, ends_s: float) -> None:
        self.server = server
        self.ends_s = ends_s
        self.due_s = math.inf
        self.entry = 0  # the schedule's
        self.token = 0  # the fence: who comes with an older one is nobody
        self.asking = False
        self.ended = False
        self.pauses = self.errors = self.polls = 0


class Answer(NamedTuple):
    """What a poll is answered.

    Args:
        status: 200, 429 or 503.
        hint_s: What it asks for.
        at_s: When it arrives.
    """

    status: int
    hint_s: float | None
    at_s: float


class Answering:
    """A server at work."""

    def __init__(self, server: Server, random: Random) -> None:
        self.server = server
        self._random = random
        self._second, self._in_second = -1, 0

    def ask(self, now_s: float) -> Answer:
        """Answer a poll that arrives now."""
        one = self.server
        if int(now_s) != self._second:
            self._second, self._in_second = int(now_s), 0
        self._in_second += 1
        at_s = now_s + one.latency_s * (0.5 + self._random.random())
        stormy = one.storm_s is not None and one.storm_s[0] <= now_s < one.storm_s[1]
        if stormy or (one.limit_per_s is not None and self._in_second > one.limit_per_s):
            return Answer(429, one.retry_after_s, at_s)
        if self._random.random() < one.failing:
            return Answer(503, None, at_s)
        return Answer(200, None, at_s)


class Database:
    """Statements in the order they came, so many at a time."""

    def __init__(self, lanes: int) -> None:
        self._free_s = [0.0] * lanes
        self.busy_s: Counter[int] = Counter()

    def work(self, now_s: float, seconds: float) -> float:
        """When a statement that comes now is done."""
        done_s = max(now_s, self._free_s[0]) + seconds
        heapreplace(self._free_s, done_s)
        self.busy_s[int(now_s / BUCKET_S)] += seconds
        return done_s


@dataclass
class Seen:
    """What came of it.

    Args:
        late_s: By how much each poll was late, those apart that waited because their origin had asked for it.
        held_late_s: These.
        due: Polls that came due, by ten seconds.
        begun: Polls that began.
        asked: Requests to a server, by its name and ten seconds.
        thread_s: Seconds of threads at work, the wait for the database included.
        cpu_s: Seconds of CPU of the processes.
        broken: What must not be and was: by what it is.
        repeated: Polls whose answer a death took away.
        slowed: Answers 429.
        looks: Reads of a record in a pause, for a webhook that cut it short.
        claims: Statements that claimed, by ten seconds.
        claimed: What they found.
        most_at_once: How many threads of a process were at one origin.
        ended: Jobs.
        ended_s: When the last of them had.
    """

    late_s: array[float] = field(default_factory=lambda: array("d"))
    held_late_s: array[float] = field(default_factory=lambda: array("d"))
    due: Counter[int] = field(default_factory=Counter)
    begun: Counter[int] = field(default_factory=Counter)
    asked: Counter[tuple[str, int]] = field(default_factory=Counter)
    thread_s: Counter[int] = field(default_factory=Counter)
    cpu_s: Counter[int] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    slowed: int = 0
    looks: Counter[int] = field(default_factory=Counter)
    claims: Counter[int] = field(default_factory=Counter)
    claimed: Counter[int] = field(default_factory=Counter)
    most_at_once: int = 0
    ended: int = 0
    ended_s: float = 0.0
