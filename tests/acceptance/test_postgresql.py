"""PostgreSQL passes the suite of stores, and its own faults are said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from acceptance.servers.postgresql import PostgreSQL
from durable.shelves import OnServer, Shelf
from durable.store_suite import StoreSuite, at_once, record
from trihop.stores import SQLStore, Store, StoreError
from trihop.stores._sql_url import parsed


@pytest.fixture
def shelf(postgresql: PostgreSQL) -> Iterator[OnServer]:
    shelf = OnServer(postgresql.url)
    yield shelf
    shelf.close()


class TestPostgreSQLStore(StoreSuite):
    """Records on a server."""

    @pytest.fixture
    def shelf(self, postgresql: PostgreSQL) -> Iterator[Shelf]:
        shelf = OnServer(postgresql.url)
        yield shelf
        shelf.close()


@pytest.fixture
def admin(postgresql: PostgreSQL) -> Iterator[sa.Connection]:
    """Somebody at a shell of the same database."""
    engine = sa.create_engine(parsed(postgresql.url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def kept(store: Store) -> Any:
    stored = store.get("nightly")
    return None if stored is None else stored.record


def end_others(admin: sa.Connection) -> None:
    """End every other connection to the database, as a failover does."""
    admin.exec_driver_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
    )


def waits_for_a_lock(admin: sa.Connection) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    for _ in range(3000):
        if admin.exec_driver_sql(query).scalar():
            return True
        threading.Event().wait(0.01)
    return False


def test_a_server_that_is_down_is_said_and_nothing_is_lost(postgresql: PostgreSQL, shelf: OnServer) -> None:
    """It stops as it does when its machine does; once it is up again, the same claim goes on where it was."""
    store = shelf.open()
    claim = store.begin(record(), key="nightly", holder="one", lease_s=600)
    store.save(claim, record(polls=1))
    postgresql.stop("immediate")
    try:
        errors = []
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                store.save(claim, record(polls=2))
            errors.append(str(caught.value))
    finally:
        postgresql.start()
    after = kept(store)
    store.save(claim, record(polls=3))

    for error in errors:
        assert f"127.0.0.1:{postgresql.port}/postgres cannot be used (" in error
        assert error.endswith("the server's job goes on: see that the database is up, then run it again")
    assert (after, kept(store)) == (record(polls=1), record(polls=3))


def test_a_connection_that_was_lost_meanwhile_is_made_again(admin: sa.Connection, shelf: OnServer) -> None:
    """The server was restarted between two polls: nobody is to notice."""
    store = shelf.open()
    claim = store.begin(record(), key="nightly", holder="one", lease_s=600)
    end_others(admin)
    store.save(claim, record(polls=1))

    assert kept(store) == record(polls=1)


def held_up(admin: sa.Connection, shelf: OnServer, then: Callable[[], None]) -> str:
    """What a save is told that waits for a row, which somebody holds until `then` is done."""
    store = shelf.open()
    claim = store.begin(record(), key="nightly", holder="one", lease_s=600)
    engine = sa.create_engine(parsed(shelf.url))
    with ThreadPoolExecutor(1) as pool, engine.connect() as other:
        other.exec_driver_sql("SELECT 1 FROM trihop_operations FOR UPDATE")
        waiting = pool.submit(store.save, claim, record(polls=1))
        assert waits_for_a_lock(admin)
        then()
        with pytest.raises(StoreError) as caught:
            waiting.result(60)
        other.invalidate()
    engine.dispose()
    before = kept(store)
    store.save(claim, record(polls=2))

    assert (before, kept(store)) == (record(), record(polls=2))
    return str(caught.value)


def test_a_connection_that_is_lost_in_a_statement_is_said(admin: sa.Connection, shelf: OnServer) -> None:
    """Nothing of it was written; the next save makes a new connection."""
    error = held_up(admin, shelf, lambda: end_others(admin))

    assert "cannot be used (" in error
    assert "see that the database is up" in error


def test_a_row_that_somebody_keeps_locked_is_said(admin: sa.Connection, shelf: OnServer) -> None:
    """A shell with an open transaction holds nobody up for ever."""
    error = held_up(admin, shelf, lambda: None)

    assert "was kept locked by others for 5 s (canceling statement due to lock timeout" in error
    assert "find who holds a transaction open" in error


def test_a_server_that_takes_no_writes_is_said(admin: sa.Connection, shelf: OnServer) -> None:
    """A standby, or a database in maintenance; reading goes on."""
    store = shelf.open()
    claim = store.begin(record(), key="nightly", holder="one", lease_s=600)
    admin.exec_driver_sql("ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        end_others(admin)
        with pytest.raises(StoreError, match=r"cannot be written \(cannot execute UPDATE in a read-only transaction"):
            store.save(claim, record(polls=1))
        read = kept(store)
    finally:
        admin.exec_driver_sql("SET default_transaction_read_only = off")
        admin.exec_driver_sql("ALTER DATABASE postgres RESET default_transaction_read_only")
        end_others(admin)

    assert read == record()


def test_many_that_open_an_empty_database_at_once_share_it(postgresql: PostgreSQL) -> None:
    """One makes the tables, the others wait for it."""
    stores = [SQLStore(postgresql.database("empty"))]
    stores += [SQLStore(stores[0]._database.url.render_as_string(hide_password=False)) for _ in range(7)]
    at_once(8, lambda number: stores[number].begin(record(), key=f"{number}", holder="one", lease_s=60))
    keys = sorted(stored.key for stored in stores[0].list())
    for store in stores:
        store.close()

    assert keys == [f"{number}" for number in range(8)]


def test_a_machine_whose_clock_is_wrong_changes_nothing(shelf: OnServer) -> None:
    """Its clock is never looked at: due times and leases are reckoned where the records are."""
    store = shelf.open()
    store._clock = None  # type: ignore[assignment]
    claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
    store.save(claim, record(), due_in_s=0, lease_s=60, release=True)
    (due,) = store.claim_due(holder="two", lease_s=60, limit=10)
    store.renew(due, lease_s=90)
    stored = store.get("nightly")

    assert stored is not None
    assert stored.lease_left_s == pytest.approx(90, abs=20)
