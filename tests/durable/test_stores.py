"""The stores that need no server pass the suite; `acceptance` has PostgreSQL pass it too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import trihop
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


def test_a_store_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for SQLStore without SQLAlchemy is told the extra that brings it."""
    monkeypatch.delitem(sys.modules, "trihop.stores._sql", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)

    with pytest.raises(ModuleNotFoundError, match=r"SQLStore needs sqlalchemy: pip install 'trihop\[sql\]'"):
        trihop.SQLStore  # noqa: B018 - to name it is to import it
