"""PostgreSQL of Debian's packages: a server of its own for a test, on a free port, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance.servers import free_port
from acceptance.servers.debian import postgresql

_USER = "trihop"
_DOWN_WITHIN_S = 20.0


@dataclass
class PostgreSQL:
    """A server, and what can be done to it; `url` is its database for SQLAlchemy."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Where the database is."""
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def database(self, name: str) -> str:
        """Make an empty database; where it is."""
        create = [self.programs / "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", _USER, name]
        _run(*create, cwd=self.folder)
        return f"{self.url.rpartition('/')[0]}/{name}"

    def start(self) -> None:
        """Up once this returns."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self._control("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Down once this returns; `immediate` is how it ends when the machine does."""
        self._control("stop", "-m", mode)

    def _control(self, *arguments: str) -> None:
        _run(self.programs / "pg_ctl", "-D", self.folder / "data", "-w", *arguments, cwd=self.folder)


@contextmanager
def running() -> Iterator[PostgreSQL]:
    """A fresh server for the block; as the user `postgres` where this process is root, as it refuses that."""
    programs = postgresql()
    # Not pytest's folder, which is closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="trihop-postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    server = PostgreSQL(programs, folder, free_port())
    try:
        _run(programs / "initdb", "-D", folder / "data", "-U", _USER, "-A", "trust", "-E", "UTF8", cwd=folder)
        server.start()
        try:
            yield server
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str | Path, cwd: Path) -> None:
    who: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    # Its output goes to a file: the server keeps it open, and a pipe would never end.
    with tempfile.TemporaryFile() as told:
        finished = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            timeout=_DOWN_WITHIN_S * 3,
            check=False,
            **who,
        )
        told.seek(0)
        if finished.returncode != 0:
            log = cwd / "log"
            more = log.read_text(errors="replace")[-1000:] if log.exists() else ""
            raise RuntimeError(f"{command[0]} failed: {told.read().decode(errors='replace')[-1000:]} {more}")
