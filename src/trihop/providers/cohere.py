"""Cohere's batches: a dataset in, a dataset out.

- Submitted to `/v2/batches` with `name`, `input_dataset_id` and `model`; the answer and the polls wrap the batch
  as `{batch}`.
- Six states and `BATCH_STATUS_UNSPECIFIED`; `COMPLETED` may have failed records, counted in
  `num_failed_records`; `status_reason` says why one failed.
- The result is a dataset whose parts are signed links to another host. They are not in the batch: once that is
  over, the monitor moves to `/v1/datasets/{output_dataset_id}`, and its answer ends the job with a result for
  each part. A link that ran out is asked for again there. Parts are Avro files, as their SDK reads them.
- Datasets are deleted 30 days after they were made. No `Retry-After` and no idempotency key are documented.
  Pacing is ours.

Read November 2026: docs.cohere.com/reference (create, get and cancel a batch; get a dataset); the types of
github.com/cohere-ai/cohere-python. That an output dataset may still be in preparation is inferred from there.
"""

from __future__ import annotations

from urllib.parse import quote

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import JSON, Call, Job, Reply, Result
from trihop._verdicts import Cancelled, Ending, Failed, Partial, Pending, PollVerdict, Succeeded

_ENDINGS: dict[str, type[Ending]] = {kind.__name__: kind for kind in (Succeeded, Partial, Failed, Cancelled)}

_read = ReadState(
    "batch.status",
    pending={f"BATCH_STATUS_{word}" for word in ("UNSPECIFIED", "QUEUED", "IN_PROGRESS", "CANCELING")},
    succeeded={"BATCH_STATUS_COMPLETED"},
    failed={"BATCH_STATUS_FAILED"},
    cancelled={"BATCH_STATUS_CANCELED"},
    counts="batch.{total: num_records, succeeded: num_successful_records, failed: num_failed_records}",
    good_items="batch.num_successful_records",
    bad_items="batch.num_failed_records",
    error="batch.status_reason",
)


def poll(reply: Reply, job: Job) -> PollVerdict:
    """The batch until it is over, then its output dataset, if it has one."""
    body = reply.json()
    if "dataset" in body:
        return _dataset(body["dataset"], job)
    verdict = _read(reply, job)
    output = body["batch"].get("output_dataset_id")
    if not isinstance(verdict, Ending) or not output:
        return verdict
    ended = {"ending": type(verdict).__name__, "counts": verdict.counts, "error": verdict.error}
    return Pending(verdict.state, status_url=f"../../v1/datasets/{quote(output, safe='')}", after=0.0, memo=ended)


def _dataset(dataset: JSON, job: Job) -> PollVerdict:
    state = job.state or ""
    parts = dataset.get("dataset_parts") or []
    if not parts and dataset.get("validation_status") in ("queued", "processing"):
        return Pending(state, message="the output dataset is being prepared")
    return _ENDINGS[job.memo["ending"]](
        state,
        results=[
            Result(part["url"], name="output" if len(parts) == 1 else f"output-{number}")
            for number, part in enumerate(parts, start=1)
        ],
        counts=job.memo["counts"],
        error=job.memo["error"],
    )


BATCHES = Provider(
    "cohere.batches",
    submit=ReadJob(id="batch.id", status_url=lambda reply: f"batches/{quote(reply.json()['batch']['id'], safe='')}"),
    poll=poll,
    cancel=Call("POST", "batches/{id}:cancel"),
    pacing=Pacing(first=5.0, factor=1.5, cap=60.0),
)
"""A batch, submitted to `/v2/batches`.

States: BATCH_STATUS_QUEUED, _IN_PROGRESS, _CANCELING; _COMPLETED; _FAILED; _CANCELED
Result: an Avro file for each part of the output dataset, by signed links elsewhere
Deadline: a day; none is documented
Checked: exchanges written from the SDK's types
Source: https://docs.cohere.com/reference/get-batch
"""
