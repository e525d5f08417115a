"""One job of a fleet: an operation that is taken a step at a time, by whichever worker is free."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from trihop._errors import JobCancelled
from trihop._fleet.ears import Ears
from trihop._hops.poll import Poller, settled
from trihop._limits import Ration
from trihop._origin import Origin, origin_of
from trihop._pacing import Pause
from trihop._results.download import Download
from trihop._results.target import Target, place_of
from trihop._schedule import ASK, DOWNLOAD
from trihop._triangle import Operation
from trihop._values import Call, Job, Ready, as_call
from trihop._verdicts import Ending
from trihop._wire.flight import Flight
from trihop._wire.prepare import AsInRequests, arguments_of, without_user

Request = Call | Callable[[Operation], Job]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job of a fleet ended.

    Args:
        key: Its key; without one, its operation's id.
        download: What it left; None where it ended badly.
        error: Why it ended badly; the trace id and all else is on it.
    """

    key: str
    download: Download | None = None
    error: Exception | None = None


class FleetStopped(GeneratorExit):
    """The fleet was left while a job was under way; with a store it can be gone on with."""


NOW_S = -math.inf
"""Due at once."""


class Step(NamedTuple):
    """What a step came to.

    Args:
        lane: Which the next one is in; None where there is none, as the operation is over.
        due_s: When it is due, on the clock.
        hold_s: For how long the origin wants to be left alone.
        ration: How many more requests it takes.
    """

    lane: str | None
    due_s: float = NOW_S
    hold_s: float | None = None
    ration: Ration | None = None


