"""Together's Batch API: OpenAI's shape with other words.

- The answer to the submit wraps the batch as `{job, warning}`; polls have it bare.
- States are upper case and there is no `cancelling`; `progress` is percent; `error` is a text. There are no
  counts: a `COMPLETED` batch may have failed lines, and only its error file tells. Fetch both files.
- Their documentation asks for 30 to 60 seconds between two polls.

Read November 2026: docs.together.ai (Manage batch jobs); the types of github.com/togethercomputer/together-py.
"""

from __future__ import annotations

from dataclasses import replace

from trihop._pacing import Pacing
from trihop._surface import ReadJob
from trihop.providers import openai

BATCH = replace(
    openai.BATCH,
    name="together.batch",
    submit=ReadJob(id="job.id || id", status_url=None),
    poll=replace(openai.STATES, error="error || errors.data", progress="progress"),
    pacing=Pacing(first=30.0, factor=1.5, cap=60.0),
)
"""A batch, submitted to `/v1/batches`.

Result: two JSONL files at the same host, by id: output, error
Deadline: 26 hours; the window is 24
Checked: llmock 0.2.2, real HTTP
Source: https://docs.together.ai/docs/inference/batch/manage.md
"""
