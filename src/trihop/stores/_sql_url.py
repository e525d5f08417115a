"""The URL of a database: which can be a store, how it is shown, and the file that one stands for."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import exc

from trihop._redact import redact_url
from trihop.stores import StoreError


def parsed(url: str) -> sa.URL:
    """The URL of a database that the store can live in.

    Raises:
        ValueError: It is none; the message shows no password.
        ModuleNotFoundError: Its driver is not installed.
    """
    try:
        found = sa.make_url(url)
    except exc.ArgumentError:
        raise ValueError(f"{shown(url)!r} is no URL of a database: write sqlite:///operations.db") from None
    kind = found.get_backend_name()
    if kind == "sqlite":
        if not found.database or ":memory:" in found.database or found.query.get("mode") == "memory":
            raise ValueError("a database in memory ends with its connection: name a file, or use MemoryStore()")
        # Absolute, for a process that changes its folder later, as a daemon does.
        return found if found.database.startswith("file:") else found.set(database=str(Path(found.database).absolute()))
    if kind != "postgresql":
        raise ValueError(f"{shown(url)!r}: a store is a SQLite file (sqlite:///…) or PostgreSQL (postgresql://…)")
    _, _, named = found.drivername.partition("+")
    for driver in [named] if named else ["psycopg", "psycopg2"]:
        if find_spec(driver) is not None:
            return found.set(drivername=f"postgresql+{driver}")
    advice = "pip install 'trihop[postgresql]'"
    raise ModuleNotFoundError(f"{named or 'psycopg'} is not installed: {advice}", name=named or "psycopg")


def shown(url: str | sa.URL) -> str:
    """The URL as it may be written down: without user, password and options."""
    if isinstance(url, str):
        return redact_url(url)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    return redact_url(url.set(query={}).render_as_string())


def file_of(url: sa.URL) -> Path | None:
    """The file that the database is; None where it is a server."""
    if url.get_backend_name() != "sqlite":
        return None
    database = str(url.database)
    return Path(unquote(urlsplit(database).path) if database.startswith("file:") else database)


def create_private(url: sa.URL) -> None:
    """Make the file, for its owner alone; SQLite gives what it puts beside the same mode."""
    path = file_of(url)
    if path is None or (str(url.database).startswith("file:") and "mode" in url.query):
        return
    if not path.exists() and path.parent.is_dir():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"the store {shown(url)} cannot be made ({error.strerror})",
                then="Its folder has to be writable for this user",
            ) from None
