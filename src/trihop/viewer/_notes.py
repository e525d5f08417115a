"""What to say beside a span, as short texts for a picture, a page or a report.

Nothing is looked up but attributes, links and events: what cannot be read off the trace is not said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from trihop._telemetry import semconv
from trihop.viewer._attempts import total_attempts
from trihop.viewer._model import Link, Span, Trace
from trihop.viewer._words import counted, seconds, shortened, size

_LONGEST_URL = 120
_LONGEST_DESCRIPTION = 512  # ours have 256 at most; others put a stack trace there


class Note(NamedTuple):
    """One thing to say of a span, and of what sort it is."""

    sort: Literal["request", "state", "wait", "result", "link", "error"]
    text: str


def notes(span: Span, trace: Trace) -> tuple[Note, ...]:
    """What a span tells, the most telling first."""
    if span.attributes.text(semconv.OPERATION_NAME) is None:
        return (*_error(span), *_request(span))
    return (
        *(() if span.is_root and _told_below(span, trace) else _error(span)),
        *(_operation(span) if span.is_root else ()),
        *_request(span),
        *(_poll(span) if span.hop == "poll" else ()),
        *_download(span),
        *_segment(span),
        *_links(span, trace),
    )


def headline(told: Span) -> str | None:
    """What a failed span failed with: `DeadlineExceeded: no terminal state by …`; None where it did not fail."""
    kind = told.attributes.text(semconv.ERROR_TYPE)
    if kind is None and told.status != "error":
        return None
    description = shortened(told.description, _LONGEST_DESCRIPTION)
    return ": ".join(part for part in (kind, description) if part) or "failed, without saying how"


def _told_below(root: Span, trace: Trace) -> bool:
    """Whether a hop of the operation tells the same error: it is said once, where it happened."""
    hops = (span for span in trace.spans if span.hop is not None and span.operation_id == root.operation_id)
    return any(headline(hop) == headline(root) for hop in hops)


def _error(span: Span) -> Iterator[Note]:
    if (what := headline(span)) is not None:
        yield Note("error", what)


def _operation(span: Span) -> Iterator[Note]:
    told = span.attributes
    if (result := told.text(semconv.OPERATION_RESULT)) is not None:
        ended_in = told.text(semconv.OPERATION_ENDED_IN)
        sort: Literal["result", "state"] = "result" if result == "success" else "state"
        yield Note(sort, _join(result if ended_in is None else f"{result} in {ended_in}", _items(span)))
    job, state, jobs = told.text(semconv.JOB_ID), told.text(semconv.JOB_STATE), told.count(semconv.OPERATION_JOBS)
    yield from _note(
        "state",
        f"job {job}" if job else None,
        f"state {state}" if state else None,
        counted(jobs, "job") if jobs else None,
    )
    if (said := server_said(span)) is not None:
        yield Note("error", f"the server: {said}")
    yield from _note("wait", *_deadline(span))


def _items(span: Span) -> str | None:
    failed, total = span.attributes.count(semconv.JOB_ITEMS_FAILED), span.attributes.count(semconv.JOB_ITEMS_TOTAL)
    if failed is None and total is None:
        return None
    if not failed:
        return counted(total or 0, "item")
    return (
        f"{failed:,} of {counted(total, 'item')} failed" if total is not None else f"{counted(failed, 'item')} failed"
    )


def _deadline(span: Span) -> Iterator[str]:
    told = span.attributes
    given, left, at = (
        told.number(semconv.DEADLINE_DURATION),
        told.number(semconv.DEADLINE_REMAINING),
        told.text(semconv.DEADLINE_AT),
    )
    if given is not None:
        yield f"deadline {seconds(given)}"
    elif at is not None:
        yield f"deadline {at}"
    if left is not None and (given is not None or at is not None):
        yield f"{seconds(max(left, 0.0))} left"
    if (phase := told.text(semconv.DEADLINE_PHASE)) is not None:
        yield f"phase {phase}"
    if told.get(semconv.OPERATION_RESUMED) is True:
        yield "resumed"
    if (segments := told.count(semconv.OPERATION_SEGMENTS)) is not None and segments > 1:
        yield counted(segments, "segment")


def _request(span: Span) -> Iterator[Note]:
    told = span.attributes
    method, address, status = (
        told.text(semconv.HTTP_REQUEST_METHOD),
        told.text(semconv.URL_FULL),
        told.count(semconv.HTTP_RESPONSE_STATUS_CODE),
    )
    if method is None and status is None:
        return
    resent = told.count(semconv.HTTP_REQUEST_RESEND_COUNT)
    what = " ".join(part for part in (method, _short_url(address)) if part)
    yield Note(
        "request",
        _join(f"{what} -> {status}" if status is not None else what, f"sent again {resent}x" if resent else None),
    )


def _short_url(address: str | None) -> str | None:
    """Host and path: the query of a long link would fill the screen and tell little."""
    if address is None:
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return shortened(address, _LONGEST_URL)
    return shortened(f"{parts.netloc}{parts.path}{'?…' if parts.query else ''}", _LONGEST_URL)


def _poll(span: Span) -> Iterator[Note]:
    told = span.attributes
    polls, errors = total_attempts(span), told.count(semconv.POLL_ERRORS) or 0
    statuses = ", ".join(text.replace("=", " x") for text in told.texts(semconv.POLL_STATUSES))
    yield from _note(
        "state",
        told.text(semconv.JOB_STATE),
        counted(polls, "poll") if polls else None,
        counted(errors, "error") if errors else None,
        statuses or None,
    )
    waited, longest = told.number(semconv.POLL_WAIT_TIME), told.number(semconv.POLL_WAIT_TIME_MAX)
    asked, slowest = told.number(semconv.POLL_REQUEST_TIME), told.number(semconv.POLL_REQUEST_TIME_MAX)
    yield from _note(
        "wait",
        f"waited {seconds(waited)} of {seconds(span.duration_s)}" if waited is not None else None,
        f"longest {seconds(longest)}" if longest else None,
        f"requests {seconds(asked)}" if asked is not None else None,
        f"slowest {seconds(slowest)}" if slowest else None,
    )
    if (refused := told.number(semconv.WAIT_REFUSED)) is not None:
        yield Note("wait", f"refused a pause of {seconds(refused)}: it ends after the deadline")
    if (overrun := told.number(semconv.POLL_WAIT_OVERRUN_MAX)) is not None:
        yield Note("wait", f"one pause took {seconds(overrun)} longer than planned: the machine was suspended or busy")
    if unknown := told.texts(semconv.POLL_UNKNOWN_STATES):
        yield Note("error", f"states the provider does not list: {', '.join(unknown)}")
    if span.dropped_events:
        yield Note("error", f"the SDK dropped {counted(span.dropped_events, 'event')} of this span")


def _download(span: Span) -> Iterator[Note]:
    told = span.attributes
    received, expected, rate = (
        told.count(semconv.DOWNLOAD_SIZE),
        told.count(semconv.DOWNLOAD_EXPECTED_SIZE),
        told.number(semconv.DOWNLOAD_RATE),
    )
    resumes, pages, digest = (
        told.count(semconv.DOWNLOAD_RESUMES),
        told.count(semconv.DOWNLOAD_PAGES),
        told.text("trihop.download.sha256"),
    )
    amount = None
    if received is not None:
        whole = f" of {size(expected)}" if expected is not None and expected != received else ""
        amount = f"{size(received)}{whole}" + (f" at {size(rate)}/s" if rate is not None else "")
    yield from _note(
        "result",
        amount,
        counted(pages, "page") if pages is not None and pages > 1 else None,
        counted(resumes, "resume") if resumes else None,
        f"sha256 {digest[:12]}… verified" if digest else None,
    )
    age, refreshes = told.number(semconv.DOWNLOAD_LINK_AGE), told.count(semconv.DOWNLOAD_LINK_REFRESHES)
    yield from _note(
        "wait",
        f"link {seconds(age)} old" if age is not None else None,
        f"link asked for anew {refreshes}x" if refreshes else None,
    )


def _segment(span: Span) -> Iterator[Note]:
    number, gap, reason = (
        span.attributes.count(semconv.SEGMENT_NUMBER),
        span.attributes.number(semconv.SEGMENT_GAP),
        span.attributes.text(semconv.SEGMENT_REASON),
    )
    yield from _note(
        "state",
        f"segment {number}" if number is not None else None,
        f"nobody was there for {seconds(gap)}" if gap else None,
        reason,
    )


def _links(span: Span, trace: Trace) -> Iterator[Note]:
    for link in span.links:
        yield Note("link", f"follows {_target(link, trace)}")


def _target(link: Link, trace: Trace) -> str:
    if link.trace_id != trace.id:
        return f"span {link.span_id} of trace {link.trace_id}"
    target = trace.by_id.get(link.span_id)
    return f"span {link.span_id}, which is not in the file" if target is None else target.name


def _join(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)


def _note(sort: Literal["state", "wait", "result"], *parts: str | None) -> Iterator[Note]:
    if text := _join(*parts):
        yield Note(sort, text)


def server_said(root: Span) -> str | None:
    """The server's own code and words for what failed."""
    code, message = root.attributes.text(semconv.JOB_ERROR_CODE), root.attributes.text(semconv.JOB_ERROR_MESSAGE)
    if code is not None and message is not None and message.startswith(code):
        return message
    return ": ".join(part for part in (code, message) if part) or None
