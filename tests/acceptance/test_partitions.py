"""The statements of docs/scale.md, in a real PostgreSQL: a store goes on in a table that was partitioned meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from acceptance.servers.postgresql import PostgreSQL
from durable.store_suite import record
from trihop.stores import SQLStore, Taken
from trihop.stores._sql_url import parsed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
STATEMENTS = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def partitioned(postgresql: PostgreSQL) -> Iterator[SQLStore]:
    """A store with ten operations, to which all statements of the page have been done."""
    url = postgresql.database("partitioned")
    store = SQLStore(url)
    for number in range(10):
        store.save(store.begin(record(), key=f"before-{number}", holder="one", lease_s=60), record(), release=True)
    engine = sa.create_engine(parsed(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in STATEMENTS:
            connection.connection.cursor().execute(statement)
        assert connection.exec_driver_sql("SELECT count(*) FROM pg_inherits").scalar_one() >= 16
    engine.dispose()
    yield store
    store.close()


def test_a_partitioned_store_keeps_its_promises(partitioned: SQLStore) -> None:
    """What was there is claimed, once each and the longest due first; a key is begun once, in whichever partition."""
    claims = partitioned.claim_due(holder="one", lease_s=60, limit=100)
    fresh = [partitioned.begin(record(), key=f"after-{number}", holder="one", lease_s=60) for number in range(20)]

    assert [claim.key for claim in claims] == [f"before-{number}" for number in range(10)]
    assert partitioned.claim_due(holder="two", lease_s=60, limit=100) == []
    assert all(claim.fresh for claim in fresh)
    for number in range(20):
        with pytest.raises(Taken):
            partitioned.begin(record(), key=f"after-{number}", holder="two", lease_s=60)


def test_a_schema_of_its_own_is_a_store_of_its_own(postgresql: PostgreSQL) -> None:
    """The URL says which, and neither sees the other's operations."""
    url = postgresql.database("paces")
    engine = sa.create_engine(parsed(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE SCHEMA hourly")
    engine.dispose()
    often, hourly = SQLStore(url), SQLStore(f"{url}?options=-csearch_path%3Dhourly")
    often.begin(record(), key="a", holder="one", lease_s=60)
    hourly.begin(record(), key="b", holder="one", lease_s=60)

    assert [[stored.key for stored in store.list()] for store in (often, hourly)] == [["a"], ["b"]]
    often.close()
    hourly.close()
