"""Claims on records: by key, over holders that are surely dead, and never over one that may live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from trihop._durable.holder import new_holder, surely_dead, told
from trihop._errors import OperationTaken
from trihop._progress.lines import command_line
from trihop._record import OperationRecord
from trihop._saved import BrokenRecord, NewerRecord, Saved
from trihop._values import JSON
from trihop.stores import Claim, Store, StoreError, Taken

Found = TypeVar("Found")


def begin(store: Store, blank: Saved) -> Claim:
    """Claim the record under a key, or insert a blank one.

    Raises:
        OperationTaken: Somebody else works on it.
        StoreError: The store cannot be used.
    """
    holder, lease_s = new_holder(), store.lease_s

    def take() -> Claim:
        return store.begin(blank.as_json(), key=blank.key, holder=holder, lease_s=lease_s)

    return _over_the_dead(store, blank.key, blank.record(), take)


def claim(store: Store, key: str) -> Claim | None:
    """Claim the record under a key; None if there is none.

    Raises:
        OperationTaken: Somebody else works on it.
        StoreError: The store cannot be used.
    """
    holder, lease_s = new_holder(), store.lease_s

    def take() -> Claim | None:
        return store.claim(key, holder=holder, lease_s=lease_s)

    return _over_the_dead(store, key, OperationRecord("unnamed", "", key), take)


def _over_the_dead(store: Store, key: str, record: OperationRecord, take: Callable[[], Found]) -> Found:
    """Take it; where its holder was a process of this machine that is no more, at once, and else by the lease."""
    for _ in range(3):
        try:
            return take()
        except Taken as taken:
            last = taken
            if not surely_dead(taken.holder) or not store.expire(key, holder=taken.holder):
                break
    raise OperationTaken(
        f"the operation with the key {key!r} is held by {told(last.holder)}",
        record,
        f"Wait for it to end; should it have crashed, its lease runs out in {max(0.0, last.expires_in_s):.0f} s.",
    ) from None


def read(key: str, record: Mapping[str, JSON], store: Store) -> Saved:
    """The record that a store gave.

    Raises:
        StoreError: It cannot be read; it stays as it is.
    """
    try:
        return Saved.from_json(record)
    except NewerRecord as newer:
        raise StoreError(
            f"the record {key!r} in {store!r} cannot be read: {newer}",
            then="Upgrade trihop here, or go on where it was written. It was left as it is.",
        ) from None
    except BrokenRecord as broken:
        raise StoreError(
            f"the record {key!r} in {store!r} cannot be read: {broken}",
            then=f"The job, if there is one, goes on at the server. {command_line('forget', key)} deletes the record.",
        ) from None


def no_record(key: str, store: Store) -> LookupError:
    """The error for a key that nothing is known of: never a reason to submit anew."""
    return LookupError(f"there is no operation with the key {key!r} in {store!r}; `trihop ls` lists those there are")
