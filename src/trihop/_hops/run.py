"""One run of an operation: what its hops share, and the story they write together."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from trihop._deadline import Deadline
from trihop._errors import (
    DeadlineExceeded,
    JobCancelled,
    TrihopError,
)
from trihop._events import Event, EventKind
from trihop._hops.hop import Hop, Taker
from trihop._hops.judge import error_fields
from trihop._pacing import Pause
from trihop._progress.lines import command_line, polls, seconds_as
from trihop._record import OperationRecord
from trihop._redact import SHORTEST_KNOWN, redact_known, redact_text, redacted_cause
from trihop._secrets import quotable
from trihop._surface import ReadState
from trihop._telemetry import semconv
from trihop._telemetry.attempt_log import attempt_log
from trihop._telemetry.tracing import (
    CLIENT,
    Ids,
    around,
    instruments,
    resume_operation,
    start_durable,
    start_operation,
)
from trihop._telemetry.words import address, error_type_of, first_words, http_attributes, items_of, label, result_of
from trihop._trace_url import link, named
from trihop._values import JSON, Call, Job, Ready, Reply
from trihop._verdicts import Ending, Pending
from trihop._wire.session import Courier, Sent, Timeout

if TYPE_CHECKING:
    from trihop._clock import Clock
    from trihop._durable.visit import Visit
    from trihop._hops.poll import Poller
    from trihop._provider import Provider

log = logging.getLogger("trihop")
Error = TypeVar("Error", bound=TrihopError)
Verdict = TypeVar("Verdict", Pending, Ending)

_MOST_SEGMENTS = 16
_LOOK_EVERY_S = 5.0
_TEXTS_KEPT = 64
_LONGEST_KEPT = 512
_LONGEST_WORD = 64
_CONTENT_TYPES = frozenset(
    f"{kind}{charset}"
    for kind in ("application/json", "application/xml", "application/octet-stream", "text/plain", "text/csv")
    for charset in ("", ";charset=utf-8", "; charset=utf-8")
)
_NOTHING_TOLD: frozenset[str] = frozenset()
_MOST_WARNINGS = 16  # a state word with a percentage in it is another one each time


class Run:
    """The state of one operation while its block is open; never shared between two."""

    # A process may have ten thousand: a dictionary of so many names would take as much as all they stand for.
    __slots__ = (
        *("name", "operation_id", "key", "provider", "courier", "clock", "deadline", "on_event", "propagate", "visit"),
        *("job", "status_code", "polls", "progress", "idempotency_key", "submitted_s", "submit_hint_s", "job_error"),
        *("ready", "ready_s", "hop", "poller", "last_hop", "ending", "cancelled", "last_request"),
        *("last_span", "last_span_ns", "started_s", "root", "trace_url", "instruments", "attempt_log", "jobs"),
        *("beside", "_anchor_ns", "_around", "_segment_told", "_shown", "_told"),
    )

    def __init__(
        self,
        name: str,
        *,
        provider: Provider,
        courier: Courier,
        deadline: Deadline,
        clock: Clock,
        key: str | None,
        on_event: Callable[[Event], None] | None,
        propagate: bool | None,
        attributes: Mapping[str, Any],
        visit: Visit | None = None,
        apart: bool = False,
        trace_url: str | None = None,
    ) -> None:
        found = None if visit is None or not visit.resumed else visit.found
        self.name = name
        self.operation_id = visit.found.operation_id if visit is not None else uuid.uuid4().hex
        self.visit = visit
        """The hold on the operation's record, where it has one."""
        self.provider = provider
        self.courier = courier
        self.deadline = deadline
        self.clock = clock
        self.key = key
        self.on_event = on_event
        self.propagate = propagate
        self.job: Job | None = None
        self.status_code: int | None = None
        self.polls = 0
        self.progress: float | None = None
        self.idempotency_key: str | None = None
        self.submitted_s: float | None = None
        self.submit_hint_s: float | None = None
        self.ready: Ready | None = None
        self.ready_s: float | None = None
        self.job_error: JSON = None
        self.hop: Hop | None = None
        self.poller: Poller | None = None
        self.last_hop: str | None = None
        self.ending: TrihopError | None = None
        self.cancelled = False
        self.last_request: tuple[str, str] | None = None
        self.last_span: Ids | None = None
        """Of the hop that ended last, to link the next one to."""
        self.last_span_ns = 0
        self.jobs = 0
        """How many were gathered; then none of them is the operation's."""
        self.beside: tuple[Hop, ...] = ()
        """Hops that are open at once, of gathered jobs."""
        self._segment_told = False
        self._told = _NOTHING_TOLD
        self._shown: dict[tuple[str, int], str] = {}
        # One anchor for all times: spans of an operation stay inside one another
        # even if somebody sets the wall clock meanwhile.
        self.started_s = clock.monotonic()
        self._anchor_ns = clock.time_ns()
        if visit is not None:
            # Never before what another machine wrote, whatever its clock says.
            now_ns = max(self._anchor_ns, visit.found.touched_ns)
            self.started_s -= (now_ns - visit.found.started_ns) / 1e9
            self._anchor_ns = visit.found.started_ns
        at = deadline.at()
        start = {
            **attributes,
            **self.common,
            semconv.DEADLINE_AT: None if at is None else at.isoformat().replace("+00:00", "Z"),
            semconv.DEADLINE_DURATION: None if at is None else deadline.duration_s,
        }
        self._around = around() if visit is not None or apart else None
        if visit is None and not apart:
            self.root = start_operation(name[:64], start, at_ns=self._anchor_ns)
        elif found is None or found.trace is None:
            self.root = start_durable(name[:64], start, at_ns=self._anchor_ns)
        else:
            resumed = {**start, semconv.OPERATION_RESUMED: True, semconv.JOB_ID: self.shown(found.job_id)}
            self.root = resume_operation(name[:64], resumed, at_ns=self._anchor_ns, reserved=found.trace)
        self.trace_url = link(trace_url if trace_url is not None else named(), self.root.trace_id)
        """Where its trace can be looked at."""
        self.instruments = instruments()
        self.attempt_log = attempt_log()
        self.measure(semconv.OPERATION_ACTIVE, 1)

    @property
    def durable(self) -> bool:
        """Whether a later process may go on: what is half done is kept for it."""
        return self.visit is not None

    @property
    def common(self) -> dict[str, Any]:
        """What each span of the operation says of it."""
        return {
            semconv.OPERATION_NAME: self.name[:64],
            semconv.OPERATION_ID: self.operation_id,
            semconv.PROVIDER: self.provider.name[:64],
        }

    @property
    def reserved(self) -> Mapping[str, Any] | None:
        """The ids of the root, for whoever ends it."""
        visit = self.visit
        found = None if visit is None or not visit.resumed else visit.found.trace
        return found if found is not None else self.root.reserved()

    # ---- time

    def at_ns(self, monotonic_s: float) -> int:
        """Epoch nanoseconds of an instant on the clock's monotonic time."""
        return self._anchor_ns + int((monotonic_s - self.started_s) * 1e9)

    def now_ns(self) -> int:
        """Epoch nanoseconds now."""
        return self.at_ns(self.clock.monotonic())

    @property
    def elapsed_s(self) -> float:
        """Seconds since the operation began."""
        return self.clock.monotonic() - self.started_s

    def room_s(self) -> float | None:
        """Seconds until the deadline, None where there is none."""
        left = self.deadline.remaining()
        return None if math.isinf(left) else left

    def check_deadline(self) -> None:
        """Raise if the deadline has passed, before anything is sent.

        Raises:
            DeadlineExceeded: It has.
        """
        if self.deadline.remaining() <= 0:
            raise self.deadline_exceeded("between", "the deadline passed before the next request")

    def pause(self, pause: Pause, *, unless: Callable[[], bool] | None = None) -> float:
        """Sleep, or refuse a pause that leaves no time for a further request; a long one ends early once `unless`.

        Returns:
            Seconds that it took, longer than planned where the machine was suspended.

        Raises:
            DeadlineExceeded: The pause does not fit; `asked` and `remaining` say by how much.
        """
        self.plan(pause)
        before_s = self.clock.monotonic()
        if unless is None or pause.seconds <= _LOOK_EVERY_S:
            self.clock.sleep(pause.seconds)
        else:
            until_s = before_s + pause.seconds
            while (left_s := until_s - self.clock.monotonic()) > 0 and not unless():
                self.clock.sleep(min(left_s, _LOOK_EVERY_S))
        return self.paused(pause, before_s)

    def plan(self, pause: Pause) -> None:
        """Refuse a pause that leaves no time for a further request, and tell of one that does.

        Raises:
            DeadlineExceeded: The pause does not fit.
        """
        hop = self.hop
        if hop is not None and hop.taker is not None:
            hop.taker.settle(hop)
        if not self.deadline.fits(pause.seconds):
            if hop is not None and pause.reason == "hint":
                hop.fold.wait_refused(pause.seconds)
            left = max(0.0, self.deadline.remaining())
            who = "the server asked for" if pause.reason == "hint" else f"the next {pause.reason} pause is"
            raise self.deadline_exceeded(
                "wait", f"{who} {seconds_as(pause.seconds)} and {seconds_as(left)} are left", asked=pause.seconds
            )
        self.tell("waiting", next_poll_in=pause.seconds)

    def paused(self, pause: Pause, before_s: float) -> float:
        """Note a pause that has been going on since then; how long it took."""
        hop = self.hop
        slept_s = self.clock.monotonic() - before_s
        if hop is not None:
            hop.fold.wait(slept_s, pause.reason)
            hop.fold.wait_overrun(slept_s - pause.seconds)
            hop.late = slept_s - pause.seconds > 1.0
        return slept_s

    # ---- the story

    def record(self) -> OperationRecord:
        """The operation as it stands."""
        return OperationRecord(
            self.name,
            self.operation_id,
            self.key,
            self.root.trace_id,
            self.last_hop,
            self.job,
            self.status_code,
            self.polls,
            self.elapsed_s,
            self.trace_url,
        )

    def tell(self, kind: EventKind, **more: Any) -> None:
        """Report progress; a listener that fails is told once and heard no more."""
        if self.on_event is None:
            return
        event = Event(
            kind,
            self.name,
            self.operation_id,
            self.key,
            self.last_hop,
            self.job_shown(),
            None if self.job is None else self.job.state,
            self.polls,
            self.elapsed_s,
            progress=self.progress,
        )
        if more.get("message") is not None:
            more["message"] = self.shown(more["message"], limit=1024)
        try:
            self.on_event(replace(event, **more))
        except Exception as error:
            told = redacted_cause(error, self.secrets())
            where = (type(told), told, error.__traceback__)
            log.error("operation %s: on_event failed; it is not called again", self.name, exc_info=where)
            self.on_event = None

    def warn_once(self, about: str, message: str) -> None:
        """Log a warning the first time it is due in this operation, and no more than a few in all."""
        if about not in self._told and len(self._told) < _MOST_WARNINGS:
            self._told |= {about}
            log.warning("operation %s: %s", self.name, message)

    def measure(
        self, name: str, value: float, attributes: Mapping[str, Any] | None = None, *, provider: bool = True
    ) -> None:
        """Record one measurement under the operation's name."""
        if self.instruments is None:
            return
        own = {semconv.OPERATION_NAME: self.name[:64]}
        if provider:
            own[semconv.PROVIDER] = self.provider.name[:64]
        self.instruments.record(name, value, {**own, **(attributes or {})}, self.root)

    def measure_exchanges(self, sent: Sent, error_type: str | None) -> None:
        """Record the duration of each exchange on the wire that a send of ours came to."""
        if self.instruments is None or not sent.method:
            return
        for exchange in (*sent.earlier, sent.last(error_type)):
            status = exchange.status_code
            labels = {
                semconv.HTTP_REQUEST_METHOD: exchange.method,
                **address(exchange.url),
                semconv.HTTP_RESPONSE_STATUS_CODE: status,
                semconv.ERROR_TYPE: label(exchange.error_type)
                or (str(status) if status is not None and status >= 400 else None),
            }
            self.instruments.record(semconv.HTTP_CLIENT_REQUEST_DURATION, exchange.duration_s, labels, self.root)

    def shown(self, text: str | None, limit: int = 64) -> str | None:
        """A text of the server's as it may be written down."""
        if text is None:
            return None
        shown = self._shown.get((text, limit))
        if shown is None:
            if self._is_nobodys(text):
                shown = text[:limit]
            else:
                known = () if len(text) < SHORTEST_KNOWN else self.secrets()
                shown = redact_text(text, limit=limit, known=known)
            if len(self._shown) >= _TEXTS_KEPT:
                self._shown.clear()
            if len(text) <= _LONGEST_KEPT:
                self._shown[text, limit] = shown
        return shown

    def _is_nobodys(self, text: str) -> bool:
        """Whether it is a word that everybody knows: to look for secrets takes longer than a poll's bookkeeping."""
        if text.lower() in _CONTENT_TYPES:
            return True
        surface = self.provider.poll
        return len(text) <= _LONGEST_WORD and isinstance(surface, ReadState) and surface.lists(text)

    def quotable(self, verdict: Verdict) -> Verdict:
        """The verdict with a state, and counts, for messages, records and logs: a server may quote what it was sent."""
        state = self.shown(verdict.state, limit=256) or ""
        if isinstance(verdict, Ending) and verdict.counts is not None:
            verdict = replace(verdict, counts=quotable(verdict.counts, self.secrets()))
        return verdict if state == verdict.state else replace(verdict, state=state)

    # ---- endings

    def error(
        self, kind: type[Error], what: str, then: str, *, cause: BaseException | None = None, **more: Any
    ) -> Error:
        """An error that tells the operation's story; nothing in it has a secret.

        Args:
            kind: Its class.
            what: What happened.
            then: What the caller can do next.
            cause: What was raised below; a redacted copy is kept.
            more: Attributes of the class.
        """
        known = self.secrets()
        record, job_shown = self.record(), self.job_shown()
        if job_shown != record.job_id:
            record = replace(record, job_shown=job_shown)
        error = kind(redact_text(what, known=known), record, then)
        if cause is not None:
            error.cause = redacted_cause(cause, known)
        for name, value in more.items():
            setattr(error, name, value)
            if isinstance(value, Reply):
                error.quotable[name] = value.quotable(known)
            elif name == "error" and (quoted := quotable(value, known)) != value:
                error.quotable[name] = quoted
        return error

    def error_said(self, error: JSON) -> None:
        """Keep what the server said went wrong, for the root span."""
        if error is not None:
            self.job_error = error

    def quoted(self, error: JSON) -> str:
        """What the server said, to go behind a message; empty where it said nothing."""
        code, message = error_fields(error)
        words = message if message is not None else code
        if words is None:
            return ""
        prefix = f"{code}: " if code is not None and not words.startswith(code) else ""
        return ": " + redact_text(f"{prefix}{words}", limit=256, known=self.secrets())

    def deadline_exceeded(self, phase: str, what: str, *, asked: float | None = None) -> DeadlineExceeded:
        """The error for a deadline that struck, or that a pause would overrun."""
        at = self.deadline.at()
        when = (
            f"no result by {at:%Y-%m-%dT%H:%M:%SZ}"
            if at is not None and self.deadline.remaining() <= 0
            else "no result in time"
        )
        state = (
            f", last state {self.job.state!r} after {polls(self.polls)}"
            if self.job is not None and self.job.state
            else ""
        )
        return self.error(
            DeadlineExceeded,
            f"{when}: {what}{state} (deadline {seconds_as(max(0.0, self.deadline.duration_s))})",
            self.still_running(),
            phase=phase,
            asked=asked,
            remaining=max(0.0, self.deadline.remaining()),
        )

    def still_running(self) -> str:
        """What next, where we stopped waiting."""
        if self.visit is not None:
            if self.job is None:
                return f"Run the block again under the key {self.key!r} to go on."
            assert self.key is not None
            resume, cancel = command_line("resume", self.key), command_line("cancel", self.key)
            return f"The job may still finish: {resume} waits on, {cancel} stops it."
        if self.job is None and self.hop is not None and self.hop.name == "submit" and not self.hop.fold.attempts:
            return "Nothing was sent; begin with a later deadline."
        if self.job is None:
            return "Nothing is known of a job; see whether one was started before submitting again."
        return "The job may still finish: poll error.job in a new operation to wait on, or cancel it."

    def job_shown(self) -> str | None:
        """The job's id as it may be written down: whole, but for a credential that it is, or has in it."""
        job_id = None if self.job is None else self.job.id
        if job_id is None:
            return None
        self.secrets()  # as they are now: the submit's own have just gone out
        return redact_known(job_id, self.courier.credentials())

    def asking(self, method: str, url: str) -> dict[str, Any]:
        """What a span says of a request before it is answered."""
        return http_attributes(method, url, known=self.courier.credentials())

    def secrets(self) -> list[str]:
        """Texts of the session that must never be shown, wherever they turn up."""
        return self.courier.secrets()

    # ---- hops

    @contextmanager
    def in_hop(
        self, name: str, call: Call | None, *, leave_open: bool = False, taker: Taker | None = None
    ) -> Iterator[Hop]:
        """Open a hop for the block; an error that leaves it ends the hop as failed."""
        hop = self.open_hop(name, call, taker)
        with self.inside(hop):
            yield hop
        if not leave_open:
            self.close_hop()

    @contextmanager
    def inside(self, hop: Hop) -> Iterator[None]:
        """Go on with the open hop for the block; an error that leaves it ends the hop as failed."""
        name = hop.name
        if name != "download":
            self.job_error = None
        try:
            yield
        except Exception as error:
            if isinstance(error, TrihopError):
                self.ending = error
            if not (self.cancelled and isinstance(error, JobCancelled)):
                hop.fail(error)
            self.close_hop()
            raise
        except BaseException:
            self.close_hop()
            raise
        if name != "download" or (self.ending is not None and self.ending.hop == "download"):
            self.ending = None  # what the caller got over; a failed job stays one, whatever is fetched of it

    def open_hop(self, name: str, call: Call | None, taker: Taker | None = None) -> Hop:
        """Close what is open and open the next hop."""
        self.close_hop()
        self.last_hop = name
        begun = None if name != "poll" or self.visit is None or taker is not None else self.visit.poll_begun()
        self.hop = Hop(self, name, call, self.last_span, taker=taker, begun=begun)
        return self.hop

    def close_hop(self, at_ns: int | None = None) -> None:
        """End the open hop's span, if one is open; now, unless it is said when."""
        if self.hop is not None and self.visit is not None and not self.visit.may_end(self.hop.name):
            self.hop = None  # it is somebody else's to end
        if self.hop is not None:
            self.hop.end(at_ns)
            if self.beside:
                self.beside = tuple(hop for hop in self.beside if hop is not self.hop)
            self.last_span, self.last_span_ns = self.hop.span.ids, self.hop.started_ns
            self.hop = None

    # ---- segments of a durable operation

    def segment_began(self) -> None:
        """Show that a process took part; the caller's own span is linked here, as a link on a root hides its timing."""
        visit = self.visit
        if self._around is None or self._segment_told or (visit is not None and visit.step):
            return
        if visit is None and not self._around.is_valid:
            return  # there is nothing to link to
        self._segment_told = True
        number = 1 if visit is None else visit.saved.segments
        if number > _MOST_SEGMENTS:
            return
        attributes: dict[str, Any] = {**self.common, semconv.SEGMENT_NUMBER: number}
        kind = "start" if number == 1 else "resume"
        if visit is not None and number > 1:
            attributes[semconv.SEGMENT_GAP] = max(0.0, (self.now_ns() - visit.found.touched_ns) / 1e9)
            attributes[semconv.SEGMENT_REASON] = "lease_expired" if visit.claim.expired else "visited_again"
        self.root.moment(f"{kind} {self.name[:64]}", attributes, at_ns=self.now_ns(), around=self._around)

    def _fenced(self) -> None:
        if self.visit is not None and self.visit.saved.segments <= _MOST_SEGMENTS:
            attributes = {**self.common, semconv.SEGMENT_NUMBER: self.visit.saved.segments}
            self.root.moment(f"fenced {self.name[:64]}", attributes, at_ns=self.now_ns())

    def _stays_open(self, exception: BaseException | None) -> None:
        """The block is over and the operation is not: nothing that another process will end is ended here."""
        visit = self.visit
        assert visit is not None
        if visit.fenced:
            self._fenced()
        self.measure(semconv.OPERATION_ACTIVE, -1)
        if isinstance(exception, (KeyboardInterrupt, SystemExit)):
            log.warning("operation %s: interrupted. %s", self.name, self.still_running())
        if exception is not None:
            left = not isinstance(exception, Exception)
            self._tell_ending(exception, left=left, resumable=left and not visit.saved.ended)
        elif visit.saved.ended:
            self.tell("finished")
        elif not visit.step:
            message = "the block was left before the job was over; its key goes on with it"
            self.tell("ended", message=message, left=True, resumable=True)

    def _tell_ending(self, exception: BaseException, *, left: bool, resumable: bool = False) -> None:
        message = redact_text(first_words(exception), known=self.secrets())
        self.tell("ended", message=message, left=left, resumable=resumable)

    def cancel(self, call: Call, *, timeout: Timeout, at_least_s: float) -> Sent:
        """Send a cancel: a plain request, no hop of the triangle.

        Args:
            call: What to send.
            timeout: As in `requests`.
            at_least_s: It has so many seconds, where less is left of the deadline: there is most
                to cancel when that has passed.
        """
        courier = copy(self.courier)  # what other threads send meanwhile is bounded as ever
        until_s = max(self.deadline.at_s, self.clock.monotonic() + at_least_s)
        courier.remaining = replace(self.deadline, at_s=until_s).remaining
        attributes = {
            **self.common,
            semconv.HOP: "request",
            semconv.JOB_ID: None if self.job is None else self.shown(self.job.id),
            **self.asking(call.method, call.url),
        }
        span = self.root.child(call.method.upper(), CLIENT, attributes, at_ns=self.now_ns())
        sent = courier.send(call, quiet=span.sending, headers=span.headers(), timeout=timeout)
        self.measure_exchanges(sent, sent.error_type)
        status = sent.status_code
        span.set({semconv.HTTP_RESPONSE_STATUS_CODE: status})
        if sent.error_type is not None:
            span.fail(sent.error_type, "")
        elif status is not None and status >= 400:
            span.fail(str(status), "")
        span.end(self.now_ns())
        return sent

    def result(self, ending: BaseException | None) -> str:
        """How the operation came out, in a word, where that is how it ended."""
        return result_of(ending, None, self.ready)[0]

    def close(self, exception: BaseException | None) -> None:
        """End the root, and say how the operation came out."""
        self.courier.preparing.secrets.look_again()
        ending = exception if exception is not None else self.ending
        if self.visit is not None and not self.root.copied:
            if not self.visit.step:
                self.close_hop()
            if not self.visit.close(exception):
                self.hop = None  # a step leaves its poll to the next one
                self._stays_open(exception)
                if self.visit.fenced and exception is None:
                    raise self.visit.taken()
                return
        self.close_hop()
        for hop in self.beside:
            hop.end()
        if self.root.copied:
            return  # in a fork; how it came out is told by the process that began it
        job = None if self.jobs else self.job
        result, failed = result_of(ending, exception, self.ready)
        if self.cancelled and (isinstance(ending, JobCancelled) or (ending is None and self.ready is None)):
            result, failed = "cancellation", False
        code, message = error_fields(self.job_error)
        counts = self.ready.counts if self.ready is not None else None
        total, bad = items_of(counts)
        left = self.deadline.remaining()
        self.root.set(
            {
                semconv.OPERATION_RESULT: result,
                semconv.OPERATION_ENDED_IN: None if result == "success" else self.last_hop,
                semconv.OPERATION_POLLS: self.polls,
                semconv.OPERATION_SEGMENTS: 1 if self.visit is None else self.visit.saved.segments,
                semconv.JOB_ID: None if job is None else self.shown(job.id),
                semconv.JOB_STATE: None if job is None else self.shown(job.state),
                semconv.OPERATION_JOBS: self.jobs or None,
                semconv.JOB_ERROR_CODE: self.shown(code),
                semconv.JOB_ERROR_MESSAGE: self.shown(message, limit=256),
                semconv.JOB_ITEMS_TOTAL: total,
                semconv.JOB_ITEMS_FAILED: bad,
                semconv.DEADLINE_REMAINING: None if math.isinf(left) else left,
                semconv.DEADLINE_PHASE: ending.phase if isinstance(ending, DeadlineExceeded) else None,
            }
        )
        error_type = None
        if failed and exception is not None:
            error_type = error_type_of(exception)
            self.root.fail(error_type, self.shown(first_words(exception), limit=256) or "")
        self.root.end(self.now_ns())
        outcome = {semconv.OPERATION_RESULT: result}
        self.measure(semconv.OPERATION_ACTIVE, -1)
        self.measure(semconv.OPERATION_DURATION, self.elapsed_s, {**outcome, semconv.ERROR_TYPE: error_type})
        if not math.isinf(left) and self.deadline.duration_s > 0:
            self.measure(semconv.OPERATION_DEADLINE_UTILIZATION, self.elapsed_s / self.deadline.duration_s, outcome)
        if exception is None:
            self.tell("finished")
        else:
            over = self.cancelled or self.visit is not None
            self._tell_ending(exception, left=not isinstance(exception, Exception) and not over)
