"""The same block against two model providers: one argument differs, `provider=`, and what is submitted.

ANTHROPIC_API_KEY=… python examples/two_providers.py anthropic "What is a triangle?"
MISTRAL_API_KEY=… python examples/two_providers.py mistral "What is a triangle?"
"""

from __future__ import annotations

import os
import sys
from typing import Any

import requests

from trihop import Call, Provider, operation, show
from trihop.providers import anthropic, mistral


def answers(session: requests.Session, provider: Provider, submit: Call) -> list[dict[str, Any]]:
    """One row for each request that was answered, in any order.

    Raises:
        trihop.OperationError: There is no result; the message says why, and what next.
    """
    with operation("ask", deadline=26 * 3600, session=session, provider=provider, on_event=show) as op:
        job = op.submit(submit.method, submit.url, json=submit.json)
        return list(op.download(op.poll(job)).iter_rows())


def ask_anthropic(prompt: str, api: str = "https://api.anthropic.com/v1") -> Call:
    """A message batch of one request."""
    params = {"model": "claude-sonnet-4-5", "max_tokens": 200, "messages": [{"role": "user", "content": prompt}]}
    return Call("POST", f"{api}/messages/batches", json={"requests": [{"custom_id": "1", "params": params}]})


def ask_mistral(prompt: str, api: str = "https://api.mistral.ai/v1") -> Call:
    """A batch job of one inline request."""
    requests = [{"custom_id": "1", "body": {"messages": [{"role": "user", "content": prompt}]}}]
    body = {"requests": requests, "model": "mistral-small-latest", "endpoint": "/v1/chat/completions"}
    return Call("POST", f"{api}/batch/jobs", json=body)


def main() -> None:
    """Ask the one that is named."""
    name, prompt = sys.argv[1:]
    with requests.Session() as session:
        if name == "anthropic":
            session.headers.update({"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"})
            rows = answers(session, anthropic.BATCHES, ask_anthropic(prompt))
        else:
            session.headers["Authorization"] = f"Bearer {os.environ['MISTRAL_API_KEY']}"
            rows = answers(session, mistral.BATCH, ask_mistral(prompt))
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
