"""The default: 202 and a status monitor, as most APIs have it.

202 is pending and its `Location` (or a cousin of it) is where to ask; 303 leads
to the result; 200 has a JSON body whose state, if it has one, is a common word,
and which, if it has none, is the result.

Sources: RFC 9110 sections 15.3.3 and 15.4.4; RFC 7240 section 4.1; Microsoft's
REST API guidelines on long-running operations (read November 2026).
"""

from __future__ import annotations

from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState, at_hand, header
from trihop._values import Garbled, Job, Reply, Result
from trihop._verdicts import Accepted, Ending, Pending, PollVerdict, SubmitVerdict, Succeeded

_read_job = ReadJob(id="id || jobId || job_id || operationId")
_read_state = ReadState(
    "status || state || phase",
    pending={
        "accepted",
        "created",
        "in progress",
        "not started",
        "pending",
        "processing",
        "queued",
        "running",
        "started",
        "submitted",
    },
    succeeded={"succeeded", "success", "successful", "completed", "complete", "done", "finished"},
    failed={"failed", "failure", "error"},
    cancelled={"cancelled", "canceled", "aborted"},
    expired={"expired"},
    results="result_url || resultUrl || links.result",
    error="error || errorMessage || message",
    counts="counts",
    progress="progress || percentComplete",
    message="message",
)
_ACCEPTED = "accepted"
_HANDLE = header("Operation-Location", "Azure-AsyncOperation", "Location", "Content-Location")


def _body(reply: Reply) -> object:
    try:
        return reply.json() if reply.content else None
    except ValueError:
        return None


def submit(reply: Reply) -> SubmitVerdict:
    """A handle in a header or the body; or the job, already over; or the result itself."""
    body = _body(reply)
    handle = _HANDLE(reply)
    if isinstance(body, dict):
        if handle is None:
            handle = next(
                (
                    body[name]
                    for name in ("status_url", "statusUrl", "statusQueryGetUri", "href")
                    if isinstance(body.get(name), str)
                ),
                None,
            )
        if reply.status_code != 303 and _has_state(body):
            verdict = _by_word(reply, Job(), body)
            # A success at 202 that has no result is asked for it, where there is somebody to ask.
            bare = reply.status_code == 202 and verdict.results == (Result(data=body),)
            if isinstance(verdict, Ending) and (handle is None or not bare):
                return verdict
        return Accepted(_read_job_id(reply), handle)
    if reply.status_code == 200 and handle is None:
        return _whole(reply)
    return Accepted(None, handle)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """202 pending; 303 done, elsewhere; 200 by its state word, or the result itself."""
    if reply.status_code in (301, 302, 303):
        location = reply.headers.get("Location")
        if not location:
            raise Garbled("bad_redirect", f"HTTP {reply.status_code} without a Location")
        return Succeeded("see other", results=(Result(location),))
    speaks_json = job.state not in (None, _ACCEPTED)
    if speaks_json and "html" in reply.headers.get("Content-Type", ""):
        reply.json()  # a login page or a gateway's, in the place of a monitor that spoke JSON before: garbled
    body = _body(reply)
    if reply.status_code == 202:
        state = _read_state(reply, job) if isinstance(body, dict) and _has_state(body) else None
        if isinstance(state, Pending):
            return Pending(
                state.state, progress=state.progress, message=state.message, known=state.known, status_url=_moved(reply)
            )
        return Pending(_ACCEPTED, status_url=_moved(reply))
    if not isinstance(body, dict) or not _has_state(body):
        return _whole(reply)
    return _by_word(reply, job, body)


def _by_word(reply: Reply, job: Job, body: dict[str, object]) -> PollVerdict:
    verdict = _read_state(reply, job)
    if isinstance(verdict, Succeeded) and not verdict.results:
        result = Result(data=body["result"]) if "result" in body else Result(data=body)
        return Succeeded(verdict.state, results=(result,), counts=verdict.counts, message=verdict.message)
    return verdict


def _moved(reply: Reply) -> str | None:
    return _HANDLE(reply)


def _read_job_id(reply: Reply) -> str | None:
    found = _read_job(reply)
    return found.id if isinstance(found, Accepted) else None


def _has_state(body: dict[str, object]) -> bool:
    return any(isinstance(body.get(name), str) and body[name] for name in ("status", "state", "phase"))


def _whole(reply: Reply) -> PollVerdict:
    """The body is the result, but for a page or an empty body.

    Raises:
        ValueError: It is none.
    """
    if reply.status_code == 204:
        return Succeeded("no content")
    return Succeeded("done", results=(at_hand(reply),))


ACCEPTED = Provider("generic.accepted", submit=submit, poll=poll)
"""The provider of an operation that names none.

States: 202, or a word such as running; 303, or a word such as succeeded, failed, cancelled, expired
Result: where a 303 or `result_url` leads, `result`, or the body
Deadline: yours to say
Checked: s3rver 3.7.1 behind a scripted job API, real HTTP
Source: https://www.rfc-editor.org/rfc/rfc9110#section-15.3.3
"""
