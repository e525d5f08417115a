"""One hop while it lasts: its span, and its attempts folded into it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from trihop._errors import DeadlineExceeded
from trihop._progress.lines import seconds_as
from trihop._telemetry import semconv
from trihop._telemetry.fold import Attempt, Fold, encoded_size
from trihop._telemetry.tracing import CLIENT, INTERNAL, Ids, quietly
from trihop._telemetry.words import error_type_of, first_words
from trihop._values import Call, Job
from trihop._wire.flight import Flight
from trihop._wire.prepare import AsInRequests
from trihop._wire.session import Sent, Timeout

if TYPE_CHECKING:
    from weakref import ref

    import requests

    from trihop._hops.run import Run

_TOLD_HEADERS = ("x-request-id", "retry-after", "content-type", "www-authenticate")
_POLLS_WITH_TRACEPARENT = 8

# What a span takes besides its attributes, texts and events: ids, times, a link, resource and scope.
_FRAME_BYTES = 1_000

_PHASES = {
    "connect": "connecting",
    "tls": "in the TLS handshake",
    "headers": "before its reply",
    "body": "in the body of its reply",
}


class Taker(Protocol):
    """Whoever makes attempts of what the caller's own code sends while a hop is open."""

    def take(
        self,
        hop: Hop,
        sent: Sent,
        error_type: str | None,
        state: str | None,
        response: ref[requests.Response] | None,
    ) -> None:
        """Take an exchange, and what was read off its reply; the response is the caller's."""

    def settle(self, hop: Hop) -> None:
        """Fold in what nobody judged: there is to be a pause, or the end of the hop."""


