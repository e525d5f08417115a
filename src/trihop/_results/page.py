"""One page of a result, from the question to its last byte: asked again, gone on with, and checked on its way."""

from __future__ import annotations

import contextlib
import json as _json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import requests

from trihop._clock import utc
from trihop._errors import SurfaceError
from trihop._hops.judge import DownloadOutcome, Nonsense, judge_download, shown
from trihop._pacing import Hint, backoff, read_hint
from trihop._results.body import (
    GZIP,
    Move,
    can_undo,
    on_the_wire,
    uncoded,
    unpacked,
    without_first_bytes,
    without_first_lines,
)
from trihop._results.digests import Checks, Digest, declared_of_message, declared_of_whole
from trihop._results.moving import NotWritten, can_move
from trihop._results.parallel import Parts, can_be_split
from trihop._results.part_file import PartFile
from trihop._results.ranges import (
    Complete,
    Representation,
    Rest,
    Unusable,
    ask_for_rest,
    judge_rest,
    representation_of,
    stray,
)
from trihop._results.sinks import Kept, Sink
from trihop._telemetry import semconv
from trihop._values import Call, Reply
from trihop._verdicts import Content, Gone, LinkExpired, Pending, Transient
from trihop._wire.exchange import DeadlineCut
from trihop._wire.network import BROKEN, BodyTooLarge, error_type_of
from trihop._wire.session import Sent

if TYPE_CHECKING:
    from trihop._results.fetch import Fetch


class Overrun(requests.exceptions.ConnectionError):
    """More bytes came than belong there."""


