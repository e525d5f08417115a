"""The poll hop: ask until the job is over, as patiently as the policies say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trihop._clock import utc
from trihop._errors import (
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    OperationError,
    OutcomeAmbiguous,
    PollBudgetExhausted,
    PollErrorsExhausted,
    StatusUnavailable,
    SurfaceError,
)
from trihop._hops.hop import Hop
from trihop._hops.judge import Lost, Nonsense, PollOutcome, Refused, SignIn, judge_poll, said
from trihop._hops.run import Run
from trihop._pacing import Budget, Hint, Pacing, Pause, backoff, first_pause, next_pause, read_hint
from trihop._progress.lines import polls
from trihop._schedule import spread
from trihop._surface import PollSurface
from trihop._telemetry import semconv
from trihop._telemetry.words import label
from trihop._template import join
from trihop._values import JSON, Call, Job, Ready, Reply, Result, one_text
from trihop._verdicts import Ambiguous, Cancelled, Ending, Expired, Failed, Partial, Pending, Succeeded, Transient
from trihop._wire.flight import Flight
from trihop._wire.session import Sent, Timeout

# How much longer than the server's own hold we listen to a long poll.
_LISTEN_ON_S = 15.0


class Poller:
    """The questions of one poll hop, one at a time: `wait`, then `ask`, until there is a `Ready`.

    Also asks for the download hop, when a link has run out or a result is not
    there yet; the attempts go to whichever hop is open.
    """

    __slots__ = (
        *("run", "surface", "pacing", "budget", "timeout", "asked", "consecutive_errors"),
        *("_answered", "_asked_for", "_asking", "_good_pauses", "_left", "_next_check_s", "_signed_in_again"),
    )

    def __init__(
        self,
        run: Run,
        *,
        surface: PollSurface | None = None,
        pacing: Pacing | None = None,
        budget: Budget | None = None,
        timeout: Timeout = None,
    ) -> None:
        provider = run.provider
        self.run = run
        self.surface = surface if surface is not None else provider.poll
        self.pacing = pacing if pacing is not None else provider.pacing
        self.budget = budget if budget is not None else provider.budget
        self.timeout = timeout
        self.asked = 0
        self.consecutive_errors = 0
        self._good_pauses = 0
        # Whoever knows a state has had an answer before.
        self._answered = run.job is not None and run.job.state is not None
        self._signed_in_again = False
        self._left: tuple[str, ...] = ()  # states that the job was in before
        self._asked_for: Job | None = None
        self._asking: Call | None = None
        self._next_check_s: float | None = None

    def as_json(self) -> dict[str, JSON]:
        """What the next process goes on from."""
        return {
            "asked": self.asked,
            "consecutive_errors": self.consecutive_errors,
            "good_pauses": self._good_pauses,
            "seen": list(self._left),
        }

    def go_on_from(self, found: Mapping[str, JSON], next_check_s: float | None) -> None:
        """Take up what `as_json` described; `next_check_s` is when the next question is due, on the clock."""
        self.asked = found.get("asked", 0)
        self.consecutive_errors = found.get("consecutive_errors", 0)
        self._good_pauses = found.get("good_pauses", 0)
        self._left = tuple(found.get("seen", ()))
        self._next_check_s = next_check_s

    def first(self, *, among: int = 1) -> Pause:
        """The pause before the first poll, counted from the submit's answer.

        Args:
            among: How many jobs there are at the origin, which are not to come back in step.
        """
        run = self.run
        if self._next_check_s is not None:
            return Pause(max(0.0, self._next_check_s - run.clock.monotonic()), "pacing")
        pause = first_pause(self.pacing, run.submit_hint_s, run.room_s(), run.clock.random)
        if run.submitted_s is not None:
            pause = replace(pause, seconds=max(0.0, pause.seconds - (run.clock.monotonic() - run.submitted_s)))
        if pause.reason != "hint" or among == 1:
            return pause
        longer_s = spread(pause.seconds, among=among, room_s=run.room_s(), random=run.clock.random)
        return replace(pause, seconds=longer_s)

    def wait(self, pause: Pause) -> None:
        """Sleep, unless the poll is due.

        Raises:
            DeadlineExceeded: The pause does not fit.
        """
        run = self.run
        if pause.seconds > 0:
            self.waited(pause, run.pause(pause, unless=None if run.visit is None else run.visit.woken))

    def waited(self, pause: Pause, slept_s: float) -> None:
        """Measure a pause that was slept."""
        self.run.measure(semconv.POLL_WAIT_DURATION, slept_s, {semconv.WAIT_REASON: pause.reason}, provider=False)

    def depart(self, hop: Hop) -> Flight | None:
        """Ask, and leave the answer for `ask`; None where the question has to be asked as ever, and was not."""
        run = self.run
        if run.job is None or run.provider.long_poll is not None or run.deadline.remaining() <= 0:
            return None
        return hop.depart(self.call(run.job), timeout=self._listening())

    def ask(self, hop: Hop, flight: Flight | None = None) -> Ending | Pause:
        """Ask once: the job's ending, or the pause until the next question.

        Args:
            hop: Whose attempt it is.
            flight: Where the question is on its way, by `depart`.

        Raises:
            StatusUnavailable, JobExpired, PollBudgetExhausted, SurfaceError: As named.
            DeadlineExceeded: The deadline struck.
        """
        run = self.run
        job = run.job
        assert job is not None
        call = self._held(self.call(job), job)
        sent = hop.send(call, timeout=self._listening(), repeat=True, flight=flight)
        outcome = self._judge(sent)
        refused = None if sent.response is None else sent.response.request
        if (
            isinstance(outcome, SignIn)
            and not self._signed_in_again
            and run.courier.preparing.signs_differently(call, refused)
        ):
            self._signed_in_again = True
            self._count(hop, sent, "401", [])
            sent = hop.send(call, timeout=self._listening(), repeat=True)
            outcome = self._judge(sent)
        return self.take(hop, sent, outcome)

    def call(self, job: Job) -> Call:
        """What asks for the job's state; the same one as long as it is equal, as others know it by that.

        Raises:
            ValueError: The job lacks what it takes to ask for it.
        """
        run = self.run
        if self._asking is None or self._asked_for is not job:
            try:
                call = run.provider.status_call(job)
            except LookupError as missing:
                raise ValueError(f"operation {run.name!r}: cannot ask for the job's state: {missing.args[0]}") from None
            self._asked_for = job
            if self._asking != call:
                self._asking = call
        assert self._asking is not None
        return self._asking

    def _held(self, call: Call, job: Job) -> Call:
        """The same call, where the server is to hold its answer for a while."""
        run = self.run
        long_poll = run.provider.long_poll
        if long_poll is None:
            return call
        room = run.room_s()
        return run.provider.held(call, job, long_poll.seconds if room is None else min(long_poll.seconds, room))

    def _listening(self) -> Timeout:
        long_poll = self.run.provider.long_poll
        if self.timeout is None and long_poll is not None:
            return (10.0, long_poll.seconds + _LISTEN_ON_S)
        return self.timeout

    def _judge(self, sent: Sent) -> PollOutcome:
        run = self.run
        assert run.job is not None
        if sent.reply is None:
            return Transient(sent.error_type or "no_answer")
        age_s = 0.0 if run.submitted_s is None else run.clock.monotonic() - run.submitted_s
        return judge_poll(
            sent.reply, run.job, self.surface, answered=self._answered, age_s=age_s, grace_s=run.provider.grace
        )

    def judge(self, reply: Reply) -> PollOutcome:
        """What an answer means that somebody else asked for."""
        return self._judge(Sent(reply=reply))

    def _count(
        self,
        hop: Hop,
        sent: Sent,
        error_type: str | None,
        marks: list[str],
        *,
        state: str | None = None,
        verdict: str | None = None,
    ) -> None:
        run = self.run
        run.polls += 1
        self.asked += 1
        hop.attempt(sent, error_type=error_type, state=state, verdict=verdict, marks=marks)
        run.measure(semconv.POLL_ATTEMPTS, 1, {semconv.ERROR_TYPE: label(error_type)})

    def take(self, hop: Hop, sent: Sent, outcome: PollOutcome) -> Ending | Pause:
        """Fold a judged answer in: the job's ending, or the pause until the next question.

        Raises:
            As `ask`.
        """
        run = self.run
        reply = sent.reply
        hint = Hint() if reply is None else read_hint(reply.headers, received_at=utc(run.now_ns()))
        marks = [] if hint.readable else [semconv.MARK_HINT_UNREADABLE]
        if sent.cut is not None:
            self._count(hop, sent, "deadline", marks)
            raise hop.cut_error(sent.cut.phase, sent.cut.asked_s)
        match outcome:
            case Ending():
                assert reply is not None
                outcome = run.quotable(outcome)
                self._move(outcome.state)
                self._count(hop, sent, None, marks, state=outcome.state, verdict=type(outcome).__name__.lower())
                run.progress = None
                run.tell("state_changed", message=outcome.message)
                return outcome
            case Pending():
                return self._pending(hop, sent, run.quotable(outcome), hint, marks)
            case Transient():
                return self._failed(hop, sent, outcome, hint, marks)
            case Lost():
                self._count(hop, sent, str(outcome.status_code), marks)
                raise self._lost(reply, outcome.status_code)
            case Refused(status_code=status):
                self._count(hop, sent, str(status), marks)
                raise self._refused(reply, status)
            case SignIn():
                self._count(hop, sent, "401", marks)
                raise self._refused(reply, 401)
            case Nonsense():
                self._count(hop, sent, "surface", marks)
                raise run.error(
                    SurfaceError,
                    f"the poll surface of {run.provider.name} failed: {outcome.what}",
                    f"Mend the surface. {run.still_running()}",
                    reply=reply,
                )

    # ---- verdicts

    def _pending(self, hop: Hop, sent: Sent, verdict: Pending, hint: Hint, marks: list[str]) -> Pause:
        run = self.run
        job = run.job
        assert job is not None
        self._answered = self._answered or (sent.reply is not None and sent.reply.status_code < 400)
        self._signed_in_again = False
        self.consecutive_errors = 0
        if not verdict.known:
            marks = [*marks, semconv.MARK_UNKNOWN_STATE]
            word = run.shown(verdict.state)
            run.warn_once(
                f"state {word}",
                f"unknown state {word!r} counts as pending; if it is an ending, add it to the provider",
            )
        changed = job.state != verdict.state
        if changed and verdict.state in self._left:
            marks = [*marks, semconv.MARK_STATE_REGRESSED]
        if verdict.status_url is not None or verdict.memo:
            base = sent.reply.url if sent.reply is not None and sent.reply.url else job.status_url or ""
            status_url = job.status_url if verdict.status_url is None else join(base, verdict.status_url)
            objection = None if verdict.status_url is None else run.courier.trusted.objection(status_url or "")
            if objection is not None:
                self._count(hop, sent, "surface", marks)
                raise run.error(
                    SurfaceError,
                    f"the status monitor says to ask elsewhere from now on, and that cannot be: {objection}",
                    run.still_running(),
                    reply=sent.reply,
                )
            run.job = replace(
                job,
                status_url=status_url,
                memo=job.memo if not verdict.memo else {**job.memo, **verdict.memo},
            )
        self._move(verdict.state)
        run.progress = verdict.progress
        self._count(hop, sent, None, marks, state=verdict.state)
        after = verdict.after if verdict.after is not None else hint.seconds
        pause = next_pause(self.pacing, self._good_pauses, after, run.room_s(), run.clock.random)
        self._good_pauses += 1
        if run.provider.long_poll is not None:
            # The server held the request: that was the pause, or a part of it.
            pause = Pause(max(0.0, pause.seconds - sent.duration_s), pause.reason)
        self._within_budget()
        self._keep(pause, changed=changed)
        run.tell("state_changed" if changed else "polled", next_poll_in=pause.seconds, message=verdict.message)
        return pause

    def _failed(self, hop: Hop, sent: Sent, verdict: Transient, hint: Hint, marks: list[str]) -> Pause:
        run = self.run
        long_poll = run.provider.long_poll
        if (
            long_poll is not None
            and verdict.reason in ("502", "504", "read_timeout")
            and sent.duration_s >= long_poll.seconds / 2
        ):
            # A gateway gave up on a request that the server was holding: nothing is wrong with the job.
            self._count(hop, sent, None, marks)
            self._within_budget()
            return Pause(self.pacing.floor, "pacing")
        self._count(hop, sent, verdict.reason, marks, verdict="transient")
        self.consecutive_errors += 1
        if self.consecutive_errors >= self.budget.consecutive_errors:
            raise self.run.error(
                PollErrorsExhausted,
                f"the status endpoint failed {self.consecutive_errors} times in a row, last with {verdict.reason}",
                f"See whether it is up, or raise Budget(consecutive_errors=). {run.still_running()}",
                cause=sent.cause,
            )
        self._within_budget()
        after = verdict.after if verdict.after is not None else hint.seconds
        pause = backoff(self.pacing, self.consecutive_errors, after, run.room_s(), run.clock.random)
        self._keep(pause, changed=False)
        run.tell("polled", next_poll_in=pause.seconds, message=f"no answer ({verdict.reason})")
        return pause

    def _keep(self, pause: Pause, *, changed: bool) -> None:
        run = self.run
        if run.visit is not None and run.hop is not None and run.hop.name == "poll":
            run.visit.asked(pause.seconds, changed=changed)

    def _within_budget(self) -> None:
        if self.budget.polls is not None and self.asked >= self.budget.polls:
            state = self.run.job.state if self.run.job is not None else None
            raise self.run.error(
                PollBudgetExhausted,
                f"the job was not over after {polls(self.asked)}, last state {state!r}",
                f"Raise Budget(polls=), or pace the polls more slowly. {self.run.still_running()}",
            )

    def _move(self, state: str) -> None:
        job = self.run.job
        assert job is not None
        if job.state == state:
            return
        if job.state is not None and job.state not in self._left and len(self._left) < 64:
            self._left += (job.state,)
        self.run.job = replace(job, state=one_text(state))

    def _lost(self, reply: Reply | None, status: int) -> JobExpired:
        run = self.run
        assert run.job is not None
        error = None if reply is None else said(reply)
        run.error_said(error)
        return run.error(
            JobExpired,
            f"the server knows the job no more (HTTP {status}){run.quoted(error)}",
            "Its results, if any, are out of reach here; submit anew if they are still wanted.",
            error=error,
            ready=Ready(run.job, run.job.state or "", complete=False),
        )

    def _refused(self, reply: Reply | None, status: int) -> StatusUnavailable:
        run = self.run
        error = None if reply is None else said(reply)
        advice = "Renew the credentials" if status in (401, 403, 407) else "Mend the status request"
        return run.error(
            StatusUnavailable,
            f"the status endpoint refused with HTTP {status}{run.quoted(error)}",
            f"{advice}, then go on with the same job. {run.still_running()}",
        )


_RAISED: Sequence[tuple[type[Ending], type[JobFailed]]] = (
    (Partial, JobPartiallyFailed),
    (Failed, JobFailed),
    (Cancelled, JobCancelled),
    (Expired, JobExpired),
)


def settled(hop: Hop, ending: Ending, *, allow_partial: bool) -> Ready:
    """What a job left, as the hop's last answer told it; as `settle`."""
    assert hop.last_sent is not None
    assert hop.last_sent.reply is not None
    return settle(hop.run, ending, hop.last_sent.reply, allow_partial=allow_partial)


