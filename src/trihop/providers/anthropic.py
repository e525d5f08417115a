"""Anthropic's Message Batches: requests in the submit's own body, results as one stream of JSON lines.

- Three states. Only `ended` is an end, and it carries no outcome: `request_counts` do. All succeeded is success,
  some is partial, none is what most requests came to: errored, canceled or expired. All counts but `processing`
  stay 0 until the end, and their sum is constant, so an `ended` that counts nothing is no answer.
- A cancel is best effort and may cancel nothing; the batch says `ended` all the same.
- `results_url` is null until the end (do not build it: the path may change), on the same host, and needs the key.
  Lines come in any order; join them on `custom_id`. They can be fetched for 29 days after the batch was made;
  `archived_at` says that they are gone.
- `expires_at` is 24 hours after the submit and bounds the processing. Up to 100,000 requests or 256 MB.
- Errors are `{type: "error", error: {type, message}}`; 529 is `overloaded_error`; some 429 have no `Retry-After`.
  No idempotency key is documented. Pacing is ours.

`x-api-key` and `anthropic-version` belong in the session's headers: polls and results are asked with them, at the
API's own origin.

Read November 2026: platform.claude.com/docs/en/api (message batches, errors); the types of
github.com/anthropics/anthropic-sdk-python.
"""

from __future__ import annotations

from collections.abc import Mapping

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Call, Job, Reply
from trihop._verdicts import Cancelled, Ending, Expired, Failed, Partial, PollVerdict, Succeeded

_read = ReadState(
    "processing_status",
    pending={"in_progress", "canceling"},
    succeeded={"ended"},
    results="results_url",
    counts="request_counts",
)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """By the state, and once it is `ended`, by the counts.

    Raises:
        ValueError: It ended, and no count says how.
    """
    verdict = _read(reply, job)
    if not isinstance(verdict, Ending):
        return verdict
    return outcome(verdict.counts or {})(verdict.state, results=verdict.results, counts=verdict.counts)


def outcome(counts: Mapping[str, int]) -> type[Ending]:
    """What the counts of an ended batch come to.

    >>> outcome({"processing": 0, "succeeded": 0, "errored": 1, "canceled": 7, "expired": 2}).__name__
    'Cancelled'

    Raises:
        ValueError: They count nothing.
    """
    lost = {Failed: counts.get("errored", 0), Cancelled: counts.get("canceled", 0), Expired: counts.get("expired", 0)}
    if counts.get("succeeded", 0) > 0:
        return Partial if any(lost.values()) else Succeeded
    if not any(lost.values()):
        raise ValueError("the batch ended and counts no request")
    return max(lost, key=lost.__getitem__)


BATCHES = Provider(
    "anthropic.batches",
    submit=ReadJob(id="id", status_url=None),
    status="batches/{id}",
    poll=poll,
    cancel=Call("POST", "batches/{id}/cancel"),
    pacing=Pacing(first=5.0, factor=1.5, cap=60.0),
)
"""A message batch, submitted to `/v1/messages/batches`.

States: in_progress, canceling; ended, where the counts decide
Result: JSONL at `results_url`, the same host
Deadline: 26 hours; processing is bounded by 24
Checked: llmock 0.2.2, real HTTP
Source: https://platform.claude.com/docs/en/api/messages/batches/retrieve
"""
