"""xAI's Batch API: a container that is filled, and emptied while it runs.

- `POST /v1/batches` `{name}` makes an empty batch, and `POST …/{batch_id}/requests` fills it: do that in
  `op.once`. With `input_file_id` the server fills it. An empty batch waits for ever.
- There is no state word. `state` counts `num_requests, num_pending, num_success, num_error, num_cancelled`; the
  batch is over when there are requests and none is pending. A cancelled batch keeps what was done before.
- Results are pages of JSON at `…/results`, by `limit` and `pagination_token`. They are there from the first
  request on, so an empty page proves nothing. They are gone after `expire_time`.
- Most batches take less than a day. No `Retry-After` and no idempotency key are documented. Pacing is ours.

Read November 2026: docs.x.ai (Batch API guide; REST reference); the protocol of github.com/xai-org/xai-sdk-python.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob
from trihop._values import Call, Job, Reply, Result
from trihop._verdicts import (
    Cancelled,
    Content,
    DownloadVerdict,
    Ending,
    Failed,
    Partial,
    Pending,
    PollVerdict,
    Succeeded,
)
from trihop.providers._paging import same_but


def poll(reply: Reply, job: Job) -> PollVerdict:
    """By the counts alone."""
    state = reply.json()["state"]
    total, pending = state["num_requests"], state["num_pending"]
    if total == 0:
        return Pending("empty", message="no requests were added yet")
    if pending > 0:
        return Pending("pending", progress=100.0 * (total - pending) / total)
    names = {"succeeded": "num_success", "failed": "num_error", "cancelled": "num_cancelled"}
    counts = {"total": total, **{name: state.get(field, 0) for name, field in names.items()}}
    return outcome(counts)("ended", results=(Result(f"{quote(job.id or '', safe='')}/results"),), counts=counts)


def outcome(counts: Mapping[str, int]) -> type[Ending]:
    """What the counts of a batch come to that has nothing pending.

    >>> outcome({"total": 2, "succeeded": 0, "failed": 2, "cancelled": 0}).__name__
    'Failed'
    """
    if counts["succeeded"] == counts["total"]:
        return Succeeded
    if counts["succeeded"] > 0:
        return Partial
    return Cancelled if counts["cancelled"] > counts["failed"] else Failed


def page(reply: Reply, result: Result) -> DownloadVerdict:
    """One page of results, as JSON lines."""
    body = reply.json()
    token = body.get("pagination_token")
    return Content(items=body["results"], next=same_but(reply.url, "pagination_token", token) if token else None)


BATCHES = Provider(
    "xai.batches",
    submit=ReadJob(id="batch_id", status_url=None),
    status="batches/{id}",
    poll=poll,
    download=page,
    cancel=Call("POST", "batches/{id}:cancel"),
    pacing=Pacing(first=5.0, factor=1.5, cap=60.0),
)
"""A batch, submitted to `/v1/batches`, then filled in `op.once`.

States: none; the counts decide
Result: JSON lines, from pages at the same host
Paging: `pagination_token`
Deadline: a day; most take less
Checked: exchanges as documented; pages at llmock 0.2.2
Source: https://docs.x.ai/docs/guides/batch-api
"""