class FleetJob:
    """An operation that was opened, and where it stands.

    Args:
        op: It, not surrounding any code.
        request: What to submit, or a function that does.
        to: Where its result goes.
    """

    __slots__ = (
        *("busy", "cancelling", "entry", "home", "key", "op", "origin", "outcome", "place", "request", "to"),
        *("_kept", "_pause", "_poller", "_ready", "_refused_s", "_since_s", "_steps"),
    )

    def __init__(self, op: Operation, request: Request, to: Target) -> None:
        self.op = op
        self.key = op.key or ""
        self.request: Request | None = request
        self.to = to
        self.place = place_of(to)
        """Which file that is; None for memory."""
        self.entry = 0
        self.busy = False
        self.cancelling = False
        self.outcome: Outcome | None = None
        self.origin: Origin | None = origin_of(request.url) if isinstance(request, Call) else None
        """Whom the next step asks; None where only the caller's function knows."""
        self.home: Origin | None = None
        """Where it submits, if its requests carry nothing but what the session gives them."""
        if isinstance(request, Call) and without_user(request.url)[1] is None:
            self.home = self.origin
        self._steps: Generator[Pause, None, Job] | None = None
        self._poller: Poller | None = None
        self._kept: Any = None  # its poll, prepared
        self._pause: Pause | None = None
        self._since_s = 0.0
        self._ready: Ready | None = None
        self._refused_s: float | None = None

    @property
    def until_s(self) -> float:
        """Its deadline, on the clock."""
        return self.op._run.deadline.at_s

    @property
    def is_written(self) -> bool:
        """Whether what a step comes to is written to a store."""
        return self.op._run.visit is not None

    def began(self) -> None:
        """Tell that the operation was opened."""
        run = self.op._run
        self.key = self.op.key if self.op.key is not None else run.operation_id
        if run.visit is None:
            run.segment_began()
        run.tell("started")

    def to_be_cancelled(self) -> None:
        """Let the next step be its cancel.

        Raises:
            ValueError: Its API has no way to cancel.
        """
        if self.op.provider.cancel is None and self.op.job is not None:
            raise ValueError(f"the job {self.key!r} cannot be cancelled: {self.op.provider.name} has no cancel=")
        self.cancelling = True

    def refuse(self, held_s: float) -> None:
        """Let the next step be the last: its turn would come too late, as the origin is held for so long."""
        self._refused_s = max(0.0, held_s)

    def depart(self, courier: Ears | None, *, held: bool) -> Flight | None:
        """Take the first half of a step that is a poll: send it; None where the step has to be taken as a whole.

        Args:
            courier, held: As in `step`.
        """
        poller, run = self._poller, self.op._run
        if poller is None or run.hop is None or self._ready is not None or self.cancelling:
            return None
        if self._refused_s is not None or run.clock.monotonic() < self._due_s:
            return None
        try:
            preparing = self._send_by(courier).preparing
            self._woke(held)
            flight = poller.depart(run.hop)
        except BaseException:  # the step comes upon it as well, and says so
            return None
        self._kept = preparing._kept
        return flight

    def step(
        self,
        courier: Ears | None,
        *,
        among: int,
        held: bool,
        look_s: float,
        flight: Flight | None = None,
        hand_over: Callable[[], None] | None = None,
    ) -> Step:
        """Take the next step: one submit, one poll or the download.

        Args:
            courier: Sends; None for the operation's own.
            among: How many jobs there are at its origin.
            held: Whether the origin asked all of them to wait.
            look_s: After how many seconds of a longer pause to see in the store whether a webhook cut it short.
            flight: The poll that was sent by `depart`.
            hand_over: To be called before a request is sent whose answer is waited for.
        """
        run = self.op._run
        ears = self._send_by(courier)
        ears.last, ears.hand_over, preparing = None, hand_over, ears.preparing
        try:
            lane, due_s = self._next(among, held) if flight is None else self._ask(self._poller, flight)
        except Exception as error:
            self.leave(error)
            lane, due_s = None, NOW_S
        except BaseException as error:  # a function of the caller's that wants to end the process
            self.leave(RuntimeError(f"{type(error).__name__} in a thread of the fleet: {error}"))
            lane, due_s = None, NOW_S
        self._kept = preparing._kept
        if self._poller is not None and run.visit is not None and lane == ASK:
            due_s = min(due_s, self.op._clock.monotonic() + look_s)
        return Step(lane, due_s, *ears.heard(run.now_ns()))

    def leave(self, error: BaseException | None, download: Download | None = None) -> None:
        """End the operation, or with a store the visit."""
        try:
            if self._steps is not None:
                self._steps.close()
            self.op._leave(error)
        except Exception as unsaved:
            error = error if error is not None else unsaved
        self.outcome = Outcome(self.key, download, error if isinstance(error, Exception) else None)

    # ---- the steps

    def _send_by(self, courier: Ears | None) -> Ears:
        run = self.op._run
        if courier is not None:
            courier.remaining = run.deadline.remaining
            run.courier = courier
        ears = run.courier
        assert isinstance(ears, Ears)
        ears.preparing._kept, run._shown = self._kept, ears.shown
        return ears

    def _next(self, among: int, held: bool) -> tuple[str | None, float]:
        if self._poller is not None and not self.cancelling and self._waits():
            return ASK, self._due_s
        self._woke(held)
        if self.cancelling:
            self._cancel()
        if self._refused_s is not None:
            self._refuse(self._refused_s)
            self._refused_s = None
        if self._ready is not None:
            self.leave(None, self.op.download(self._ready, to=self.to))
            return None, NOW_S
        if self._poller is not None:
            return self._ask(self._poller)
        assert self.request is not None
        step = self._submit(self.request)
        if isinstance(step, Pause):
            return self._rest(step)
        self.request = None  # a payload may be large
        return self._begin_to_poll(step, among)

    @property
    def _due_s(self) -> float:
        return NOW_S if self._pause is None else self._since_s + self._pause.seconds

    def _waits(self) -> bool:
        """Whether a part of a long pause is left, and no webhook has made the next poll due."""
        visit = self.op._run.visit
        if visit is None or self._refused_s is not None or self.op._clock.monotonic() >= self._due_s:
            return False
        return not visit.woken()

    def _woke(self, held: bool) -> None:
        pause, run = self._pause, self.op._run
        if pause is None:
            return
        self._pause = None
        run.paused(replace(pause, reason="hint") if held else pause, self._since_s)
        if self._poller is not None:
            self._poller.waited(pause, run.clock.monotonic() - self._since_s)

    def _rest(self, pause: Pause) -> tuple[str, float]:
        """Plan a pause of the open hop's."""
        run = self.op._run
        try:
            run.plan(pause)
        except Exception as error:
            if self._steps is not None:
                self._steps.throw(error)
            raise
        self._pause, self._since_s = pause, run.clock.monotonic()
        if run.hop is not None:
            run.hop.rest()
        return ASK, self._due_s

    def _submit(self, request: Request) -> Job | Pause:
        op = self.op
        if not isinstance(request, Call):
            with op._surrounding():
                job = request(op)
            if not isinstance(job, Job):
                raise TypeError(
                    f"operation {op.name!r}: the function that was started returned {type(job).__name__}; "
                    "it takes the operation and returns a Job, such as what op.submit(…) returned"
                )
            return job
        if self._steps is None:
            self._steps = op._submission(
                request.method,
                request.url,
                as_in_requests=cast("AsInRequests", arguments_of(request)),
                credentials=request.credentials,
                waits_out=True,
            )
        try:
            return next(self._steps)
        except StopIteration as done:
            self._steps = None
            job = done.value
            assert isinstance(job, Job)
            return job

    def _begin_to_poll(self, job: Job, among: int) -> tuple[str, float]:
        run = self.op._run
        found = self.op._to_poll(job)
        if isinstance(found, Ready):
            return self._to_download(found)
        poller, call = found
        self._poller = run.poller = poller
        self.origin = origin_of(call.url)
        hop = run.open_hop("poll", call)
        pause = poller.first(among=among)
        with run.inside(hop):
            return self._rest(pause)

    def _ask(self, poller: Poller | None, flight: Flight | None = None) -> tuple[str, float]:
        run = self.op._run
        hop, before = run.hop, run.job
        assert poller is not None
        assert hop is not None
        assert before is not None
        with run.inside(hop):
            step = poller.ask(hop, flight)
            if isinstance(step, Pause):
                if run.job is not None and run.job.status_url != before.status_url:
                    self.origin = origin_of(run.provider.status_call(run.job).url)
                return self._rest(step)
            assert isinstance(step, Ending)
            ready = settled(hop, step, allow_partial=False)
        run.close_hop()
        return self._to_download(ready)

    def _to_download(self, ready: Ready) -> tuple[str, float]:
        self._ready = ready
        place = next((result.at for result in ready.results if result.at is not None), None)
        if place is not None:
            with suppress(ValueError):  # the download says what is wrong with it
                self.origin = origin_of(as_call(place).url)
        return DOWNLOAD, NOW_S

    def _cancel(self) -> None:
        self.cancelling = False
        run = self.op._run
        if run.job is None:
            if self._steps is not None:
                self._steps.close()
            raise run.error(
                JobCancelled,
                "the job was cancelled by its caller before it was submitted",
                "Start it anew if it is still wanted.",
            )
        if self._ready is None:
            try:
                self.op.cancel()
            except ValueError as error:
                run.warn_once("cancel", f"the job was not cancelled: {error}")

    def _refuse(self, held_s: float) -> None:
        """End it, as there is no turn for it in time.

        Raises:
            DeadlineExceeded: The deadline has passed, or will have when the origin may be asked again.
        """
        run = self.op._run
        with run.inside(run.hop) if run.hop is not None else nullcontext():
            run.check_deadline()
            run.plan(Pause(held_s, "hint"))
