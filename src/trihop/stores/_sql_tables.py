"""The tables of the SQL store, and every statement it sends.

A time is a whole number of microseconds since the epoch. `claimable_at` is what
the scheduler reads: the later of due time and lease, None where nobody is to take
the operation by himself. `job_id` and `deadline_at` are None once it has ended,
so that their indexes hold open operations and no others, however many have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from trihop.stores import OFFERED

Column = sa.ColumnElement[Any]

METADATA = sa.MetaData()

STORE = sa.Table("trihop_store", METADATA, sa.Column("version", sa.Integer, nullable=False))

OPERATIONS = sa.Table(
    "trihop_operations",
    METADATA,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("job_id", sa.Text),
    sa.Column("record", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("ended", sa.Boolean, nullable=False),
    sa.Column("due_at", sa.BigInteger),
    sa.Column("claimable_at", sa.BigInteger),
    sa.Column("deadline_at", sa.BigInteger),
    sa.Column("holder", sa.Text),
    sa.Column("lease_until", sa.BigInteger),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("claims", sa.Integer, nullable=False),
    sa.Column("expired", sa.Boolean, nullable=False),
    sa.Column("woken", sa.Boolean, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
)
_ROW = OPERATIONS.c


def _index_of_open(column: sa.Column[Any]) -> sa.Index:
    present = column.is_not(None)
    return sa.Index(f"trihop_operations_{column.name}", column, postgresql_where=present, sqlite_where=present)


for _column in (_ROW.claimable_at, _ROW.job_id, _ROW.deadline_at):
    _index_of_open(_column)


# For lists: all, or open ones alone. It costs a write little, as `claimable_at` keeps PostgreSQL from updating a row
# without a word to the indexes anyway.
_LISTED = sa.Index("trihop_operations_updated_at", _ROW.ended, _ROW.updated_at)


def _tables(connection: sa.Connection) -> None:
    METADATA.create_all(connection)
    connection.execute(sa.insert(STORE).values(version=0))


def _listed(connection: sa.Connection) -> None:
    connection.execute(sa.schema.CreateIndex(_LISTED, if_not_exists=True))


STEPS: tuple[Callable[[sa.Connection], None], ...] = (_tables, _listed)
"""What leads from each version of the tables to the next: the first makes them as they are now, so that the others
have nothing left to do. A store of version n has had n."""

Due = Literal["as it is", "never", "in"]
Lease = Literal["as it is", "extended", "given back"]

_NEVER = sa.cast(sa.null(), sa.BigInteger)
# None has the name of a column that the statement sets: SQLAlchemy keeps those for itself.
_PARAMETERS: dict[str, sa.types.TypeEngine[Any]] = {
    "of_key": sa.Text(),
    "of_job": sa.Text(),
    "with_token": sa.BigInteger(),
    "text": sa.Text(),
    "named": sa.Text(),
    "of_version": sa.Integer(),
    "job": sa.Text(),
    "deadline": sa.BigInteger(),
    "by": sa.Text(),
    "lease_us": sa.BigInteger(),
    "due_us": sa.BigInteger(),
    "now": sa.BigInteger(),
    "tick": sa.BigInteger(),
    "most": sa.Integer(),
    "newest": sa.Integer(),
}
_CLAIMED = [
    *(_ROW.key, _ROW.name, _ROW.job_id, _ROW.record, _ROW.due_at),
    *(_ROW.token, _ROW.claims, _ROW.ended, _ROW.expired),
]


class Statements:
    """What is sent to one kind of database.

    PostgreSQL's own clock is read in the statement, as it stood when the statement
    began: what reads it anew for each row could use no index. SQLite's clock is the
    machine's, and comes with the parameters `now` and `tick`; the latter never
    comes twice.
    """

    def __init__(self, dialect: str) -> None:
        if dialect == "postgresql":
            seconds = sa.extract("epoch", sa.func.statement_timestamp())
            self.now: Column = sa.cast(seconds * 1_000_000, sa.BigInteger)
            self._tick: Column = self.now
        else:
            self.now = _given("now")
            self._tick = _given("tick")
        self._insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
        self._claimed = [*_CLAIMED, self.now.label("read_at")]
        self.begin = self._begin()
        self.claim = sa.update(OPERATIONS).where(_ROW.key == _given("of_key"), self._free()).values(**self._taken())
        self.claim = self.claim.returning(*self._claimed)
        self.claim_due = self._claim_due()
        self.renew = self._ours().values(**_times(_ROW.ended, _ROW.due_at, self._in("lease_us")))
        self.release = self._ours().values(**_times(_ROW.ended, _ROW.due_at, _NEVER), holder=None)
        self.park = self._ours().values(**_times(_ROW.ended, _NEVER, _NEVER), holder=None)
        self.expire = sa.update(OPERATIONS).where(_ROW.key == _given("of_key"), _ROW.holder == _given("by"))
        self.expire = self.expire.values(**_times(_ROW.ended, _ROW.due_at, self.now))
        self.wake_key = self._wake(_ROW.key == _given("of_key"))
        self.wake_job = self._wake(_ROW.job_id == _given("of_job"))
        stored = sa.select(OPERATIONS, self.now.label("read_at"))
        self.get = stored.where(_ROW.key == _given("of_key"))
        # Each kind by its part of the index: what has both would be sorted as a whole.
        self.list_open, list_ended = (
            stored.where(_ROW.ended == ended).order_by(_ROW.updated_at.desc()).limit(_given("most"))
            for ended in (sa.false(), sa.true())
        )
        latest = sa.union_all(*(sa.select(some.subquery()) for some in (self.list_open, list_ended))).subquery()
        self.list = sa.select(latest).order_by(latest.c.updated_at.desc()).limit(_given("most"))
        self.forget = sa.delete(OPERATIONS).where(_ROW.key == _given("of_key"), self._free())
        self.overdue = (
            sa.select(_ROW.name, sa.func.count().label("operations"))
            .where(_ROW.deadline_at < self.now)
            .group_by(_ROW.name)
        )
        self.save = cache(self._save)

    def _begin(self) -> sa.Executable:
        lease_until = self._in("lease_us")
        fresh = self._insert(OPERATIONS).values(
            key=_given("of_key"),
            **_contents(),
            job_id=_given("job"),
            deadline_at=_given("deadline"),
            ended=False,
            due_at=self.now,
            claimable_at=lease_until,
            holder=_given("by"),
            lease_until=lease_until,
            token=self._tick,
            claims=1,
            expired=False,
            woken=False,
            updated_at=self.now,
        )
        there = fresh.on_conflict_do_update(index_elements=[_ROW.key], set_=self._taken(), where=self._free())
        return there.returning(*self._claimed)

    def _claim_due(self) -> sa.Executable:
        due = sa.select(_ROW.key).where(_ROW.claimable_at <= self.now, _ROW.version <= _given("newest"))
        due = due.order_by(_ROW.claimable_at).limit(_given("most")).with_for_update(skip_locked=True)
        # By itself, so that it runs once: within the condition PostgreSQL may run it for every row.
        found = due.cte("due")
        claim = sa.update(OPERATIONS).where(_ROW.key.in_(sa.select(found.c.key)))
        return claim.values(**self._taken()).returning(*self._claimed)

    def _save(self, due: Due, lease: Lease, ended: bool) -> sa.Update:
        lease_until = {"as it is": _ROW.lease_until, "extended": self._in("lease_us"), "given back": _NEVER}[lease]
        due_at = {"as it is": _ROW.due_at, "never": _NEVER, "in": self._in("due_us")}[due]
        changes: dict[str, Any] = {"woken": False}
        if lease == "given back":
            due_at = sa.case((_ROW.woken, self.now), else_=due_at)
            changes["holder"] = None
        open_only = {"job_id": None if ended else _given("job"), "deadline_at": None if ended else _given("deadline")}
        times = _times(sa.true() if ended else sa.false(), due_at, lease_until)
        return self._ours().values(**_contents(), **open_only, **times, **changes, ended=ended, updated_at=self.now)

    def _wake(self, which: Column) -> sa.Update:
        due_at = sa.case((_ROW.due_at < self.now, _ROW.due_at), else_=self.now)
        held = sa.func.coalesce(_ROW.lease_until > self.now, sa.false())
        times = _times(sa.false(), due_at, _ROW.lease_until)
        return sa.update(OPERATIONS).where(which, sa.not_(_ROW.ended)).values(**times, woken=held)

    def _taken(self) -> dict[str, Column]:
        """What a claim changes."""
        return {
            "token": sa.case((_ROW.token < self._tick, self._tick), else_=_ROW.token + 1),
            "claims": _ROW.claims + 1,
            "expired": sa.func.coalesce(_ROW.holder != OFFERED, sa.false()),
            "holder": _given("by"),
            "woken": sa.false(),
            **_times(_ROW.ended, _ROW.due_at, self._in("lease_us")),
        }

    def _free(self) -> Column:
        return sa.or_(_ROW.lease_until.is_(None), _ROW.lease_until <= self.now, _ROW.holder == OFFERED)

    def _ours(self) -> sa.Update:
        return sa.update(OPERATIONS).where(_ROW.key == _given("of_key"), _ROW.token == _given("with_token"))

    def _in(self, parameter: str) -> Column:
        return self.now + _given(parameter)


def _times(ended: Column, due_at: Column, lease_until: Column) -> dict[str, Column]:
    """The columns that say when."""
    later = sa.case((sa.or_(ended, due_at.is_(None)), _NEVER), (lease_until > due_at, lease_until), else_=due_at)
    return {"due_at": due_at, "lease_until": lease_until, "claimable_at": later}


def _given(parameter: str) -> sa.BindParameter[Any]:
    return sa.bindparam(parameter, type_=_PARAMETERS[parameter])


def _contents() -> dict[str, Column]:
    return {"record": _given("text"), "name": _given("named"), "version": _given("of_version")}