class Hop:
    """One hop while it lasts: its span, and the fold of its attempts."""

    __slots__ = (
        *("run", "name", "job", "taker", "span", "fold", "started_ns", "late", "sends", "resends", "last_sent"),
        *("transferred_bytes", "transferred_s", "_attributes", "_call", "_description", "_last_call", "_own_sent"),
        "_rested",
    )

    def __init__(
        self,
        run: Run,
        name: str,
        call: Call | None,
        after: Ids | None,
        *,
        at_ns: int | None = None,
        job: Job | None = None,
        taker: Taker | None = None,
        begun: Mapping[str, Any] | None = None,
    ) -> None:
        self.run = run
        self.name = name
        self.job = job
        """Where it is another than the run's."""
        self.taker = taker
        self.late = False
        self.sends = 0
        self.last_sent: Sent | None = None
        self._own_sent: Sent | None = None  # a poll made during a download is not the download's
        self._rested: tuple[str | None, ...] = ()
        self._attributes: dict[str, Any] | None = None
        self.transferred_bytes = 0
        self.transferred_s = 0.0
        self._call = call
        self._last_call: Call | None = None
        self.resends = 0
        self._description = ""
        at_ns = run.now_ns() if at_ns is None else at_ns
        at_ns = at_ns if begun is None else begun["started_ns"]
        kind = INTERNAL if name == "poll" or (call is None and taker is None) else CLIENT
        span_id = None if begun is None else begun["span_id"]
        start = self._at_the_start()
        self.span = run.root.child(self._span_name, kind, start, at_ns=at_ns, after=after, span_id=span_id)
        keeps = self.span.recording or run.durable
        self.fold = Fold(keeps=keeps) if begun is None else Fold.from_json(begun["fold"])
        self.started_ns = at_ns

    @property
    def attributes(self) -> dict[str, Any]:
        """What is found out on the way, for the span."""
        if self._attributes is None:
            self._attributes = {}
        return self._attributes

    def rest(self) -> None:
        """Let go of the latest exchange while there is a long pause, but for what the span's end may tell of it."""
        if self.last_sent is not None:
            self._rested = _one(self._telling(self.last_sent)) if self.span.recording else ()
            self.last_sent = self._own_sent = None
        self.span.rest()
        self.run.root.rest()

    def send(
        self,
        call: Call,
        *,
        body: AsInRequests | None = None,
        timeout: Timeout = None,
        follow_all: bool = False,
        stream: bool = False,
        repeat: bool = False,
        flight: Flight | None = None,
    ) -> Sent:
        """Send one request of this hop; or read the answer of the one that is in `flight`.

        Raises:
            DeadlineExceeded: The deadline had passed; nothing was sent.
        """
        run = self.run
        if flight is None:
            run.check_deadline()
        self.sends += 1
        sent = run.courier.send(
            call,
            quiet=self.span.sending,
            body=body,
            headers=self._headers(self.sends, repeat=repeat),
            timeout=timeout,
            follow_all=follow_all,
            stream=stream,
            repeat=repeat,
            flight=flight,
        )
        self.resends = sent.resends + (self.resends + 1 if call == self._last_call and not repeat else 0)
        self._last_call = call
        self.last_sent = sent
        if self.name == "poll" or not repeat:
            self._own_sent = sent
        if sent.reply is not None:
            run.status_code = sent.reply.status_code
        return sent

    def depart(self, call: Call, *, timeout: Timeout) -> Flight | None:
        """Send the next poll of this hop, and leave its answer for `send`; None where it has to be sent as ever."""
        headers = self._headers(self.sends + 1, repeat=True)
        return self.run.courier.depart(call, quiet=self.span.sending, headers=headers, timeout=timeout)

    def _headers(self, number: int, *, repeat: bool) -> dict[str, str] | None:
        """What tells the server of the trace, with the send of that number."""
        propagate = self.run.propagate
        # Ten thousand polls would hang ten thousand server spans into the trace.
        traced = not repeat or (number <= _POLLS_WITH_TRACEPARENT if propagate is None else propagate)
        return self.span.headers() if traced else None

    def came(self, sent: Sent) -> None:
        """Note an exchange that somebody else sent as the hop's latest."""
        self.last_sent = self._own_sent = sent

    def asked(self, method: str, url: str) -> None:
        """Tell what is asked, where that was not known when the hop began."""
        self.attributes.update(self.run.asking(method, url))

    def attempt(
        self,
        sent: Sent,
        *,
        error_type: str | None = None,
        state: str | None = None,
        verdict: str | None = None,
        marks: list[str] | None = None,
        measured: bool = True,
    ) -> None:
        """Fold one exchange in, as soon as it is judged; `measured` unless its duration was recorded before."""
        run = self.run
        marks = [*(marks or ()), *([semconv.MARK_LATE] if self.late else ())]
        self.late = False
        added = self.fold.add(
            Attempt(
                self.fold.attempts + 1,
                run.at_ns(sent.started_s),
                sent.duration_s,
                sent.status_code,
                run.shown(state),
                run.shown(error_type),
                verdict,
                ",".join(marks) if marks else None,
                headers=_by_name(self._telling(sent)) if error_type is not None or marks else None,
            )
        )
        if run.attempt_log is not None:
            job = self.job if self.job is not None else run.job
            job_id = None if job is None else run.shown(job.id)
            told = {**run.common, semconv.HOP: self.name, semconv.JOB_ID: job_id}
            run.attempt_log.write(added, told, self.span)
        if measured:
            run.measure_exchanges(sent, error_type)

    def _telling(self, sent: Sent) -> tuple[str | None, ...]:
        """The headers that help to ask the server's people."""
        answer = sent.response if sent.response is not None else sent.reply
        if answer is None:
            return ()
        return tuple([self.run.shown(answer.headers.get(name), limit=256) for name in _TOLD_HEADERS])

    def raise_cut(self, sent: Sent) -> None:
        """Turn a deadline that struck inside an exchange into the error it is.

        Raises:
            DeadlineExceeded: It did.
        """
        if sent.cut is None:
            return
        self.attempt(sent, error_type="deadline")
        raise self.cut_error(sent.cut.phase, sent.cut.asked_s)

    def cut_error(self, phase: str, asked_s: float | None = None) -> DeadlineExceeded:
        """The error for a deadline that struck inside an exchange."""
        if asked_s is not None:
            self.fold.wait_refused(asked_s)
            left = seconds_as(max(0.0, self.run.deadline.remaining()))
            what = f"a retry mounted on the session would wait {seconds_as(asked_s)} and {left} are left"
            return self.run.deadline_exceeded(phase, what, asked=asked_s)
        return self.run.deadline_exceeded(phase, f"the {self.name} request was cut off ({_PHASES.get(phase, phase)})")

    def fail(self, error: Exception) -> None:
        """Mark this hop as the one that ended the operation."""
        self.attributes[semconv.ERROR_TYPE] = error_type_of(error)
        self._description = self.run.shown(first_words(error), limit=256) or ""
        self.span.fail(error_type_of(error), self._description)

    def end(self, at_ns: int | None = None) -> None:
        """Write what the attempts came to, and end the span; now, unless it is said when."""
        if self.taker is not None:
            self.taker.settle(self)
        if self.span.recording:
            quietly(self._write)
        self.span.end(max(self.run.now_ns() if at_ns is None else at_ns, self.started_ns))

    def _write(self) -> None:
        fold = self.fold
        if fold.latest is not None and fold.latest.headers is None:
            telling = self._rested if self.last_sent is None else self._telling(self.last_sent)
            fold.latest = fold.latest._replace(headers=_by_name(telling))
        attributes = self._at_the_end()
        if not fold.surely_fits:
            said = {**self._at_the_start(), **attributes}
            beside = {name: value for name, value in said.items() if value is not None}
            texts = f"{self._span_name}{self._description}"
            fold.beside_bytes = _FRAME_BYTES + encoded_size(beside) + len(texts.encode("utf-8", "replace"))
        kept = fold.kept()
        if self.name == "poll":
            attributes |= fold.attributes(len(kept))
        self.span.set(attributes)
        self.span.attempts(kept)

    @property
    def _span_name(self) -> str:
        call = self._call
        return call.method if self.name == "request" and call is not None else _name_of(self.name, self.run.name)

    def _at_the_start(self) -> dict[str, Any]:
        run, call = self.run, self._call
        job = self.job if self.job is not None else run.job
        return {
            **run.common,
            semconv.HOP: self.name,
            semconv.JOB_ID: None if job is None else run.shown(job.id),
            **(run.asking(call.method, call.url) if call is not None else {}),
        }

    def _at_the_end(self) -> dict[str, Any]:
        job = self.job if self.job is not None else self.run.job
        last = self._own_sent or self.last_sent or self.fold.latest
        return {
            **(self._attributes or {}),
            semconv.JOB_ID: None if job is None else self.run.shown(job.id),
            semconv.JOB_STATE: None if job is None or self.name != "poll" else self.run.shown(job.state),
            semconv.HTTP_RESPONSE_STATUS_CODE: None if last is None else last.status_code,
            semconv.HTTP_REQUEST_RESEND_COUNT: self.resends or None,
        }


@lru_cache(maxsize=64)
def _name_of(hop: str, operation: str) -> str:
    """Of its span; there are few, and a fleet has many spans."""
    return f"{hop} {operation[:64]}"


@lru_cache(maxsize=64)
def _one(telling: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """The same, as one object for all jobs that are told it."""
    return telling


def _by_name(telling: tuple[str | None, ...]) -> dict[str, str]:
    return {name: value for name, value in zip(_TOLD_HEADERS, telling, strict=False) if value}
