"""A plain API of jobs, as the tests of this folder have it answer."""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter

from trihop import Provider, ReadJob, ReadState, Reply

JOBS = Provider(
    "field.jobs",
    submit=ReadJob("id"),
    poll=ReadState(
        "state",
        pending={"queued", "running"},
        succeeded={"done"},
        failed={"failed"},
        cancelled={"cancelled"},
        expired={"expired"},
        results="results",
        error="error",
    ),
)


def submitted(**headers: str) -> Reply:
    """202 for the job J1, its status monitor at /jobs/J1; `Retry_After="5"` is a header."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(202, {"id": "J1"}, headers={"Location": "/jobs/J1", **fields})


def state(word: str, *, status: int = 200, retry_after: str | None = None, **fields: Any) -> Reply:
    """An answer of the status monitor with that word."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(status, {"state": word, **fields}, headers=headers)


class Noting(HTTPAdapter):
    """Notes the timeouts it is given; `instead` is what it goes by, so that a test need not wait for them."""

    def __init__(self, instead: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.instead = instead
        self.timeouts: list[object] = []

    def send(self, request: requests.PreparedRequest, **as_in_requests: Any) -> requests.Response:  # type: ignore[override]
        """Send it."""
        self.timeouts.append(as_in_requests["timeout"])
        if self.instead is not None:
            as_in_requests["timeout"] = self.instead
        return super().send(request, **as_in_requests)
