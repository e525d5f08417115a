"""Fixtures of the command line's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

_INHERITED = ("PATH", "HOME", "PYTHONPATH", "SYSTEMROOT", "TMPDIR", "LANG")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command line in a process of its own, in an empty folder, with warnings as errors and no terminal."""

    def command(
        *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        base = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "trihop.cli", *arguments],
            cwd=tmp_path,
            env={**base, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100", **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )

    return command
