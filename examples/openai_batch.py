"""Run a JSONL file of requests as a batch; Ctrl-C cancels it.

OPENAI_API_KEY=… python examples/openai_batch.py requests.jsonl
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import requests

from trihop import Download, JobFailed, operation, show
from trihop.providers import openai


def run(
    session: requests.Session, lines: Path, out: Path, api: str = "https://api.openai.com/v1"
) -> dict[str, Download]:
    """The files of the batch: "output", and "error" if a request failed.

    Raises:
        trihop.JobFailed: It failed, was cancelled or expired; what it left is fetched all the same.
    """
    with operation(
        "evaluation",
        deadline=26 * 3600,
        session=session,
        provider=openai.BATCH,
        on_event=show,
        on_interrupt="cancel",
    ) as op:

        def upload() -> str:
            with lines.open("rb") as file:
                sent = session.post(f"{api}/files", data={"purpose": "batch"}, files={"file": file})
            sent.raise_for_status()
            return str(sent.json()["id"])

        job = op.submit(
            "POST",
            f"{api}/batches",
            json={
                "input_file_id": op.once("upload", upload),
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
            },
        )
        try:
            ready = op.poll(job, allow_partial=True)
        except JobFailed as failure:
            op.download(failure.ready, into=out)
            raise
        return op.download(ready, into=out)


if __name__ == "__main__":
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
        for name, file in run(session, Path(sys.argv[1]), Path("out")).items():
            print(name, file.path, file.size_bytes)
