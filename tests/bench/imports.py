"""`import trihop` against `import requests`, each in processes of their own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

SCRIPT = "import sys, time; began = time.process_time(); __import__(sys.argv[1]); print(time.process_time() - began)"


def cpu_of_import(module: str) -> float:
    """Seconds of CPU in a fresh process, of modules that are compiled, as those of an installed package are."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", SCRIPT, module]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(shown.stdout)


def report(rounds: int = 15) -> float:
    """Print and return the median ratio."""
    cpu_of_import("trihop")
    ratio = statistics.median(cpu_of_import("trihop") / cpu_of_import("requests") for _ in range(rounds))
    print(f"{'import trihop / import requests':<55} {ratio:6.2f}   (reach 1.35)")
    return ratio


if __name__ == "__main__":
    report()
