"""Celery with real Redis: two hundred operations, workers killed at random, and a clock that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import celery

from acceptance.crowd.run import run
from acceptance.servers.postgresql import PostgreSQL

_APP = ("-m", "celery", "-A", "acceptance.crowd.celery_app")
_WORKER = (*_APP, "worker", "--loglevel=WARNING", "--without-gossip", "--without-mingle")
HOUR = 3600.0


def test_two_hundred_operations_over_four_killed_workers(
    redis: str, postgresql: PostgreSQL, tmp_path: Path, table: Any
) -> None:
    """Each ends once, with one job and one trace, in spite of all that is done to them."""
    client = celery.Celery("client", broker=redis, set_as_current=False)
    try:
        run(
            "Celery",
            {
                "one": ((*_WORKER, "--pool=solo", "-n", "one"), 0.0),
                "ahead": ((*_WORKER, "--pool=solo", "-n", "ahead"), HOUR),
                "behind": ((*_WORKER, "--pool=solo", "-n", "behind"), -HOUR),
                "forks": ((*_WORKER, "--pool=prefork", "--concurrency=2", "-n", "forks"), 0.0),
                "beat": ((*_APP, "beat", "--loglevel=WARNING", "--pidfile=", "-s", str(tmp_path / "beat")), 0.0),
            },
            {"broker": redis},
            store=postgresql.database("celery"),
            folder=tmp_path,
            start=lambda key: client.send_task("crowd.start", (key,), ignore_result=True),
            step=lambda key: client.send_task("trihop.step", (key,), ignore_result=True),
            table=table,
        )
    finally:
        client.close()
