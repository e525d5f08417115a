"""Processes that die: a store whose holder is killed at a given write, and what is sent by whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trihop import Call, Provider, ReadJob, ReadState
from trihop.stores import MemoryStore

JOBS = Provider(
    "acme.exports",
    submit=ReadJob(id="id", status_url="status_url"),
    poll=ReadState(
        "state",
        pending={"queued", "running"},
        succeeded={"done"},
        failed={"failed"},
        cancelled={"cancelled"},
        ambiguous={"open"},
        results="result_url",
        error="error",
        bad_items="failed_items",
    ),
    cancel=Call("DELETE", "{status_url}"),
)
KEYED = replace(JOBS, idempotency="Idempotency-Key")
ADMITTED = {"id": "j-1", "status_url": "/jobs/1"}


class Killed(BaseException):
    """As SIGKILL: nothing that runs afterwards reaches the store."""


class Mortal:
    """A process's hold on a store, which ends with its n-th write: before it, or with the write done.

    The lease stays, as nobody gives it back; `lease over` comes by the clock.
    """

    def __init__(self, store: MemoryStore, *, dies_at: int = 1_000_000, written: bool = True) -> None:
        self._store = store
        self._left = dies_at
        self._written = written
        self.dead = False
        self.writes: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name == "renew" or not callable(found):
            return found

        def alive(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            return found(*args, **kwargs)

        return alive

    def save(self, claim: Any, record: dict[str, Any], **options: Any) -> None:
        """Write, or die."""
        if self.dead:
            raise Killed
        self._left -= 1
        if self._left == 0:
            self.dead = True
            if self._written:
                self._store.save(claim, record, **{**options, "release": False})
            raise Killed
        self._store.save(claim, record, **options)
        self.writes.append(record)
