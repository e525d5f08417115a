"""Build the wheel once, and run the tests against it on the oldest and the newest releases we support."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The oldest releases that pyproject.toml admits. The command line's trace file
# needs a recent SDK, so its tests are not among these.
OLDEST = (
    "requests==2.31.0",
    "urllib3==1.26.18",
    "opentelemetry-api==1.25.0",
    "opentelemetry-sdk==1.25.0",
    "opentelemetry-exporter-otlp-proto-common==1.25.0",
    "jmespath==1.0.1",
    "sqlalchemy==2.0.0",
    "opentelemetry-instrumentation-requests==0.46b0",
    "opentelemetry-instrumentation-urllib3==0.46b0",
    "celery==5.4.0",
    "procrastinate==3.2.1",
)
TOOLS = (
    *("pytest>=8.2", "responses>=0.25", "hypothesis>=6.100", "trustme>=1.2", "pysocks>=1.7", "setuptools<81"),
    *("cachecontrol>=0.14", "requests-mock>=1.11", "requests-toolbelt>=1.0", "tenacity>=8.2"),
    "psycopg[binary]>=3.1",
)
# What needs newer tools than the oldest: the command line and the trace file (their exporter
# wants a recent SDK), the readers of exemplars, mypy, the published schemas, the words of
# opentelemetry-instrument, and the flights of a fleet, which take urllib3 2.
NEWER = (
    *("tests/cli", "tests/typing", "tests/test_typing.py", "tests/test_semconv.py"),
    *("tests/telemetry/test_metrics.py", "tests/telemetry/test_scenes.py", "tests/security/test_canaries.py"),
    "tests/telemetry/test_attempt_log.py",
    *("tests/middleware/test_convention.py", "tests/test_lane.py", "tests/test_crowd.py"),
    *("tests/wire/test_flight.py", "tests/wire/test_fleet_flights.py"),
)
PYTHONS = ("python3.10", "python3.13")
_SOME_FAILED = 1  # pytest's status


def status_of(*command: str | Path, cwd: Path) -> int:
    """The status of a command, shown."""
    print("$", *[str(part) for part in command], flush=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=False).returncode


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command; end with its status if it fails."""
    if (status := status_of(*command, cwd=cwd)) != 0:
        sys.exit(status)


def test(python: Path, *arguments: str, cwd: Path) -> None:
    """Run tests; as in the Makefile, what failed has to fail again by itself."""
    status = status_of(python, "-m", "pytest", *arguments, cwd=cwd)
    if status == _SOME_FAILED:
        run(python, "-m", "pytest", *arguments, "--last-failed", "--last-failed-no-failures=none", cwd=cwd)
    elif status != 0:
        sys.exit(status)


def python_for(name: str) -> str:
    """That interpreter if it runs here, on the path or of pyenv, else the one that runs this."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(name), *sorted(pyenv.glob(f"versions/{name.removeprefix('python')}*/bin/{name}"))]
    for found in candidates:
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return str(found)
    print(f"{name} is not on this machine; using {sys.executable}", flush=True)
    return sys.executable


def environment(folder: Path, interpreter: str, *packages: str | Path) -> Path:
    """A fresh virtual environment with these packages; its python."""
    run(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip")
    run(python, "-m", "pip", "install", "--quiet", *packages)
    return python


def main() -> None:
    """The wheel alone, on the newest, on the oldest, and against real servers."""
    with tempfile.TemporaryDirectory(prefix="trihop-acceptance-") as temporary:
        work = Path(temporary)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", work, ROOT)
        (wheel,) = work.glob("trihop-*.whl")
        project = work / "project"
        project.mkdir()
        for part in ("tests", "examples", "docs", "collector-config"):
            shutil.copytree(ROOT / part, project / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / part, project / part)

        alone = environment(work / "alone", sys.executable, wheel)
        run(alone, "-W", "error", "-c", "import trihop; trihop.operation('x', deadline=1); print(trihop.__version__)")

        newest = environment(work / "newest", python_for(PYTHONS[1]), f"{wheel}[dev]")
        test(newest, cwd=project)

        oldest = environment(work / "oldest", python_for(PYTHONS[0]), wheel, *OLDEST, *TOOLS)
        test(oldest, *[f"--ignore={path}" for path in NEWER], cwd=project)

        # Servers that others wrote, from the registries; last, so that their table and its count end the output.
        test(newest, "tests/acceptance", cwd=project)


if __name__ == "__main__":
    main()