def settle(run: Run, ending: Ending, reply: Reply, *, allow_partial: bool) -> Ready:
    """What a job left, where it ended well enough; else its error.

    Raises:
        JobFailed: Or the kind of it that fits.
        OutcomeAmbiguous: Nobody knows.
    """
    assert run.job is not None
    base = reply.url or run.job.status_url or run.job.submit_url or ""
    results = tuple(_placed(result, base) for result in ending.results)
    ready = Ready(run.job, ending.state, results, ending.counts, complete=isinstance(ending, Succeeded))
    run.ready, run.ready_s = ready, run.clock.monotonic()
    run.error_said(ending.error)
    if run.visit is not None:
        run.visit.job_over(ready)
    if isinstance(ending, Succeeded) or (isinstance(ending, Partial) and allow_partial):
        return ready
    raise _ending_error(run, ending, ready)


def _ending_error(run: Run, ending: Ending, ready: Ready) -> OperationError:
    why = run.quoted(ending.error if ending.error is not None else ending.message)
    if isinstance(ending, Ambiguous):
        return run.error(
            OutcomeAmbiguous,
            f"the server says {ending.state!r}: nobody knows what became of the job{why}",
            "Reconcile it by hand at the server; it is never submitted again.",
            error=ending.error,
            ready=ready,
        )
    has = (
        "error.ready has what it left; op.download(error.ready) fetches it." if ready.results else "It left no results."
    )
    for verdict, kind in _RAISED:
        if isinstance(ending, verdict):
            words = {
                JobPartiallyFailed: "the job ended with failed items",
                JobFailed: "the job failed",
                JobCancelled: "the job was cancelled",
                JobExpired: "the job expired",
            }
            then = {
                JobPartiallyFailed: "Pass allow_partial=True to take what there is.",
                JobFailed: "Mend what the server complains of, and submit anew.",
            }.get(kind, "Submit anew if it is still wanted.")
            counted = ", ".join(f"{number} {name}" for name, number in (ending.counts or {}).items() if number)
            counts = f" ({counted})" if counted else ""
            return run.error(
                kind,
                f"{words[kind]}, state {ending.state!r}{counts}{why}",
                f"{then} {has}",
                error=ending.error,
                ready=ready,
            )
    raise AssertionError(f"no error for {type(ending).__name__}")  # pragma: no cover


def _placed(result: Result, base: str) -> Result:
    if result.at is None:
        return result
    if isinstance(result.at, str):
        return replace(result, at=join(base, result.at))
    return replace(result, at=replace(result.at, url=join(base, result.at.url)))


def poll(hop: Hop, poller: Poller, *, allow_partial: bool) -> Ready:
    """Wait and ask until the job is over.

    Raises:
        OperationError: The kind that fits.
    """
    hop.run.poller = poller
    pause = poller.first()
    while True:
        poller.wait(pause)
        step = poller.ask(hop)
        if isinstance(step, Ending):
            return settled(hop, step, allow_partial=allow_partial)
        pause = step
