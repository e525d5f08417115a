"""Replicate predictions: one JSON object for submit, poll and result.

- `POST …/v1/predictions` (or `…/models/{owner}/{name}/predictions`, `…/deployments/…/predictions`) answers 201 with the
  prediction; `urls.get` is where to ask. With `headers=prefer.wait(60)` the answer is held for up to that many seconds,
  60 at most, and may be the prediction in its final state: then nothing is polled.
- States: starting, processing; succeeded, failed, canceled (by the user, or its deadline struck while it ran), aborted
  (its deadline struck before it ran). Predictions end after 30 minutes unless agreed otherwise.
- `output` is any JSON. Where it is a link, or a list of links, these are the results; text that comes in pieces is not.
  Links lie with another host and get no credentials.
- Input and output are removed an hour after the end (`data_removed`): a prediction that succeeded and has nothing left
  counts as expired.
- `POST {urls.cancel}` cancels. No `Retry-After` and no idempotency key are documented; their clients poll every half a
  second.

Read November 2026: replicate.com/docs/topics/predictions (create-a-prediction, lifecycle, data-retention);
replicate.com/docs/reference/http; github.com/replicate/replicate-python.
"""

from __future__ import annotations

from collections.abc import Sequence

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import JSON, Call, Job, Reply, Result
from trihop._verdicts import Ending, Expired, PollVerdict, SubmitVerdict, Succeeded

_read_job = ReadJob(id="id", status_url="urls.get")


def outputs(reply: Reply) -> Sequence[Result]:
    """The links among the output, else the output itself."""
    output = reply.json().get("output")
    if output is None:
        return ()
    several = output if isinstance(output, list) else [output]
    if several and all(map(_is_link, several)):
        return [Result(place, name="output") for place in several]
    return [Result(data=output, name="output")]


_read_state = ReadState(
    "status",
    pending={"starting", "processing"},
    succeeded={"succeeded"},
    failed={"failed"},
    cancelled={"canceled"},
    expired={"aborted"},
    results=outputs,
    error="error",
)


def submit(reply: Reply) -> SubmitVerdict:
    """A prediction, which may be over already."""
    verdict = poll(reply, Job())
    return verdict if isinstance(verdict, Ending) else _read_job(reply)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """What a prediction says."""
    verdict = _read_state(reply, job)
    if isinstance(verdict, Succeeded) and not verdict.results and reply.json().get("data_removed"):
        return Expired(verdict.state, message="it succeeded, and its output was removed")
    return verdict


def _is_link(value: JSON) -> bool:
    return isinstance(value, str) and value.startswith(("https://", "http://"))


PREDICTIONS = Provider(
    "replicate.predictions",
    submit=submit,
    poll=poll,
    cancel=Call("POST", "{status_url}/cancel"),
    pacing=Pacing(first=0.5, factor=1.5, cap=10.0),
)
"""A prediction.

States: starting, processing; succeeded; failed; canceled; expired: aborted
Result: the files of `output`, by links elsewhere; or `output`, at hand
Deadline: 35 minutes
Checked: exchanges as documented
Source: https://replicate.com/docs/topics/predictions/lifecycle
"""
