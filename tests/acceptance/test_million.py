"""A million operations in one store: the claim of what is due reads an index, and its rate is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from acceptance.servers.postgresql import PostgreSQL
from durable.store_suite import record
from trihop._clock import SystemClock
from trihop.stores import SQLStore
from trihop.stores._sql_url import parsed

ROWS = 1_000_000
ROUND_S = 3.0
LEAST = 10  # a scan of a million rows takes a second, on a machine that has nothing else to do

# One in ten has ended; of the others half are due, and the rest at 10 ms from each other.
FILL = """
INSERT INTO trihop_operations (key, name, job_id, record, version, ended, due_at, claimable_at, deadline_at,
    holder, lease_until, token, claims, expired, woken, updated_at)
SELECT 'export-' || n, 'export', CASE WHEN n % 10 > 0 THEN 'job-' || n END, '{record}', 1, n % 10 = 0,
    {now} + (n - {rows} / 2) * 10000, CASE WHEN n % 10 > 0 THEN {now} + (n - {rows} / 2) * 10000 END,
    CASE WHEN n % 10 > 0 THEN {now} + (n % 48 - 2) * 3600000000 END, NULL, NULL, n, 1, false, false, {now} - n
FROM {numbers}
"""
NUMBERS = {
    "postgresql": "generate_series(CAST(1 AS bigint), {rows}) AS numbers (n)",
    "sqlite": "(WITH RECURSIVE up (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {rows}) SELECT n FROM up)",
}


class Filled:
    """A store with a million records, and its database by the side entrance."""

    def __init__(self, url: str) -> None:
        self.store = SQLStore(url)
        self.store.list()
        self.kind = parsed(url).get_backend_name()
        self.engine = sa.create_engine(parsed(url), isolation_level="AUTOCOMMIT")
        text = json.dumps(record(pad="x" * 400))
        values = {"record": text, "now": SystemClock().time_ns() // 1000, "rows": ROWS}
        values["numbers"] = NUMBERS[self.kind].format(rows=ROWS)
        with self.engine.connect() as connection:
            connection.exec_driver_sql(FILL.format(**values).replace("%", "%%" if self.kind == "postgresql" else "%"))
            connection.exec_driver_sql("VACUUM ANALYZE" if self.kind == "postgresql" else "ANALYZE")

    def plan(self, name: str) -> str:
        """How the database goes about one of the store's statements."""
        statement = getattr(self.store._statements, name).compile(dialect=self.engine.dialect)
        values: dict[str, Any] = {**statement.params, "by": "one", "lease_us": 1, "most": 50, "newest": 1, "now": 1}
        given = values if statement.positiontup is None else tuple(values[name] for name in statement.positiontup)
        explain = "EXPLAIN" if self.kind == "postgresql" else "EXPLAIN QUERY PLAN"
        with self.engine.connect() as connection:
            return "\n".join(str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", given))

    def close(self) -> None:
        self.store.close()
        self.engine.dispose()


@pytest.fixture(scope="module", params=["SQLite", "PostgreSQL"])
def filled(
    request: pytest.FixtureRequest, postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    folder: Path = tmp_path_factory.mktemp("million")
    on_server = request.param == "PostgreSQL"
    filled = Filled(postgresql.database("million") if on_server else f"sqlite:///{folder}/operations.db")
    yield filled
    filled.close()
    (folder / "operations.db").unlink(missing_ok=True)


def test_the_claim_reads_the_index(filled: Filled) -> None:
    """What is due is found by the index, and claimed by key; no table is read from end to end, and none sorted."""
    plan = filled.plan("claim_due")

    assert "trihop_operations_claimable_at" in plan
    assert [line for line in plan.splitlines() if "Seq Scan" in line or "SCAN trihop" in line or "B-TREE" in line] == []
    assert "Sort" not in plan


@pytest.mark.parametrize("name", ["list", "list_open"])
def test_a_list_reads_the_index(filled: Filled, name: str) -> None:
    """The latest saved, of those that have ended and of those that have not; no table is read from end to end."""
    plan = filled.plan(name)
    reads = [line for line in plan.splitlines() if "trihop_operations" in line and "Sort Key" not in line]

    assert reads
    assert [line for line in reads if "trihop_operations_updated_at" not in line] == []


@pytest.mark.parametrize("open_only", [False, True], ids=["all", "open"])
def test_lists_per_second(filled: Filled, table: Any, open_only: bool) -> None:
    """A hundred of a million."""
    rate = per_second(lambda: len(filled.store.list(open_only=open_only)) // 100)
    shown(table, filled, f"lists of {'open ones' if open_only else 'all'}", rate)


@pytest.mark.parametrize("limit", [1, 50])
def test_claims_per_second(filled: Filled, table: Any, limit: int) -> None:
    """One worker that claims and does nothing else; each operation comes once."""
    keys: list[str] = []
    rate = per_second(lambda: claimed(filled.store, limit, keys))

    assert len(keys) == len(set(keys))
    shown(table, filled, f"claims, {limit} at a time", rate)


def test_steps_per_second(filled: Filled, table: Any) -> None:
    """One worker that claims fifty, saves each and gives it back, as if each poll took no time."""

    def step() -> int:
        claims = filled.store.claim_due(holder="one", lease_s=600, limit=50)
        for claim in claims:
            filled.store.save(claim, claim.record, due_in_s=3600, release=True)
        return len(claims)

    rate = per_second(step)
    shown(table, filled, "steps (claim, save, give back)", rate)


def shown(table: Any, filled: Filled, what: str, rate: float) -> None:
    """Enter the rate; that it is above what any index gives is all that a strange machine can be asked for."""
    enough = f"more than {LEAST} a second"
    got = enough if rate > LEAST else f"{rate:.0f} a second"
    table.row(filled.kind, f"{ROWS:,} rows, {what}: {rate:,.0f} a second", expected=enough, got=got)


def claimed(store: SQLStore, limit: int, keys: list[str]) -> int:
    claims = store.claim_due(holder="one", lease_s=600, limit=limit)
    assert len(claims) == limit
    keys += [claim.key for claim in claims]
    return limit


def per_second(do: Callable[[], int]) -> float:
    clock = SystemClock()
    count, began_s = 0, clock.monotonic()
    while (took_s := clock.monotonic() - began_s) < ROUND_S:
        count += do()
    return count / took_s
