"""PostgreSQL passes the suite of stores, and is the server that many machines share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptance.servers.postgresql import PostgreSQL, running
from durable.shelves import OnServer, Shelf
from durable.store_suite import StoreSuite


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    with running() as server:
        yield server


class TestPostgreSQLStore(StoreSuite):
    """Records on a server."""

    @pytest.fixture
    def shelf(self, postgresql: PostgreSQL) -> Iterator[Shelf]:
        shelf = OnServer(postgresql.url)
        yield shelf
        shelf.close()
