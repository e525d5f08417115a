"""Where records of operations live: what a store does, in memory, and in SQL.

A store is the schedule and the fence. Whoever works on an operation holds a
claim: a lease that runs out by itself, and a token that grows with each claim,
so that a holder that stalled and comes back is told so (`Fenced`) and changes
nothing. All times are by the store's own clock: machines may differ on theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from trihop._errors import StoreError
from trihop._values import JSON

if TYPE_CHECKING:
    from trihop.stores._memory import MemoryStore
    from trihop.stores._sql import SQLStore

__all__ = ["OFFERED", "Claim", "Fenced", "MemoryStore", "SQLStore", "Store", "StoreError", "Stored", "Taken"]

OFFERED = "a queue"
"""The holder of what was claimed for a message that is on its way to whoever takes the step. Its lease keeps
`claim_due` from handing the operation out again, and keeps out nobody who comes by the key."""

StoredRecord = dict[str, JSON]
"""Plain JSON. A store reads `version` (int), `name` (text), `job_id` (text or None) and `deadline_at` (seconds since
the epoch, or None) for its columns and hands back the rest as it came."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a holder has in hand.

    Args:
        key: The operation's key.
        token: The fencing token; grows with each claim on the key, and never comes
            back, not even after the key was forgotten and begun again.
        record: As it was last saved.
        fresh: Whether `begin` made it just now.
        ended: Whether the operation has its ending; then the claim is for reading, and `save` may still change it.
        expired: Whether an earlier holder's lease had run out: it crashed or stalled, and released nothing.
        due_in_s: Seconds until the next step is due, negative if it is overdue; None
            where none is due until somebody wakes it.
        at: When it was made, by the store's own clock, in seconds since the epoch;
            None where the store does not tell.
    """

    key: str
    token: int
    record: StoredRecord
    fresh: bool = False
    ended: bool = False
    expired: bool = False
    due_in_s: float | None = field(default=0.0, compare=False)
    at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it lies in the store, for lists.

    Args:
        key: The operation's key.
        record: As it was last saved.
        ended: Whether the operation has its ending.
        due_in_s: Seconds until the next step is due, negative if it is overdue;
            None where nothing is due until somebody wakes it.
        holder: Who works on it now; None where nobody's lease runs.
        lease_left_s: Seconds until that lease runs out; None where there is none.
        token: The latest fencing token.
        updated_ago_s: Seconds since it was last saved.
    """

    key: str
    record: StoredRecord
    ended: bool
    due_in_s: float | None
    holder: str | None
    lease_left_s: float | None
    token: int
    updated_ago_s: float


class Taken(Exception):
    """Another holder's lease runs.

    Args:
        holder: Who.
        expires_in_s: Seconds until it runs out, unless it is renewed.
    """

    def __init__(self, holder: str, expires_in_s: float) -> None:
        super().__init__(holder, expires_in_s)
        self.holder = holder
        self.expires_in_s = expires_in_s


class Fenced(Exception):
    """Our token is no longer the latest, or the record has gone: nothing was changed."""


@runtime_checkable
class Store(Protocol):
    """Records of operations under their keys. Safe to use from several threads, and shared by many operations.

    Every method may raise `StoreError`.
    """

    lease_s: float
    """For how many seconds a holder that gives no sign of life is waited for; set when the store is made."""

    def begin(self, record: StoredRecord, *, key: str, holder: str, lease_s: float) -> Claim:
        """Insert the record, or claim the one that is there; atomically.

        An ended record is claimed too, so that whoever enters the key again can
        read how it ended. A fresh record is due at once, which its lease hides
        from `claim_due` for as long as its holder lives.

        Raises:
            Taken: Another holder's lease runs.
        """
        ...

    def claim(self, key: str, *, holder: str, lease_s: float) -> Claim | None:
        """Claim the record under that key, ended or not; None if there is none.

        Raises:
            Taken: Another holder's lease runs.
        """
        ...

    def claim_due(self, *, holder: str, lease_s: float, limit: int) -> list[Claim]:
        """Claim open records that are due and that nobody holds, the longest overdue first.

        With the holder `OFFERED` they are set aside for whoever comes by their keys.
        What a newer release has written is left to those that can read it. A record
        that is broken is logged, and not due again until somebody wakes it.
        """
        ...

    def save(
        self,
        claim: Claim,
        record: StoredRecord,
        *,
        due_in_s: float | None = None,
        lease_s: float | None = None,
        ended: bool = False,
        release: bool = False,
    ) -> None:
        """Replace the record, if our token is still the latest; durable when it returns.

        Args:
            claim: Ours.
            record: The whole of it.
            due_in_s: When the next step is due; None leaves that as it is,
                `inf` means not until somebody wakes it. A wake that came since the
                last save, or since the claim, makes a released operation due now:
                it may be newer than the answer that this record has.
            lease_s: Extends the lease to that many seconds from now; None leaves it as it is.
            ended: Whether the operation has its ending; False makes an ended one open again.
            release: Gives the lease back.

        Raises:
            Fenced: Somebody else has claimed it since, or it has been forgotten.
        """
        ...

    def renew(self, claim: Claim, *, lease_s: float) -> None:
        """Extend the lease and change nothing else.

        Raises:
            Fenced: As `save`.
        """
        ...

    def release(self, claim: Claim) -> None:
        """Give the lease back and change nothing else; quietly where it is no longer ours."""
        ...

    def expire(self, key: str, *, holder: str) -> bool:
        """End the lease of a holder that is known to be dead, if it is still that one's; whether it was."""
        ...

    def wake(self, *, key: str | None = None, job_id: str | None = None) -> bool:
        """Make the next step due now; whether an open record was found."""
        ...

    def get(self, key: str) -> Stored | None:
        """The record under that key."""
        ...

    def list(self, *, open_only: bool = False, limit: int = 100) -> list[Stored]:
        """Records, the latest saved first; one that cannot be read has `name`, `job_id` and why it is `unreadable`."""
        ...

    def forget(self, key: str) -> bool:
        """Delete a record; whether there was one.

        Raises:
            Taken: A holder's lease runs.
        """
        ...

    def overdue(self) -> dict[str, int]:
        """By operation name, how many open records are past their deadline."""
        ...

    def close(self) -> None:
        """Close connections; what was saved stays."""
        ...


_LATER = {"MemoryStore": "trihop.stores._memory", "SQLStore": "trihop.stores._sql"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'trihop.stores' has no attribute {name!r}")
        from importlib import import_module

        try:
            return getattr(import_module(_LATER[name]), name)
        except ModuleNotFoundError as missing:
            if missing.name != "sqlalchemy":
                raise
            told = f"{name} needs sqlalchemy: pip install 'trihop[sql]'"
            raise ModuleNotFoundError(told, name="sqlalchemy") from None