class Page:
    """One page on its way into a sink.

    Args:
        fetch: The result that it is a page of.
        sink: What it is written to, the pages before it in there.
        digest: Of what is written.
    """

    def __init__(self, fetch: Fetch, sink: Sink, digest: Digest) -> None:
        self.fetch = fetch
        self.hop = fetch.hop
        self.run = fetch.run
        self.terms = fetch.terms
        self.sink = sink
        self.digest = digest
        self.content: Content | None = None
        self.of = Representation()
        self.checks = Checks({})
        self.held_bytes = 0
        """Bytes on the wire that are in the sink, from the page's first on."""
        self.plain = True
        """What is in the sink is what was on the wire."""
        self.errors = 0
        self._best_bytes = 0
        self._resumed = False
        self._spliced_badly = False
        self._start_bytes = sink.size_bytes
        self._start_digest = digest.saved()
        self._unread = False
        self._split = self.terms.parallel > 1
        kept = sink.kept
        if kept is not None:
            self._start_bytes = 0
            self._take_up(kept)

    def _take_up(self, kept: Kept) -> None:
        """Begin where an earlier process stopped."""
        self.content, self.of, self.checks = Content(), kept.of, Checks(kept.declared)
        self.held_bytes = self._best_bytes = self.sink.size_bytes
        self.fetch.content_type = kept.content_type
        self.fetch.content_encoding = kept.of.coding or None
        self._unread = True

    # ---- the questions

    def fetched(self, call: Call) -> tuple[Content, Reply]:
        """Ask until the page is whole; what its surface made of it, and the answer.

        Raises:
            ResultUnavailable, ResultCorrupt, SurfaceError: As named.
            DeadlineExceeded: The deadline struck.
        """
        hop, run, fetch = self.hop, self.run, self.fetch
        while True:
            call = fetch.still_good(call)
            asked = self._rest(call)
            sent = hop.send(_plain(call, asked), timeout=self.terms.timeout, follow_all=True, stream=True)
            hop.raise_cut(sent)
            hint = Hint() if sent.reply is None else read_hint(sent.reply.headers, received_at=utc(run.now_ns()))
            marks = [] if hint.readable else [semconv.MARK_HINT_UNREADABLE]
            outcome = self._judge(call, sent, asked)
            if isinstance(outcome, (Content, Rest, Complete)):
                lacking = self._take_in(call, sent, outcome)
                if lacking is None:
                    hop.attempt(sent, verdict="content", marks=marks)
                    assert sent.reply is not None
                    assert self.content is not None
                    return self.content, sent.reply
                outcome = lacking
            _hear_out(sent)
            match outcome:
                case Unusable() if asked is not None:
                    # Nothing failed: it is not to be had by range, so it is asked for whole, and at once.
                    hop.attempt(sent, error_type=outcome.reason, verdict="transient", marks=marks)
                    self._never_twice(sent, outcome.reason, came=True)
                case Transient() | Unusable():
                    self.errors += 1
                    hop.attempt(sent, error_type=outcome.reason, verdict="transient", marks=marks)
                    came = isinstance(outcome, Unusable) or (sent.error_type is not None and sent.left)
                    self._never_twice(sent, outcome.reason, came=came)
                    fetch.may_try_again(sent, outcome.reason, self.errors)
                    after = outcome.after if isinstance(outcome, Transient) else None
                    after = after if after is not None else hint.seconds
                    run.pause(backoff(run.provider.pacing, self.errors, after, run.room_s(), run.clock.random))
                case Pending():
                    hop.attempt(sent, state=outcome.state, marks=marks)
                    call = fetch.until_ready(call, outcome.after if outcome.after is not None else hint.seconds)
                case LinkExpired() | Gone():
                    hop.attempt(
                        sent,
                        error_type=outcome.reason if outcome.reason == str(sent.status_code) else _verdict(outcome),
                        verdict=_verdict(outcome),
                        marks=marks,
                    )
                    call = fetch.fresh_link(outcome, sent)
                case Nonsense():
                    hop.attempt(sent, error_type="surface")
                    raise run.error(
                        SurfaceError,
                        f"the download surface made no sense of HTTP {run.status_code}: {outcome.what}",
                        "Mend the surface.",
                        reply=sent.reply,
                    )

    def _rest(self, call: Call) -> dict[str, str] | None:
        """The headers that ask for what is missing; None to ask for the whole page."""
        if not self.plain or self.content is None or call.method.upper() != "GET" or _has_range(call):
            return None
        return ask_for_rest(self.of, self.held_bytes, checked=self._checked)

    @property
    def _checked(self) -> bool:
        """Whether a digest will tell if the bytes are not of one representation."""
        return bool(self.checks.declared) or (self.fetch.pages == 0 and self.fetch.sha256 is not None)

    def _judge(
        self, call: Call, sent: Sent, asked: dict[str, str] | None
    ) -> DownloadOutcome | Rest | Complete | Unusable:
        reply = sent.reply
        if reply is None:
            return Transient(sent.error_type or "no_answer")
        if asked is not None:
            rest = judge_rest(reply.status_code, reply.headers, self.of, self.held_bytes, checked=self._checked)
            if isinstance(rest, (Rest, Complete)):
                return rest
            if isinstance(rest, Unusable):
                self.take_back()
                return rest
        elif not _has_range(call) and (strange := stray(reply.status_code, reply.headers)) is not None:
            return Unusable(strange)
        try:
            verdict = judge_download(reply, self.fetch.result, self.terms.surface)
        except DeadlineCut as cut:
            self.hop.attempt(sent, error_type="deadline")
            raise self.hop.cut_error(cut.phase, cut.asked_s) from None
        except BROKEN as error:
            sent.cause = error if isinstance(error, Exception) else None
            sent.error_type = error_type_of(error)
            return Transient(sent.error_type)
        status = reply.status_code
        if status in self.terms.retry.on and not shown(status, self.terms.surface):
            return Transient(str(status))
        return verdict

    def _never_twice(self, sent: Sent, reason: str, *, came: bool) -> None:
        """A link that works once is used up when something of it came, or may have."""
        if self.fetch.result.single_use and came:
            raise self.fetch.unavailable(f"the transfer broke off ({reason}) and the link works once only", sent)

    # ---- the bytes

    def _take_in(self, call: Call, sent: Sent, outcome: Content | Rest | Complete) -> Transient | Unusable | None:
        """Write what the answer brings; why that is not all, if it is not."""
        try:
            broken = self._receive(call, sent, outcome)
        except DeadlineCut as cut:
            self.hop.attempt(sent, error_type="deadline")
            raise self.hop.cut_error(cut.phase, cut.asked_s) from None
        if isinstance(broken, BodyTooLarge):
            self.hop.attempt(sent, error_type="body_too_large")
            raise self.fetch.too_large(sent)
        if self.held_bytes > self._best_bytes:
            self._best_bytes = self.held_bytes
            self.fetch.bytes_came()
            if self._rest(call) is not None:
                self.errors = 0  # it moves on, however often it breaks off
        if broken is not None:
            sent.error_type, sent.cause = error_type_of(broken), broken
            if isinstance(broken, Overrun):
                sent.error_type = "range_mismatch"
                self.take_back()
                return Unusable("range_mismatch")
            if self._rest(call) is None:
                self.take_back()
            return Transient(sent.error_type)
        return self._short_or_wrong(sent)

    def _short_or_wrong(self, sent: Sent) -> Transient | Unusable | None:
        """An answer that ended well may have been a part, or not what was declared."""
        total = self.of.total_bytes
        if self.plain and total is not None and self.held_bytes < total:
            return Transient("range_short")
        wrong = self.checks.wrong()
        if wrong is None:
            return None
        if not self._resumed or self._spliced_badly or self.fetch.result.single_use:
            self.hop.attempt(sent, error_type="digest_mismatch")
            raise self.fetch.corrupt(f"its {wrong} is not the one that the server declares")
        self._spliced_badly = True
        self.take_back()
        return Unusable("digest_mismatch")

    def _receive(self, call: Call, sent: Sent, outcome: Content | Rest | Complete) -> Exception | None:
        reply, response, run = sent.reply, sent.response, self.run
        assert reply is not None
        assert response is not None
        message = Checks({})
        came = _Came()
        try:
            match outcome:
                case Complete():
                    self._read_what_is_there()
                    self._resumed = True
                    return None
                case Rest():
                    self._resumed = True
                    self._read_what_is_there()
                    self.fetch.resumed(outcome.of)
                    self.of = outcome.of
                    message = Checks(declared_of_message(reply.headers, outcome.size_bytes))
                    parts = _no_more(came.counted(on_the_wire(response), message), outcome.size_bytes)
                    parts = without_first_bytes(parts, outcome.skip_bytes)
                case Content():
                    self.take_back()
                    early = self._begin(reply, outcome)
                    if early is not None:
                        return early
                    if self._split and can_be_split(self, reply.headers.get("Accept-Ranges", "")):
                        unusable = Parts(self, call, sent).fetched()
                        if unusable is None:
                            return None
                        self._split = False
                        self.sink.rewind(self._start_bytes)  # bytes were written to the midst of it
                        return Overrun(unusable.reason)
                    parts = came.counted(self._body(reply, response, outcome, came), message)
            parts = self._held(parts)
            broken = self._write(parts if isinstance(outcome, Rest) else self._as_wanted(reply, parts, outcome))
            if broken is None and message.wrong() is not None:
                return Overrun("the digest of a part is wrong")
            return broken
        finally:
            response.close()
            sent.duration_s = run.clock.monotonic() - sent.started_s
            self.hop.transferred_bytes += came.size_bytes
            self.hop.transferred_s += sent.duration_s

    def _begin(self, reply: Reply, content: Content) -> Exception | None:
        """Note what comes; what is too large by its own account is not begun."""
        fetch, headers = self.fetch, reply.headers
        self.content, self.of = content, representation_of(headers)
        uncoded = can_undo(self.of.coding) and (self.terms.decode or reply.body_was_read)
        # What we never see as it is on the wire can neither be counted nor checked.
        unseen = content.items is not None or (uncoded and (reply.body_was_read or self.of.coding not in GZIP))
        if unseen:
            self.of = replace(self.of, total_bytes=None)
        self.plain = not (unseen or uncoded or (fetch.pages and content.header_lines))
        if not unseen:
            size_bytes = self.of.total_bytes
            of_message = declared_of_message(headers, size_bytes) if reply.status_code == 200 else {}
            self.checks = Checks(declared_of_whole(headers, size_bytes) | of_message)
        fetch.content_type = "application/x-ndjson" if content.items is not None else headers.get("Content-Type")
        fetch.content_encoding = None if uncoded else self.of.coding or None
        fetch.announced(self.of.total_bytes)
        if self.plain and fetch.is_too_large(self._start_bytes + (self.of.total_bytes or 0)):
            return BodyTooLarge()
        return None

    def _body(
        self, reply: Reply, response: requests.Response, content: Content, came: _Came
    ) -> Iterator[memoryview | bytes]:
        if content.items is not None:
            return iter([b"".join(_json.dumps(item).encode() + b"\n" for item in content.items)])
        if reply.body_was_read:
            return iter([reply.content])
        if self.terms.decode and self.of.coding not in GZIP and can_undo(self.of.coding):
            return uncoded(response)
        return on_the_wire(response, self._mover(came))

    def _mover(self, came: _Came) -> Move | None:
        """Moves bytes from the socket to the file, where nobody has to look at them on their way."""
        sink, remaining = self.sink, self.run.courier.remaining
        unseen = self.plain and not self.digest.wanted and not self.checks.declared
        if not (unseen and isinstance(sink, PartFile) and can_move()):
            return None

        def move(socket_descriptor: int, most_bytes: int) -> int:
            if remaining() <= 0.0:
                return 0  # whoever receives says so
            count = sink.move(socket_descriptor, most_bytes)
            self.held_bytes += count
            came.size_bytes += count
            return count

        return move

    def _as_wanted(
        self, reply: Reply, parts: Iterator[memoryview | bytes], content: Content
    ) -> Iterator[memoryview | bytes]:
        """What is to be written of what is on the wire."""
        if self.terms.decode and self.of.coding in GZIP and not reply.body_was_read and content.items is None:
            parts = unpacked(parts)
        lines = content.header_lines if self.fetch.pages else 0
        return without_first_lines(parts, lines) if lines else parts

    def _held(self, parts: Iterator[memoryview | bytes]) -> Iterator[memoryview | bytes]:
        """Count and check bytes of the page as they come."""
        update = self.checks.update if self.checks.declared else None
        for part in parts:
            if update is not None:
                update(part)
            self.held_bytes += len(part)
            yield part

    def _write(self, parts: Iterator[memoryview | bytes]) -> Exception | None:
        sink, fetch = self.sink, self.fetch
        takers = [sink.write] + ([self.digest.update] if self.digest.wanted else [])
        noting = self.plain and fetch.pages == 0 and self.content is not None and self.content.next is None
        while True:
            try:
                part = next(parts)
            except StopIteration:
                return None
            except BROKEN as error:
                return error
            except NotWritten as failed:
                raise failed.error from None
            if part:
                for take in takers:
                    take(part)
            if fetch.is_too_large(sink.size_bytes):
                return BodyTooLarge()
            fetch.expect_no_more(sink.size_bytes)
            if noting:
                noting = False
                self._note_for_later()
            fetch.tell(self.held_bytes)

    def _note_for_later(self) -> None:
        """Say beside the part what it is of, where somebody could go on with it."""
        identity = self.fetch.identity
        asked = ask_for_rest(self.of, self.held_bytes, checked=self._checked)
        if identity is not None and asked is not None and self.held_bytes != self.of.total_bytes:
            self.sink.keep(Kept(identity, self.of, self.checks.declared, self.fetch.content_type))

    def _read_what_is_there(self) -> None:
        """Digests are over bytes that an earlier process wrote, too."""
        if not self._unread:
            return
        self._unread = False
        if self.digest.wanted or self.checks.declared:
            for data in self.sink.read():
                self.run.check_deadline()
                self.digest.update(data)
                self.checks.update(data)

    def whole_at_once(self, size_bytes: int) -> None:
        """Take it that the sink has every byte, written by others in no order."""
        self.held_bytes = self.sink.size_bytes = size_bytes
        self._unread = True
        self._read_what_is_there()

    def take_back(self) -> None:
        """Forget what came of this page.

        Raises:
            ResultCorrupt: The sink cannot.
        """
        if self.held_bytes or self.sink.size_bytes != self._start_bytes:
            try:
                self.sink.rewind(self._start_bytes)
            except OSError as error:
                raise self.fetch.cannot_take_back(error) from None
            self.digest.back(self._start_digest)
        self.held_bytes, self._unread, self._resumed = 0, False, False
        self.content, self.of, self.checks, self.plain = None, Representation(), Checks({}), True


