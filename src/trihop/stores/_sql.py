"""Records in a SQLite file, or in PostgreSQL, through the same statements."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from trihop._clock import Clock, SystemClock
from trihop._progress.lines import command_line
from trihop._saved import VERSION
from trihop.stores import OFFERED, Claim, Fenced, Stored, StoredRecord, StoreError, Taken
from trihop.stores._sql_engine import Database
from trihop.stores._sql_tables import Due, Lease, Statements
from trihop.stores._sql_url import file_of, parsed

log = logging.getLogger("trihop")

_LONGEST_INDEXED = 512
_TRIES = 5  # at a claim that finds the key taken, and no longer taken when it asks by whom


class SQLStore:
    """Records in a database, for as many processes and machines as reach it.

    Nothing is opened before it is needed, so that a module may make its store at
    its top. The file is made for its owner alone (0600), and so is what SQLite
    puts beside it. A process that is killed loses nothing that was saved; after a
    power cut a file may lack the last saves, for SQLite is not made to wait for the disk.

    Args:
        url: `sqlite:///operations.db` (four slashes for an absolute path), or
            `postgresql://user@host/database`, as SQLAlchemy writes them.
        lease: Seconds for which a holder that gives no sign of life is waited for.
        clock: Whose wall clock a SQLite file goes by; for tests. PostgreSQL has its own.

    Raises:
        ValueError: The URL is none of these, or a clock is given for PostgreSQL.
        ModuleNotFoundError: The database's driver is not installed.
    """

    def __init__(self, url: str, *, lease: float = 60.0, clock: Clock | None = None) -> None:
        self.lease_s = lease
        self._database = Database(parsed(url))
        if clock is not None and not self._database.is_file:
            raise ValueError("PostgreSQL goes by its own clock: SQLStore(clock=…) is for SQLite")
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._statements = Statements(self._database.url.get_backend_name())
        self._last_tick = 0

    @property
    def file(self) -> Path | None:
        """The SQLite file that it is, which may not be there yet; None for PostgreSQL."""
        return file_of(self._database.url)

    def __repr__(self) -> str:
        return f"SQLStore({self._database.shown!r})"

    def begin(self, record: StoredRecord, *, key: str, holder: str, lease_s: float) -> Claim:
        """As `Store.begin`."""
        taking = {"of_key": key, "by": holder, "lease_us": _us(lease_s), **_columns(record)}
        claim = self._claimed(self._statements.begin, taking)
        if claim is None:
            raise Taken("", 0.0)  # and forgotten, and taken: somebody is busy with it
        return claim

    def claim(self, key: str, *, holder: str, lease_s: float) -> Claim | None:
        """As `Store.claim`."""
        return self._claimed(self._statements.claim, {"of_key": key, "by": holder, "lease_us": _us(lease_s)})

    def claim_due(self, *, holder: str, lease_s: float, limit: int) -> list[Claim]:
        """As `Store.claim_due`; what a newer release wrote is left to those that can read it."""
        given = {"by": holder, "lease_us": _us(lease_s), "most": limit, "newest": VERSION}
        claims = []
        for row in sorted(self._rows(self._statements.claim_due, given), key=lambda row: (row.due_at, row.key)):
            try:
                claims.append(self._read(row))
            except StoreError as error:
                # Or it would be claimed again at the end of each lease.
                self._changed(self._statements.park, {"of_key": row.key, "with_token": row.token})
                log.error("trihop: %s", error)
        return claims

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
        given = {"of_key": claim.key, "with_token": claim.token, **_columns(record)}
        due: Due = "as it is"
        if due_in_s is not None:
            due = "never" if math.isinf(due_in_s) else "in"
            given["due_us"] = None if due == "never" else _us(due_in_s)
        lease: Lease = "given back" if release else "as it is" if lease_s is None else "extended"
        if lease_s is not None:
            given["lease_us"] = _us(lease_s)
        self._or_fenced(claim, self._statements.save(due, lease, ended), given)

    def renew(self, claim: Claim, *, lease_s: float) -> None:
        """As `Store.renew`."""
        given = {"of_key": claim.key, "with_token": claim.token, "lease_us": _us(lease_s)}
        self._or_fenced(claim, self._statements.renew, given)

    def release(self, claim: Claim) -> None:
        """As `Store.release`."""
        self._changed(self._statements.release, {"of_key": claim.key, "with_token": claim.token})

    def expire(self, key: str, *, holder: str) -> bool:
        """As `Store.expire`."""
        return self._changed(self._statements.expire, {"of_key": key, "by": holder}) > 0

    def wake(self, *, key: str | None = None, job_id: str | None = None) -> bool:
        """As `Store.wake`."""
        found = 0
        if key is not None:
            found += self._changed(self._statements.wake_key, {"of_key": key})
        if job_id is not None:
            found += self._changed(self._statements.wake_job, {"of_job": _indexed(job_id)})
        return found > 0

    def get(self, key: str) -> Stored | None:
        """As `Store.get`."""
        rows = self._rows(self._statements.get, {"of_key": key}, write=False)
        return self._stored(rows[0]) if rows else None

    def list(self, *, open_only: bool = False, limit: int = 100) -> list[Stored]:
        """As `Store.list`; a record that cannot be read is shown by its columns, and `unreadable` says why."""
        statement = self._statements.list_open if open_only else self._statements.list
        found = []
        for row in self._rows(statement, {"most": limit}, write=False):
            try:
                found.append(self._stored(row))
            except StoreError as error:
                columns: StoredRecord = {"version": row.version, "name": row.name, "job_id": row.job_id}
                found.append(self._stored(row, {**columns, "unreadable": error.what}))
        return found

    def forget(self, key: str) -> bool:
        """As `Store.forget`."""
        for _ in range(_TRIES):
            if self._changed(self._statements.forget, {"of_key": key}):
                return True
            if not self._anybody(key):
                return False
        raise Taken("", 0.0)

    def overdue(self) -> dict[str, int]:
        """As `Store.overdue`."""
        return {row.name: row.operations for row in self._rows(self._statements.overdue, {}, write=False)}

    def close(self) -> None:
        """As `Store.close`; it opens again by itself when it is used."""
        self._database.close()

    # ---- sending

    def _rows(self, statement: sa.Executable, given: Mapping[str, Any], *, write: bool = True) -> Sequence[sa.Row[Any]]:
        values = {**given, **self._times()}
        return self._database.run(lambda connection: connection.execute(statement, values).all(), write=write)

    def _changed(self, statement: sa.Executable, given: Mapping[str, Any]) -> int:
        """How many rows it changed."""
        values = {**given, **self._times()}
        return self._database.run(lambda connection: connection.execute(statement, values).rowcount)

    def _or_fenced(self, claim: Claim, statement: sa.Executable, given: Mapping[str, Any]) -> None:
        if not self._changed(statement, given):
            raise Fenced(claim.key)

    def _times(self) -> dict[str, int]:
        if not self._database.is_file:
            return {}
        now = self._clock.time_ns() // 1000
        self._last_tick = max(now, self._last_tick + 1)
        return {"now": now, "tick": self._last_tick}

    def _claimed(self, statement: sa.Executable, given: Mapping[str, Any]) -> Claim | None:
        for _ in range(_TRIES):
            for row in self._rows(statement, given):
                try:
                    return self._read(row)
                except StoreError:
                    self._changed(self._statements.release, {"of_key": row.key, "with_token": row.token})
                    raise
            if not self._anybody(str(given["of_key"])):
                return None
        raise Taken("", 0.0)

    def _anybody(self, key: str) -> bool:
        """Whether there is such a record, which nobody holds any more.

        Raises:
            Taken: Somebody still does.
        """
        rows = self._rows(self._statements.get, {"of_key": key}, write=False)
        for row in rows:
            if row.lease_until is not None and row.lease_until > row.read_at and row.holder != OFFERED:
                raise Taken(row.holder or "", (row.lease_until - row.read_at) / 1e6)
        return bool(rows)

    # ---- reading

    def _read(self, row: sa.Row[Any]) -> Claim:
        record = self._record(row)
        return Claim(
            row.key,
            row.token,
            record,
            fresh=row.claims == 1,
            ended=row.ended,
            expired=row.expired,
            due_in_s=None if row.ended or row.due_at is None else (row.due_at - row.read_at) / 1e6,
            at=row.read_at / 1e6,
        )

    def _stored(self, row: sa.Row[Any], record: StoredRecord | None = None) -> Stored:
        held = row.lease_until is not None and row.lease_until > row.read_at
        return Stored(
            row.key,
            self._record(row) if record is None else record,
            row.ended,
            None if row.due_at is None else (row.due_at - row.read_at) / 1e6,
            row.holder if held else None,
            (row.lease_until - row.read_at) / 1e6 if held else None,
            row.token,
            (row.read_at - row.updated_at) / 1e6,
        )

    def _record(self, row: sa.Row[Any]) -> StoredRecord:
        try:
            record = json.loads(row.record)
            why = "" if isinstance(record, dict) else "no object"
        except ValueError as error:
            why = str(error)
        if not why:
            return cast(StoredRecord, record)
        which = f"the record of {row.key!r} ({row.name}, job {row.job_id}) in {self._database.shown}"
        then = f"It was left as it is, and the job may go on; {command_line('forget', row.key)} drops it"
        raise StoreError(f"{which} cannot be read: {why}", then=then)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _indexed(job_id: object) -> str | None:
    """What an index has of a job's id: the id, or its digest where not every database would take it."""
    if not isinstance(job_id, str):
        return None
    if len(job_id) <= _LONGEST_INDEXED and job_id.isprintable():
        return job_id
    return "sha256:" + hashlib.sha256(job_id.encode(errors="surrogatepass")).hexdigest()


def _columns(record: StoredRecord) -> dict[str, Any]:
    """The record as text, and what of it queries need."""
    deadline_at = record.get("deadline_at")
    return {
        "text": json.dumps(record, separators=(",", ":"), allow_nan=False),
        "named": record["name"],
        "of_version": record["version"],
        "job": _indexed(record.get("job_id")),
        "deadline": None if deadline_at is None else _us(cast(float, deadline_at)),
    }
