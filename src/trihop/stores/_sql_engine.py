"""A database under the SQL store: how it is opened and brought up to date, and who may write when."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from trihop._clock import SystemClock
from trihop.stores import StoreError
from trihop.stores._sql_faults import BUSY_S, telling
from trihop.stores._sql_tables import STEPS, STORE
from trihop.stores._sql_url import create_private, shown

T = TypeVar("T")

# libpq's own limits are hours: a server that has vanished is to be an error while somebody still wants to know.
_LIBPQ = {"connect_timeout": 10, "tcp_user_timeout": 15_000}
_MIGRATIONS = 0x74726968  # of PostgreSQL's advisory locks, ours


class Database:
    """Connections to one database, opened when they are first needed; safe in threads and after a fork.

    SQLite has one writer at a time, so its callers take turns on one connection,
    and those that wait meanwhile are written together, in one transaction. A
    server writes its log once for all who commit at the same time by itself: there
    each caller has a connection of his own.
    """

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.shown = shown(url)
        self._secrets = [str(word) for word in (url.password, url.query.get("password")) if word]
        self.is_file = url.get_backend_name() == "sqlite"
        self._pid = os.getpid()
        self._opening = threading.Lock()
        self._open: _File | _Server | None = None

    def run(self, work: Callable[[sa.Connection], T], *, write: bool = True) -> T:
        """What `work` returns once it is committed. It may be run again, after a rollback of what it did.

        Raises:
            StoreError: The database cannot be used.
        """
        with telling(self.shown, self._secrets):
            return self._opened().run(work, write=write)

    def close(self) -> None:
        """Close what is open; the next `run` opens it again."""
        self._after_fork()
        with self._opening:
            opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _opened(self) -> _File | _Server:
        self._after_fork()
        opened = self._open
        if opened is None:
            with self._opening:
                if self._open is None:
                    self._open = _File(self.url) if self.is_file else _Server(self.url)
                opened = self._open
        return opened

    def _after_fork(self) -> None:
        # A connection belongs to the process that made it, and so does a lock that another thread held.
        if self._pid != os.getpid():
            _INHERITED.append(self._open)
            self._pid, self._opening, self._open = os.getpid(), threading.Lock(), None


_INHERITED: list[_File | _Server | None] = []  # by a fork: closing them would end the parent's


class _Turn(Generic[T]):
    """A caller's work, and what came of it."""

    def __init__(self, work: Callable[[sa.Connection], T]) -> None:
        self.work = work
        self.done = False
        self.result: T
        self.error: Exception | None = None


class _File:
    """A SQLite file."""

    def __init__(self, url: sa.URL) -> None:
        create_private(url)
        options = {"timeout": BUSY_S, "check_same_thread": False}
        self._engine = sa.create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=sa.StaticPool, connect_args=options, hide_parameters=True
        )
        self._turn = threading.Lock()
        self._waiting: list[_Turn[Any]] = []
        self._connection = self._engine.connect()
        self._closing = weakref.finalize(self, _close, os.getpid(), self._engine, self._connection)
        try:
            _write_ahead(self._connection)
            # A process that is killed loses nothing; a power cut may lose the last commits, and damages none.
            self._connection.exec_driver_sql("PRAGMA synchronous = NORMAL")
            _bring_up(self._connection, "BEGIN IMMEDIATE")
        except BaseException:
            self.close()
            raise

    def run(self, work: Callable[[sa.Connection], T], *, write: bool) -> T:
        if not write:
            with self._turn:
                return work(self._connection)
        mine = _Turn(work)
        self._waiting.append(mine)
        with self._turn:
            if not mine.done:
                together, self._waiting = self._waiting, []
                self._commit(together if mine in together else [mine])
        if mine.error is not None:
            raise mine.error
        return mine.result

    def close(self) -> None:
        self._closing()

    def _commit(self, turns: list[_Turn[Any]]) -> None:
        """All of them in one transaction; each in its own where that fails."""
        try:
            results = self._transaction(turns)
        except Exception as error:
            if len(turns) > 1:
                for turn in turns:
                    self._commit([turn])
                return
            turns[0].error = error
        else:
            for turn, result in zip(turns, results, strict=True):
                turn.result = result
        for turn in turns:
            turn.done = True

    def _transaction(self, turns: list[_Turn[Any]]) -> list[Any]:
        try:
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")
            results = [turn.work(self._connection) for turn in turns]
            self._connection.exec_driver_sql("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return results

    def _roll_back(self) -> None:
        # A full disk may have ended the transaction, and an interrupt may have come before or after its begin.
        if self._connection.connection.dbapi_connection.in_transaction:  # type: ignore[union-attr]
            self._connection.exec_driver_sql("ROLLBACK")


class _Server:
    """A PostgreSQL server."""

    def __init__(self, url: sa.URL) -> None:
        given = {name: value for name, value in _LIBPQ.items() if name not in url.query}
        # Asked before use: the server may have been restarted since.
        self._engine = sa.create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            pool_pre_ping=True,
            pool_size=8,
            max_overflow=24,
            connect_args=given if url.get_driver_name() in ("psycopg", "psycopg2") else {},
            hide_parameters=True,
        )
        sa.event.listen(self._engine, "connect", _limit_waits)
        self._closing = weakref.finalize(self, _close, os.getpid(), self._engine, None)
        with self._engine.connect() as connection:
            _bring_up(connection, "BEGIN", f"SELECT pg_advisory_xact_lock({_MIGRATIONS})")

    def run(self, work: Callable[[sa.Connection], T], *, write: bool) -> T:
        with self._engine.connect() as connection:
            return work(connection)

    def close(self) -> None:
        self._closing()


def _write_ahead(connection: sa.Connection) -> None:
    """Have the file keep a write-ahead log; SQLite waits for no other process that is just about to do the same."""
    clock = SystemClock()
    until_s = clock.monotonic() + BUSY_S
    while True:
        try:
            if connection.exec_driver_sql("PRAGMA journal_mode").scalar() != "wal":
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            return
        except sa.exc.OperationalError as error:
            if "locked" not in str(error.orig) or clock.monotonic() >= until_s:
                raise
            clock.sleep(0.01)


def _limit_waits(connection: Any, _: object) -> None:
    """Without this a statement waits for a row until whoever holds it lets go."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{BUSY_S}s'")
    connection.commit()


def _close(pid: int, engine: sa.Engine, connection: sa.Connection | None) -> None:
    if os.getpid() != pid:
        return
    if connection is not None:
        connection.close()
    engine.dispose()


def _bring_up(connection: sa.Connection, *begin: str) -> None:
    """Make the tables, or take them on to what this release knows.

    Raises:
        StoreError: A newer release has been here.
    """
    if _version(connection) == len(STEPS):
        return
    for statement in begin:
        connection.exec_driver_sql(statement)
    try:
        found = _version(connection)  # another process may have been faster
        if found > len(STEPS):
            raise StoreError(
                f"the store {shown(connection.engine.url)} has tables of version {found}, "
                f"and this release of trihop knows version {len(STEPS)}",
                then="Upgrade trihop; nothing was changed",
            )
        for step in STEPS[found:]:
            step(connection)
        connection.execute(sa.update(STORE).values(version=len(STEPS)))
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise


def _version(connection: sa.Connection) -> int:
    """How many steps the tables have had; 0 where there are none."""
    if not sa.inspect(connection).has_table(STORE.name):
        return 0
    return int(connection.execute(sa.select(STORE.c.version)).scalar_one())
