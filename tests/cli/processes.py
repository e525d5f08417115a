"""How the command line is run in tests: a process of its own, warnings as errors, no terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

_INHERITED = ("PATH", "HOME", "PYTHONPATH", "SYSTEMROOT", "TMPDIR", "LANG")
ENVIRONMENT = {
    **{name: os.environ[name] for name in _INHERITED if name in os.environ},
    "PYTHONIOENCODING": "utf-8",
    "COLUMNS": "100",
}


def run_in(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """The command line with these arguments, to its end."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "trihop.cli", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **(env or {})},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
