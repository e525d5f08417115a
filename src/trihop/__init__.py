"""Submit, poll, download as one operation: one trace, one deadline, typed endings."""

from trihop._download import Download
from trihop._errors import (
    DeadlineExceeded,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    OperationError,
    OperationTaken,
    OutcomeAmbiguous,
    PollBudgetExhausted,
    PollErrorsExhausted,
    ResultCorrupt,
    ResultUnavailable,
    StatusUnavailable,
    SubmitRejected,
    SubmitUncertain,
    SurfaceError,
    TrihopError,
)
from trihop._events import Event, show
from trihop._operation import Operation, operation
from trihop._pacing import Budget, LongPoll, Pacing, RetryPolicy
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState, accepts, header, text, xml
from trihop._values import Call, Job, Ready, Reply, Result
from trihop._verdicts import (
    Accepted,
    Ambiguous,
    Cancelled,
    Content,
    DownloadVerdict,
    Expired,
    Failed,
    Gone,
    LinkExpired,
    Partial,
    Pending,
    PollVerdict,
    Rejected,
    SubmitVerdict,
    Succeeded,
    Transient,
)
from trihop._version import __version__

__all__ = [
    # the operation
    "operation",
    "show",
    "Operation",
    "Download",
    "Event",
    # what is asked and known
    "Call",
    "Job",
    "Ready",
    "Reply",
    "Result",
    # a provider
    "Provider",
    "ReadJob",
    "ReadState",
    "accepts",
    "header",
    "text",
    "xml",
    "Budget",
    "LongPoll",
    "Pacing",
    "RetryPolicy",
    # verdicts
    "Accepted",
    "Ambiguous",
    "Cancelled",
    "Content",
    "DownloadVerdict",
    "Expired",
    "Failed",
    "Gone",
    "LinkExpired",
    "Partial",
    "Pending",
    "PollVerdict",
    "Rejected",
    "SubmitVerdict",
    "Succeeded",
    "Transient",
    # errors
    "DeadlineExceeded",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobPartiallyFailed",
    "OperationError",
    "OperationTaken",
    "OutcomeAmbiguous",
    "PollBudgetExhausted",
    "PollErrorsExhausted",
    "ResultCorrupt",
    "ResultUnavailable",
    "StatusUnavailable",
    "SubmitRejected",
    "SubmitUncertain",
    "SurfaceError",
    "TrihopError",
    "__version__",
]
