"""IVOA Universal Worker Service 1.0 and 1.1, the job protocol of TAP and other astronomical services.

- A job is made by `POST /{jobs}`; the answer is 303 with its `Location`, which is read here and not followed. A refusal
  is 403.
- It starts PENDING and waits for `PHASE=RUN`, unless the submit has that among its parameters:

      job = op.submit("POST", f"{tap}/async", data={"LANG": "ADQL", "QUERY": adql})
      op.once("run", lambda: uws.run(session, job))

- Phases: PENDING, QUEUED, EXECUTING, SUSPENDED (goes on by itself) and UNKNOWN (ask again) are pending; COMPLETED,
  ERROR, ABORTED and ARCHIVED (its results are deleted) are over. HELD waits for somebody to say RUN again: nobody
  knows what becomes of it. The job's document is XML; `{job}/phase` is the phase alone, as text, and either is read.
- Results are the references in the job's document; one without an address is `{job}/results/{id}`. What a job in ERROR
  left is not to be trusted and is not offered. They live until the job's `destruction`.
- `?WAIT=` (1.1) holds the answer until the phase changes, `PHASE` being the one that was seen last, against a race; a
  1.0 server answers at once and is polled at our own pace. There is no `Retry-After`.
- `PHASE=ABORT` cancels. `DELETE` would destroy the job with its results, and is never sent.
- No idempotency key is specified: a job that was lost lies PENDING at the server until it is run or destroyed.

Credentials go to the origin that was submitted to.

Read November 2026: www.ivoa.net/documents/UWS (1.1, with its schema); github.com/ivoa-std/UWS.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from trihop._pacing import LongPoll
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState, header, text, xml
from trihop._values import Call, Job, Reply, Result
from trihop._verdicts import Ending, Pending, PollVerdict, Succeeded

if TYPE_CHECKING:
    import requests


def phase(reply: Reply) -> str | None:
    """The phase, of a job's document or of an answer that is the phase alone."""
    return xml("phase")(reply) if _is_document(reply) else text(reply)


_read_phase = ReadState(
    phase,
    pending={"PENDING", "QUEUED", "EXECUTING", "SUSPENDED", "UNKNOWN"},
    succeeded={"COMPLETED"},
    failed={"ERROR"},
    cancelled={"ABORTED"},
    expired={"ARCHIVED"},
    ambiguous={"HELD"},
)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """What the phase says; the results of a job that completed."""
    verdict = _read_phase(reply, job)
    match verdict:
        case Pending(state="PENDING"):
            return replace(verdict, message="it waits for PHASE=RUN")
        case Succeeded():
            return replace(verdict, results=_results(reply, job))
        case Ending() if _is_document(reply):
            return replace(verdict, error=xml("message")(reply))
        case _:
            return verdict


def run(session: requests.Session, job: Job) -> int:
    """Start a job, as `op.once("run", lambda: uws.run(session, job))` does once; the HTTP status.

    Raises:
        requests.HTTPError: The server refused.
    """
    answer = session.post(f"{job.status_url}/phase", data={"PHASE": "RUN"}, allow_redirects=False)
    answer.raise_for_status()
    return answer.status_code


def _is_document(reply: Reply) -> bool:
    return reply.content.lstrip()[:1] == b"<"


def _results(reply: Reply, job: Job) -> tuple[Result, ...]:
    """The references of a job's document; of the phase alone, the list of them."""
    below = f"{job.status_url}/results"
    if not _is_document(reply):
        return (Result(below, name="results"),)
    found = []
    for element in reply.xml().iter():
        if element.tag.rpartition("}")[2] == "result":
            name = element.get("id", "result")
            place = next((value for key, value in element.items() if key.rpartition("}")[2] == "href"), None)
            found.append(Result(place or f"{below}/{quote(name, safe='')}", name=name))
    return tuple(found)


JOBS = Provider(
    "uws.jobs",
    submit=ReadJob(status_url=header("Location")),
    poll=poll,
    long_poll=LongPoll(seconds=60, params={"WAIT": "{seconds}", "PHASE": "{state}"}),
    cancel=Call("POST", "{status_url}/phase", data={"PHASE": "ABORT"}),
)
"""A job of a UWS service, submitted to its list of jobs, such as `…/tap/async`.

States: PENDING, QUEUED, EXECUTING, SUSPENDED, UNKNOWN; COMPLETED; ERROR; ABORTED; expired: ARCHIVED; ambiguous: HELD
Result: what the job's document refers to, by its id; `result` for TAP
Cancel: `POST {status_url}/phase`, PHASE=ABORT
Deadline: the job's `executionduration`, and the time it may be queued
Checked: exchanges as documented
Source: https://www.ivoa.net/documents/UWS/20161024/REC-UWS-1.1-20161024.html
"""
