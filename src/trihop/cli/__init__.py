"""The command line, `trihop`. click and rich are imported below here alone; the extra is `cli`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name; ends the process with its exit code."""
    try:
        from trihop.cli._app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "rich"):
            raise
        sys.exit(f"trihop: the command line needs {missing.name}: pip install 'trihop[cli]'")
    app(prog_name="trihop")
