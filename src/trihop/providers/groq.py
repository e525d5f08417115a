"""Groq's Batch API, which is OpenAI's under `https://api.groq.com/openai/v1`.

The eight states, the two files and the counts are the same; the window goes from 24 hours to 7 days.

Read November 2026: the types of github.com/groq/groq-python.
"""

from __future__ import annotations

from dataclasses import replace

from trihop.providers import openai

BATCH = replace(openai.BATCH, name="groq.batch")
"""A batch, submitted to `/openai/v1/batches`.

Result: two JSONL files at the same host, by id: output, error
Deadline: its `completion_window`, and two hours more
Checked: llmock 0.2.2, real HTTP
Source: https://github.com/groq/groq-python/blob/main/src/groq/types/batch_retrieve_response.py
"""
