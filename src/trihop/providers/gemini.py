"""Gemini's Batch API: a long-running operation (AIP-151) with a state of its own.

- Submitted to `/v1beta/models/{model}:batchGenerateContent`; the answer names the operation, `batches/…`.
- The state is `metadata.state`: `JOB_STATE_…` in the guide, `BATCH_STATE_…` on the wire. A job that takes more
  than 48 hours is `EXPIRED` and leaves nothing.
- The answers are inline in `response.inlinedResponses`, or in the file that `response.responsesFile` names, which
  is fetched from `/download/v1beta/{file}:download?alt=media`. The SDKs' shape of the same, `dest`, is read, too.
- Failed requests are counted in `metadata.batchStats`, whose numbers are texts (int64). `error` is a status.
- Cancel is best effort. No `Retry-After` and no idempotency key are documented. Pacing is ours.

The key belongs in the session's headers as `x-goog-api-key`, rather than in the URL.

Read November 2026: ai.google.dev/gemini-api/docs/batch-api; ai.google.dev/api/batch-api; google.aip.dev/151.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import JSON, Call, Reply, Result


def _states(*words: str) -> set[str]:
    return {f"{prefix}_STATE_{word}" for prefix in ("JOB", "BATCH") for word in words}


def results(reply: Reply) -> Sequence[Result]:
    """The answers at hand, or the place of the file that has them."""
    body = reply.json()
    where = body.get("response") or body.get("dest") or {}
    inlined = where.get("inlinedResponses")
    if isinstance(inlined, dict):
        inlined = inlined.get("inlinedResponses")
    if inlined:
        return [Result(data=inlined)]
    file = where.get("responsesFile") or where.get("fileName")
    if not file:
        return []
    version, _, _ = urlsplit(reply.url).path.partition("/batches/")
    prefix, _, version = version.rpartition("/")
    return [Result(f"{prefix}/download/{version}/{file}:download?alt=media")]


def counts(reply: Reply) -> JSON:
    """`metadata.batchStats` as numbers."""
    stats = reply.json().get("metadata", {}).get("batchStats", {})
    names = {"total": "requestCount", "succeeded": "successfulRequestCount", "failed": "failedRequestCount"}
    return {name: int(stats[key]) for name, key in names.items() if key in stats} or None


BATCHES = Provider(
    "gemini.batches",
    submit=ReadJob(id="name", status_url=lambda reply: f"../{reply.json()['name']}"),
    poll=ReadState(
        "metadata.state || state",
        pending=_states("UNSPECIFIED", "PENDING", "RUNNING"),
        succeeded=_states("SUCCEEDED"),
        failed=_states("FAILED"),
        cancelled=_states("CANCELLED"),
        expired=_states("EXPIRED"),
        results=results,
        counts=counts,
        good_items="metadata.batchStats.successfulRequestCount",
        bad_items="metadata.batchStats.failedRequestCount",
        error="error",
    ),
    cancel=Call("POST", "{status_url}:cancel"),
    pacing=Pacing(first=5.0, factor=1.5, cap=60.0),
)
"""A batch, submitted to `/v1beta/models/{model}:batchGenerateContent`.

States: BATCH_STATE_ or JOB_STATE_ and PENDING, RUNNING; SUCCEEDED, partial by count; FAILED; CANCELLED; EXPIRED
Result: the answers inline, or a file at the same host
Deadline: 50 hours; it expires after 48
Checked: llmock 0.2.2, real HTTP
Source: https://ai.google.dev/gemini-api/docs/batch-api
"""
