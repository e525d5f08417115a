"""Processes that have a fleet each: `Schedule` says whose turn it is, and the store is written to, not asked."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

from simulate.parts import BUCKET_S, Answer, Job
from simulate.world import World
from trihop._durable.visit import PERSISTED_PAUSE_S
from trihop._fleet.crew import _LOOKS_PER_S, _WOKEN_WITHIN_S
from trihop._pacing import Pause
from trihop._schedule import ASK, Schedule, Taken


def enact(world: World) -> None:
    """Deal the jobs out to the processes, and let them ask."""
    setting = world.setting
    processes = [_Process(world) for _ in range(setting.processes)]
    for number in range(setting.jobs):
        start_s, job = world.job()
        world.at(start_s, partial(processes[number % len(processes)].enter, job))
    for process in world.random.sample(processes, round(setting.deaths * len(processes))):
        world.at(world.random.uniform(0.2, 0.8) * (setting.ramp_s + setting.lasting_s), process.die)


class _Process:
    """A process, and the one that takes its jobs on after its death."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.costs = world.setting.costs
        self.life = 0
        self.jobs: dict[Job, None] = {}  # in the order they came, so that a seed gives the same again
        self._begin()

    def _begin(self) -> None:
        setting = self.world.setting
        self.schedule: Schedule[Job] = Schedule({ASK: setting.workers}, per_origin=setting.per_origin)
        self.at_origin: Counter[str] = Counter()
        self.held_until_s: dict[str, float] = {}
        self.cpu_free_s = 0.0
        self.looks_s = math.inf

    def enter(self, job: Job) -> None:
        self.jobs[job] = None
        self.schedule.plan(job, due_s=job.due_s, origin=job.server.server.name)
        self.look()

    # ---- turns

    def look(self) -> None:
        """Begin what may begin now, and see to it that somebody looks again."""
        world = self.world
        while (taken := self.schedule.take(world.now_s)) is not None:
            self._ask(taken)
        next_s = self.schedule.next_s()
        if next_s < self.looks_s:
            self.looks_s = next_s
            world.at(next_s, partial(self._look_as_planned, self.life, next_s))

    def _look_as_planned(self, life: int, at_s: float) -> None:
        if life == self.life:
            if self.looks_s == at_s:
                self.looks_s = math.inf
            self.look()

    def _ask(self, taken: Taken[Job]) -> None:
        world, job, name = self.world, taken.item, str(taken.origin)
        self.at_origin[name] += 1
        world.seen.most_at_once = max(world.seen.most_at_once, self.at_origin[name])
        if taken.due_s < job.due_s:
            self._see(job)
            return
        if world.now_s < self.held_until_s.get(name, -math.inf):
            world.seen.broken["asked an origin that is to be left alone"] += 1
        answer = world.begin(job, held=taken.held)
        # One thread at a time has the interpreter.
        self.cpu_free_s = max(world.now_s, self.cpu_free_s) + self.costs.poll_cpu_s
        at_s = self.cpu_free_s - world.now_s + answer.at_s
        world.work(at_s - world.now_s, cpu_s=self.costs.poll_cpu_s)
        world.at(at_s, partial(self._answered, self.life, job, answer._replace(at_s=at_s)))

    def _answered(self, life: int, job: Job, answer: Answer) -> None:
        world = self.world
        if life != self.life:
            world.seen.repeated += 1
            return
        pause = world.judge(job, answer)
        name = job.server.server.name
        if answer.status == 429 and answer.hint_s is not None:
            self.schedule.hold(name, world.now_s, answer.hint_s)
            self.held_until_s[name] = max(self.held_until_s.get(name, 0.0), world.now_s + answer.hint_s)
        if pause is not None and pause.seconds <= PERSISTED_PAUSE_S:
            self._over(life, job, pause)
            return
        saved_s = world.database.work(world.now_s, self.costs.save_s)
        world.work(saved_s - world.now_s)
        world.at(saved_s, partial(self._over, life, job, pause))

    def _over(self, life: int, job: Job, pause: Pause | None) -> None:
        if life != self.life:
            return
        name = job.server.server.name
        self.at_origin[name] -= 1
        self.schedule.done(name)
        if pause is None:
            self.jobs.pop(job, None)
        else:
            self.world.plan(job, self.world.now_s + pause.seconds)
            self._plan(job)
        self.look()

    def _plan(self, job: Job) -> None:
        """Take it when it is due; in a longer pause earlier, to see in the store whether a webhook cut it short."""
        look_s = max(_WOKEN_WITHIN_S, len(self.jobs) / _LOOKS_PER_S)
        due_s = min(job.due_s, self.world.now_s + look_s)
        self.schedule.plan(job, due_s=due_s, origin=job.server.server.name)

    def _see(self, job: Job) -> None:
        world = self.world
        done_s = world.database.work(world.now_s, self.costs.read_s)
        world.work(done_s - world.now_s)
        world.seen.looks[int(world.now_s / BUCKET_S)] += 1
        world.at(done_s, partial(self._seen, self.life, job))

    def _seen(self, life: int, job: Job) -> None:
        if life == self.life:
            name = job.server.server.name
            self.at_origin[name] -= 1
            self.schedule.done(name)
            self._plan(job)
            self.look()

    # ---- death

    def die(self) -> None:
        """Nothing it was at comes to anything; its leases run out, and another process claims what it had."""
        world, lease_s = self.world, self.world.setting.lease_s
        self.life += 1
        orphans, self.jobs = list(self.jobs), {}
        self._begin()
        world.random.shuffle(orphans)
        for job in orphans:
            job.asking = False
        # A holder renews at each third of a lease.
        for at in range(0, len(orphans), world.setting.claim_batch):
            left_s = lease_s * world.random.uniform(2 / 3, 1)
            world.at(world.now_s + left_s, partial(self._claim, orphans[at : at + world.setting.claim_batch]))

    def _claim(self, jobs: list[Job]) -> None:
        world = self.world
        done_s = world.claims(len(jobs))
        for job in jobs:
            if not job.ended:
                world.at(done_s, partial(self.enter, job))
