"""What these tests share: a store on the virtual clock, and one operation that is entered again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests

from durable.lives import JOBS, Killed
from trihop import Operation, operation
from trihop.stores import MemoryStore
from trihop.testing import ScriptedServer, VirtualClock


@pytest.fixture
def shelf(clock: VirtualClock) -> MemoryStore:
    """A store in memory, on the test's own time."""
    return MemoryStore(clock=clock)


@pytest.fixture
def nightly(
    shelf: MemoryStore, server: ScriptedServer, session: requests.Session, clock: VirtualClock
) -> Callable[..., Operation]:
    """The operation under the key "nightly"; further arguments are those of `operation`."""

    def nightly(**options: Any) -> Operation:
        given = {"deadline": 600, "provider": JOBS, "key": "nightly", "store": shelf, "clock": clock}
        return operation("export", session=session, **{**given, **options})

    return nightly


@pytest.fixture
def run(nightly: Callable[..., Operation], server: ScriptedServer) -> Callable[..., Any]:
    """Enter it and walk the triangle; the download, or None where the process was killed on its way."""

    def run(*, to: Any = None, json: Any = None, **options: Any) -> Any:
        try:
            with nightly(**options) as op:
                return op.run("POST", server.url + "jobs", json=json or {"query": "all"}, to=to)
        except Killed:
            return None

    return run
