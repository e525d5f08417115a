"""The download hop: fetch a result whole, page by page, and nothing but whole."""

from __future__ import annotations

import datetime as dt
import json as _json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trihop._clock import utc
from trihop._errors import JobExpired, OperationError, ResultCorrupt, ResultUnavailable, StatusUnavailable, SurfaceError
from trihop._hops.hop import Hop
from trihop._hops.judge import said, shown, try_later
from trihop._hops.poll import Poller, settled
from trihop._links import expires_at, unsent_headers, without_signature
from trihop._pacing import Pause, RetryPolicy, next_pause
from trihop._redact import is_signed
from trihop._results.digests import Digest
from trihop._results.download import Download
from trihop._results.page import Page
from trihop._results.part_file import PartFile, identity_of
from trihop._results.ranges import Representation
from trihop._results.sinks import Sink
from trihop._results.target import Target, sink_for
from trihop._surface import DownloadSurface
from trihop._telemetry import semconv
from trihop._template import join
from trihop._values import Call, Ready, Reply, Result, as_call
from trihop._verdicts import Ending, Gone, LinkExpired
from trihop._wire.network import BROKEN
from trihop._wire.prepare import harmless
from trihop._wire.session import Sent, Timeout

_PROGRESS_EVERY_S = 0.5

# A link with less left than this is not begun with, unless it is as fresh as any could be.
_RUNS_OUT_S = 5.0

