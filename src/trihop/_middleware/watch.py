"""The spans of requests that the caller's own code sends, named on evidence.

A part is known late and the kind of a span is fixed at its start, so spans are
made late, with the times of what they stand for. A poll's grows as it is asked;
all else waits for the end of the block, or for its turn in a long queue.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import requests

from trihop._errors import DeadlineExceeded, TrihopError
from trihop._hops.hop import Hop
from trihop._hops.run import Run
from trihop._middleware.evidence import MOST_READ_BYTES, Evidence, Exchange, Question, Seen
from trihop._origin import origin_of
from trihop._progress.lines import seconds_as
from trihop._redact import is_signed
from trihop._telemetry import semconv
from trihop._telemetry.tracing import CLIENT, Ids, Silence, quietly
from trihop._values import Call, Job, Ready, Reply, as_call
from trihop._wire.exchange import DeadlineCut
from trihop._wire.prepare import without_user
from trihop._wire.session import Sent

_MOST_PENDING = 256
_TRACED_POLLS = 8
_NO_JOB = Job()
_NO_HEADERS: Mapping[str, str] = {}


@dataclass(slots=True, eq=False)
class _Request:
    """An exchange that no span stands for yet."""

    exchange: Exchange
    sent: Sent

    @property
    def failure(self) -> str | None:
        """Its `error.type`, where it is one; a body that the caller reads may break off yet."""
        status = self.sent.status_code
        return self.sent.error_type or (str(status) if status is not None and status >= 400 else None)


class Watch:
    """What one operation makes of its caller's own requests; from whatever thread its context reaches."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ended = False
        self.silence = Silence()
        self.until_s = run.deadline.at_s
        self.monotonic = run.clock.monotonic
        self._start_over()
        self._evidence = Evidence()
        self._credentials: tuple[Any, ...] = ()
        self.untraced: set[tuple[str, str]] = set()
        """Polls that were asked for so long that they carry no trace any more."""
        self._last: tuple[Sent, ref[requests.PreparedRequest]] | None = None

    def _start_over(self) -> None:
        """With nothing to tell: what a fork has a copy of is told by the process that saw it."""
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._pending: dict[Exchange, _Request] = {}
        self._counted = 0
        self._polls: dict[Question, Hop] = {}

    def remaining(self) -> float:
        """Seconds left; a body that outlives its block is not bounded by it any more."""
        return self.until_s - self.monotonic()

    def exceeded(self, cut: DeadlineCut) -> DeadlineExceeded:
        """The error for a deadline that struck inside an exchange."""
        run = self.run
        if cut.asked_s is None:
            return run.deadline_exceeded(cut.phase, "the request was cut off")
        left = seconds_as(max(0.0, run.deadline.remaining()))
        what = f"a retry mounted on the session would wait {seconds_as(cut.asked_s)} and {left} are left"
        return run.deadline_exceeded(cut.phase, what, asked=cut.asked_s)

    def may_carry_trace(self, method: str, url: str, redirected_from: str | None) -> bool:
        """Whether `traceparent` goes along.

        To URLs that the code wrote itself; to links that were handed out, and to
        redirects, within the origin that gave them or to one that was named; never
        into a signed URL; with the first few of many polls.
        """
        run = self.run
        if run.propagate is False or is_signed(url):
            return False
        if not run.propagate:
            if run.hop is not None and run.hop.name == "poll" and run.hop.fold.attempts >= _TRACED_POLLS:
                return False
            question = self._evidence.question(method, url)
            if question is not None and question.asked >= _TRACED_POLLS:
                if len(self.untraced) < _MOST_PENDING:
                    self.untraced.add((method, url))
                return False
        giver = redirected_from or self._evidence.handed_out_by(url)
        try:
            return giver is None or origin_of(giver) == origin_of(url) or url in run.courier.trusted
        except ValueError:
            return False

    # ---- what is taken in

    def take(self, request: requests.PreparedRequest, sent: Sent) -> None:
        """Take an exchange in, and what its reply shows of those before it."""
        if self._pid != os.getpid():
            self._start_over()
        with self._lock:
            if self.ended:
                return
            run, response = self.run, sent.response
            self._learn_credentials(request)
            status, headers, content = None, _NO_HEADERS, b""
            if response is not None:
                status, headers = response.status_code, response.headers
                if isinstance(response._content, bytes):
                    content = response._content
                # The response is the caller's, who may drop it, and with it its body and its connection.
                sent.reply, sent.response = Reply(status, headers=headers, url=sent.url), None
            asked = sent.earlier[0].url if sent.earlier else sent.url
            seen = Seen(sent.method, asked, status, _carried(request), headers, content, sent.url)
            found = _Request(self._evidence.take(seen), sent)
            if response is not None and not found.exchange.question.polled:
                sent.size_bytes = _received(response)
            failure = found.failure
            if run.instruments is not None:
                run.measure_exchanges(sent, failure)
            run.status_code = status
            self._last = (sent, ref(request))
            hop = run.hop
            if hop is not None and hop.taker is not None:
                answer = None if response is None else ref(response)
                hop.taker.take(hop, sent, failure, found.exchange.state, answer)
            else:
                self._take(found, failure)

    def _take(self, found: _Request, failure: str | None) -> None:
        run, exchange = self.run, found.exchange
        question = exchange.question
        run.last_request = (found.sent.method, found.sent.url)
        hop = self._polls.get(question)
        if hop is not None:  # as almost all are, in a loop that goes on for long
            self._attempt(hop, found, failure)
            run.last_hop = "poll"
            run.polls += 1
            self._counted += 1
            return
        self._pending[exchange] = found
        if question.sure:
            self._fold(question)
        elif question.polled:
            run.job = self._job_of(question)
        if question.polled:
            self._count_polls()
        run.last_hop = self._evidence.role(exchange)
        if len(self._pending) > _MOST_PENDING:
            self._write(next(iter(self._pending.values())))

    def _learn_credentials(self, request: requests.PreparedRequest) -> None:
        """What goes out is never to be shown; the server may quote it."""
        secrets, headers = self.run.courier.preparing.secrets, request.headers
        fields: Any = getattr(headers, "_store", headers)  # by the names in lower case
        found = (fields.get("authorization"), fields.get("cookie"))
        if found == self._credentials:
            secrets.last = request
        else:
            self._credentials = found
            secrets.learn(request)

    def know(self, job: Job) -> None:
        """Take in what the engine submitted: the caller may go on with a loop of its own."""
        if job.submit_url is None:
            return
        with self._lock:
            handed = [value for value in (job.status_url, job.id) if value is not None]
            self._evidence.know(job.submit_method, job.submit_url, handed)

    def know_results(self, ready: Ready) -> None:
        """Take in what the engine polled, and the results that were handed out."""
        job = ready.job
        if job.status_url is None:
            return
        with self._lock:
            handed = [as_call(result.at).url for result in ready.results if result.at is not None]
            self._evidence.know("GET", job.status_url, handed, polled=True)

    # ---- what is told

    def finish(self, exception: BaseException | None) -> None:
        """Write what is left, in the order in which it happened."""
        if self._pid != os.getpid():
            self._start_over()
        with self._lock:
            self.ended, self.until_s = True, math.inf
            quietly(self._tell_what_is_left, exception)

    def _tell_what_is_left(self, exception: BaseException | None) -> None:
        while self._pending:
            self._write(next(iter(self._pending.values())), exception)
        for hop in self._polls.values():
            assert hop.last_sent is not None
            if self._blames(exception, hop.last_sent):
                hop.fail(exception)  # type: ignore[arg-type]
            hop.end(self._end_of(hop.last_sent))

    def _blames(self, exception: BaseException | None, sent: Sent) -> bool:
        """Whether what leaves the block came of this exchange, the last there was."""
        if self._last is None or self._last[0] is not sent:
            return False
        if isinstance(exception, TrihopError):
            return exception.hop == self.run.last_hop
        if not isinstance(exception, requests.RequestException):
            return False
        if exception.request is None:
            return sent.error_type is not None  # a body that broke off while the caller read it
        return exception.request is self._last[1]()

    def _count_polls(self) -> None:
        """Those whose span is not begun yet count as well, as long as nothing shows that they were none."""
        pending = sum(found.exchange.question.polled for found in self._pending.values()) if self._pending else 0
        folded = sum(hop.fold.attempts for hop in self._polls.values())
        self.run.polls += pending + folded - self._counted
        self._counted = pending + folded

    def _fold(self, question: Question) -> None:
        """Into the poll's span, which begins with the first time it was asked."""
        asked = [found for found in self._pending.values() if found.exchange.question is question]
        hop = self._begin_poll(question, asked[0])
        for found in asked:
            del self._pending[found.exchange]
            self._attempt(hop, found, found.failure)

    def _attempt(self, hop: Hop, found: _Request, failure: str | None) -> None:
        run, before, sent, state = self.run, hop.last_sent, found.sent, found.exchange.state
        if before is not None:
            hop.fold.wait(max(0.0, sent.started_s - before.started_s - before.duration_s), "caller")
        hop.last_sent = sent
        hop.resends += sent.resends
        assert hop.job is not None
        if state is not None and hop.job.state != (told := run.shown(state, limit=256)):
            hop.job = replace(hop.job, state=told)  # a server may quote what it was sent
        run.job = hop.job
        hop.attempt(sent, error_type=failure, state=state, measured=False)
        if sent.cut is not None and sent.cut.asked_s is not None:
            hop.fold.wait_refused(sent.cut.asked_s)
        if run.instruments is not None:
            run.measure(semconv.POLL_ATTEMPTS, 1, {semconv.ERROR_TYPE: failure})

    def _begin_poll(self, question: Question, first: _Request) -> Hop:
        run, giver = self.run, question.handed_by
        submitted = None if giver is None else self._pending.get(giver)
        if submitted is not None:
            self._write(self._first_try(submitted))
        if run.hop is not None and run.hop.taker is None:
            run.close_hop(self._start_of(first.sent))  # a submit of the engine's, which ends where the polls begin
        hop = Hop(
            run,
            "poll",
            Call(question.method, question.url),
            self._span_before(first.sent),
            at_ns=self._start_of(first.sent),
            job=self._job_of(question),
        )
        self._polls[question] = hop
        self._told(hop)
        return hop

    def _job_of(self, question: Question) -> Job:
        """The job that a poll asks for."""
        known, giver = self.run.job, question.handed_by
        if (hop := self._polls.get(question)) is not None and hop.job is not None:
            return hop.job
        url = self._stored(question.url)
        if known is None or not (
            known.status_url == url or (question.job_id is not None and known.id == question.job_id)
        ):
            known = Job(
                id=question.job_id,
                status_url=url,
                submit_url=None if giver is None else self._stored(giver.question.url),
                submit_method="GET" if giver is None else giver.question.method,
            )
        state = self.run.shown(question.state, limit=256) if question.state is not None else known.state
        return known if known.state == state else replace(known, state=state)

    def _stored(self, url: str) -> str:
        """A URL as a job is known by it: without what the session adds, and without a password."""
        return without_user(self.run.courier.preparing.as_written(url))[0]

    def _first_try(self, found: _Request) -> _Request:
        """The earliest of the requests that this one sent again."""
        for other in reversed(list(self._pending.values())):
            if other.exchange.again is found.exchange:
                found = other
        return found

    def _write(self, found: _Request, exception: BaseException | None = None) -> None:
        """A span for a request whose part will not become clearer, its re-sends with it."""
        exchange, question = found.exchange, found.exchange.question
        match self._evidence.role(exchange):
            case "poll":
                self._fold(question)
            case "submit":
                polled = self._evidence.submitted(exchange)
                self._write_hop("submit", found, polled, exception)
            case "download":
                self._write_hop("download", found, self._evidence.base_of(question), exception)
            case _:
                self._write_request(self._pending.pop(exchange))

    def _write_hop(self, name: str, found: _Request, polled: Question | None, exception: BaseException | None) -> None:
        run = self.run
        tries = [self._pending.pop(found.exchange)]
        while (again := tries[-1].exchange.again) in self._pending:
            tries.append(self._pending.pop(again))
        first, last = found.sent, tries[-1].sent
        hop = Hop(
            run,
            name,
            Call(first.method, first.url),
            self._span_before(first),
            at_ns=self._start_of(first),
            job=_NO_JOB if polled is None else self._job_of(polled),
        )
        hop.last_sent = last
        hop.resends = len(tries) - 1 + sum(one.sent.resends for one in tries)
        for one in tries:
            hop.attempt(one.sent, error_type=one.failure, state=one.exchange.state, measured=False)
        if name == "download":
            self._tell_size(hop, last)
        if self._blames(exception, last):
            hop.fail(exception)  # type: ignore[arg-type]
        elif tries[-1].failure is not None:
            hop.span.fail(tries[-1].failure, "")
        hop.end(self._end_of(last))
        self._told(hop)

    def _tell_size(self, hop: Hop, sent: Sent) -> None:
        """How much of a body came, read by `requests` or by the caller, bit by bit."""
        size_bytes = sent.size_bytes
        if size_bytes is None:
            return
        hop.attributes[semconv.DOWNLOAD_SIZE] = size_bytes
        if sent.duration_s > 0:
            hop.attributes[semconv.DOWNLOAD_RATE] = size_bytes / sent.duration_s
        if sent.error_type is None:
            self.run.measure(semconv.DOWNLOAD_SIZE, size_bytes)

    def _write_request(self, found: _Request) -> None:
        run, sent = self.run, found.sent
        method = sent.method.upper()
        attributes = {
            **run.common,
            semconv.HOP: "request",
            semconv.JOB_ID: None if run.job is None or len(self._evidence.polled) > 1 else run.shown(run.job.id),
            **run.asking(method, sent.url),
            semconv.HTTP_RESPONSE_STATUS_CODE: sent.status_code,
            semconv.HTTP_REQUEST_RESEND_COUNT: sent.resends or None,
        }
        span = run.root.child(method, CLIENT, attributes, at_ns=self._start_of(sent))
        if found.failure is not None:
            span.fail(found.failure, "")
        span.end(self._end_of(sent))

    def _span_before(self, sent: Sent) -> Ids | None:
        """The hop before the one that began with this; spans are made late, and not always in order."""
        return self.run.last_span if self.run.last_span_ns <= self._start_of(sent) else None

    def _told(self, hop: Hop) -> None:
        run = self.run
        if hop.started_ns >= run.last_span_ns:
            run.last_span, run.last_span_ns = hop.span.ids, hop.started_ns

    def _start_of(self, sent: Sent) -> int:
        return self.run.at_ns(sent.started_s)

    def _end_of(self, sent: Sent) -> int:
        return self.run.at_ns(sent.started_s + sent.duration_s)


def _received(response: requests.Response) -> int | None:
    """Bytes of a body that came over the wire so far; None where nobody counts."""
    tell = getattr(response.raw, "tell", None)
    return None if tell is None else int(tell())


def _carried(request: requests.PreparedRequest) -> str | None:
    body: Any = request.body
    if body is None:
        return ""
    if isinstance(body, bytes):
        return body[:MOST_READ_BYTES].decode("utf-8", "replace")
    return body[:MOST_READ_BYTES] if isinstance(body, str) else None
