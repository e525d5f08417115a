"""The threads of a fleet: which of them takes the next step, which keeps the time, how all of them stop.

Between its steps an operation takes a place in a heap and no thread, and none
while a server takes its time over a poll, either. Of the workers of a lane one is
the keeper: it waits for the next due time and for the answers to polls, sends
these and reads those. Before a step that has to be waited for, such as a submit,
it makes another one the keeper. So as long as there are only polls, one thread
does all: many would do little else than take turns at the interpreter's lock.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import requests

from trihop._clock import Clock, SystemClock
from trihop._fleet.ears import Ears
from trihop._fleet.job import FleetJob, FleetStopped, Outcome, Step
from trihop._fleet.post import LOOK_EVERY_S, Post
from trihop._origin import Origin, Trusted
from trihop._schedule import ASK, DOWNLOAD, Schedule, Taken
from trihop._wire.flight import Flight

log = logging.getLogger("trihop")

_STOP_WITHIN_S = 1.0
_WOKEN_WITHIN_S = 5.0
_LOOKS_PER_S = 100
_SLOW_S = 0.005
_NO_TURN = "no turn in time"


class Desks:
    """The couriers of one thread: jobs that submit to one origin, with nothing of their own, share one.

    A prepared request costs as much memory as the rest of a job; here there is one a thread and origin.
    """

    def __init__(self, session: requests.Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._shared: dict[tuple[Origin, tuple[str, ...]], Ears] = {}

    def of(self, home: Origin | None, origins: tuple[str, ...]) -> Ears:
        """The courier of jobs that submit to an origin; a new one for a job whose origin is its own affair."""
        if home is None:
            return self._new(origins)
        shared = self._shared.get((home, origins))
        if shared is None:
            shared = self._shared[home, origins] = self._new(origins)
            shared.trusted.adopt(str(home))
        return shared

    def _new(self, origins: tuple[str, ...]) -> Ears:
        return Ears(self._session, Trusted(origins), self._clock, lambda: math.inf)


class Turn(NamedTuple):
    """A step that is to be taken.

    Args:
        taken: Whose.
        among: How many jobs there are at its origin.
        look_s: As in `FleetJob.step`.
    """

    taken: Taken[FleetJob]
    among: int
    look_s: float


class Crew:
    """Workers, and the jobs they take in turns.

    Args:
        session: Whose requests.
        workers: How many submits and polls at once; half as many downloads besides.
        per_origin: How many of either at one origin.
        clock: Whose time. On another than the system's, time passes when all wait for it, the caller too.
    """

    def __init__(self, session: requests.Session, *, workers: int, per_origin: int, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._is_real = isinstance(clock, SystemClock)
        sizes = {ASK: workers, DOWNLOAD: max(1, workers // 2)}
        self._schedule: Schedule[FleetJob] = Schedule(sizes, per_origin=per_origin)
        self.jobs: dict[str, FleetJob] = {}
        """Those under way, by key; to be looked at under `wait`."""
        self._places: dict[str | int, FleetJob] = {}
        self.ended: deque[Outcome] = deque()
        self._lock = threading.Lock()
        self._over = threading.Condition(self._lock)
        self._posts: dict[str, Post[Turn]] = {
            lane: Post(f"trihop fleet {lane}", size, self._lock, partial(self.serve, lane))
            for lane, size in sizes.items()
        }
        self._busy = 0  # steps that a thread is at
        self._is_slow = False  # the last answer took its time after it was here, as with a listener that does
        self._waiting = 0
        self._sleeping = False
        self._swept_s = -math.inf
        self._stopping = False
        self._process = os.getpid()

    # ---- for the caller's threads

    def reserve(self, job: FleetJob) -> None:
        """Keep the place of its result for a job that is about to be opened.

        Raises:
            ValueError: The result of another job under way goes there.
        """
        if job.place is None:
            return
        with self._lock:
            other = self._places.setdefault(job.place, job)
        if other is not job and (job.op.key is None or job.op.key != other.op.key):
            raise ValueError(
                f"operation {job.op.name!r}: to= is where the result of the job {other.key!r} goes, which is under way"
            )

    def give_up(self, job: FleetJob) -> None:
        """Let others have the place of its result."""
        if job.place is not None and self._places.get(job.place) is job:
            del self._places[job.place]

    def enter(self, job: FleetJob) -> None:
        """Take a job in; its first step is due now.

        Raises:
            RuntimeError: The fleet was left meanwhile.
            OSError: The system has no file descriptors left.
        """
        with self._lock:
            if self._stopping:
                raise RuntimeError("this fleet was left while a job was started; make a new one with Fleet(…)")
            if self._is_real:
                for post in self._posts.values():
                    post.answers.open()  # here, where the caller is told if it fails
            self.jobs[job.key] = job
            self._plan(job, ASK, self._clock.monotonic())

    @property
    def is_a_copy(self) -> bool:
        """Whether this is a fork of the process, which has none of the threads."""
        return os.getpid() != self._process

    @property
    def is_at_work_here(self) -> bool:
        """Whether this thread is one of those that take steps: what it waits for may wait for it."""
        here = threading.current_thread()
        return not self.is_a_copy and any(here in post.threads for post in self._posts.values())

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait until something holds of the jobs under way or ended.

        Raises:
            RuntimeError: It would never hold: in a thread that takes steps, or in a fork of the process.
        """
        if self.is_a_copy:
            raise RuntimeError("this fleet belongs to the process that was forked; make a new one with Fleet(…)")
        if self.is_at_work_here:
            raise RuntimeError("a thread of the fleet, such as on_event is called from, cannot wait for its own jobs")
        with self._lock:
            self._waiting += 1
            try:
                self._stir()
                while not until():
                    self._over.wait()
            finally:
                self._waiting -= 1

    def cancel(self, key: str) -> None:
        """Let the next step of a job be its cancel, now.

        Raises:
            LookupError: It is not under way.
            ValueError: Its API has no way to cancel.
        """
        with self._lock:
            job = self.jobs.get(key)
            if job is None:
                raise LookupError(f"no job with the key {key!r} is under way in this fleet")
            job.to_be_cancelled()
            if not job.busy:
                self._plan(job, ASK, self._clock.monotonic())
            self._stir()

    def stop(self) -> int:
        """Take no further step, and leave what is under way as it is; how many jobs that was."""
        with self._lock:
            self._stopping = True
            for post in self._posts.values():
                post.call_all()
            self._over.wait_for(lambda: self._busy == 0, _STOP_WITHIN_S)
            for post in self._posts.values():
                for turn in post.answers.drop():
                    turn.taken.item.busy = False
                post.leave()
            left = list(self.jobs.values())
            self.jobs.clear()
            self._over.notify_all()  # other threads may wait for outcomes, or for room
            waiting = [job for job in left if not job.busy]  # the others are left by those who are at them
        for job in waiting:
            job.leave(FleetStopped("the fleet was left"))
        if len(waiting) == len(left):
            for post in self._posts.values():
                for thread in post.threads:
                    thread.join(_STOP_WITHIN_S)
        return len(left)

    # ---- for the workers' threads, under the lock where they begin with an underscore

    def serve(self, lane: str) -> None:
        """Take steps until the end."""
        desks, post = Desks(self._session, self._clock), self._posts[lane]
        with self._lock:
            found = self._next(lane)
        while found is not None:
            turn, flight = found
            came = self._step(turn, flight, desks, lane)
            with self._lock:  # once for both: threads that take turns at a lock do little else
                left = self._departed(turn, came, lane) if isinstance(came, Flight) else self._took(turn, came, lane)
                found = self._next(lane)
            if left:
                turn.taken.item.leave(FleetStopped("the fleet was left"))
        with self._lock:
            post.leave()

    def _step(self, turn: Turn, flight: Flight | None, desks: Desks, lane: str) -> Step | Flight:
        """Take a step, or of a poll one half: send it, or read its answer."""
        job, held = turn.taken.item, turn.taken.held
        courier = None if job.home is None else desks.of(job.home, tuple(job.op.provider.origins))
        if flight is None and self._is_real:
            departed = job.depart(courier, held=held)
            if departed is not None:
                return departed
        hand_over = partial(self._hand_over, lane)
        if flight is None or not flight.is_over or job.is_written or self._is_slow:
            hand_over()
        began_s = self._clock.monotonic()
        step = job.step(courier, among=turn.among, held=held, look_s=turn.look_s, flight=flight, hand_over=hand_over)
        if flight is not None:
            self._is_slow = self._clock.monotonic() - began_s > _SLOW_S
        return step

    def _hand_over(self, lane: str) -> None:
        with self._lock:
            self._posts[lane].hand_over()

    def _departed(self, turn: Turn, flight: Flight, lane: str) -> bool:
        """Wait for the answer to a poll; whether the job is to be left, as nobody waits for it any more."""
        self._busy -= 1
        if not self._stopping:
            self._posts[lane].expect(flight, turn, self._clock.monotonic())
            return False
        flight.drop()
        job = turn.taken.item
        job.busy = False
        self._over.notify_all()
        return job.key not in self.jobs

    def _took(self, turn: Turn, step: Step, lane: str) -> bool:
        """Note what a step came to; whether the job is to be left, as nobody waits for it any more."""
        taken, now_s = turn.taken, self._clock.monotonic()
        job = taken.item
        self._busy -= 1
        job.busy = False
        self._schedule.done(taken.origin, lane)
        if step.hold_s is not None:
            self._schedule.hold(taken.origin, now_s, step.hold_s)
        if step.ration is not None:
            remaining, reset_s = step.ration
            self._schedule.ration(taken.origin, now_s, remaining=remaining, reset_s=reset_s)
        stopped = step.lane is not None and job.key not in self.jobs
        if step.lane is None:
            self.jobs.pop(job.key, None)
            self.give_up(job)
            assert job.outcome is not None
            self.ended.append(job.outcome)
        elif job.cancelling:
            self._plan(job, ASK, now_s)
        elif not stopped:
            self._plan(job, step.lane, max(now_s, step.due_s))
        if step.lane is None or self._stopping:
            self._over.notify_all()
        self._stir()
        return stopped

    def _next(self, lane: str) -> tuple[Turn, Flight | None] | None:
        """Whose turn it is, sooner or later, and the poll whose answer is here; None when there is nothing more to do.

        What was answered comes before what is due: it makes room.
        """
        post = self._posts[lane]
        while not self._stopping:
            now_s = self._clock.monotonic()
            if now_s >= self._swept_s + LOOK_EVERY_S:
                self._sweep(now_s)
            answered = post.answers.next(now_s) if self._is_real and post.keep(now_s) else None
            if answered is not None:
                self._busy += 1
                return answered
            taken = self._schedule.take(now_s, lane)
            if taken is None:
                self._rest(lane, now_s)
                continue
            self._busy += 1
            taken.item.busy = True
            look_s = max(_WOKEN_WITHIN_S, len(self.jobs) / _LOOKS_PER_S)
            return Turn(taken, self._schedule.planned(taken.origin) + 1, look_s), None
        return None

    def _plan(self, job: FleetJob, lane: str, due_s: float) -> None:
        """Plan its next step, and see to it that somebody looks in time."""
        self._schedule.plan(job, due_s=due_s, origin=job.origin, lane=lane, until_s=job.until_s)
        self._posts[lane].call_by(due_s)

    def _sweep(self, now_s: float) -> bool:
        """Give up those that cannot have a turn in time; whether there were any."""
        self._swept_s = now_s
        late = self._schedule.hopeless(now_s)
        for job in late:
            job.refuse(self._schedule.held_until_s(job.origin) - now_s)
            self._schedule.plan(job, due_s=now_s, origin=_NO_TURN)
        return bool(late)

    def _rest(self, lane: str, now_s: float) -> None:
        """Wait until there may be something to do."""
        post = self._posts[lane]
        if self._is_real:
            post.rest(self._schedule.next_s(lane), now_s)
        else:
            self._pass_time(post, now_s)

    def _pass_time(self, post: Post[Turn], now_s: float) -> None:
        due_s = min(self._schedule.next_s(lane) for lane in self._posts)
        if self._busy or self._sleeping or not self._waiting or math.isinf(due_s) or due_s <= now_s:
            post.wait()
            return
        if self._sweep(now_s):
            return
        self._sleeping = True
        self._lock.release()
        try:
            self._clock.sleep(due_s - now_s)
        finally:
            self._lock.acquire()
            self._sleeping = False
            self._stir()

    def _stir(self) -> None:
        """On a clock that moves when somebody sleeps, let everybody look again."""
        if not self._is_real:
            for post in self._posts.values():
                post.call_all()
