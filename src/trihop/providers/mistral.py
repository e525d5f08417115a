"""Mistral's batch jobs: files or requests in, files or answers in the job out.

- Submitted to `/v1/batch/jobs` with `input_files` or `requests`, `model` or `agent_id`, `endpoint` and
  `timeout_hours` (24).
- Seven states. `SUCCESS` may have failed requests, counted in `failed_requests`; `errors` is a list of
  `{message, count}`. `TIMEOUT_EXCEEDED` is the job's own time running out.
- `output_file` and `error_file` are ids of files; a job of inline requests has its answers in `outputs`.
- No `Retry-After` and no idempotency key are documented. Pacing is ours.

Read November 2026: docs.mistral.ai/api/endpoint/batch; the models of github.com/mistralai/client-python.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Call, Reply, Result


def results(reply: Reply) -> Sequence[Result]:
    """The files that a job names, as "output" and "error"; without a file, its answers inline."""
    job = reply.json()
    found = []
    for name in ("output", "error"):
        file = job.get(f"{name}_file")
        file_id = file.get("id") if isinstance(file, dict) else file  # some gateways put the whole file there
        if file_id:
            found.append(Result(f"../../files/{quote(str(file_id), safe='')}/content", name=name))
    if not job.get("output_file") and job.get("outputs"):
        found.insert(0, Result(data=job["outputs"], name="output"))
    return found


BATCH = Provider(
    "mistral.batch",
    submit=ReadJob(id="id", status_url=None),
    status="jobs/{id}",
    poll=ReadState(
        "status",
        pending={"QUEUED", "RUNNING", "CANCELLATION_REQUESTED"},
        succeeded={"SUCCESS"},
        failed={"FAILED"},
        cancelled={"CANCELLED"},
        expired={"TIMEOUT_EXCEEDED"},
        results=results,
        counts="{total: total_requests, succeeded: succeeded_requests, failed: failed_requests}",
        good_items="succeeded_requests",
        bad_items="failed_requests",
        error="errors",
    ),
    cancel=Call("POST", "jobs/{id}/cancel"),
    pacing=Pacing(first=5.0, factor=1.5, cap=60.0),
)
"""A job, submitted to `/v1/batch/jobs`.

Result: two JSONL files at the same host, by id: output, error; or the answers in the job
Deadline: 26 hours; `timeout_hours` is 24 unless you say otherwise
Checked: llmock 0.2.2, real HTTP
Source: https://github.com/mistralai/client-python/blob/main/docs/models/batchjob.md
"""
