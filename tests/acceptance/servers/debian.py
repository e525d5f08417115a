"""Programs of Debian's packages, for machines that lack them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from acceptance.servers import CACHE


def promtool() -> Path:
    """Prometheus's checker. Unpacked rather than installed: the package would start a server."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    program = CACHE / "prometheus" / "usr" / "bin" / "promtool"
    if not program.exists():
        folder = CACHE / "prometheus"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _apt("download", "prometheus", cwd=folder)
        (package,) = folder.glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return program


def chromium() -> Path:
    """A browser without a window; installed, as it needs many libraries."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (found := shutil.which(name)) is not None:
            return Path(found)
    _apt("install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core")
    found = shutil.which("chromium")
    assert found is not None
    return Path(found)


def postgresql() -> Path:
    """The folder of its programs; installed, as it needs a user of its own, but no server is set up or started."""
    if (found := _postgresql()) is None:
        # Read by the package when it is installed: without this it makes a server, and starts it.
        settings = Path("/etc/postgresql-common/createcluster.conf")
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("create_main_cluster = false\n")
        _apt("install", "--yes", "--no-install-recommends", "-oDpkg::Options::=--force-confold", "postgresql")
        found = _postgresql()
    assert found is not None
    return found


def redis() -> Path:
    """The server. Its package would start one; the program is in that of its tools, and is what it is called as."""
    found = shutil.which("redis-server")
    if found is not None:
        return Path(found)
    tool = shutil.which("redis-check-rdb")
    if tool is None:
        _apt("install", "--yes", "--no-install-recommends", "redis-tools")
        tool = shutil.which("redis-check-rdb")
    assert tool is not None
    program = CACHE / "redis" / "redis-server"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to(tool)
    return program


def _postgresql() -> Path | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


def _apt(*arguments: str, cwd: Path | None = None) -> None:
    """Run apt-get; once more with fresh lists if it does not know what is asked for."""
    command = ["apt-get", "--quiet=2", *arguments]
    if subprocess.run(command, cwd=cwd, capture_output=True, check=False).returncode == 0:
        return
    subprocess.run(["apt-get", "--quiet=2", "update"], capture_output=True, check=False)
    finished = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"apt-get failed: {(finished.stdout + finished.stderr)[-2000:]}")
