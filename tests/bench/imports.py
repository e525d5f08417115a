"""`import trihop` against `import requests`, each in processes of their own."""

from __future__ import annotations

import statistics
import subprocess
import sys

SCRIPT = "import sys, time; began = time.process_time(); __import__(sys.argv[1]); print(time.process_time() - began)"


def cpu_of_import(module: str) -> float:
    """Seconds of CPU in a fresh process."""
    shown = subprocess.run([sys.executable, "-c", SCRIPT, module], capture_output=True, text=True, check=True)
    return float(shown.stdout)


def report(rounds: int = 15) -> float:
    """Print and return the median ratio."""
    cpu_of_import("trihop")
    ratio = statistics.median(cpu_of_import("trihop") / cpu_of_import("requests") for _ in range(rounds))
    print(f"{'import trihop / import requests':<55} {ratio:6.2f}   (reach 1.35)")
    return ratio


if __name__ == "__main__":
    report()