# Bytes came, and not those that belong there.
_DO_NOT_ADD_UP = frozenset(
    {"body_truncated", "range_short", "range_mismatch", "no_content_range", "representation_changed", "digest_mismatch"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a result is to be fetched.

    Args:
        surface: The judge of the replies.
        retry: How often one request is sent again.
        sha256: The digest in hex that it must have.
        max_size: Bytes it may have at the most.
        parallel: Ranges of it that may be fetched at a time.
        decode: Whether to undo the content encoding.
        timeout: Of one request, as in `requests`.
    """

    surface: DownloadSurface
    retry: RetryPolicy
    sha256: str | None = None
    max_size: int | None = None
    parallel: int = 1
    decode: bool = True
    timeout: Timeout = None


class Fetch:
    """One result on its way."""

    def __init__(
        self, hop: Hop, poller: Poller | None, name: str, result: Result, terms: Terms, *, among: int = 0
    ) -> None:
        self.hop = hop
        self.run = hop.run
        self.poller = poller
        self.name = name
        self.result = result
        self.terms = terms
        self.among = among  # how many results of the same name come before it
        self.sha256 = terms.sha256 or result.sha256
        self.identity = self._identity()
        self.expected_size: int | None = result.size_bytes
        self.content_type: str | None = None
        self.content_encoding: str | None = None
        self.pages = 0
        self.resumes = 0
        self.renewals = 0
        self._renewed = self._same_link = False  # since bytes came
        self._came_bytes = 0  # of the pages before
        self._most_bytes = 0  # what broke off has been taken back
        given_here = self.run.ready is not None and result in self.run.ready.results
        self.given_s = self.run.ready_s if given_here else None
        self._told: tuple[float, int] = (self.run.clock.monotonic(), -1)
        self._pauses = 0

    def _identity(self) -> str | None:
        """What the bytes of a part file are known by; None where nobody could go on with them."""
        call = None if self.result.at is None else as_call(self.result.at)
        if call is None or call.method.upper() != "GET":
            return None
        job = self.run.job
        if self.poller is not None and job is not None and (job.id or job.status_url):
            return identity_of(job.id, job.status_url, self.result.name, self.among, self.terms.decode)
        return identity_of(without_signature(call.url), call.params, self.terms.decode)

    def to(self, to: Target, *, named: Callable[[Path, str | None], Path] | None = None) -> Download:
        """Fetch it to its place.

        Args:
            to: The place.
            named: The path that it is to have in the end, given `to` and the content type.

        Raises:
            ResultUnavailable, ResultCorrupt, SurfaceError: As named.
            DeadlineExceeded: The deadline struck.
            OSError: The place cannot be written to.
        """
        sink = sink_for(to, self.identity)
        try:
            digest = self._verified(sink)
            if named is not None and isinstance(sink, PartFile):
                sink.target = named(sink.target, self.content_type)
            path, memory = sink.commit()
        except BaseException as error:
            sink.abort(keep=self.run.durable and not isinstance(error, (ResultCorrupt, ResultUnavailable)))
            raise
        finally:
            self._note()
        self.run.measure(semconv.DOWNLOAD_SIZE, sink.size_bytes)
        self.tell(0, last=True)
        return Download(
            self.name,
            path,
            sink.size_bytes,
            digest,
            self.content_type,
            max(1, self.pages),
            self.resumes,
            self.content_encoding,
            _memory=memory,
        )

    def _verified(self, sink: Sink) -> str | None:
        """Fill the sink; the sha256 in hex, where somebody wanted it."""
        for again in (False, True):
            digest = Digest(self.sha256 is not None)
            declared = self._fill(sink, digest)
            found = digest.hexdigest()
            if found is None or self.sha256 is None or found == self.sha256.lower():
                break
            if again or not self.resumes or self.result.single_use or sink.size_bytes == 0:
                raise self.corrupt(f"its sha256 is {found}, expected {self.sha256.lower()}")
            self._begin_again(sink)  # it was put together, and one piece was of something else
        found = found or declared
        self.hop.attributes[semconv.DOWNLOAD_SHA256] = found
        size = self.result.size_bytes
        if size is not None and size != sink.size_bytes:
            raise self.corrupt(f"it has {sink.size_bytes} bytes, expected {size}")
        return found

    def _begin_again(self, sink: Sink) -> None:
        try:
            sink.rewind(0)
        except OSError as error:
            raise self.cannot_take_back(error) from None
        self.pages, self._came_bytes = 0, 0

    def _fill(self, sink: Sink, digest: Digest) -> str | None:
        """Write all of it; the sha256 of what is there, where the server declared it and it was right."""
        if self.result.at is None:
            data = self.result.data
            self.content_type = "application/json" if not isinstance(data, (str, bytes)) else None
            written = (
                data
                if isinstance(data, bytes)
                else data.encode()
                if isinstance(data, str)
                else _json.dumps(data).encode()
            )
            digest.update(written)
            sink.write(written)
            self._page_came(len(written))
            if self.is_too_large(sink.size_bytes):
                raise self.too_large()
            return None
        if self.result.single_use and sink.kept is not None:
            raise self.unavailable("an earlier process began with it, and the link works once only")
        call: Call | None = as_call(self.result.at)
        declared: str | None = None
        while call is not None:
            page = Page(self, sink, digest)
            content, reply = page.fetched(call)
            self._page_came(page.held_bytes)
            self.pages += 1
            declared = page.checks.sha256() if self.pages == 1 and page.plain else None
            call = None if content.next is None else self._following(call, content.next, reply)
            if call is not None:
                self.expected_size = self.result.size_bytes  # the first page's length is not that of the whole
        return declared

    def _following(self, call: Call, named: str | Call, reply: Reply) -> Call:
        """The next page. It belongs to the reply that named it, and so do its credentials."""
        following = as_call(named)
        following = replace(following, url=self._asked_for(join(reply.url, following.url)))
        if not isinstance(named, Call):
            strip = call.credentials != "always" and self.run.courier.trusted.leaves(reply.url, following.url)
            headers = (harmless(call.headers) or None) if strip else call.headers
            following = replace(following, headers=headers, credentials=call.credentials)
        if following == call:
            raise self.run.error(
                SurfaceError,
                "the download surface names the same page as its next one",
                "Mend the surface.",
                reply=reply,
            )
        return following

    def _asked_for(self, url: str) -> str:
        """The URL, if it may be asked."""
        objection = self.run.courier.trusted.objection(url)
        if objection is not None:
            raise self.unavailable(f"it is nowhere to be asked for: {objection}")
        return url

    # ---- what its pages come to

    def is_too_large(self, size_bytes: int) -> bool:
        """Whether it has more bytes than it may have."""
        return self.terms.max_size is not None and size_bytes > self.terms.max_size

    def expect_no_more(self, size_bytes: int) -> None:
        """Refuse a result that grows beyond its announced size, before it has grown for long.

        Raises:
            ResultCorrupt: It does.
        """
        size = self.result.size_bytes
        if size is not None and size_bytes > size:
            raise self.corrupt(f"it has more than the {size} bytes that were announced")

    def announced(self, size_bytes: int | None) -> None:
        """Note the size of a page, which is the whole of most results."""
        if self.pages == 0 and size_bytes is not None:
            self.expected_size = self.result.size_bytes or size_bytes

    def resumed(self, of: Representation) -> None:
        """Count a transfer that goes on where it broke off."""
        self.resumes += 1
        self.announced(of.total_bytes)

    def bytes_came(self) -> None:
        """A link that brought something may be renewed once more when it has run out."""
        self._renewed = False

    def _page_came(self, size_bytes: int) -> None:
        self._came_bytes += size_bytes
        self._most_bytes = max(self._most_bytes, self._came_bytes)

    # ---- when it is not there

    def may_try_again(self, sent: Sent, reason: str, errors: int) -> None:
        """Refuse a further attempt that the policy does not allow.

        Raises:
            ResultCorrupt, ResultUnavailable: What it comes to then.
        """
        retry = self.terms.retry
        status = None if sent.reply is None or reason != str(sent.reply.status_code) else sent.reply.status_code
        if errors < retry.attempts and (status is None or status in retry.on or not try_later(status)):
            return
        times = f"{errors} times, last " if errors > 1 else ""
        if reason in _DO_NOT_ADD_UP:
            raise self.run.error(
                ResultCorrupt,
                f"the transfer broke off {times}({reason}); the length did not add up",
                "Nothing was left at the target. Download again from error.job, or raise RetryPolicy(attempts=).",
                cause=sent.cause,
            )
        raise self.unavailable(f"fetching it failed {times}with {reason}", sent)

    def until_ready(self, call: Call, hint_s: float | None) -> Call:
        """The result is not there yet: poll again, as attempts on this hop; what to ask for then."""
        run, poller = self.run, self.poller
        pacing = poller.pacing if poller is not None else run.provider.pacing
        pause = next_pause(pacing, self._pauses, hint_s, run.room_s(), run.clock.random)
        self._pauses += 1
        if poller is None:
            run.pause(pause)
            return call
        poller.wait(pause)
        self._poll_again(poller)
        return as_call(self.result.at or call) if self.pages == 0 else call

    def _poll_again(self, poller: Poller) -> Ready:
        while True:
            step = poller.ask(self.hop)
            if isinstance(step, Pause):
                poller.wait(step)
                continue
            assert isinstance(step, Ending)
            ready = settled(self.hop, step, allow_partial=True)
            fresh = [result for result in ready.results if result.name == self.result.name]
            if len(fresh) > self.among and fresh[self.among].at is not None:
                self.result = fresh[self.among]
            return ready

    def still_good(self, call: Call) -> Call:
        """The call, or the one of a fresh link where its own has run out, or would before long.

        Raises:
            ResultUnavailable: It is nowhere to be asked for.
        """
        if self._runs_out(call) and self._renew():
            call = as_call(self.result.at or call)
        self._asked_for(call.url)
        self._note_age(call)
        return call

    def _runs_out(self, call: Call) -> bool:
        if self.poller is None or self._renewed or self.pages:
            return False
        clock, ends_at = self.run.clock, self.result.expires_at or expires_at(call.url)
        if ends_at is None or ends_at.utcoffset() is None:
            return False
        left_s = (ends_at - utc(clock.time_ns())) / dt.timedelta(seconds=1)
        fresh = self.given_s is not None and clock.monotonic() - self.given_s <= _RUNS_OUT_S
        return left_s <= (0.0 if fresh else _RUNS_OUT_S)

    def _renew(self) -> bool:
        """Poll once for a fresh link; whether it is another one.

        Where the monitor has nothing to say, the link is left to speak for itself: our clock may be wrong.
        """
        assert self.poller is not None
        try:
            return self._changed_by_poll(self.poller)
        except (JobExpired, StatusUnavailable):
            return False

    def _changed_by_poll(self, poller: Poller) -> bool:
        before, self._renewed, self._same_link = self.result, True, False
        self.renewals += 1
        self._poll_again(poller)
        if self.result.at == before.at or self.result.at is None:
            self.hop.fold.mark(semconv.MARK_SAME_LINK)
            self._same_link = True
            return False
        self.given_s = self.run.ready_s
        return True

    def fresh_link(self, outcome: LinkExpired | Gone, sent: Sent) -> Call:
        """By one poll, once; a link that comes back unchanged is not asked again.

        Raises:
            ResultUnavailable: There is none.
        """
        for_good = isinstance(outcome, Gone) and shown(sent.status_code or 0, self.terms.surface)
        if for_good or self.poller is None or self.pages:
            raise self.unavailable(f"the server says {outcome.reason}", sent)
        if self._renewed:
            same = ", and a fresh poll gave the same link" if self._same_link else ""
            raise self.unavailable(f"the server says {outcome.reason}{same}", sent)
        try:
            changed = self._changed_by_poll(self.poller)
        except JobExpired as lost:  # it ended well, and is known no more
            raise self.unavailable(f"the server says {outcome.reason}, and {lost.what}", sent) from None
        if not changed:
            raise self.unavailable(f"the server says {outcome.reason}, and a fresh poll gave the same link", sent)
        assert self.result.at is not None
        return as_call(self.result.at)

    def unavailable(self, why: str, sent: Sent | None = None) -> OperationError:
        """The error for a result that is out of reach."""
        run = self.run
        error = None if sent is None or sent.reply is None or sent.error_type is not None else _said_quietly(sent)
        run.error_said(error)
        request = None if sent is None or sent.response is None else sent.response.request
        unsent = [] if request is None else unsent_headers(request.url or "", request.headers)
        why += f"; its link was signed with {', '.join(unsent)}, which only its maker can send" if unsent else ""
        return run.error(
            ResultUnavailable,
            f"the result {self.name!r} cannot be fetched: {why}{run.quoted(error)}",
            "The job is over: poll error.job for a fresh link, or see how long the server keeps results.",
            cause=None if sent is None else sent.cause,
        )

    def too_large(self, sent: Sent | None = None) -> OperationError:
        """The error for a result of more than `max_size` bytes."""
        return self.unavailable(f"it is larger than max_size={self.terms.max_size} bytes", sent)

    def corrupt(self, why: str) -> ResultCorrupt:
        """The error for bytes that are not those of the result."""
        return self.run.error(
            ResultCorrupt,
            f"the result {self.name!r} is not what was announced: {why}",
            "Nothing was left at the target; download it again.",
        )

    def cannot_take_back(self, error: OSError) -> ResultCorrupt:
        """The error for a sink that has bytes which should not be there."""
        return self.run.error(
            ResultCorrupt, f"the transfer broke off: {error}", "Pass a path, or a file object that can seek."
        )

    # ---- the story

    def _note_age(self, call: Call) -> None:
        """How old a signed link is that a poll of ours handed out."""
        if self.given_s is not None and self.pages == 0 and is_signed(call.url):
            self.hop.attributes[semconv.DOWNLOAD_LINK_AGE] = self.run.clock.monotonic() - self.given_s

    def _note(self) -> None:
        hop, noted = self.hop, self.hop.attributes
        noted[semconv.DOWNLOAD_SIZE] = noted.get(semconv.DOWNLOAD_SIZE, 0) + self._most_bytes
        noted[semconv.DOWNLOAD_PAGES] = noted.get(semconv.DOWNLOAD_PAGES, 0) + self.pages
        noted[semconv.DOWNLOAD_RESUMES] = noted.get(semconv.DOWNLOAD_RESUMES, 0) + self.resumes
        if self.expected_size is not None:
            noted[semconv.DOWNLOAD_EXPECTED_SIZE] = noted.get(semconv.DOWNLOAD_EXPECTED_SIZE, 0) + self.expected_size
        if hop.transferred_s > 0:
            noted[semconv.DOWNLOAD_RATE] = hop.transferred_bytes / hop.transferred_s
        if self.renewals:
            noted[semconv.DOWNLOAD_LINK_REFRESHES] = noted.get(semconv.DOWNLOAD_LINK_REFRESHES, 0) + self.renewals

    def tell(self, page_bytes: int, *, last: bool = False) -> None:
        """Report progress, not too often, and no size twice."""
        done_bytes = self._came_bytes + page_bytes
        if done_bytes > self._most_bytes:
            self._most_bytes = done_bytes
        run = self.run
        if run.on_event is None:
            return
        now_s, (told_s, told_bytes) = run.clock.monotonic(), self._told
        if (last or now_s - told_s >= _PROGRESS_EVERY_S) and done_bytes != told_bytes:
            self._told = now_s, done_bytes
            run.tell("downloading", bytes_done=done_bytes, bytes_total=self.expected_size)


def _said_quietly(sent: Sent) -> Any:
    assert sent.reply is not None
    try:
        return said(sent.reply) if sent.reply.body_was_read else None
    except BROKEN:
        return None
