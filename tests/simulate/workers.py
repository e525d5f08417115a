"""Processes that have a worker each: the store is the schedule, and every step begins with a claim."""

from __future__ import annotations

from collections import Counter
from functools import partial
from heapq import heappop, heappush

from simulate.parts import Answer, Job
from simulate.world import World
from trihop._worker import _LOOK_EVERY_S


def enact(world: World) -> None:
    """Put the jobs into the store, and let workers take steps."""
    setting = world.setting
    store = _Store(world)
    for _ in range(setting.jobs):
        start_s, job = world.job()
        world.at(start_s, partial(store.put, job, job.due_s))
    processes = [_Process(world, store) for _ in range(setting.processes)]
    for process in processes:
        world.at(world.random.random() * _LOOK_EVERY_S, process.look)
    for _ in range(round(setting.deaths * setting.processes * setting.workers)):
        process = world.random.choice(processes)
        world.at(world.random.uniform(0.2, 0.8) * (setting.ramp_s + setting.lasting_s), process.let_one_die)


class _Store:
    """Operations by when they may be claimed: the later of due time and lease."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._claimable: list[tuple[float, int, Job, int]] = []
        self._entries = 0

    def put(self, job: Job, claimable_s: float) -> None:
        self._entries += 1
        heappush(self._claimable, (claimable_s, self._entries, job, job.token))

    def claim_due(self, limit: int, lease_s: float) -> tuple[list[tuple[Job, int]], float]:
        """What is due and nobody's, the longest due first; and when the statement is done."""
        world = self.world
        found: list[tuple[Job, int]] = []
        while self._claimable and self._claimable[0][0] <= world.now_s and len(found) < limit:
            _, _, job, token = heappop(self._claimable)
            if job.ended or token != job.token:
                continue
            job.token += 1
            self.put(job, world.now_s + lease_s)
            found.append((job, job.token))
        return found, world.claims(len(found))

    def save(self, job: Job) -> float:
        """Write a record, which gives the lease back; when that is done."""
        return self.world.database.work(self.world.now_s, self.world.setting.costs.save_s)


class _Process:
    """A loop that claims for as many threads as are free."""

    def __init__(self, world: World, store: _Store) -> None:
        self.world = world
        self.store = store
        self.free = world.setting.workers
        self.looking = False
        self.dying = 0
        self.cpu_free_s = 0.0
        self.at_origin: Counter[str] = Counter()

    def look(self) -> None:
        """Claim, if a thread is free and no claim is on its way."""
        if self.looking or not self.free:
            return
        self.looking = True
        setting = self.world.setting
        found, done_s = self.store.claim_due(min(self.free, setting.claim_batch), setting.lease_s)
        self.free -= len(found)
        self.world.at(done_s, partial(self._claimed, found))

    def _claimed(self, found: list[tuple[Job, int]]) -> None:
        for job, token in found:
            self._ask(job, token)
        if found:
            self.looking = False
            self.look()
        else:
            self.world.at(self.world.now_s + _LOOK_EVERY_S, self._look_again)

    def _look_again(self) -> None:
        self.looking = False
        self.look()

    def _ask(self, job: Job, token: int) -> None:
        world, name = self.world, job.server.server.name
        if token != job.token:  # the database took longer than the lease
            self._free(name=None)
            return
        self.at_origin[name] += 1
        world.seen.most_at_once = max(world.seen.most_at_once, self.at_origin[name])
        answer = world.begin(job)
        cpu_s = world.setting.costs.step_cpu_s
        self.cpu_free_s = max(world.now_s, self.cpu_free_s) + cpu_s
        at_s = self.cpu_free_s - world.now_s + answer.at_s
        world.work(at_s - world.now_s, cpu_s=cpu_s)
        if self.dying:
            self.dying -= 1
            world.seen.repeated += 1
            job.asking = False
            world.at(at_s, partial(self._free, name))  # the thread that takes its place
            return
        world.at(at_s, partial(self._answered, job, token, answer._replace(at_s=at_s)))

    def _answered(self, job: Job, token: int, answer: Answer) -> None:
        world, name = self.world, job.server.server.name
        if token != job.token:  # fenced off: it took longer than the lease
            world.seen.repeated += 1
            self._free(name)
            return
        pause = world.judge(job, answer)
        saved_s = self.store.save(job)
        world.work(saved_s - world.now_s)
        job.token += 1  # the lease is given back with the record
        if pause is not None:
            world.plan(job, world.now_s + pause.seconds)
            self.store.put(job, max(job.due_s, saved_s))
        world.at(saved_s, partial(self._free, name))

    def _free(self, name: str | None) -> None:
        if name is not None:
            self.at_origin[name] -= 1
        self.free += 1
        self.look()

    def let_one_die(self) -> None:
        """The thread that asks next dies before it is answered."""
        self.dying += 1
