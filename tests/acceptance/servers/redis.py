"""Redis of Debian's packages: a server of its own for a test, on a free port, in memory alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from acceptance.servers import free_port
from acceptance.servers.debian import redis
from trihop._clock import SystemClock

_UP_WITHIN_S = 20.0


@contextmanager
def running() -> Iterator[str]:
    """A fresh server for the block; where it is."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="trihop-redis-") as folder:
        process = subprocess.Popen(
            [
                *(str(redis()), "--port", str(port), "--bind", "127.0.0.1", "--dir", folder),
                *("--save", "", "--appendonly", "no"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
            process.wait(_UP_WITHIN_S)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    clock = SystemClock()
    begun_s = clock.monotonic()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or clock.monotonic() - begun_s > _UP_WITHIN_S:
                raise RuntimeError(f"redis did not come up on port {port}") from None
            clock.sleep(0.05)
