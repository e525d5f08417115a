"""Azure's test server for generated clients: every shape of long-running operation, and a report of what was covered.

Its state between the requests of one operation is a cookie: a session for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acceptance.servers import free_port, node_with, serving

PACKAGE = "@microsoft.azure/autorest.testserver@3.3.51"


@contextmanager
def autorest(folder: Path) -> Iterator[str]:
    """Its URL, for the block.

    Args:
        folder: For its log and its report.
    """
    command = node_with(PACKAGE) / "dist" / "cli" / "cli.js"
    preloaded = Path(__file__).with_name("loopback.js")
    port = free_port()
    with serving(
        [
            "node",
            "--require",
            preloaded,
            command,
            "--port",
            str(port),
            "--coverageDirectory",
            folder,
            "--level",
            "error",
        ],
        ready=f"http://127.0.0.1:{port}/lro/list/pollingGet",
        log=folder / "autorest.log",
    ):
        yield f"http://127.0.0.1:{port}"
