"""Time, and what happens in it: the events that both ways have in common."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

from simulate.parts import BUCKET_S, Answer, Answering, Database, Job, Seen
from simulate.setting import Setting
from trihop._pacing import Pause, backoff, first_pause, next_pause

_NO_END_S = 1e6


class World:
    """Jobs, servers and a database on a clock that jumps from one event to the next."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.random = Random(setting.seed)
        self.now_s = 0.0
        self.seen = Seen()
        self.database = Database(setting.costs.lanes)
        self.servers = [Answering(server, self.random) for server in setting.servers]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, at_s: float, do: Callable[[], None]) -> None:
        """Let something happen then."""
        heappush(self._events, (at_s, next(self._number), do))

    def run(self) -> Seen:
        """Let all happen, until the last job has ended."""
        while self._events and self.seen.ended < self.setting.jobs:
            self.now_s, _, do = heappop(self._events)
            if self.now_s > _NO_END_S:
                break
            do()
        self.seen.ended_s = self.now_s
        if self.seen.ended < self.setting.jobs:
            self.seen.broken["jobs without an end"] += self.setting.jobs - self.seen.ended
        return self.seen

    # ---- a job

    def job(self) -> tuple[float, Job]:
        """A new one, and when it is submitted."""
        setting, draw = self.setting, self.random
        (server,) = draw.choices(self.servers, [one.server.share for one in self.servers])
        start_s = draw.random() * setting.ramp_s
        lasts_s = min(draw.expovariate(1 / setting.lasting_s), 5 * setting.lasting_s)
        job = Job(server, start_s + lasts_s)
        self.plan(job, start_s + first_pause(setting.pacing, None, None, draw).seconds)
        return start_s, job

    def plan(self, job: Job, due_s: float) -> None:
        """It is due then."""
        job.due_s = due_s
        self.seen.due[int(due_s / BUCKET_S)] += 1

    def begin(self, job: Job, *, held: bool = False) -> Answer:
        """Its poll begins now."""
        seen, late_s = self.seen, self.now_s - job.due_s
        if job.asking:
            seen.broken["asked twice at a time"] += 1
        if job.ended:
            seen.broken["asked after its end"] += 1
        if late_s < -1e-9:
            seen.broken["asked before it was due"] += 1
        job.asking = True
        job.polls += 1
        bucket = int(self.now_s / BUCKET_S)
        seen.begun[bucket] += 1
        seen.asked[job.server.server.name, bucket] += 1
        (seen.held_late_s if held else seen.late_s).append(late_s)
        return job.server.ask(self.now_s)

    def judge(self, job: Job, answer: Answer) -> Pause | None:
        """What comes after an answer, as the library has it; None where the job is over."""
        job.asking = False
        pacing, draw = self.setting.pacing, self.random
        if answer.status == 200:
            job.errors = 0
            if answer.at_s >= job.ends_s:
                self._ended(job)
                return None
            job.pauses += 1
            return next_pause(pacing, job.pauses - 1, None, None, draw)
        job.errors += 1
        self.seen.slowed += answer.status == 429
        return backoff(pacing, job.errors, answer.hint_s, None, draw)

    def claims(self, found: int) -> float:
        """A statement that claims so many; when it is done."""
        bucket, costs = int(self.now_s / BUCKET_S), self.setting.costs
        self.seen.claims[bucket] += 1
        self.seen.claimed[bucket] += found
        return self.database.work(self.now_s, costs.statement_s + found * costs.claim_s)

    def work(self, seconds: float, *, cpu_s: float = 0.0) -> None:
        """Note that a thread was at it for so long."""
        bucket = int(self.now_s / BUCKET_S)
        self.seen.thread_s[bucket] += seconds
        self.seen.cpu_s[bucket] += cpu_s

    def _ended(self, job: Job) -> None:
        job.ended = True
        self.seen.ended += 1
