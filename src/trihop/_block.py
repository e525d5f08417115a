"""The block: opens run, deadline and span, and closes all three however it is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass, replace
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import requests

from trihop._arguments import expect, expect_seconds
from trihop._clock import Clock, utc
from trihop._deadline import Deadline, DeadlineSpec, seconds_until
from trihop._durable.enter import Resuming, visit_of
from trihop._durable.visit import Visit
from trihop._errors import (
    OperationError,
    OperationTaken,
    note_trace,
)
from trihop._events import Event
from trihop._forks import in_the_child
from trihop._hops.run import Run
from trihop._middleware import cover as middleware
from trihop._middleware.watch import Watch
from trihop._origin import Trusted, origin_of
from trihop._pacing import Pause
from trihop._provider import Provider
from trihop._record import OperationRecord
from trihop._saved import BEGUN
from trihop._values import Job
from trihop._wire.session import Courier

if TYPE_CHECKING:
    from trihop._operation import OnInterrupt
    from trihop.stores import Store

T = TypeVar("T")
P = ParamSpec("P")
Entered = TypeVar("Entered", bound="Block")

_CANCEL_WITHIN_S = 10.0
_INTERRUPTED_WITHIN_S = 5.0

_current: ContextVar[Block | None] = ContextVar("trihop_operation", default=None)
_open_keys: set[str] = set()
_keys_lock = threading.Lock()


def _renew_lock() -> None:
    global _keys_lock
    _keys_lock = threading.Lock()


in_the_child(_renew_lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """What a block is opened with; once it is open, nobody needs to know."""

    deadline: DeadlineSpec
    on_event: Callable[[Event], None] | None
    attributes: Mapping[str, Any]
    origins: Sequence[str]
    propagate: bool | None
    store: Store | None
    store_payload: bool
    resuming: Resuming | None
    trace_url: str | None


class Block:
    """What is open while an operation is: its run, its deadline, its span; used as a `with` block, once."""

    # Most operations never set these, and a process may have ten thousand.
    _run_or_none: Run | None = None
    _once: Mapping[str, Any] = {}
    _step_failed: Exception | None = None
    _ended = False
    _outer: Block | None = None
    _own_session: requests.Session | None = None
    _watch: Watch | None = None

    def __init__(
        self,
        name: str,
        *,
        deadline: DeadlineSpec,
        session: requests.Session | None,
        provider: Provider,
        key: str | None,
        on_event: Callable[[Event], None] | None,
        attributes: Mapping[str, Any] | None,
        origins: Sequence[str],
        propagate: bool | None,
        on_interrupt: OnInterrupt,
        clock: Clock,
        store: Store | None = None,
        store_payload: bool = False,
        resuming: Resuming | None = None,
        trace_url: str | None = None,
    ) -> None:
        self.name = name
        self.key = key
        self.provider = provider
        self._session_given = session
        self._on_interrupt = on_interrupt
        self._clock = clock
        self._opening: _Opening | None = _Opening(
            deadline=deadline,
            on_event=on_event,
            attributes=dict(attributes or {}),
            origins=(*provider.origins, *origins),
            propagate=propagate,
            store=store,
            store_payload=store_payload,
            resuming=resuming,
            trace_url=trace_url,
        )

    # ---- the block

    def __enter__(self: Entered) -> Entered:
        self._open(_still_open(_current.get()))
        self._step_in()
        self._run.tell("started")
        return self

    def _open(self, outer: Block | None = None, *, courier: Courier | None = None, apart: bool = False) -> None:
        """Begin it, without surrounding any code.

        Args:
            outer: The operation around it, whose deadline counts as well.
            courier: Sends its requests; else one of its own.
            apart: Whether it has a trace of its own, with a link to the caller's span.
        """
        given = self._opening
        if given is None:
            raise RuntimeError(f"operation {self.name!r} was entered before; make a new one with operation(…)")
        now = utc(self._clock.time_ns())
        duration_s = seconds_until(given.deadline, now=now, operation=self.name)
        deadline = Deadline(self._clock.monotonic() + duration_s, duration_s, self._clock)
        if outer is not None:
            self._outer = outer
            if outer._clock is self._clock:
                deadline = deadline.no_later_than(outer._run.deadline)
        self._take_key()
        visit = None
        if given.store is not None:
            try:
                visit, deadline = visit_of(
                    self, given.store, deadline, given.resuming, store_payload=given.store_payload
                )
            except BaseException:
                self._give_key_back()
                raise
        self._opening = None
        session = self._session_given
        if session is None:
            session = self._own_session = requests.Session()
        if courier is None:
            courier = Courier(session, Trusted(given.origins), self._clock, deadline.remaining)
        self._run_or_none = Run(
            self.name,
            provider=self.provider,
            courier=courier,
            deadline=deadline,
            clock=self._clock if visit is None else visit.clock,
            key=self.key,
            on_event=given.on_event,
            propagate=given.propagate,
            attributes=given.attributes,
            visit=visit,
            apart=apart,
            trace_url=given.trace_url,
        )
        if visit is not None:
            visit.open(self._run)
            self._go_on_from(visit)

    def _step_in(self) -> None:
        """Surround the code that follows: its requests, and the spans it starts."""
        self._current_token: Token[Block | None] = _current.set(self)
        if self._watch is None:
            self._watch = Watch(self._run)
        self._cover_token = middleware.enter(self._watch, self._session_given)
        self._outside = self._run.root.make_current()

    def _step_out(self) -> None:
        """Undo `_step_in`, but for what is current."""
        assert self._watch is not None
        self._run.root.leave(self._outside)
        middleware.leave(self._cover_token, self._watch)

    def _close(self, exception: BaseException | None) -> None:
        """End it, or with a store the visit."""
        if self._watch is not None:
            self._watch.finish(exception)
        self._run.close(exception)

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, _: TracebackType | None
    ) -> None:
        run = self._run
        try:
            over = run.job is None or run.ready is not None  # then a DELETE might delete the result
            if isinstance(exception, KeyboardInterrupt) and self._on_interrupt == "cancel" and not over:
                self._cancel_quietly()
        finally:
            self._ended = True
            if exception is not None:
                if exception is self._step_failed and run.hop is not None:
                    run.hop.fail(self._step_failed)
                note_trace(exception, self.name, run.root.trace_id, run.trace_url)
            self._step_out()
            try:
                self._close(exception)
            finally:
                self._step_aside()
                self._let_go()

    @contextmanager
    def _surrounding(self) -> Iterator[None]:
        """Surround a part of the caller's code, on the thread that runs it."""
        self._step_in()
        try:
            yield
        finally:
            self._step_out()
            self._step_aside()

    def _leave(self, exception: BaseException | None) -> None:
        """Leave what `_open` began.

        Raises:
            OperationTaken, StoreError: It went well, and its record cannot say so.
        """
        self._ended = True
        if exception is not None:
            note_trace(exception, self.name, self._run.root.trace_id, self._run.trace_url)
        try:
            self._close(exception)
        finally:
            self._let_go()

    def _step_aside(self) -> None:
        if _current.get() is self:
            try:
                _current.reset(self._current_token)
            except ValueError:  # a generator that was entered in another context
                _current.set(None)
            _current.set(_still_open(_current.get()))

    def _let_go(self) -> None:
        if self._own_session is not None:
            self._own_session.close()
        self._give_key_back()

    @property
    def _run(self) -> Run:
        if self._run_or_none is None:
            raise RuntimeError(
                f"operation {self.name!r} is not open; use it as a block: with operation({self.name!r}, …) as op:"
            )
        return self._run_or_none

    @property
    def _open_run(self) -> Run:
        run = self._run
        if self._ended:
            raise RuntimeError(f"operation {self.name!r} has ended; go on in a new one, such as with op.poll(job)")
        return run

    def _remaining(self) -> float:
        return self._run.deadline.remaining()

    def _take_key(self) -> None:
        if self.key is None:
            return
        with _keys_lock:
            if self.key in _open_keys:
                raise OperationTaken(
                    f"an operation with the key {self.key!r} is open in this process already",
                    OperationRecord(self.name, "", self.key),
                    "Wait for it to end, or use another key.",
                )
            _open_keys.add(self.key)

    def _give_key_back(self) -> None:
        if self.key is not None:
            with _keys_lock:
                _open_keys.discard(self.key)

    def _go_on_from(self, visit: Visit) -> None:
        """Know what an earlier visit knew."""
        run, saved = self._run, visit.saved
        self._once = saved.once
        if not visit.resumed:
            return
        run.job, run.polls, run.progress = visit.left.job(), saved.polls, saved.progress
        if saved.submitted_at is not None:
            run.submitted_s = self._clock.monotonic() - max(0.0, run.now_ns() / 1e9 - saved.submitted_at)
        if saved.phase != BEGUN and not saved.ended:
            run.segment_began()

    # ---- what is known

    @property
    def id(self) -> str:
        """The operation's own id, 32 hex digits, there with and without tracing."""
        return self._run.operation_id

    @property
    def trace_id(self) -> str | None:
        """32 hex digits, or None without tracing."""
        return self._run.root.trace_id

    @property
    def job(self) -> Job | None:
        """The server's part, as it stands; None before the submit."""
        return self._run.job

    @property
    def resumed(self) -> bool:
        """Whether an earlier block, or another process, began it."""
        visit = self._run.visit
        return visit is not None and visit.resumed

    def remaining(self) -> float:
        """Seconds until the deadline, `inf` where there is none; negative once it has passed."""
        return self._remaining()

    def sleep(self, seconds: float) -> None:
        """Pause the caller's own code, within the deadline.

        Raises:
            DeadlineExceeded: The pause does not fit; it is not begun.
            TypeError, ValueError: It is no number of seconds.
        """
        run = self._open_run
        expect_seconds(seconds, f"operation {self.name!r}: sleep()")
        if seconds > 0:
            run.pause(Pause(seconds, "pacing"))

    def bind(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, carrying this operation into whatever thread calls it.

        What it sends there is traced and bounded as in the block, and spans that it
        starts belong to the same trace; also where many threads call it at once.

            with ThreadPoolExecutor() as pool, operation(…, session=session) as op:
                pages = list(pool.map(op.bind(fetch), urls))
        """
        run, here = self._open_run, copy_context()
        if _current.get() is not self:
            here.run(self._make_current, run)

        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> T:
            # A context can be entered once at a time.
            return here.copy().run(function, *args, **kwargs)

        return bound

    def _make_current(self, run: Run) -> None:
        _current.set(self)
        assert self._watch is not None
        middleware.cover(self._watch, self._session_given)
        run.root.carry()

    def cancel(self, job: Job | None = None) -> bool:
        """Ask the server to cancel the job; it is best effort at every server.

        The deadline bounds it too, but leaves it ten seconds, also when it has passed.

        Args:
            job: The job; else the one that was submitted.

        Returns:
            Whether the server took it (2xx, or 303 to the job), or knows the job no more (404, 409, 410).

        Raises:
            ValueError: There is no job, or its API has no way to cancel.
        """
        return self._cancel(job, at_least_s=_CANCEL_WITHIN_S)

    def _cancel(self, job: Job | None, *, at_least_s: float) -> bool:
        run = self._open_run
        job = run.job if job is None else expect(job, Job, f"operation {self.name!r}: cancel()", "a Job")
        if job is None:
            raise ValueError(f"operation {self.name!r}: there is no job to cancel")
        try:
            call = self.provider.cancel_call(job)
        except (LookupError, ValueError) as missing:
            raise ValueError(f"operation {self.name!r}: cannot cancel the job: {missing.args[0]}") from None
        self._adopt_from(job)
        sent = run.cancel(call, timeout=None, at_least_s=at_least_s)
        taken = sent.reply is not None and (sent.reply.status_code < 400 or sent.reply.status_code in (404, 409, 410))
        run.cancelled = run.cancelled or (taken and job is run.job)
        return taken

    def _cancel_quietly(self) -> None:
        """After Ctrl-C: bounded, and never hiding the interrupt."""
        run = self._open_run
        run.deadline = replace(run.deadline, at_s=self._clock.monotonic() + _INTERRUPTED_WITHIN_S)
        run.courier.remaining = run.deadline.remaining
        try:
            self._cancel(None, at_least_s=0.0)
        except (OperationError, ValueError) as error:
            run.warn_once("cancel", f"the job was not cancelled: {error}")

    # ---- helpers

    def _absolute(self, url: str) -> str:
        try:
            origin_of(url)
        except ValueError as error:
            raise ValueError(f"operation {self.name!r}: {error}") from None
        return url

    def _adopt_from(self, job: Job) -> None:
        trusted = self._run.courier.trusted
        if not trusted and (url := job.submit_url or job.status_url) is not None:
            trusted.adopt(self._absolute(url))


def _still_open(operation: Block | None) -> Block | None:
    """This one or the nearest around it that has not ended: generators end theirs out of turn."""
    while operation is not None and operation._ended:
        operation._run.root.step_outside(operation._outside)
        operation = operation._outer
    return operation
