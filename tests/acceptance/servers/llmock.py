"""llmock: the batch APIs of ten model providers, with faults to order and a judge of the client's retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from acceptance.servers import free_port, python_with, serving

BATCH_DELAY_S = 0.6

# As its own command line would run it; the time that a batch takes is a constant of its module.
_RUN = """
import sys, llmock.routers.batch as batch
batch._BATCH_DELAY = float(sys.argv.pop(1))
from llmock.cli import app
app()
"""


class LLMock:
    """A running llmock."""

    def __init__(self, url: str) -> None:
        self.url = url

    def reset(self) -> None:
        """Forget requests and faults."""
        self._control("POST", "reset")

    def faults(self, *behaviors: dict[str, Any]) -> None:
        """Order faults for the requests to come."""
        self._control("POST", "scenario", {"behaviors": list(behaviors)})

    def verdict(self) -> dict[str, Any]:
        """How well the client coped, as llmock sees it."""
        return self._control("GET", "verdict")

    def journal(self) -> list[str]:
        """Every request since the reset, as "GET /v1/batches/…"."""
        return [f"{one['method']} {one['path']}" for one in self._control("GET", "requests")["requests"]]

    def _control(self, method: str, what: str, body: Any = None) -> dict[str, Any]:
        response = requests.request(method, f"{self.url}/_llmock/{what}", json=body, timeout=10)
        response.raise_for_status()
        found: dict[str, Any] = response.json()
        return found


@contextmanager
def running(folder: Path) -> Iterator[LLMock]:
    """llmock 0.2.2, whose batches take 0.6 seconds; its log goes into the folder."""
    python, port = python_with("llmock==0.2.2"), free_port()
    command = [python, "-c", _RUN, BATCH_DELAY_S, "serve", "--host", "127.0.0.1", "--port", port]
    options = ["--response-style", "echo", "--log-level", "warning"]
    url = f"http://127.0.0.1:{port}"
    with serving([str(part) for part in [*command, *options]], ready=f"{url}/health", log=folder / "llmock.log"):
        yield LLMock(url)
