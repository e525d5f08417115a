"""`make jaeger` and `make demo-jaeger`: Jaeger built from its source, and the demo's trace in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from acceptance.servers.jaeger import Jaeger, binary, running


def main() -> None:
    """Build with `build` as the argument; else run the demo into Jaeger and end all that was started."""
    if sys.argv[1:] == ["build"]:
        print(binary())
        return
    keep = bool(os.environ.get("KEEP"))
    folder = Path(tempfile.mkdtemp(prefix="trihop-jaeger-"))
    with running(folder, keep=keep) as jaeger:
        _demo(jaeger, folder)
        if keep:
            print(f"Jaeger is left up as process {jaeger.pid}: kill {jaeger.pid} ends it.")


def _demo(jaeger: Jaeger, folder: Path) -> None:
    """The demo, and what Jaeger has of it."""
    command = [sys.executable, "-m", "trihop.cli", "demo", "--file", str(folder / "trihop-trace.jsonl")]
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": jaeger.otlp, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(done.returncode)
    (trace_id,) = re.findall(r"^trace ([0-9a-f]{32})$", done.stdout, re.MULTILINE)
    spans = sorted(jaeger.trace(trace_id, spans=4)["spans"], key=lambda span: int(span["startTime"]))
    print(f"Jaeger has {len(spans)} spans of it: {', '.join(span['operationName'] for span in spans)}")
    print(f"{jaeger.url}/trace/{trace_id}")
    print(f"{jaeger.url}/api/traces/{trace_id} is the same as JSON; a Jaeger built from source has no page of its own.")


if __name__ == "__main__":
    main()