class _Came:
    """What one answer brought."""

    size_bytes = 0

    def counted(self, parts: Iterator[memoryview | bytes], message: Checks) -> Iterator[memoryview | bytes]:
        """The same bytes, counted, and held against the digests of the message."""
        for part in parts:
            self.size_bytes += len(part)
            if message.declared:
                message.update(part)
            yield part


def _no_more(parts: Iterator[memoryview | bytes], most_bytes: int) -> Iterator[memoryview | bytes]:
    """The same bytes, none beyond what was said to come."""
    for part in parts:
        most_bytes -= len(part)
        if most_bytes < 0:
            raise Overrun("a part is longer than its range")
        yield part


def _plain(call: Call, rest: dict[str, str] | None) -> Call:
    """Ask for the bytes as they are: lengths add up, and nothing is packed to be unpacked here."""
    headers: dict[str, Any] = dict(call.headers or {})
    if rest is not None or not any(name.lower() == "accept-encoding" for name in headers):
        headers = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
        headers["Accept-Encoding"] = "identity"
    return replace(call, headers={**headers, **(rest or {})})


def _has_range(call: Call) -> bool:
    return any(name.lower() == "range" for name in call.headers or {})


def _verdict(outcome: LinkExpired | Gone) -> str:
    return "gone" if isinstance(outcome, Gone) else "link_expired"


def _hear_out(sent: Sent) -> None:
    """Read what a refusal says while its body is within reach, and let the connection go."""
    if sent.response is None:
        return
    if sent.reply is not None and sent.reply.status_code >= 400:
        with contextlib.suppress(DeadlineCut, *BROKEN):
            sent.reply.content  # noqa: B018 - read, and kept by the reply
    sent.response.close()
