"""What became of an operation, in two plain lines: cause, hop and wait; then what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from trihop._telemetry import semconv
from trihop.viewer._attempts import attempts, total_attempts
from trihop.viewer._model import Operation, Span
from trihop.viewer._notes import server_said
from trihop.viewer._words import counted, seconds, size

_CONTEXT = re.compile(
    r"\s*\[[^\[\]]*\btrace[= ].*", re.DOTALL
)  # an error's message names its operation, then gives advice
_STILL_RUNS = "The job may still finish: wait on with a new deadline, or cancel it."

_NEXT = {
    "DeadlineExceeded": _STILL_RUNS,
    "PollBudgetExhausted": "The job may still finish: allow more polls, or wait on.",
    "PollErrorsExhausted": "The job may well be running: ask again once the status endpoint answers.",
    "StatusUnavailable": "The job may still be running: mend the access to its status, then wait on.",
    "JobFailed": "Waiting does not help: mend what the server names, then submit anew.",
    "JobPartiallyFailed": "Fetch what is there with allow_partial=True, then repeat the items that failed.",
    "JobCancelled": "Somebody cancelled the job: submit anew if it is still wanted.",
    "JobExpired": "The server has dropped the job: submit anew.",
    "SubmitRejected": "There is no job: mend the request, then submit anew.",
    "SubmitUncertain": "There may be a job: look for it at the server before submitting again.",
    "OutcomeAmbiguous": "Look at the job at the server and decide by hand: submitting again may do it twice.",
    "OperationTaken": "Another holder carries on with it: nothing to do here.",
    "ResultUnavailable": "The job is done: fetch its result with a fresh link, or submit anew if it is gone.",
    "ResultCorrupt": "The job is done: download again, and if it stays so, report it to the provider.",
    "SurfaceError": "The reply is not what the provider's surface expects: compare the two.",
}
_BY_RESULT = {
    "success": "",
    "partial": "Repeat the items that failed.",
    "cancellation": "The job may still run at the server: cancel it there if it is not wanted.",
}
_BY_STATUS = {
    401: "The server no longer accepts the credentials: sign in anew, then wait on.",
    403: "These credentials may not read the job's status: mend the rights, then wait on.",
}


class Story(NamedTuple):
    """An operation's story, each part some sentences. `wait` may be empty, and so may `then` where all went well."""

    cause: str
    wait: str
    then: str

    @property
    def lines(self) -> tuple[str, ...]:
        """What happened, and what next."""
        happened = f"{self.cause} {self.wait}".strip()
        return (happened, f"Next: {self.then}") if self.then else (happened,)


def story(operation: Operation) -> Story:
    """What the trace alone explains of an operation."""
    root = operation.root
    if root is None:
        return _without_root(operation)
    told = root.attributes
    result, ended_in, kind = (
        told.text(semconv.OPERATION_RESULT) or ("error" if root.status == "error" else "success"),
        told.text(semconv.OPERATION_ENDED_IN),
        told.text(semconv.ERROR_TYPE),
    )
    took = seconds(root.duration_s)
    if result == "success":
        cause = f"{operation.name} succeeded in {took}{_done(operation)}."
    else:
        where = f" in {ended_in}" if ended_in is not None else ""
        what = _cause(root)
        why = f": {what}" if what else ""
        cause = _sentence(f"{operation.name} ended{where} after {took} with {kind or result}{why}")
    return Story(cause, " ".join(_waits(operation, root)), _next(operation, root, result, kind))


def _without_root(operation: Operation) -> Story:
    last = max(operation.spans, key=lambda span: span.end_ns)
    state = next((s for span in reversed(operation.spans) if (s := span.attributes.text(semconv.JOB_STATE))), None)
    seen = f"last seen in {last.name}" + (f", state {state}" if state is not None else "")
    return Story(
        f"The root span of {operation.name} is not in the file ({seen}).",
        "The operation is still open, its process was killed, or the file was cut.",
        "If it has a key and a store, resume it; it then ends in this same trace.",
    )


def _done(operation: Operation) -> str:
    """What a success consisted of."""
    parts: list[str] = []
    if (poll := operation.hop("poll")) is not None:
        errors = poll.attributes.count(semconv.POLL_ERRORS) or 0
        failed = "one of them failed and was" if errors == 1 else f"{errors:,} of them failed and were"
        cured = f" ({failed} made good)" if errors else ""
        parts.append(f"{counted(total_attempts(poll), 'poll')}{cured}")
    downloads = [span.attributes.number(semconv.DOWNLOAD_SIZE) for span in operation.spans if span.hop == "download"]
    if any(amount is not None for amount in downloads):
        parts.append(f"{size(sum(amount or 0.0 for amount in downloads))} downloaded")
    return f": {', '.join(parts)}" if parts else ""


def _cause(root: Span) -> str:
    told = root.attributes
    what = _CONTEXT.sub("", root.description).rstrip(". ")
    if (said := server_said(root)) is not None:
        return f"the server said {said}"
    state = told.text(semconv.JOB_STATE)
    return what or (f"state {state}" if state is not None else "")


