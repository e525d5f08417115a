"""The download hop: fetch a result whole, page by page, and nothing but whole."""

from __future__ import annotations

import contextlib
import json as _json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests

from trihop import _semconv as semconv
from trihop._clock import utc
from trihop._download import Digest, Download, PartFile, Sink, Target, chunks, cut, sink_for, without_first_lines
from trihop._errors import JobExpired, OperationError, ResultCorrupt, ResultUnavailable, SurfaceError
from trihop._exchange import DeadlineCut
from trihop._hops import DownloadOutcome, Nonsense, judge_download, said, shown, try_later
from trihop._network import BROKEN, BodyTooLarge, error_type_of
from trihop._pacing import Hint, Pause, RetryPolicy, backoff, next_pause, read_hint
from trihop._poll import Poller, settle
from trihop._prepare import harmless
from trihop._redact import is_signed
from trihop._run import Hop
from trihop._session import Sent, Timeout
from trihop._surface import DownloadSurface
from trihop._template import join
from trihop._values import Call, Ready, Reply, Result, as_call
from trihop._verdicts import Content, Ending, Gone, LinkExpired, Pending, Transient

_NOTHING = Download("result", None, 0, _memory=b"")
_PROGRESS_EVERY_S = 0.5
_EXTENSIONS = (
    ("ndjson", ".ndjson"),
    ("jsonl", ".jsonl"),
    ("json", ".json"),
    ("csv", ".csv"),
    ("parquet", ".parquet"),
    ("xml", ".xml"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a result is to be fetched.

    Args:
        surface: The judge of the replies.
        retry: How often one request is sent again.
        sha256: The digest in hex that it must have.
        max_size: Bytes it may have at the most.
        decode: Whether to undo the content encoding.
        timeout: Of one request, as in `requests`.
    """

    surface: DownloadSurface
    retry: RetryPolicy
    sha256: str | None = None
    max_size: int | None = None
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
        self.expected_size: int | None = result.size_bytes
        self.content_type: str | None = None
        self.pages = 0
        self.refreshed = False
        self.received_bytes = 0
        given_here = self.run.ready is not None and result in self.run.ready.results
        self.given_s = self.run.ready_s if given_here else None
        self._told_s = self.run.clock.monotonic()
        self._pauses = 0

    def to(self, to: Target, *, beside: set[str] | None = None) -> Download:
        """Fetch it to its place; `beside` other files of a folder, under a name that none of them has.

        Raises:
            ResultUnavailable, ResultCorrupt, SurfaceError: As named.
            DeadlineExceeded: The deadline struck.
            OSError: The place cannot be written to.
        """
        sink = sink_for(to)
        digest = Digest(self.terms.sha256 is not None or self.result.sha256 is not None)
        try:
            self._fill(sink, digest)
            self._verify(sink, digest)
            if beside is not None and isinstance(sink, PartFile):
                sink.target = _free(sink.target, _extension(self.content_type), beside)
            path, memory = sink.commit()
        except BaseException:
            sink.abort()
            raise
        finally:
            self._note(sink)
        self.run.measure(semconv.DOWNLOAD_SIZE, sink.size_bytes)
        self._tell(sink, last=True)
        return Download(
            self.name, path, sink.size_bytes, digest.hexdigest(), self.content_type, max(1, self.pages), _memory=memory
        )

    def _fill(self, sink: Sink, digest: Digest) -> None:
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
            if self.terms.max_size is not None and sink.size_bytes > self.terms.max_size:
                raise self._unavailable(_too_large(self.terms.max_size))
            return
        call: Call | None = as_call(self.result.at)
        while call is not None:
            content, reply = self._page(call, sink, digest)
            self.pages += 1
            following = None if content.next is None else as_call(content.next)
            if following is not None:
                self.expected_size = self.result.size_bytes  # the first page's length is not that of the whole
                # A page belongs to the reply that named it, and so do its credentials.
                following = replace(following, url=self._asked_for(join(reply.url, following.url)))
                if not isinstance(content.next, Call):
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
            call = following

    def _asked_for(self, url: str) -> str:
        """The URL, if it may be asked."""
        objection = self.run.courier.trusted.objection(url)
        if objection is not None:
            raise self._unavailable(f"it is nowhere to be asked for: {objection}")
        return url

    # ---- one page

    def _page(self, call: Call, sink: Sink, digest: Digest) -> tuple[Content, Reply]:
        hop, run, terms = self.hop, self.run, self.terms
        start_bytes, start_digest, errors = sink.size_bytes, digest.saved(), 0
        while True:
            self._asked_for(call.url)
            self._note_age(call)
            sent = hop.send(_plain(call), timeout=terms.timeout, follow_all=True, stream=True)
            hop.raise_cut(sent)
            hint = Hint() if sent.reply is None else read_hint(sent.reply.headers, received_at=utc(run.now_ns()))
            marks = [] if hint.readable else [semconv.MARK_HINT_UNREADABLE]
            outcome = self._judge(sent)
            if isinstance(outcome, Content):
                try:
                    broken = self._receive(sent, outcome, sink, digest)
                except DeadlineCut as cut:
                    hop.attempt(sent, error_type="deadline")
                    raise hop.cut_error(cut.phase, cut.asked_s) from None
                if isinstance(broken, BodyTooLarge):
                    hop.attempt(sent, error_type="body_too_large")
                    raise self._unavailable(_too_large(terms.max_size), sent)
                if broken is None:
                    hop.attempt(sent, verdict="content", marks=marks)
                    assert sent.reply is not None
                    return outcome, sent.reply
                sent.error_type, sent.cause = error_type_of(broken), broken
                self._take_back(sink, start_bytes)
                digest.back(start_digest)
                outcome = Transient(sent.error_type)
            _hear_out(sent)
            match outcome:
                case Transient():
                    errors += 1
                    hop.attempt(sent, error_type=outcome.reason, verdict="transient", marks=marks)
                    if self.result.single_use and sent.error_type is not None and sent.left:
                        why = f"the transfer broke off ({outcome.reason}) and the link works once only"
                        raise self._unavailable(why, sent)
                    self._may_try_again(sent, outcome, errors)
                    after = outcome.after if outcome.after is not None else hint.seconds
                    run.pause(backoff(run.provider.pacing, errors, after, run.room_s(), run.clock.random))
                case Pending():
                    hop.attempt(sent, state=outcome.state, marks=marks)
                    self._until_ready(outcome.after if outcome.after is not None else hint.seconds)
                    if self.pages == 0:
                        call = as_call(self.result.at or call)
                case LinkExpired() | Gone():
                    hop.attempt(
                        sent,
                        error_type=outcome.reason if outcome.reason == str(sent.status_code) else _verdict(outcome),
                        verdict=_verdict(outcome),
                        marks=marks,
                    )
                    call = self._fresh_link(call, outcome, sent)
                case Nonsense():
                    hop.attempt(sent, error_type="surface")
                    raise run.error(
                        SurfaceError,
                        f"the download surface made no sense of HTTP {run.status_code}: {outcome.what}",
                        "Mend the surface.",
                        reply=sent.reply,
                    )

    def _judge(self, sent: Sent) -> DownloadOutcome:
        if sent.reply is None:
            return Transient(sent.error_type or "no_answer")
        try:
            return judge_download(sent.reply, self.result, self.terms.surface)
        except DeadlineCut as cut:
            self.hop.attempt(sent, error_type="deadline")
            raise self.hop.cut_error(cut.phase, cut.asked_s) from None
        except BROKEN as error:
            sent.cause = error if isinstance(error, Exception) else None
            sent.error_type = error_type_of(error)
            return Transient(sent.error_type)

    def _receive(self, sent: Sent, content: Content, sink: Sink, digest: Digest) -> Exception | None:
        """Write the body; what broke it off, if anything did."""
        reply, response, run = sent.reply, sent.response, self.run
        assert reply is not None
        assert response is not None
        self.content_type = "application/x-ndjson" if content.items is not None else reply.headers.get("Content-Type")
        parts = self._parts(reply, response, content)
        before_bytes, most_bytes = sink.size_bytes, self.terms.max_size
        try:
            while True:
                try:
                    part = next(parts)
                except StopIteration:
                    return None
                except BROKEN as error:
                    return error
                sink.write(part)
                digest.update(part)
                if most_bytes is not None and sink.size_bytes > most_bytes:
                    return BodyTooLarge()
                self._tell(sink)
        finally:
            response.close()
            sent.duration_s = run.clock.monotonic() - sent.started_s
            self.received_bytes = max(self.received_bytes, sink.size_bytes)
            self.hop.transferred_bytes += sink.size_bytes - before_bytes
            self.hop.transferred_s += sent.duration_s

    def _parts(self, reply: Reply, response: requests.Response, content: Content) -> Iterator[bytes]:
        if content.items is not None:
            return iter([b"".join(_json.dumps(item).encode() + b"\n" for item in content.items)])
        if reply.body_was_read:
            parts: Iterator[bytes] = iter([reply.content])
        else:
            self._announced(response)
            parts = chunks(response, decode=self.terms.decode)
        return without_first_lines(parts, content.header_lines) if self.pages and content.header_lines else parts

    def _announced(self, response: requests.Response) -> None:
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and "Content-Encoding" not in response.headers and self.pages == 0:
            self.expected_size = self.result.size_bytes or int(length)

    def _take_back(self, sink: Sink, size_bytes: int) -> None:
        try:
            sink.rewind(size_bytes)
        except OSError as error:
            raise self.run.error(
                ResultCorrupt, f"the transfer broke off: {error}", "Pass a path, or a file object that can seek."
            ) from None

    # ---- when it is not there

    def _may_try_again(self, sent: Sent, outcome: Transient, errors: int) -> None:
        retry = self.terms.retry
        status = None if sent.reply is None or outcome.reason != str(sent.reply.status_code) else sent.reply.status_code
        if errors < retry.attempts and (status is None or status in retry.on or not try_later(status)):
            return
        times = f"{errors} times, last " if errors > 1 else ""
        if outcome.reason == "body_truncated":
            raise self.run.error(
                ResultCorrupt,
                f"the transfer broke off {times}({outcome.reason}); the length did not add up",
                "Nothing was left at the target. Download again from error.job, or raise RetryPolicy(attempts=).",
                cause=sent.cause,
            )
        raise self._unavailable(f"fetching it failed {times}with {outcome.reason}", sent)

    def _until_ready(self, hint_s: float | None) -> None:
        """The result is not there yet: poll again, as attempts on this hop."""
        run, poller = self.run, self.poller
        pacing = poller.pacing if poller is not None else run.provider.pacing
        pause = next_pause(pacing, self._pauses, hint_s, run.room_s(), run.clock.random)
        self._pauses += 1
        if poller is None:
            run.pause(pause)
            return
        poller.wait(pause)
        self._poll_again(poller)

    def _poll_again(self, poller: Poller) -> Ready:
        while True:
            step = poller.ask(self.hop)
            if isinstance(step, Pause):
                poller.wait(step)
                continue
            assert isinstance(step, Ending)
            sent = self.hop.last_sent
            assert sent is not None
            assert sent.reply is not None
            ready = settle(self.run, step, sent.reply, allow_partial=True)
            fresh = [result for result in ready.results if result.name == self.result.name]
            if len(fresh) > self.among and fresh[self.among].at is not None:
                self.result = fresh[self.among]
            return ready

    def _fresh_link(self, call: Call, outcome: LinkExpired | Gone, sent: Sent) -> Call:
        """By one poll, once; a link that comes back unchanged is not asked again."""
        run, before = self.run, self.result
        for_good = isinstance(outcome, Gone) and shown(sent.status_code or 0, self.terms.surface)
        if for_good or self.poller is None or self.refreshed or self.pages:
            raise self._unavailable(f"the server says {outcome.reason}", sent)
        self.refreshed = True
        try:
            self._poll_again(self.poller)
        except JobExpired as lost:  # it ended well, and is known no more
            raise self._unavailable(f"the server says {outcome.reason}, and {lost.what}", sent) from None
        if self.result.at == before.at or self.result.at is None:
            self.hop.fold.mark(semconv.MARK_SAME_LINK)
            raise self._unavailable(f"the server says {outcome.reason}, and a fresh poll gave the same link", sent)
        self.given_s = run.ready_s
        return as_call(self.result.at)

    def _unavailable(self, why: str, sent: Sent | None = None) -> OperationError:
        run = self.run
        error = None if sent is None or sent.reply is None or sent.error_type is not None else _said_quietly(sent)
        run.error_said(error)
        return run.error(
            ResultUnavailable,
            f"the result {self.name!r} cannot be fetched: {why}{run.quoted(error)}",
            "The job is over: poll error.job for a fresh link, or see how long the server keeps results.",
            cause=None if sent is None else sent.cause,
        )

    # ---- the end

    def _verify(self, sink: Sink, digest: Digest) -> None:
        found, wanted = digest.hexdigest(), self.terms.sha256 or self.result.sha256
        if wanted is not None and found != wanted.lower():
            raise self._corrupt(f"its sha256 is {found}, expected {wanted.lower()}")
        self.hop.attributes[semconv.DOWNLOAD_SHA256] = found
        size = self.result.size_bytes
        if size is not None and size != sink.size_bytes:
            raise self._corrupt(f"it has {sink.size_bytes} bytes, expected {size}")

    def _corrupt(self, why: str) -> ResultCorrupt:
        return self.run.error(
            ResultCorrupt,
            f"the result {self.name!r} is not what was announced: {why}",
            "Nothing was left at the target; download it again.",
        )

    def _note_age(self, call: Call) -> None:
        """How old a signed link is that a poll of ours handed out."""
        if self.given_s is not None and self.pages == 0 and is_signed(call.url):
            self.hop.attributes[semconv.DOWNLOAD_LINK_AGE] = self.run.clock.monotonic() - self.given_s

    def _note(self, sink: Sink) -> None:
        hop, noted = self.hop, self.hop.attributes
        came_bytes = max(self.received_bytes, sink.size_bytes)  # what broke off has been taken back
        noted[semconv.DOWNLOAD_SIZE] = noted.get(semconv.DOWNLOAD_SIZE, 0) + came_bytes
        noted[semconv.DOWNLOAD_PAGES] = noted.get(semconv.DOWNLOAD_PAGES, 0) + self.pages
        noted[semconv.DOWNLOAD_RESUMES] = 0
        if self.expected_size is not None:
            noted[semconv.DOWNLOAD_EXPECTED_SIZE] = noted.get(semconv.DOWNLOAD_EXPECTED_SIZE, 0) + self.expected_size
        if hop.transferred_s > 0:
            noted[semconv.DOWNLOAD_RATE] = hop.transferred_bytes / hop.transferred_s
        if self.refreshed:
            noted[semconv.DOWNLOAD_LINK_REFRESHES] = noted.get(semconv.DOWNLOAD_LINK_REFRESHES, 0) + 1

    def _tell(self, sink: Sink, *, last: bool = False) -> None:
        run = self.run
        if run.on_event is None:
            return
        now_s = run.clock.monotonic()
        if last or now_s - self._told_s >= _PROGRESS_EVERY_S:
            self._told_s = now_s
            run.tell("downloading", bytes_done=sink.size_bytes, bytes_total=self.expected_size)


def fetch_into(
    hop: Hop, poller: Poller | None, results: list[tuple[str, Result]], into: Path, terms: Terms
) -> dict[str, Download]:
    """Fetch several results into a folder, each under its name.

    Raises:
        As `Fetch.to`; files that were fetched before stay.
    """
    into.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    seen: Counter[str] = Counter()
    found: dict[str, Download] = {}
    for name, result in results:
        fetch = Fetch(hop, poller, name, result, terms, among=seen[result.name])
        seen[result.name] += 1
        found[name] = fetch.to(into / _file_name(name), beside=taken)
    return found


def nothing() -> Download:
    """What a job that left no result comes to in memory."""
    return _NOTHING


def _plain(call: Call) -> Call:
    """Ask for the bytes as they are: lengths add up, and nothing is packed to be unpacked here."""
    headers: dict[str, Any] = dict(call.headers or {})
    if not any(name.lower() == "accept-encoding" for name in headers):
        headers["Accept-Encoding"] = "identity"
    return replace(call, headers=headers)


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


def _said_quietly(sent: Sent) -> Any:
    assert sent.reply is not None
    try:
        return said(sent.reply) if sent.reply.body_was_read else None
    except BROKEN:
        return None


def _extension(content_type: str | None) -> str:
    kind = (content_type or "").partition(";")[0].lower()
    return next((extension for sign, extension in _EXTENSIONS if sign in kind), "")


def _file_name(name: str) -> str:
    """A result's name as the name of a file: no separators, not hidden, never empty."""
    return cut(re.sub(r"[^\w.+=@ -]", "_", name).lstrip(".").strip()) or "result"


def _free(target: Path, extension: str, taken: set[str]) -> Path:
    """The target with an extension, and a number where its name is taken, also on disks that fold case."""
    stem, suffix = (target.stem, target.suffix) if target.suffix else (target.name, extension)
    name, number = stem + suffix, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}-{number}{suffix}"
    taken.add(name.casefold())
    return target.with_name(name)


def _too_large(max_size: int | None) -> str:
    return f"it is larger than max_size={max_size} bytes"
