"""A database under the SQL store: how it is opened, who may write when, and what its faults are called."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy import exc

from trihop._redact import redact_text, redact_url
from trihop.stores import StoreError
from trihop.stores._sql_tables import STEPS, STORE

T = TypeVar("T")

_BUSY_S = 5  # for a lock; our own transactions last less than a millisecond
# libpq's own limits are hours: a server that has vanished is to be an error while somebody still wants to know.
_LIBPQ = {"connect_timeout": 10, "tcp_user_timeout": 15_000}
_MIGRATIONS = 0x74726968  # of PostgreSQL's advisory locks, ours

_LEFT_ALONE = "What was written is still there, and the server's job goes on"
_FAULTS = (
    (
        ("disk is full", "no space left", "could not extend file"),
        "has no room left",
        f"{_LEFT_ALONE}: free some space, then run it again",
    ),
    (
        ("readonly database", "read-only", "permission denied"),
        "cannot be written",
        f"{_LEFT_ALONE}: let this user write there, then run it again",
    ),
    (
        ("database is locked", "lock timeout"),
        f"was kept locked by others for {_BUSY_S} s",
        f"{_LEFT_ALONE}: find who holds a transaction open (a shell, a backup), then run it again",
    ),
    (
        ("not a database", "malformed"),
        "is damaged or no database at all",
        "Keep a copy of the file, restore a backup or move it away; jobs that it knew may still run",
    ),
    (
        ("unable to open",),
        "cannot be opened",
        "Its folder has to exist, and this user has to be able to write there",
    ),
)
_UNREACHABLE = f"{_LEFT_ALONE}: see that the database is up, then run it again"


def parsed(url: str) -> sa.URL:
    """The URL of a database that the store can live in.

    Raises:
        ValueError: It is none; the message shows no password.
        ImportError: Its driver is not installed.
    """
    try:
        found = sa.make_url(url)
    except exc.ArgumentError:
        raise ValueError(f"{_shown(url)!r} is no URL of a database: write sqlite:///operations.db") from None
    kind = found.get_backend_name()
    if kind == "sqlite":
        if found.database in (None, "", ":memory:"):
            raise ValueError("a database in memory ends with its connection: use MemoryStore()")
        return found
    if kind != "postgresql":
        raise ValueError(f"{_shown(url)!r}: a store is a SQLite file (sqlite:///…) or PostgreSQL (postgresql://…)")
    if found.drivername == "postgresql":
        drivers = [name for name in ("psycopg", "psycopg2") if find_spec(name) is not None]
        if not drivers:
            raise ImportError("PostgreSQL needs a driver: pip install 'trihop[postgresql]'")
        found = found.set(drivername=f"postgresql+{drivers[0]}")
    return found


def _shown(url: str | sa.URL) -> str:
    if isinstance(url, str):
        return redact_url(url)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    return redact_url(url.set(query={}).render_as_string())


class Database:
    """Connections to one database, opened when they are first needed; safe in threads and after a fork.

    SQLite has one writer at a time, so its callers take turns on one connection,
    and those that wait meanwhile are written together, in one transaction. A
    server writes its log once for all who commit at the same time by itself: there
    each caller has a connection of his own.
    """

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.shown = _shown(url)
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
        with self._telling():
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

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            # Not its own text, which quotes statement and record.
            text = redact_text(" ".join(str(error.orig).split()), known=self._secrets)
        except exc.TimeoutError:
            text = "all connections are in use"
        else:
            return
        for signs, what, then in _FAULTS:
            if any(sign in text.lower() for sign in signs):
                raise StoreError(f"the store {self.shown} {what} ({text})", then=then) from None
        raise StoreError(f"the store {self.shown} cannot be used ({text})", then=_UNREACHABLE) from None


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
        _create_private(url)
        options = {"timeout": _BUSY_S, "check_same_thread": False}
        self._engine = sa.create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=sa.StaticPool, connect_args=options, hide_parameters=True
        )
        self._turn = threading.Lock()
        self._waiting: list[_Turn[Any]] = []
        self._connection = self._engine.connect()
        self._closing = weakref.finalize(self, _close, os.getpid(), self._engine, self._connection)
        try:
            if self._connection.exec_driver_sql("PRAGMA journal_mode").scalar() != "wal":
                self._connection.exec_driver_sql("PRAGMA journal_mode = WAL")
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


def _limit_waits(connection: Any, _: object) -> None:
    """Without this a statement waits for a row until whoever holds it lets go."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{_BUSY_S}s'")
    connection.commit()


def _close(pid: int, engine: sa.Engine, connection: sa.Connection | None) -> None:
    if os.getpid() != pid:
        return
    if connection is not None:
        connection.close()
    engine.dispose()


def _create_private(url: sa.URL) -> None:
    """Make the file, for its owner alone; SQLite gives what it puts beside the same mode."""
    database = str(url.database)
    if database.startswith("file:"):
        if "mode" in url.query:
            return
        database = urlsplit(database).path
    path = Path(database)
    if not path.exists() and path.parent.is_dir():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"the store {_shown(url)} cannot be made ({error.strerror})",
                then="Its folder has to be writable for this user",
            ) from None


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
                f"the store {_shown(connection.engine.url)} has tables of version {found}, "
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
