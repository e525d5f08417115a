"""A batch of model calls: upload a file, submit, wait for a day at most, keep what succeeded and what did not.

Ctrl-C cancels the batch at the server, as every line of it costs money.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import requests

from trihop import Call, Download, JobFailed, Provider, ReadJob, ReadState, Reply, Result, operation

A_DAY_AND_TWO_HOURS = 26 * 3600


def files(reply: Reply) -> Sequence[Result]:
    """Up to two files, whatever became of the batch."""
    body = reply.json()
    ids = {"good": body.get("output_file_id"), "bad": body.get("error_file_id")}
    return [Result(f"../files/{file_id}/content", name=name) for name, file_id in ids.items() if file_id]


BATCH = Provider(
    "example.batch",
    submit=ReadJob(id="id", status_url=None),
    status="batches/{id}",
    poll=ReadState(
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
    ),
    cancel=Call("POST", "batches/{id}/cancel"),
)


def main(session: requests.Session, api: str, lines: Path, into: Path) -> dict[str, Download]:
    """Run the lines of a file as one batch; the files that came of it, by name."""
    with operation(
        "evaluation", deadline=A_DAY_AND_TWO_HOURS, session=session, provider=BATCH, on_interrupt="cancel"
    ) as op:

        def upload() -> str:
            with lines.open("rb") as body:
                answer = session.post(f"{api}/files", data={"purpose": "batch"}, files={"file": body})
            answer.raise_for_status()
            return str(answer.json()["id"])

        job = op.submit(
            "POST",
            f"{api}/batches",
            json={"input_file_id": op.once("upload", upload), "endpoint": "/v1/chat/completions"},
        )
        try:
            ready = op.poll(job, allow_partial=True)
        except JobFailed as failure:  # failed, cancelled or expired: what there is, is fetched all the same
            op.download(failure.ready, into=into)
            raise
        return op.download(ready, into=into)
