"""Records in this process alone: for tests, and for operations that need a key and no restart."""

from __future__ import annotations

import copy
import math
import threading
from dataclasses import dataclass, replace
from itertools import count

from trihop._clock import Clock, SystemClock
from trihop.stores import OFFERED, Claim, Fenced, Stored, StoredRecord, Taken


@dataclass(slots=True)
class _Row:
    record: StoredRecord
    due_at: float
    updated_at: float
    lease_until: float = -math.inf
    holder: str | None = None
    token: int = 0
    ended: bool = False
    woken: bool = False


class MemoryStore:
    """Records in memory, by a clock of its own.

    Args:
        lease: Seconds for which a holder that gives no sign of life is waited for.
        clock: Whose time leases and due times are in; for tests.
    """

    def __init__(self, *, lease: float = 60.0, clock: Clock | None = None) -> None:
        self.lease_s = lease
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._rows: dict[str, _Row] = {}
        self._tokens = count(1)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._rows)} records)"

    def begin(self, record: StoredRecord, *, key: str, holder: str, lease_s: float) -> Claim:
        """As `Store.begin`."""
        with self._lock:
            now = self._now()
            fresh = key not in self._rows
            if fresh:
                self._rows[key] = _Row(copy.deepcopy(record), due_at=now, updated_at=now)
            claim = self._take(key, self._rows[key], holder, lease_s)
            return replace(claim, fresh=True) if fresh else claim

    def claim(self, key: str, *, holder: str, lease_s: float) -> Claim | None:
        """As `Store.claim`."""
        with self._lock:
            row = self._rows.get(key)
            return None if row is None else self._take(key, row, holder, lease_s)

    def claim_due(self, *, holder: str, lease_s: float, limit: int) -> list[Claim]:
        """As `Store.claim_due`."""
        with self._lock:
            now = self._now()
            due = [
                (row.due_at, key)
                for key, row in self._rows.items()
                if not row.ended and row.due_at <= now and row.lease_until <= now
            ]
            return [self._take(key, self._rows[key], holder, lease_s) for _, key in sorted(due)[:limit]]

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
        """As `Store.save`."""
        with self._lock:
            row, now = self._ours(claim), self._now()
            row.record, row.ended, row.updated_at = copy.deepcopy(record), ended, now
            if due_in_s is not None:
                row.due_at = now + due_in_s
            if release:
                row.due_at = now if row.woken else row.due_at
                row.lease_until, row.holder = -math.inf, None
            elif lease_s is not None:
                row.lease_until = now + lease_s
            row.woken = False

    def renew(self, claim: Claim, *, lease_s: float) -> None:
        """As `Store.renew`."""
        with self._lock:
            self._ours(claim).lease_until = self._now() + lease_s

    def release(self, claim: Claim) -> None:
        """As `Store.release`."""
        with self._lock:
            row = self._rows.get(claim.key)
            if row is not None and row.token == claim.token:
                row.lease_until, row.holder = -math.inf, None

    def expire(self, key: str, *, holder: str) -> bool:
        """As `Store.expire`."""
        with self._lock:
            row = self._rows.get(key)
            if row is None or row.holder != holder:
                return False
            row.lease_until = self._now()
            return True

    def wake(self, *, key: str | None = None, job_id: str | None = None) -> bool:
        """As `Store.wake`."""
        with self._lock:
            found = [
                row
                for name, row in self._rows.items()
                if not row.ended and (name == key or (job_id is not None and row.record.get("job_id") == job_id))
            ]
            for row in found:
                row.due_at, row.woken = min(row.due_at, self._now()), row.lease_until > self._now()
            return bool(found)

    def get(self, key: str) -> Stored | None:
        """As `Store.get`."""
        with self._lock:
            row = self._rows.get(key)
            return None if row is None else self._stored(key, row)

    def list(self, *, open_only: bool = False, limit: int = 100) -> list[Stored]:
        """As `Store.list`."""
        with self._lock:
            rows = [(key, row) for key, row in self._rows.items() if not (open_only and row.ended)]
            rows.sort(key=lambda item: item[1].updated_at, reverse=True)
            return [self._stored(key, row) for key, row in rows[:limit]]

    def forget(self, key: str) -> bool:
        """As `Store.forget`."""
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                return False
            self._refuse_taken(row)
            del self._rows[key]
            return True

    def overdue(self) -> dict[str, int]:
        """As `Store.overdue`."""
        with self._lock:
            now, found = self._now(), dict[str, int]()
            for row in self._rows.values():
                deadline_at = row.record.get("deadline_at")
                if not row.ended and deadline_at is not None and deadline_at < now:
                    name = str(row.record.get("name"))
                    found[name] = found.get(name, 0) + 1
            return found

    def close(self) -> None:
        """As `Store.close`: there is nothing to close."""

    # ---- with the lock held

    def _now(self) -> float:
        return self._clock.time_ns() / 1e9

    def _refuse_taken(self, row: _Row) -> None:
        left_s = row.lease_until - self._now()
        if left_s > 0 and row.holder != OFFERED:
            raise Taken(row.holder or "", left_s)

    def _take(self, key: str, row: _Row, holder: str, lease_s: float) -> Claim:
        self._refuse_taken(row)
        expired, now = row.holder not in (None, OFFERED), self._now()
        row.holder, row.lease_until, row.token = holder, now + lease_s, next(self._tokens)
        row.woken = False
        due_in_s = None if row.ended or math.isinf(row.due_at) else row.due_at - now
        record = copy.deepcopy(row.record)
        return Claim(key, row.token, record, ended=row.ended, expired=expired, due_in_s=due_in_s, at=now)

    def _ours(self, claim: Claim) -> _Row:
        row = self._rows.get(claim.key)
        if row is None or row.token != claim.token:
            raise Fenced(claim.key)
        return row

    def _stored(self, key: str, row: _Row) -> Stored:
        now = self._now()
        held = row.lease_until > now
        return Stored(
            key,
            copy.deepcopy(row.record),
            row.ended,
            None if math.isinf(row.due_at) else row.due_at - now,
            row.holder if held else None,
            row.lease_until - now if held else None,
            row.token,
            now - row.updated_at,
        )
