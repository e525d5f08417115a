"""Procrastinate with real PostgreSQL: two hundred operations, workers killed at random, and a clock that is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import procrastinate

from acceptance.crowd.run import run
from acceptance.servers.postgresql import PostgreSQL

_APP = ("-m", "procrastinate", "--app=acceptance.crowd.procrastinate_app.app")
_WORKER = (*_APP, "worker")
_TESTS = Path(__file__).resolve().parents[1]
HOUR = 3600.0


def test_two_hundred_operations_over_four_killed_workers(postgresql: PostgreSQL, tmp_path: Path, table: Any) -> None:
    """Each ends once, with one job and one trace, in spite of all that is done to them."""
    url = postgresql.database("procrastinate")
    given = json.dumps({"api": "", "store": url, "folder": str(tmp_path)})
    subprocess.run(
        [sys.executable, *_APP, "schema", "--apply"],
        cwd=_TESTS,
        env={**os.environ, "TRIHOP_CROWD": given},
        check=True,
        timeout=60,
    )
    client = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url))
    with client.open():
        run(
            "Procrastinate",
            {
                "one": (_WORKER, 0.0),
                "two": (_WORKER, 0.0),
                "ahead": (_WORKER, HOUR),
                "behind": (_WORKER, -HOUR),
            },
            {},
            store=url,
            folder=tmp_path,
            start=lambda key: client.configure_task("crowd.start").defer(key=key),
            step=lambda key: client.configure_task("trihop.step").defer(key=key),
            table=table,
        )
