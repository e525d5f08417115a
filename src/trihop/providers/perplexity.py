"""Perplexity's Batch API, which follows OpenAI's and adds an idempotency key.

A submit that is repeated with the same `Idempotency-Key` returns the first batch, so a lost answer is asked for
again by itself. Input and output are kept for 30 days.

Read November 2026: docs.perplexity.ai (Agent API, Batch; Create a batch).
"""

from __future__ import annotations

from dataclasses import replace

from trihop.providers import openai

BATCH = replace(openai.BATCH, name="perplexity.batch", idempotency="Idempotency-Key")
"""A batch, submitted to `/v1/batches`.

Result: two JSONL files at the same host, by id: output, error
Deadline: 26 hours; the window is 24
Checked: llmock 0.2.2, real HTTP
Source: https://docs.perplexity.ai/api-reference/batches-create-post.md
"""
