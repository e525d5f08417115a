"""What can go wrong, and what to do about each: every ending is a class of its own."""

from __future__ import annotations

import requests

from trihop import (
    DeadlineExceeded,
    Download,
    JobFailed,
    JobPartiallyFailed,
    OperationError,
    PollErrorsExhausted,
    SubmitRejected,
    SubmitUncertain,
    operation,
)


def main(session: requests.Session, api: str) -> tuple[str, Download | None]:
    """Export; a word for what to do next, and what there is of the result."""
    try:
        with operation("export", deadline=3600, session=session) as op:
            job = op.submit("POST", f"{api}/exports")
            try:
                ready = op.poll(job)
            except JobPartiallyFailed as partial:
                return "look at the failed items", op.download(partial.ready)
            return "nothing", op.download(ready)
    except SubmitRejected:
        return "mend the request", None
    except SubmitUncertain:
        return "look for the job before submitting again", None
    except JobFailed as failure:
        return f"submit anew: {failure.error}", None
    except PollErrorsExhausted as outage:
        return f"poll {outage.job_id or 'the job'} again when the service is back", None
    except DeadlineExceeded as late:
        return f"wait on for a job that is {late.state}", None
    except OperationError as error:
        return f"ask for help with trace {error.trace_id}", None
