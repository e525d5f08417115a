"""Each kind of store as the suite needs it: opened as often as asked, on time that the test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from trihop._clock import SystemClock
from trihop.stores import MemoryStore, SQLStore, Store
from trihop.stores._sql_tables import OPERATIONS
from trihop.stores._sql_url import parsed
from trihop.testing import VirtualClock


class Shelf(Protocol):
    """Where a test gets its stores from."""

    def open(self) -> Store:
        """A store on the same records as each one before, as another process would open it."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass, as the store sees it."""
        ...

    def now(self) -> float:
        """Seconds since the epoch, as the store sees it."""
        ...

    def close(self) -> None:
        """Close every store."""
        ...


class InMemory:
    """There is one process only, so there is one store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.advance = self.clock.advance

    def open(self) -> Store:
        return self.store

    def now(self) -> float:
        return self.clock.time_ns() / 1e9

    def close(self) -> None:
        self.store.close()


class InFile:
    """A SQLite file, with a connection for each store."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.path = folder / "operations.db"
        self.url = f"sqlite:///{self.path}"
        self.stores: list[SQLStore] = []
        self.advance = self.clock.advance

    def open(self) -> SQLStore:
        self.stores.append(SQLStore(self.url, clock=self.clock))
        return self.stores[-1]

    def now(self) -> float:
        return self.clock.time_ns() / 1e9

    def close(self) -> None:
        for store in self.stores:
            store.close()


class OnServer:
    """PostgreSQL. Nobody sets its clock: what it has written is moved back instead."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stores: list[SQLStore] = []
        self._engine = sa.create_engine(parsed(url))
        self.open().list(limit=1)
        with self._engine.begin() as connection:
            connection.execute(sa.delete(OPERATIONS))

    def open(self) -> SQLStore:
        self.stores.append(SQLStore(self.url))
        return self.stores[-1]

    def advance(self, seconds: float) -> None:
        times = ("due_at", "claimable_at", "deadline_at", "lease_until", "updated_at")
        with self._engine.begin() as connection:
            back = {name: OPERATIONS.c[name] - round(seconds * 1e6) for name in times}
            connection.execute(sa.update(OPERATIONS).values(**back))

    def now(self) -> float:
        return SystemClock().time_ns() / 1e9

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self._engine.dispose()