def _waits(operation: Operation, root: Span) -> Iterator[str]:
    poll, download = operation.hop("poll"), operation.hop("download")
    for span in operation.spans:
        if gap := span.attributes.number(semconv.SEGMENT_GAP):
            reason = span.attributes.text(semconv.SEGMENT_REASON)
            why = f" ({reason.replace('_', ' ')})" if reason is not None else ""
            yield f"Nobody was there for {seconds(gap)}{why}."
    if poll is not None:
        yield from _poll_waits(poll, root)
    items, failed = root.attributes.count(semconv.JOB_ITEMS_TOTAL), root.attributes.count(semconv.JOB_ITEMS_FAILED)
    if failed:
        yield f"{failed:,}{f' of {items:,}' if items is not None else ''} items failed."
    if download is not None and download is operation.hop(root.attributes.text(semconv.OPERATION_ENDED_IN) or ""):
        yield from _download_waits(download)


def _poll_waits(poll: Span, root: Span) -> Iterator[str]:
    told = poll.attributes
    if (waited := told.number(semconv.POLL_WAIT_TIME)) is not None:
        asked = f" ({_asked(poll, root)})" if root.status == "error" else ""
        yield f"It waited {seconds(waited)} of the {seconds(poll.duration_s)} of polling{asked}."
    refused = told.number(semconv.WAIT_REFUSED)
    if refused is not None and "asked for" not in root.description:
        left = root.attributes.number(semconv.DEADLINE_REMAINING)
        yield f"The server asked for a pause of {seconds(refused)}" + (
            f"; {seconds(max(left, 0.0))} were left." if left is not None else ", which the deadline does not allow."
        )
    if (overrun := told.number(semconv.POLL_WAIT_OVERRUN_MAX)) is not None:
        yield f"One pause took {seconds(overrun)} longer than planned: the machine was suspended."
    if unknown := told.texts(semconv.POLL_UNKNOWN_STATES):
        yield f"The provider does not list the state {', '.join(unknown)}."


def _asked(poll: Span, root: Span) -> str:
    errors = poll.attributes.count(semconv.POLL_ERRORS) or 0
    state = poll.attributes.text(semconv.JOB_STATE) or root.attributes.text(semconv.JOB_STATE)
    failed = f", {errors:,} of them failed" if errors else ""
    return f"{counted(total_attempts(poll), 'poll')}{failed}{f', last state {state}' if state is not None else ''}"


def _download_waits(download: Span) -> Iterator[str]:
    told = download.attributes
    received, expected, rate = (
        told.number(semconv.DOWNLOAD_SIZE),
        told.number(semconv.DOWNLOAD_EXPECTED_SIZE),
        told.number(semconv.DOWNLOAD_RATE),
    )
    if received or expected:
        received = received or 0.0
        share = f" of {size(expected)} ({received / expected:.0%})" if expected else ""
        yield f"{size(received)}{share} had arrived{f' at {size(rate)}/s' if rate is not None else ''}."
    if (age := told.number(semconv.DOWNLOAD_LINK_AGE)) is not None:
        same = any(semconv.MARK_SAME_LINK in attempt.marks for attempt in attempts(download))
        refreshed = told.count(semconv.DOWNLOAD_LINK_REFRESHES) or 0
        again = (
            "; asked again, the server gave the same link" if same else f"; renewed {refreshed}x" if refreshed else ""
        )
        yield f"The link was {seconds(age)} old{again}."


def _next(operation: Operation, root: Span, result: str, kind: str | None) -> str:
    if kind is None or result in ("success", "cancellation"):
        return _BY_RESULT.get(result, "Read the error above.")
    poll = operation.hop("poll")
    advice = _NEXT.get(kind, "The error is the caller's own: see where it was raised.")
    hop = operation.hop(root.attributes.text(semconv.OPERATION_ENDED_IN) or "")
    status = hop.attributes.count(semconv.HTTP_RESPONSE_STATUS_CODE) if hop is not None else None
    kept = attempts(hop) if hop is not None else ()
    headers = dict(kept[-1].telling) if kept else {}
    if kind == "StatusUnavailable" and status in _BY_STATUS:
        advice = _BY_STATUS[status]
    elif headers.get("content-type", "").startswith("text/html"):
        advice = (
            "Something between here and the API answers in its stead, a proxy or a sign-in page: get past it first."
        )
    elif kind == "DeadlineExceeded" and root.attributes.text(semconv.DEADLINE_PHASE) == "body":
        advice = "The job is done: download again with more time; what had arrived tells how much."
    elif poll is not None and poll.attributes.texts(semconv.POLL_UNKNOWN_STATES):
        advice = f"Teach the provider that state: list it as pending, succeeded or failed. {advice}"
    if headers:
        quoted = (f"{name}={value}" for name, value in headers.items())
        advice = f"{advice} The last reply said {', '.join(quoted)}."
    return advice


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
