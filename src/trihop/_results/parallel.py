"""One representation fetched in several ranges at a time: workers carry bytes, the caller's thread decides."""

from __future__ import annotations

import itertools
import os
import threading
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trihop._hops.judge import DownloadOutcome, judge_download
from trihop._pacing import backoff
from trihop._results.body import on_the_wire, without_first_bytes
from trihop._results.part_file import PartFile
from trihop._results.ranges import Complete, Rest, Unusable, Whole, judge_rest
from trihop._values import Call
from trihop._verdicts import Content, Gone, LinkExpired, Transient
from trihop._wire.exchange import DeadlineCut
from trihop._wire.network import BROKEN, error_type_of
from trihop._wire.session import Sent

if TYPE_CHECKING:
    from concurrent.futures import Future

    from trihop._results.page import Page

SMALLEST_BYTES = 1024 * 1024
_LOOK_EVERY_S = 0.5


@dataclass(slots=True, eq=False)
class Part:
    """A range that is still to come, from its next byte to the one after its last."""

    at: int
    after: int
    errors: int = 0
    call: Call | None = None


@dataclass(slots=True)
class Came:
    """What one attempt at a part came to."""

    part: Part
    sent: Sent
    size_bytes: int = 0
    outcome: DownloadOutcome | Unusable | None = None
    cut: DeadlineCut | None = None


def can_be_split(page: Page, accept_ranges: str) -> bool:
    """Whether a page that has begun to come may be had in several ranges at a time."""
    of = page.of
    return (
        page.terms.parallel > 1
        and page.plain
        and page.fetch.pages == 0
        and page.content == Content()
        and not page.fetch.result.single_use
        and isinstance(page.sink, PartFile)
        and of.validator is not None
        and (of.total_bytes or 0) >= 2 * SMALLEST_BYTES
        and accept_ranges.strip().lower() == "bytes"
        and hasattr(os, "pwrite")
    )


