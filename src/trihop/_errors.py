"""Every error we raise.

    TrihopError
    ├── OperationError
    │   ├── DeadlineExceeded (also TimeoutError)   we stopped waiting; the job may still finish
    │   ├── PollBudgetExhausted                    likewise
    │   │   └── PollErrorsExhausted                the status endpoint kept failing
    │   ├── StatusUnavailable                      the status endpoint refused for good
    │   ├── JobFailed                              the server says the job did not succeed
    │   │   ├── JobCancelled
    │   │   ├── JobExpired
    │   │   └── JobPartiallyFailed
    │   ├── SubmitRejected                         the server refused the job
    │   ├── SubmitUncertain                        sent, never answered, and no key to ask again with
    │   ├── OutcomeAmbiguous                       reconcile by hand; never resubmitted
    │   ├── OperationTaken                         another holder has this operation now
    │   ├── ResultUnavailable                      link expired, used up, or result gone
    │   └── ResultCorrupt                          length, digest or range did not add up
    ├── SurfaceError                               the reply made no sense to the surface
    └── StoreError                                 the store of records cannot be used

A wrong call is a plain `ValueError` or `TypeError`. What `requests` raised is on
`.cause`, redacted; it is never chained, because a chain prints its whole text,
signed links included.

Neither text nor `repr` of an error has a credential or a signed link. `.error`
and `.reply` are as the server gave them, which may quote what it was sent; in a
pickle they are redacted. `.job` and `.ready` keep the URLs that it takes to go
on, in pickles too, and never the session's credentials.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trihop._progress.lines import printable
from trihop._record import OperationRecord

if TYPE_CHECKING:
    from trihop._values import JSON, Job, Ready, Reply


class TrihopError(Exception):
    """Anything that trihop raises: what happened, to which operation, what next.

    `cause` is what `requests` raised, redacted, where something did.
    """

    def __init__(self, what: str, record: OperationRecord | None = None, then: str = "") -> None:
        # Args alone rebuild it when unpickled. Not super(): an OSError would take the first for its errno.
        Exception.__init__(self, what, record, then)
        self.what = what
        self.record = record if record is not None else OperationRecord("unnamed", "")
        self.then = then
        self.cause: BaseException | None = None
        self.quotable: dict[str, Any] = {}
        """Of what the server said, that which is not to leave the process as it is, in a form that may."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.record, self.then), {**vars(self), **self.quotable}

    def __str__(self) -> str:
        return f"{printable(self.what)} [{self.record}]. {self.then}".rstrip() + self._door()

    def _door(self) -> str:
        """The link to the trace, at the end of the message, where nothing sticks to it."""
        return "" if self.record.trace_url is None else f" Trace: {self.record.trace_url}"

    @property
    def operation(self) -> str:
        """The operation's name."""
        return self.record.name

    @property
    def operation_id(self) -> str:
        """The operation's own id, there with and without tracing."""
        return self.record.operation_id

    @property
    def key(self) -> str | None:
        """The caller's key for the operation."""
        return self.record.key

    @property
    def trace_id(self) -> str | None:
        """32 hex digits, or None without tracing."""
        return self.record.trace_id

    @property
    def trace_url(self) -> str | None:
        """A link to the trace, where `trace_url=` or TRIHOP_TRACE_URL says what it looks like."""
        return self.record.trace_url

    @property
    def hop(self) -> str | None:
        """Where it happened: "submit", "poll" or "download"."""
        return self.record.hop

    @property
    def job(self) -> Job | None:
        """The server's part; `op.poll(error.job)` goes on waiting for it."""
        return self.record.job

    @property
    def job_id(self) -> str | None:
        """The id the server gave."""
        return self.record.job_id

    @property
    def state(self) -> str | None:
        """The server's last word."""
        return self.record.state

    @property
    def status_code(self) -> int | None:
        """The last HTTP status."""
        return self.record.status_code

    @property
    def polls(self) -> int:
        """How often the status monitor was asked."""
        return self.record.polls

    @property
    def elapsed(self) -> float:
        """Seconds since the operation began."""
        return self.record.elapsed_s


class OperationError(TrihopError):
    """An operation ended without its result."""


class DeadlineExceeded(OperationError, TimeoutError):
    """We stopped waiting; the job may still finish.

    Args:
        phase: Where the deadline struck: wait, connect, tls, headers, body or between.
        asked: The pause, in seconds, that did not fit, where that was the reason.
        remaining: Seconds that were left.
    """

    phase: str = "between"
    asked: float | None = None
    remaining: float = 0.0


class PollBudgetExhausted(OperationError):
    """We asked as often as we were told to; the job may still finish."""


class PollErrorsExhausted(PollBudgetExhausted):
    """The status endpoint kept failing; the job may be running all the same."""


class StatusUnavailable(OperationError):
    """The status endpoint refused for good: 401 after a fresh sign-in, 403, 400 and the like."""


class JobFailed(OperationError):
    """The server says that the job did not succeed.

    `error` is what the server said; `ready` is what the job left, maybe nothing.
    """

    error: JSON = None
    ready: Ready


class JobCancelled(JobFailed):
    """Somebody cancelled the job."""


class JobExpired(JobFailed):
    """The job ran out of its own time, or the server forgot it."""


class JobPartiallyFailed(JobFailed):
    """Some items failed; `op.download(error.ready)` fetches what there is."""


class SubmitRejected(OperationError):
    """The server refused the job, or was never reached; there is no job.

    `error` is what the server said.
    """

    error: JSON = None


class SubmitUncertain(OperationError):
    """Sent, never answered, and no key to ask again with: perhaps there is a job."""


class OutcomeAmbiguous(OperationError):
    """Nobody knows what became of the job: reconcile by hand; it is never submitted again.

    `error` is what the server said; `ready` what the job left.
    """

    error: JSON = None
    ready: Ready | None = None


class OperationTaken(OperationError):
    """Another holder has this operation now."""


class ResultUnavailable(OperationError):
    """The link expired or is used up, or the result is gone."""


class ResultCorrupt(OperationError):
    """Length, digest or range did not add up; nothing was left at the target."""


class SurfaceError(TrihopError):
    """The reply made no sense to the surface; `reply` is what came."""

    reply: Reply | None = None


class StoreError(TrihopError):
    """The store cannot be used: what happened, to which store, and what to do. What was written before stays.

    `job` is the server's part, where an operation had one already; it goes on.
    """

    def __str__(self) -> str:
        known = f" [{self.record}]" if self.record.operation_id else ""
        return f"{printable(self.what)}{known}. {self.then}".rstrip() + self._door()


def note_trace(exception: BaseException, operation: str, trace_id: str | None, trace_url: str | None) -> None:
    """Put the trace, as a link where there is one, on what the caller's own code raised; ours carry it anyway.

    Python has notes from 3.11 on.
    """
    if trace_id is None or isinstance(exception, TrihopError) or not isinstance(exception, Exception):
        return
    with suppress(Exception):  # one that is a frozen dataclass takes no notes
        notes = getattr(exception, "__notes__", ())
        if hasattr(exception, "add_note") and not any(trace_id in note for note in notes):
            exception.add_note(f"trihop: operation {operation!r}, trace {trace_url or trace_id}")
