"""Installing, starting and ending servers that others wrote.

They are installed by package name into a cache beside the user's own, listen on
127.0.0.1 on a free port, and are ended by the id of the process that was started.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import requests

from trihop._clock import SystemClock

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "trihop-acceptance"
_UP_WITHIN_S = 60.0
_DOWN_WITHIN_S = 5.0


def python_with(*requirements: str) -> Path:
    """The python of a virtual environment that has these packages, made once."""
    folder = CACHE / "-".join(requirements).replace("==", "-")
    python, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", folder)
        _run(python, "-m", "pip", "install", "--quiet", *requirements)
        done.touch()
    return python


def node_with(package: str) -> Path:
    """The folder of an installed npm package such as "s3rver@3.7.1", made once."""
    name = package.rpartition("@")[0]
    folder = CACHE / package.replace("/", "-").lstrip("@")
    done = folder / ".installed"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"name": "server", "private": true}')
        _run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", package, cwd=folder)
        done.touch()
    return folder / "node_modules" / name


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def serving(
    command: Sequence[str | Path],
    *,
    ready: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    keep: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for the block.

    Args:
        command: What to run; in a session of its own, so that its children end with it.
        ready: A URL; the server is up once it answers this with any status.
        log: Where what it prints goes.
        environment: Variables beside those of this process.
        cwd: Its working directory.
        keep: Leave it running after a block that went well.

    Yields:
        Its process.

    Raises:
        RuntimeError: It did not come up; the message has the end of its log.
    """
    clock = SystemClock()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=cwd,
            start_new_session=True,
        )
    try:
        begun_s = clock.monotonic()
        while not _answers(ready):
            if process.poll() is not None or clock.monotonic() - begun_s > _UP_WITHIN_S:
                raise RuntimeError(f"{command[0]} did not come up: {log.read_text(errors='replace')[-2000:]}")
            clock.sleep(0.1)
        yield process
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            _end(process)


def _answers(url: str) -> bool:
    try:
        requests.get(url, timeout=2, proxies={"http": ""}).close()
    except requests.RequestException:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DOWN_WITHIN_S)
            return


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    finished = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {(finished.stdout + finished.stderr)[-2000:]}")
