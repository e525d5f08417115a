"""What the demo's job server answers: decisions alone, no socket and no clock.

The jobs look like those of Salesforce's Bulk API 2.0 queries: submitted with a 200, states in JSON, all endings at 200.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCENARIOS = ("success", "job", "endless", "partial")
"""How a job goes: well; it fails; it never ends; three of its records fail."""

HINT_S = 1
RECORDS = 20_000
FAILED_RECORDS = 3

_OUTAGE_AT = 3
_PROGRESS = (0, 12, 45, 45, 71)
_ENDS_AT = {"success": 5, "job": 4, "partial": 4}
_NO_SUCH_COLUMN = "INVALID_FIELD: No such column 'Nmae' on entity 'Account'"


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes out: a status, a JSON body, and the seconds to wait before asking again."""

    status: int
    body: Any
    retry_after: int | None = None


@dataclass(slots=True)
class DemoJob:
    """A job at the server: how it is to go, and how often it was asked about."""

    id: str
    scenario: str = "success"
    polls: int = 0
    aborted: bool = False
    request: dict[str, Any] = field(default_factory=dict)

    def poll(self, link: str) -> Answer:
        """The answer to one more question; `link` is where a result would be."""
        self.polls += 1
        if self.polls == _OUTAGE_AT and not self.aborted:
            return error(503, "SERVER_UNAVAILABLE", "Too busy, ask again", retry_after=HINT_S)
        return self.describe(link)

    def describe(self, link: str) -> Answer:
        """The job as it stands after so many questions."""
        ends_at = _ENDS_AT.get(self.scenario)
        if self.aborted:
            return Answer(200, self._body("Aborted"))
        if ends_at is None or self.polls < ends_at:
            state = "UploadComplete" if self.polls == 0 else "InProgress"
            return Answer(200, self._body(state), HINT_S)
        if self.scenario == "job":
            return Answer(200, self._body("Failed") | {"errorMessage": _NO_SUCH_COLUMN})
        failed = FAILED_RECORDS if self.scenario == "partial" else 0
        counts = {"numberRecordsProcessed": RECORDS, "numberRecordsFailed": failed, "progress": 100}
        return Answer(200, self._body("JobComplete") | counts | {"resultUrl": link})

    def _body(self, state: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "operation": self.request.get("operation", "query"),
            "object": "Account",
            "state": state,
            "concurrencyMode": "Parallel",
            "contentType": "CSV",
            "progress": _PROGRESS[min(self.polls, len(_PROGRESS) - 1)],
        }


def error(status: int, code: str, message: str, *, retry_after: int | None = None) -> Answer:
    """An error in the API's own form: a list of them."""
    return Answer(status, [{"errorCode": code, "message": message}], retry_after)


def submitted(job_id: str, request: Any) -> DemoJob | Answer:
    """The job that a request asks for, or why there is none."""
    if not isinstance(request, dict) or not isinstance(request.get("query"), str):
        return error(400, "INVALIDJOB", "a job is a JSON object with a query")
    scenario = request.get("scenario", "success")
    if scenario not in SCENARIOS:
        return error(400, "INVALIDJOB", f"scenario is one of {', '.join(SCENARIOS)}")
    return DemoJob(job_id, scenario, request=request)


def rows() -> bytes:
    """The result, as CSV."""
    lines = [f"001{number:012},Account {number},{number * 7919 % 100_000}" for number in range(1, RECORDS + 1)]
    return "\n".join(["Id,Name,AnnualRevenue", *lines, ""]).encode()
