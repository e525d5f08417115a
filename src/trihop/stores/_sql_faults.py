"""What the faults of a database are called, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from trihop._redact import redact_text
from trihop.stores import StoreError

BUSY_S = 5  # for a lock; our own transactions last less than a millisecond

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
        f"was kept locked by others for {BUSY_S} s",
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


@contextmanager
def telling(store: str, secrets: Iterable[str]) -> Iterator[None]:
    """Raise what the database raises in the block as a `StoreError` that names the store."""
    try:
        yield
    except exc.DBAPIError as error:
        # Not its own text, which quotes statement and record.
        text = redact_text(" ".join(str(error.orig).split()), known=secrets)
    except exc.TimeoutError:
        text = "all connections are in use"
    else:
        return
    for signs, what, then in _FAULTS:
        if any(sign in text.lower() for sign in signs):
            raise StoreError(f"the store {store} {what} ({text})", then=then) from None
    raise StoreError(f"the store {store} cannot be used ({text})", then=_UNREACHABLE) from None
