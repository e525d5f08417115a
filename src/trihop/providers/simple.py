"""The simplest job API there is: submit, ask by id, result in the same answer.

`POST` something, get an id, `GET /api/jobs/{id}` until the row says `COMPLETED` or `FAILED`. Many in-house
services look like this, and few do what their documentation says, so the id is taken from wherever it is:
`data.jobId`, `jobId`, `id`, a bare JSON string, or plain text; whether the status was 200, 201 or 202.

- Four states: `PENDING, PROCESSING, COMPLETED, FAILED`. They may go backwards: the row of an attempt that failed is
  put back to `PENDING` while `attempts` is below `maxAttempts`, with the last `error` in it. Should nobody take it
  up again, only the deadline ends the wait.
- The result is in the row, as `result`. Where that has a `downloadUrl` (or `reportUrl`), the result is what the
  link leads to. Such a link is signed once, when the job completes; asking again gives the same one, so a stale link
  ends as `ResultUnavailable` after one fresh poll.
- Errors are `{statusCode, error, message, …}`; another user's job is 403 or 404, an id that is none 400.
- No `Location`, no `Retry-After`, no idempotency key, no cancel. Their documentation asks every 3 seconds.

Read November 2026: the documentation and source of
github.com/AllianceBioversityCIAT/alliance-risk-analysis-tool (as of February 2026).
"""

from __future__ import annotations

from collections.abc import Sequence

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Reply, Result

_LONGEST_ID = 200


def job_id(reply: Reply) -> str:
    """The id, wherever the answer has it.

    Raises:
        ValueError: It has none.
    """
    try:
        body = reply.json()
    except ValueError:
        body = reply.text.strip()
    if isinstance(body, dict):
        inner = body["data"] if isinstance(body.get("data"), dict) else body
        body = next((inner[name] for name in ("jobId", "job_id", "id") if inner.get(name)), None)
    found = str(body) if isinstance(body, (str, int)) and not isinstance(body, bool) else ""
    if not found or len(found) > _LONGEST_ID or not found.isprintable() or set(found) & set(" <>"):
        raise ValueError("the answer has no job id")
    return found


def results(reply: Reply) -> Sequence[Result]:
    """What the row links to, else what it has."""
    result = reply.json().get("result")
    link = (result.get("downloadUrl") or result.get("reportUrl")) if isinstance(result, dict) else None
    return [Result(link) if link else Result(data=result)]


def _last_attempt(reply: Reply) -> str | None:
    row = reply.json()
    if not row.get("error") or not row.get("attempts"):
        return None
    return f"attempt {row['attempts']} of {row.get('maxAttempts', '?')} failed: {row['error']}"


def jobs(status: str = "/api/jobs/{id}", *, name: str = "simple.jobs") -> Provider:
    """A provider for such an API.

    Args:
        status: Where the state is asked for; a template, relative to the submit's URL.
        name: Its name on spans.

    States: PENDING, PROCESSING; COMPLETED; FAILED
    Result: in the answer; or behind a signed link in it
    Deadline: minutes
    Checked: exchanges as documented, and as the source has them
    Source: https://github.com/AllianceBioversityCIAT/alliance-risk-analysis-tool
    """
    return Provider(
        name,
        submit=ReadJob(id=job_id, status_url=None),
        status=status,
        poll=ReadState(
            "status",
            pending={"PENDING", "PROCESSING"},
            succeeded={"COMPLETED"},
            failed={"FAILED"},
            results=results,
            error="error",
            message=_last_attempt,
        ),
        pacing=Pacing(first=3.0, factor=1.5, cap=15.0),
    )
