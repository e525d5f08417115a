"""The spans of requests that the caller's own code sends, named on evidence.

A part is known late and the kind of a span is fixed at its start, so spans are
made late, with the times of what they stand for. A poll's grows as it is asked;
all else waits for the end of the block, or for its turn in a long queue.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import requests

from trihop import _semconv as semconv
from trihop._errors import TrihopError
from trihop._evidence import Evidence, Exchange, Question, Seen
from trihop._origin import origin_of
from trihop._redact import is_signed
from trihop._run import Hop, Run
from trihop._session import Sent
from trihop._values import JSON, Call, Job

if TYPE_CHECKING:
    from trihop._tracing import TraceSpan

_MOST_PENDING = 256
_MOST_READ_BYTES = 65536
_TRACED_POLLS = 8
_STATE_NAMES = ("status", "state", "phase")


@dataclass(slots=True, eq=False)
class _Request:
    """An exchange that no span stands for yet."""

    exchange: Exchange
    sent: Sent
    state: str | None

    @property
    def failure(self) -> str | None:
        """Its `error.type`, where it is one."""
        status = self.sent.status_code
        return self.sent.error_type or (str(status) if status is not None and status >= 400 else None)


@dataclass(slots=True)
class Watch:
    """What one operation makes of its caller's own requests; from whatever thread its context reaches."""

    run: Run
    _evidence: Evidence = field(default_factory=Evidence)
    _pending: dict[Exchange, _Request] = field(default_factory=dict)
    _polls: dict[Question, Hop] = field(default_factory=dict)
    _last_span: TraceSpan | None = None
    _last_hop: Hop | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    ended: bool = False

    def remaining(self) -> float:
        """Seconds left; a body that outlives its block is not bounded by it any more."""
        return float("inf") if self.ended else self.run.deadline.remaining()

    def may_carry_trace(self, method: str, url: str, redirected_from: str | None) -> bool:
        """Whether `traceparent` goes along.

        To URLs that the code wrote itself; to links that were handed out, and to
        redirects, within the origin that gave them; never into a signed URL; with
        the first few of many polls.
        """
        propagate = self.run.propagate
        if propagate is False or is_signed(url):
            return False
        with self._lock:
            question = self._evidence.question(method, url)
            giver = redirected_from or self._evidence.handed_out_by(url)
        if question is not None and question.asked >= _TRACED_POLLS and not propagate:
            return False
        try:
            return giver is None or origin_of(giver) == origin_of(url)
        except ValueError:
            return False

    def take(self, came: Iterable[tuple[requests.PreparedRequest, Sent]]) -> None:
        """Take in what one send came to: its exchange, and those of the redirects it followed."""
        run = self.run
        for request, sent in came:
            body = _json_of(sent.response)
            headers = {} if sent.response is None else sent.response.headers
            seen = Seen(sent.method, sent.url, sent.status_code, _carried(request), headers, body)
            with self._lock:
                if self.ended:
                    return
                found = _Request(self._evidence.take(seen), sent, _state_of(body))
                run.measure_exchanges(sent, found.failure)
                run.status_code = sent.status_code
                if run.hop is not None and run.hop.takes_requests:
                    self._to_open_hop(run.hop, found)
                    continue
                run.last_request_url = sent.url
                run.last_hop = self._evidence.role(found.exchange)
                self._pending[found.exchange] = found
                if found.exchange.question.polled:
                    self._fold(found.exchange.question)
                if len(self._pending) > _MOST_PENDING:
                    self._write(next(iter(self._pending.values())))

    def finish(self, exception: BaseException | None) -> None:
        """Write what is left, in the order in which it happened."""
        with self._lock:
            self.ended = True
            last = self._last_hop
            if isinstance(exception, TrihopError) and last is not None and last.name == self.run.last_hop:
                last.fail(exception)
            for hop in self._polls.values():
                assert hop.last_sent is not None
                hop.end(self._end_of(hop.last_sent))
            while self._pending:
                self._write(next(iter(self._pending.values())))

    # ---- spans

    def _to_open_hop(self, hop: Hop, found: _Request) -> None:
        """An attempt of the hop that is open; a poll's are told by `hop.wait`, which judges them."""
        if hop.name != "poll":
            hop.last_sent = found.sent
            hop.asked(found.sent.method, found.sent.url)
            hop.attempt(found.sent, error_type=found.failure, measured=False)

    def _fold(self, question: Question) -> None:
        """Into the poll's span, which begins with the first time it was asked."""
        asked = [found for found in self._pending.values() if found.exchange.question is question]
        hop = self._polls.get(question) or self._begin_poll(question, asked[0].sent)
        run = self.run
        for found in asked:
            del self._pending[found.exchange]
            before, sent = hop.last_sent, found.sent
            if before is not None:
                hop.fold.wait(max(0.0, sent.started_s - before.started_s - before.duration_s), "caller")
            hop.last_sent = sent
            assert hop.job is not None
            if found.state is not None and hop.job.state != found.state:
                hop.job = replace(hop.job, state=found.state)
            hop.attempt(sent, error_type=found.failure, state=found.state, measured=False)
            run.polls += 1
            run.measure(semconv.POLL_ATTEMPTS, 1, {semconv.ERROR_TYPE: found.failure})
        run.job, self._last_hop = hop.job, hop

    def _begin_poll(self, question: Question, first: Sent) -> Hop:
        run, giver = self.run, question.handed_by
        job = run.job = Job(
            id=question.job_id,
            status_url=question.url,
            submit_url=None if giver is None else giver.question.url,
            submit_method="GET" if giver is None else giver.question.method,
        )
        submitted = None if giver is None else self._pending.get(giver)
        if submitted is not None:
            self._write(self._first_try(submitted))
        call, at_ns = Call(question.method, question.url), run.at_ns(first.started_s)
        hop = Hop(run, "poll", call, self._last_span, at_ns=at_ns)
        hop.job = job
        self._polls[question], self._last_span = hop, hop.span
        return hop

    def _first_try(self, found: _Request) -> _Request:
        """The earliest of the requests that this one sent again."""
        for other in reversed(list(self._pending.values())):
            if other.exchange.again is found.exchange:
                found = other
        return found

    def _write(self, found: _Request) -> None:
        """A span for a request whose part will not become clearer, its re-sends with it."""
        run, role = self.run, self._evidence.role(found.exchange)
        tries = [self._pending.pop(found.exchange)]
        while role in ("submit", "download") and (again := tries[-1].exchange.again) in self._pending:
            tries.append(self._pending.pop(again))
        first, last = found.sent, tries[-1].sent
        named = role != "request"
        after = self._last_span if named else None
        hop = Hop(run, role, Call(first.method, first.url), after, at_ns=run.at_ns(first.started_s))
        hop.last_sent, hop.resends = last, len(tries) - 1
        for one in tries if named else ():
            hop.attempt(one.sent, error_type=one.failure, state=one.state, measured=False)
        if tries[-1].failure is not None:
            hop.span.fail(tries[-1].failure, "")
        hop.end(self._end_of(last))
        if named:
            self._last_span, self._last_hop = hop.span, hop

    def _end_of(self, sent: Sent) -> int:
        return self.run.at_ns(sent.started_s + sent.duration_s)


def _json_of(response: requests.Response | None) -> JSON:
    """A reply's JSON, if `requests` has read it for the caller and it is small."""
    content = None if response is None else response._content
    if not content or len(content) > _MOST_READ_BYTES or content[:1] not in b'{["':
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _carried(request: requests.PreparedRequest) -> str:
    body = request.body
    if isinstance(body, bytes):
        return body[:_MOST_READ_BYTES].decode("utf-8", "replace")
    return body[:_MOST_READ_BYTES] if isinstance(body, str) else ""


def _state_of(body: JSON) -> str | None:
    if not isinstance(body, dict):
        return None
    return next((value for name in _STATE_NAMES if isinstance(value := body.get(name), str)), None)