def split(total_bytes: int, count: int) -> list[Part]:
    """So many parts of about one size, fewer where they would be too small.

    >>> [(part.at, part.after) for part in split(3 * 2**20, 2)]
    [(0, 1572864), (1572864, 3145728)]
    """
    count = max(1, min(count, total_bytes // SMALLEST_BYTES))
    bounds = [total_bytes * n // count for n in range(count + 1)]
    return [Part(at, after) for at, after in itertools.pairwise(bounds)]


@dataclass
class Parts:
    """The parts of a page on their way; `sent` has the answer that brings the first of them.

    Args:
        page: Begun, and nothing of it written.
        call: What was asked.
        sent: Its answer, the body unread.
    """

    page: Page
    call: Call
    sent: Sent
    stop: threading.Event = field(default_factory=threading.Event)

    def fetched(self) -> Unusable | None:
        """Fetch them all; why they cannot be had like that, if they cannot.

        Raises:
            ResultUnavailable, ResultCorrupt: As named.
            DeadlineCut: The deadline struck.
            OSError: The file cannot be written to.
        """
        from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

        page, fetch = self.page, self.page.fetch
        total_bytes = page.of.total_bytes or 0
        parts = split(total_bytes, page.terms.parallel)
        with ThreadPoolExecutor(len(parts), thread_name_prefix="trihop download") as pool:
            self._pool = pool
            running = {self._start(part, self.sent if part is parts[0] else None) for part in parts}
            try:
                while running:
                    done, running = wait(running, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                    for each in done:
                        again = self._judged(each.result())
                        if isinstance(again, Unusable):
                            return again
                        if again is not None:
                            running.add(self._start(again, None))
                    fetch.tell(total_bytes - sum(part.after - part.at for part in parts))
            finally:
                self.stop.set()  # each worker looks at it before its next piece
        page.whole_at_once(total_bytes)
        return None

    def _start(self, part: Part, sent: Sent | None) -> Future[Came]:
        if sent is None:
            self.page.run.check_deadline()
            self.call = self.page.fetch.still_good(self.call)
        part.call = self.call
        return self._pool.submit(copy_context().run, self._transfer, part, self.call, sent)

    # ---- in the caller's thread

    def _judged(self, came: Came) -> Part | Unusable | None:
        """What to do about an attempt: the part that is to be asked for again, if it is not all there."""
        page, part, sent = self.page, came.part, came.sent
        hop, run, fetch = page.hop, page.run, page.fetch
        if came.cut is not None:
            raise came.cut
        hop.transferred_bytes += came.size_bytes
        if came.size_bytes:
            part.errors = 0
            fetch.bytes_came()
        match came.outcome:
            case None:
                if sent is not self.sent:  # which is folded in when all is there
                    hop.attempt(sent, verdict="content")
                return None
            case Unusable() as unusable:
                hop.attempt(sent, error_type=unusable.reason, verdict="transient")
                return unusable
            case Transient(reason=reason, after=after):
                part.errors += 1
                hop.attempt(sent, error_type=reason, verdict="transient")
                fetch.may_try_again(sent, reason, part.errors)
                run.pause(backoff(run.provider.pacing, part.errors, after, run.room_s(), run.clock.random))
                if came.size_bytes:
                    fetch.resumed(page.of)
                return part
            case LinkExpired() | Gone() as refused:
                hop.attempt(sent, error_type=refused.reason, verdict="link_expired")
                if part.call is self.call:  # else another part was quicker to find out
                    self.call = fetch.fresh_link(refused, sent)
                return part
            case other:
                hop.attempt(sent, error_type="surface")
                return Unusable(type(other).__name__.lower())

    # ---- in a worker's

    def _transfer(self, part: Part, call: Call, sent: Sent | None) -> Came:
        page, skip_bytes = self.page, 0
        if sent is None:
            sent = self._asked(part, call)
            if sent.cut is not None:
                return Came(part, sent, cut=sent.cut)
            answer = self._answer(part, sent)
            if not isinstance(answer, Rest):
                if sent.response is not None:
                    sent.response.close()
                return Came(part, sent, outcome=answer)
            skip_bytes = answer.skip_bytes
        assert sent.response is not None
        came = Came(part, sent)
        pieces = without_first_bytes(on_the_wire(sent.response), skip_bytes)
        assert isinstance(page.sink, PartFile)
        try:
            while not self.stop.is_set():
                try:
                    piece = next(pieces, None)
                except DeadlineCut as cut:
                    came.cut = cut
                    break
                except BROKEN as error:
                    sent.error_type, sent.cause = error_type_of(error), error
                    came.outcome = Transient(sent.error_type)
                    break
                if piece is None:  # as it should end, and the connection goes back to its pool
                    came.outcome = None if part.at == part.after else Transient("range_short")
                    break
                piece = piece[: part.after - part.at]
                page.sink.write_at(piece, part.at)
                part.at += len(piece)
                came.size_bytes += len(piece)
                if part.at == part.after and sent is self.sent:  # what it has beyond that, others bring
                    break
        finally:
            sent.response.close()
            sent.duration_s = page.run.clock.monotonic() - sent.started_s
        return came

    def _asked(self, part: Part, call: Call) -> Sent:
        page = self.page
        headers = {
            **{name: value for name, value in (call.headers or {}).items() if name.lower() != "accept-encoding"},
            "Accept-Encoding": "identity",
            "Range": f"bytes={part.at}-{part.after - 1}",
            "If-Range": page.of.validator or "",
        }
        return page.run.courier.send(
            Call(call.method, call.url, params=call.params, headers=headers, credentials=call.credentials),
            quiet=page.hop.span.sending,
            headers=page.hop.span.headers(),
            timeout=page.terms.timeout,
            follow_all=True,
            stream=True,
        )

    def _answer(self, part: Part, sent: Sent) -> Rest | DownloadOutcome | Unusable:
        reply = sent.reply
        if reply is None:
            return Transient(sent.error_type or "no_answer")
        match judge_rest(reply.status_code, reply.headers, self.page.of, part.at, checked=False):
            case Rest() as rest:
                return rest
            case Whole() | Complete():
                return Unusable("representation_changed")
            case Unusable() as unusable:
                return unusable
            case _:
                return judge_download(reply, self.page.fetch.result, self.page.terms.surface)
