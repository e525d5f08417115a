"""An API whose last state carries no outcome: `ended` says that it is over, the counts say how."""

from __future__ import annotations

import requests

from trihop import Call, Cancelled, Download, Job, PollVerdict, Provider, ReadJob, ReadState, Reply, operation

read_state = ReadState(
    "processing_status",
    pending={"in_progress", "canceling"},
    succeeded={"ended"},
    results="results_url",
    counts="request_counts",
    good_items="request_counts.succeeded",
    bad_items="sum(request_counts.[errored,canceled,expired])",
)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """As the table says, but for a batch of which every request was cancelled."""
    verdict = read_state(reply, job)
    counts = reply.json().get("request_counts", {})
    if verdict.results and counts.get("canceled") == sum(counts.values()):
        return Cancelled("ended", results=verdict.results, counts=counts)
    return verdict


MESSAGE_BATCHES = Provider(
    "example.message_batches",
    submit=ReadJob(id="id", status_url=None),
    status="batches/{id}",
    poll=poll,
    cancel=Call("POST", "batches/{id}/cancel"),
)


def main(session: requests.Session, api: str, messages: list[dict[str, object]]) -> Download:
    """Run a batch of messages and take what came of it, all of it or not."""
    with operation("messages", deadline=24 * 3600, session=session, provider=MESSAGE_BATCHES) as op:
        return op.run("POST", f"{api}/batches", json={"requests": messages}, allow_partial=True)
