"""A process in which a library is not installed."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import sys
sys.modules[{library!r}] = None
import trihop, trihop.engines
trihop.Worker
import trihop.engines.{library}
"""


def said_without(library: str) -> str:
    """The last line of what a process says that asks for the engine of that name."""
    code = _CODE.format(library=library)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]
