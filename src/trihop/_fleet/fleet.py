"""`Fleet`: many operations at once in one process, by a few threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

import requests

from trihop._arguments import expect, expect_callable, told
from trihop._block import _current, _still_open
from trihop._clock import Clock
from trihop._deadline import DeadlineSpec
from trihop._events import Event
from trihop._fleet.crew import Crew, Desks
from trihop._fleet.job import FleetJob, Outcome, Request
from trihop._operation import _SYSTEM_CLOCK, operation
from trihop._provider import Provider
from trihop._results.target import Target, check_target
from trihop._values import Call

if TYPE_CHECKING:
    from trihop.stores import Store

log = logging.getLogger("trihop")


class Fleet:
    """Many operations at once; a block.

        with Fleet(session=session, provider=QUERY, on_event=show) as fleet:
            for name in names:
                fleet.start("export", Call("POST", url, json={"of": name}), key=name, deadline=7200, to=f"{name}.csv")
            for outcome in fleet.outcomes():
                print(outcome.key, outcome.error or outcome.download)

    Each job is an operation of its own, with its own trace, deadline, budget and,
    with a store, record. The block waits until all have ended; left by an
    exception, such as Ctrl-C, it stops within two seconds, and with a store each
    job can be gone on with under its key. No job is cancelled at the server.

    Args:
        session: Whose requests; several threads use it at once.
        provider: How the API is read and asked; else `generic.ACCEPTED`.
        store: Where records live; each job needs a key then.
        workers: How many submits and polls at once; half as many downloads besides.
        in_flight: How many jobs at once; `start` waits while there are as many.
        per_origin: How many submits and polls, and how many downloads, at once at one origin.
        on_event: As in `operation()`; called from the fleet's threads.
        clock: Whose time; for tests.

    Raises:
        TypeError, ValueError: An argument is not what it should be.
    """

    def __init__(
        self,
        *,
        session: requests.Session,
        provider: Provider | None = None,
        store: Store | None = None,
        workers: int = 8,
        in_flight: int = 10_000,
        per_origin: int = 4,
        on_event: Callable[[Event], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        expect(session, requests.Session, "Fleet(session=)", "a requests.Session")
        if provider is not None:
            expect(provider, Provider, "Fleet(provider=)", "a Provider, such as salesforce.QUERY")
        if store is not None and not hasattr(store, "claim_due"):
            raise TypeError(f"Fleet(store=) takes a Store, such as SQLStore('sqlite:///jobs.db'), got {told(store)}")
        if on_event is not None:
            expect_callable(on_event, "Fleet(on_event=)", "a function of an Event, such as show")
        for name, number in (("workers", workers), ("in_flight", in_flight), ("per_origin", per_origin)):
            if expect(number, int, f"Fleet({name}=)", "a number, 1 or more") < 1:
                raise ValueError(f"Fleet({name}=) takes a number, 1 or more, got {number}")
        self._session = session
        self._provider = provider
        self._store = store
        self._in_flight = in_flight
        self._listener = on_event
        self._clock = clock if clock is not None else _SYSTEM_CLOCK
        self._crew = Crew(session, workers=workers, per_origin=per_origin, clock=self._clock)
        self._desks = Desks(session, self._clock)
        self._open = False
        self._left = False

    def _tell(self, event: Event) -> None:
        """Pass an event on; a listener that wants to end the process would end one of the threads, and no more."""
        assert self._listener is not None
        try:
            self._listener(event)
        except BaseException as error:
            if isinstance(error, Exception) or not self._crew.is_at_work_here:
                raise
            raise RuntimeError(f"{type(error).__name__} in a thread of the fleet: {error}") from error

    # ---- the block

    def __enter__(self) -> Fleet:
        if self._open or self._left:
            raise RuntimeError("this fleet was entered before; make a new one with Fleet(…)")
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._crew.is_a_copy:
            return  # the jobs go on in the process that started them
        try:
            if exception is None:
                self._crew.wait(lambda: not self._crew.jobs)
        finally:
            self._open, self._left = False, True
            under_way = self._crew.stop()
            if under_way:
                how = "start them again under the same keys" if self._store is not None else "they may still finish"
                log.warning("fleet: left with %d jobs under way; %s", under_way, how)

    def start(
        self,
        name: str,
        request: Request,
        *,
        deadline: DeadlineSpec,
        key: str | None = None,
        to: Target = None,
        provider: Provider | None = None,
    ) -> str:
        """Start a job; waits while as many as `in_flight` are under way.

        Called from a thread of the fleet, such as by `on_event`, it does not wait, as
        it might be for itself.

        Args:
            name: As in `operation()`.
            request: What to submit; or a function that is given the operation and
                returns its `Job`, for a submit of several steps or with `auth=`. It
                runs in a thread of the fleet.
            deadline: As in `operation()`, counted from now: to wait for a turn is part of it.
            key: The operation's name for good.
            to: Where its result goes, and that of no other job under way; None for memory.
            provider: Instead of the fleet's.

        Returns:
            The key; without one, the operation's id.

        Raises:
            TypeError, ValueError: An argument is not what it should be.
            OperationTaken: An operation with this key is open, here or in another process.
            StoreError: The store cannot be used.
            RuntimeError: The block is not open, or this is a fork of its process.
        """
        where = f"Fleet.start({name!r}):"
        if not isinstance(request, Call) and not callable(request):
            raise TypeError(f"{where} takes a Call, or a function of an operation, got {told(request)}")
        check_target(to, name)
        op = operation(
            name,
            deadline=deadline,
            session=self._session,
            provider=provider if provider is not None else self._provider,
            key=key,
            store=self._store,
            on_event=None if self._listener is None else self._tell,
            clock=self._clock,
        )
        if not self._open:
            raise RuntimeError("this fleet is not open; use it as a block: with Fleet(…) as fleet:")
        if not self._crew.is_at_work_here:
            self._crew.wait(lambda: len(self._crew.jobs) < self._in_flight)
        job = FleetJob(op, request, to)
        courier = self._desks.of(job.home, tuple(op.provider.origins))
        self._crew.reserve(job)
        try:
            op._open(_still_open(_current.get()), courier=courier, apart=True)
        except BaseException:
            self._crew.give_up(job)
            raise
        try:
            courier.remaining = op._run.deadline.remaining
            job.began()
            self._crew.enter(job)
        except BaseException as error:  # Ctrl-C, as a rule: nobody else would leave it
            if job.key not in self._crew.jobs:
                self._crew.give_up(job)
                job.leave(error)
            raise
        return job.key

    def outcomes(self) -> Iterator[Outcome]:
        """How the jobs ended, as they end, until none is under way; each is told once.

        A job that ended badly is a value here, not a raise.

        Raises:
            RuntimeError: In a thread of the fleet, which cannot wait for itself, or in a fork of its process.
        """
        while True:
            self._crew.wait(lambda: bool(self._crew.ended) or not self._crew.jobs)
            try:
                outcome = self._crew.ended.popleft()
            except IndexError:  # there is none, or another thread has taken it
                if not self._crew.jobs:
                    return
                continue
            yield outcome

    def cancel(self, key: str) -> None:
        """Cancel a job that was started: soon, at the server too if it was submitted; its outcome says what came of it.

        Args:
            key: What `start` returned.

        Raises:
            LookupError: No job of that key is under way.
            ValueError: Its API has no way to cancel.
        """
        self._crew.cancel(key)
