"""OpenAI's Batch API: a file of requests in, two files of answers out.

- Upload the JSONL with `POST /v1/files` (purpose `batch`, up to 200 MB and 50,000 lines), then submit
  `{input_file_id, endpoint, completion_window: "24h"}` to `/v1/batches`; the answer is 200 with the batch.
- Eight states. `failed` means that the *input file* was refused; `errors.data` says where. `completed` may have
  failed lines, counted in `request_counts.failed`. `cancelling` lasts up to ten minutes. `expired` and
  `cancelled` may have left output.
- Results are ids of files, `output_file_id` and `error_file_id`, either of which may be null. Lines come in any
  order; join them on `custom_id`.
- `expires_at` is the end of the batch's window, not of its results. Output files live as long as
  `output_expires_after` says.
- Errors are `{error: {message, type, param, code}}`; `retry-after-ms` is honoured as in their SDK. No
  idempotency key is documented. Pacing is ours: a window of 24 hours asks for no hurry.

The key belongs in the session's headers: files are fetched with it, from the API's own origin.

Read November 2026: the types and docstrings of github.com/openai/openai-python; developers.openai.com/api.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Call, Reply, Result


def files(reply: Reply) -> Sequence[Result]:
    """The files that a batch names, as "output" and "error"."""
    ids = {name: reply.json().get(f"{name}_file_id") for name in ("output", "error")}
    return [Result(f"../files/{quote(found, safe='')}/content", name=name) for name, found in ids.items() if found]


STATES = ReadState(
    "status",
    pending={"validating", "in_progress", "finalizing", "cancelling"},
    succeeded={"completed"},
    failed={"failed"},
    cancelled={"cancelled"},
    expired={"expired"},
    results=files,
    counts="request_counts",
    good_items="request_counts.completed",
    bad_items="request_counts.failed",
    error="errors.data",
)

BATCH = Provider(
    "openai.batch",
    submit=ReadJob(id="id", status_url=None),
    status="batches/{id}",
    poll=STATES,
    cancel=Call("POST", "batches/{id}/cancel"),
    pacing=Pacing(first=5.0, factor=1.5, cap=60.0),
)
"""A batch, submitted to `/v1/batches`.

Result: two JSONL files at the same host, by id: output, error
Deadline: 26 hours; the window is 24
Checked: llmock 0.2.2, real HTTP
Source: https://github.com/openai/openai-python/blob/main/src/openai/types/batch.py
"""
