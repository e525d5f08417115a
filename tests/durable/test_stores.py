"""The stores that need no server pass the suite; `acceptance` has PostgreSQL pass it too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.shelves import InFile, InMemory, Shelf
from durable.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    """Records in this process."""

    @pytest.fixture
    def shelf(self, tmp_path: Path) -> Iterator[Shelf]:
        shelf = InMemory()
        yield shelf
        shelf.close()


class TestSQLiteStore(StoreSuite):
    """Records in a file."""

    @pytest.fixture
    def shelf(self, tmp_path: Path) -> Iterator[Shelf]:
        shelf = InFile(tmp_path)
        yield shelf
        shelf.close()
