"""`Worker`: goes on with operations that nobody's block is waiting for, one step at a time.

A step is one submit, one poll or one download. Between steps an operation is in
the store alone, so a thousand of them need no thousand threads, and any worker
takes the next step. An engine such as Celery sends a message for each key that
`offer` gives, and calls `step` from it; that may come twice or late, as the claim
lets one in and finds nothing due for the other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import requests

from trihop._arguments import expect, expect_callable, told
from trihop._clock import Clock
from trihop._deadline import DeadlineSpec
from trihop._durable.claims import claim, no_record, read
from trihop._durable.enter import Resuming, by_the_store
from trihop._durable.holder import new_holder
from trihop._durable.visit import Visit
from trihop._errors import OperationTaken, TrihopError
from trihop._events import Event
from trihop._hops.poll import Poller, settled
from trihop._operation import _SYSTEM_CLOCK
from trihop._provider import Provider
from trihop._resume import resumed
from trihop._saved import READY, SUBMITTED, Saved
from trihop._telemetry.tracing import observe_overdue
from trihop._values import Ready
from trihop._verdicts import Ending
from trihop.stores import OFFERED, Claim, Store, StoreError

if TYPE_CHECKING:
    from trihop._triangle import Operation

log = logging.getLogger("trihop")

Finish = Callable[["Operation", Ready], None]

_LOOK_EVERY_S = 1.0
_OFFERED_AT_ONCE = 500
"""So many records are in memory at a time, and in one statement."""
_NOT_NOW_S = 60.0


class Worker:
    """Takes steps of the operations in a store.

    Args:
        store: Where the records are.
        session: Whose requests, or a function from a provider's name to a session.
            With several workers, a function: a session serves one thread at a time.
            If it raises, it is called again a minute later.
        finish: Called with the operation and what its job left; downloads it, as a
            rule. The operation ends when it returns. A crash inside it may run it
            twice: keep it idempotent. If it raises, it is called again a minute later.
        providers: Those whose operations are taken; the default provider is among them.
        workers: How many steps at once.
        on_event: As in `operation()`.
        clock: Whose time; for tests.

    Raises:
        TypeError, ValueError: An argument is not what it should be.
    """

    def __init__(
        self,
        store: Store,
        *,
        session: requests.Session | Callable[[str], requests.Session],
        finish: Finish,
        providers: Iterable[Provider] = (),
        workers: int = 8,
        on_event: Callable[[Event], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not hasattr(store, "claim_due"):
            raise TypeError(f"Worker(store) takes a Store, such as SQLStore('sqlite:///jobs.db'), got {told(store)}")
        if not isinstance(session, requests.Session):
            expect_callable(session, "Worker(session=)", "a requests.Session, or a function from a provider's name")
        expect_callable(finish, "Worker(finish=)", "a function of the operation and its Ready")
        from trihop.providers.generic import ACCEPTED

        self.store = store
        if expect(workers, int, "Worker(workers=)", "a number of threads, 1 or more") < 1:
            raise ValueError(f"Worker(workers=) takes a number of threads, 1 or more, got {workers}")
        self.workers = workers
        self._session = session
        self.finish = finish
        self._providers = {
            provider.name: expect(provider, Provider, "Worker(providers=)", "Providers")
            for provider in (ACCEPTED, *providers)
        }
        self._on_event = on_event
        self._clock = clock if clock is not None else _SYSTEM_CLOCK
        self._stop = threading.Event()
        self._observed = False
        self._strange: set[str] = set()

    def resume(
        self, key: str, *, deadline: DeadlineSpec = None, on_event: Callable[[Event], None] | None = None
    ) -> Operation:
        """A block that goes on with an operation of this store, with the provider and session it takes.

        Raises:
            As `trihop.resume`; `LookupError` too where this worker was not given the provider.
        """
        stored = self.store.get(key)
        if stored is None:
            raise no_record(key, self.store)
        saved = read(key, stored.record, self.store)
        provider = self._providers.get(saved.provider)
        if provider is None:
            raise LookupError(f"this worker was not given the provider {saved.provider!r} of the operation {key!r}")
        return resumed(
            saved,
            store=self.store,
            session=self._session_for(provider),
            provider=provider,
            deadline=deadline if deadline is not None else saved.deadline_s,
            on_event=on_event if on_event is not None else self._on_event,
            clock=self._clock,
            how=Resuming(deadline_given=deadline is not None),
        )

    def _session_for(self, provider: Provider) -> requests.Session:
        if isinstance(self._session, requests.Session):
            return self._session
        found = self._session(provider.name)
        return expect(found, requests.Session, "Worker(session=)", "a function that returns a requests.Session")

    def run(self) -> None:
        """Take steps until `stop()`, or until the thread is interrupted; what is begun is finished first.

        Meanwhile the metric `trihop.operation.overdue` tells of the store.
        """

        def over(step: Future[float | None]) -> None:
            free.release()
            if (error := step.exception()) is not None:  # the store is out of reach, or finish() would end the process
                log.error("worker: a step was cut short: %s: %s", type(error).__name__, error)

        self._observe()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="trihop worker") as pool:
            free = threading.Semaphore(self.workers)
            while not self._stop.is_set():
                idle = 1  # one at least, and as many as are free
                free.acquire()
                while idle < self.workers and free.acquire(blocking=False):
                    idle += 1
                try:
                    claims = self._due(idle)
                except StoreError as error:
                    log.error("worker: %s", error)
                    claims = []
                for _ in range(idle - len(claims)):
                    free.release()
                for claim in claims:
                    pool.submit(self._take, claim).add_done_callback(over)
                if not claims:
                    self._stop.wait(_LOOK_EVERY_S)

    def stop(self) -> None:
        """Let `run()` return once the steps that are under way are done; from any thread or signal handler."""
        self._stop.set()

    def step(self, key: str | None = None) -> float | None:
        """Take one step: of the operation under that key if it is due, else of the one that is longest due.

        Returns:
            Seconds until that operation's next step, 0.0 for at once; None where
            there is no next step by itself, or nothing was due, or somebody else has it.

        Raises:
            StoreError: The store cannot be used.
        """
        if key is None:
            claims = self._due(1)
            return self._take(claims[0]) if claims else None
        stored = self.store.get(key)
        if stored is None or stored.ended or stored.due_in_s is None:
            return None
        if stored.due_in_s > 0:
            return stored.due_in_s
        try:
            found = claim(self.store, key)
        except OperationTaken:
            return None
        if found is None:
            return None
        if found.due_in_s is None or found.due_in_s > 0:  # another message was faster
            self.store.release(found)
            return found.due_in_s
        return self._take(found)

    def offer(self, limit: int = 10_000) -> list[str]:
        """Keys of operations that are due, the longest due first; each is for a message that calls `step` with it.

        All that are due, unless these are more than `limit`. They are not offered again
        before the store's lease has passed: by then the message has come, or is taken
        to be lost. Whoever offers reports the metric `trihop.operation.overdue`, too.

        Args:
            limit: How many at most; the others are for the next call, or for another
                dispatcher's. What is due may grow as fast as it is taken, and messages
                for the keys are to be sent within the lease.

        Raises:
            StoreError: The store cannot be used.
        """
        self._observe()
        keys: list[str] = []
        while len(keys) < limit:
            at_once = min(_OFFERED_AT_ONCE, limit - len(keys))
            try:
                offered = self.store.claim_due(holder=OFFERED, lease_s=self.store.lease_s, limit=at_once)
            except StoreError:
                if not keys:
                    raise
                break  # those there are have been set aside for their messages
            keys += [claim.key for claim in offered]
            if len(offered) < at_once:
                break
        return keys

    def _observe(self) -> None:
        if not self._observed:
            self._observed = True
            observe_overdue(self.store.overdue)

    def _due(self, limit: int) -> list[Claim]:
        return self.store.claim_due(holder=new_holder(), lease_s=self.store.lease_s, limit=limit)

    def _take(self, claim: Claim) -> float | None:
        """One step under a claim, which is given back whatever comes of it."""
        clock = by_the_store(self._clock, claim)
        try:
            saved = read(claim.key, claim.record, self.store)
            provider = self._providers.get(saved.provider)
            session = None if provider is None else self._session_for(provider)
        except BaseException as error:
            if not isinstance(error, Exception):
                self.store.release(claim)
                raise
            if isinstance(error, StoreError):
                log.error("worker: %s", error)
            else:
                log.exception("worker: session= failed for the operation %s; it is called again", claim.key)
            return self._postpone(claim)
        if provider is None:
            self._leave_to_others(claim, saved)
            return None
        op = resumed(
            saved,
            store=self.store,
            session=session,
            provider=provider,
            deadline=saved.deadline_s,
            on_event=self._on_event,
            clock=clock,
            how=Resuming(claim=claim, step=True),
        )
        visit = None
        try:
            with op:
                visit = op._run.visit
                assert visit is not None
                _step(op, visit, self.finish)
            return visit.next_in_s
        except OperationTaken:
            self.store.release(claim)
            return None
        except TrihopError as error:
            log.warning("worker: %s", error)
            return None
        except Exception:
            log.exception("worker: finish() failed for the operation %s; it is called again", claim.key)
            return None if visit is None else visit.next_in_s

    def _postpone(self, claim: Claim) -> float:
        """Have it due in a while, so that what cannot be done now is not tried all the time; in how many seconds."""
        self.store.save(claim, claim.record, due_in_s=_NOT_NOW_S, lease_s=self.store.lease_s, release=True)
        return _NOT_NOW_S

    def _leave_to_others(self, claim: Claim, saved: Saved) -> None:
        self._postpone(claim)
        if saved.provider not in self._strange:
            self._strange.add(saved.provider)
            log.warning(
                "worker: operation %s is of the provider %r, which this worker was not given; it is left to others",
                claim.key,
                saved.provider,
            )


def _step(op: Operation, visit: Visit, finish: Finish) -> None:
    """One submit, one poll or one download."""
    saved = visit.saved
    if saved.phase == READY:
        ready = op.poll()
        finish(op, ready)
        op._run.ready = ready
        return
    if saved.phase != SUBMITTED:
        op._submit_from_record(visit)
        return
    run = op._run
    job = run.job
    assert job is not None
    op._adopt_from(job)
    run.check_deadline()
    poller = Poller(run)
    visit.go_on(poller)
    run.poller = poller
    with run.in_hop("poll", op.provider.status_call(job), leave_open=True) as hop:
        if hop.fold.latest is not None:
            hop.fold.wait(max(0.0, (run.now_ns() - hop.fold.latest.at_ns) / 1e9 - hop.fold.latest.duration_s), "pacing")
        ending = poller.ask(hop)
        if isinstance(ending, Ending):
            settled(hop, ending, allow_partial=False)
            run.ready = None  # the results are the next step's
            if visit.saved.poll is None:
                run.close_hop()
