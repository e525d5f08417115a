"""moto: services of AWS, played through by others; it routes by the service that a SigV4 signature names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acceptance.servers import free_port, python_with, serving

PACKAGE = "moto[server,stepfunctions]==5.2.5"


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """Its URL, for the block.

    Args:
        folder: For its log.
    """
    command = python_with(PACKAGE).with_name("moto_server")
    port = free_port()
    with serving(
        [command, "-H", "127.0.0.1", "-p", str(port)],
        ready=f"http://127.0.0.1:{port}/moto-api/data.json",
        log=folder / "moto.log",
    ):
        yield f"http://127.0.0.1:{port}"
