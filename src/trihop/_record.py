"""What happened so far in an operation, as values."""

from __future__ import annotations

from dataclasses import dataclass

from trihop._progress.lines import printable
from trihop._values import Job


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """An operation as it stood at one moment; every error carries one.

    Args:
        name: What the caller called it.
        operation_id: Its own id, always there.
        key: The caller's key for it, if it has one.
        trace_id: 32 hex digits; None without tracing.
        hop: The hop it stood in: "submit", "poll" or "download".
        job: The server's part, as far as it is known.
        status_code: The last HTTP status.
        polls: How often the status monitor was asked.
        elapsed_s: Seconds since it began.
        trace_url: Where the trace can be looked at; None where there is none, or nobody said.
        job_shown: The job's id as it may be written down, where that is another text: it is, or has, a credential.
    """

    name: str
    operation_id: str
    key: str | None = None
    trace_id: str | None = None
    hop: str | None = None
    job: Job | None = None
    status_code: int | None = None
    polls: int = 0
    elapsed_s: float = 0.0
    trace_url: str | None = None
    job_shown: str | None = None

    @property
    def job_id(self) -> str | None:
        """The id the server gave."""
        return None if self.job is None else self.job.id

    @property
    def state(self) -> str | None:
        """The server's last word."""
        return None if self.job is None else self.job.state

    def __str__(self) -> str:
        known = {
            "operation": self.name,
            "key": self.key,
            "job": self.job_id if self.job_shown is None else self.job_shown,
            "state": self.state,
            "polls": self.polls or None,
            "elapsed": f"{self.elapsed_s:.1f}s",
            "trace": self.trace_id or "none (no tracing configured)",
        }
        return printable(" ".join(f"{name}={value}" for name, value in known.items() if value is not None))
