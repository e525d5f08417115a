"""Submit, poll, download as one operation: one trace, one deadline, typed endings."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    StoreError,
    SubmitRejected,
    SubmitUncertain,
    SurfaceError,
    TrihopError,
)
from trihop._events import Event, show
from trihop._operation import operation
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

if TYPE_CHECKING:
    from trihop._fleet.fleet import Fleet
    from trihop._fleet.job import Outcome
    from trihop._middleware.cover import instrument, uninstrument
    from trihop._middleware.instrumentor import TrihopInstrumentor as TrihopInstrumentor
    from trihop._results.download import Download
    from trihop._resume import resume, wake
    from trihop._telemetry.configure import configure
    from trihop._triangle import Operation
    from trihop._worker import Worker
    from trihop.stores import MemoryStore, Store
    from trihop.stores import SQLStore as SQLStore

# TrihopInstrumentor and SQLStore need extras, without which `from trihop import *` is to work.
__all__ = [
    # the operation
    "operation",
    "resume",
    "wake",
    "show",
    "configure",
    "instrument",
    "uninstrument",
    "Operation",
    "Download",
    "Event",
    # what is asked and known
    "Call",
    "Job",
    "Ready",
    "Reply",
    "Result",
    # records that outlive the process
    "Store",
    "MemoryStore",
    "Worker",
    # many at once
    "Fleet",
    "Outcome",
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
    "StoreError",
    "SubmitRejected",
    "SubmitUncertain",
    "SurfaceError",
    "TrihopError",
    "__version__",
]

# Of the engine, which the first operation imports; and of extras.
_LATER = {
    "Operation": "trihop._triangle",
    "Download": "trihop._results.download",
    "configure": "trihop._telemetry.configure",
    "instrument": "trihop._middleware.cover",
    "uninstrument": "trihop._middleware.cover",
    "TrihopInstrumentor": "trihop._middleware.instrumentor",
    "resume": "trihop._resume",
    "wake": "trihop._resume",
    "Worker": "trihop._worker",
    "Fleet": "trihop._fleet.fleet",
    "Outcome": "trihop._fleet.job",
    "Store": "trihop.stores",
    "MemoryStore": "trihop.stores",
    "SQLStore": "trihop.stores",
}


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'trihop' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
