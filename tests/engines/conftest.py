"""What these tests share: operations that a web handler has submitted, and a worker for their next steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import requests

from durable.lives import ADMITTED, JOBS
from trihop import Reply, Worker, operation
from trihop.stores import MemoryStore
from trihop.testing import ScriptedServer, VirtualClock


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    """A store in memory, on the test's own time."""
    return MemoryStore(clock=clock)


@pytest.fixture
def finished() -> list[tuple[str, bytes]]:
    """The keys and results that a worker has come to."""
    return []


@pytest.fixture
def worker(
    store: MemoryStore, session: requests.Session, clock: VirtualClock, finished: list[tuple[str, bytes]]
) -> Worker:
    """Downloads what it comes to."""
    return Worker(
        store,
        session=session,
        finish=lambda op, ready: finished.append((op.key or "", op.download(ready).content)),
        providers=[JOBS],
        clock=clock,
    )


@pytest.fixture
def submitted(
    store: MemoryStore, server: ScriptedServer, session: requests.Session, clock: VirtualClock
) -> Callable[[str], None]:
    """Submit an operation under a key, and leave it to the worker."""

    def submitted(key: str) -> None:
        server.script(Reply(202, ADMITTED))
        with operation("export", deadline=600, session=session, provider=JOBS, key=key, store=store, clock=clock) as op:
            op.submit("POST", server.url + "jobs", json={"query": "all"})

    return submitted
