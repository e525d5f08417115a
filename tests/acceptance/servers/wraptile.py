"""wraptile: OGC API - Processes by others, with its own test processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acceptance.servers import free_port, python_with, serving

PACKAGE = "wraptile==0.3.0"


@contextmanager
def wraptile(folder: Path) -> Iterator[str]:
    """Its URL, for the block.

    Args:
        folder: For its log.
    """
    command = python_with(PACKAGE).with_name("wraptile")
    port = free_port()
    with serving(
        [command, "run", "--host", "127.0.0.1", "--port", str(port), "wraptile.services.local.testing:service"],
        ready=f"http://127.0.0.1:{port}/processes",
        log=folder / "wraptile.log",
    ):
        yield f"http://127.0.0.1:{port}"
