"""OGC API - Processes: `POST /processes/{id}/execution`, then `/jobs/{id}` and its results.

- Ask for a job with `prefer.respond_async()`. The answer is 201 with `Location` and the job's status; or 200 with the
  result, `null` included, where the server chose to be quick; or 204, where no output was asked for. Servers that leave
  `Location` out exist: then the job is `jobs/{jobID}` beside `processes`.
- States: accepted, running, successful, failed, dismissed; Part 4 (job management) adds created. The status has `jobID`
  in version 1.0 and `id` later. A status link with the relation `…/results` is where the results are, else `…/results`
  below the job.
- A 404 at the results has three meanings, told by the exception's `type`: result-not-ready (poll again),
  result-not-available (there is none, as the process failed or no output was asked for) and no-such-job. Some
  servers answer these with 403. The results of a failed job answer with an HTTP error that fits the cause.
- `DELETE /jobs/{id}` dismisses a job that goes on and *removes* one that is over, results and all: a cancel of a job
  that is known to be over is refused.
- Neither `Retry-After`, a retention time nor an idempotency key is in the standard; pacing is ours.

Credentials go to the origin that was submitted to.

Read November 2026: github.com/opengeospatial/ogcapi-processes (Part 1, its requirements and its dismiss class; the
draft of Part 4); OGC 18-062r2 (1.0).
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from trihop._provider import Provider
from trihop._surface import ReadState, accepts, at_hand, header, reader
from trihop._values import Call, Job, Reply, Result
from trihop._verdicts import (
    Accepted,
    Content,
    DownloadVerdict,
    Gone,
    Pending,
    PollVerdict,
    SubmitVerdict,
    Succeeded,
)

_OVER = frozenset({"successful", "failed", "dismissed"})
_NOT_READY = "/result-not-ready"

_location = header("Location")
_results_link = reader("links[?ends_with(rel, '/results')].href | [0]", "ogc.poll")
_read_status = ReadState(
    "status",
    pending={"accepted", "running", "created"},
    succeeded={"successful"},
    failed={"failed"},
    cancelled={"dismissed"},
    progress="progress",
    message="message",
    error="exception || message",
)


def submit(reply: Reply) -> SubmitVerdict:
    """A job, or the result itself."""
    if reply.status_code == 204:
        return Succeeded("successful")
    if reply.status_code == 200:
        return Succeeded("successful", results=(at_hand(reply),))
    status = reply.json() if reply.content else {}
    job_id = status.get("jobID") or status.get("id")
    place = _location(reply) or reply.links.get("monitor", {}).get("url")
    if place is None and job_id is not None:
        place = f"../../jobs/{quote(job_id, safe='')}"
    return Accepted(job_id, place)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """What the job's status says."""
    verdict = _read_status(reply, job)
    if not isinstance(verdict, Succeeded):
        return verdict
    path = (job.status_url or reply.url).partition("?")[0].rstrip("/")
    return replace(verdict, results=(Result(_results_link(reply) or f"{path}/results"),))


@accepts(403, 404)
def results(reply: Reply, result: Result) -> DownloadVerdict:
    """The results, or which of the three kinds of 404 this is."""
    if reply.status_code < 300:
        return Content()
    kind = str(reply.json()["type"])
    return Pending("successful") if kind.endswith(_NOT_READY) else Gone(kind.rpartition("/")[2])


def dismiss(job: Job) -> Call:
    """DELETE, while it does no harm.

    Raises:
        ValueError: The job is over: this would remove its results.
    """
    if job.state in _OVER:
        raise ValueError(f"it is over ({job.state}), and DELETE would remove it with its results")
    return Call("DELETE", "{status_url}")


PROCESSES = Provider("ogc.processes", submit=submit, poll=poll, download=results, cancel=dismiss)
"""A process that was executed with `POST …/processes/{id}/execution`.

States: accepted, running, created; successful; failed; dismissed
Result: the results document, or the one output
Cancel: `DELETE {status_url}`, unless it is known to be over
Deadline: as the process takes
Checked: wraptile 0.3.0, real HTTP
Source: https://docs.ogc.org/is/18-062r2/18-062r2.html
"""
