"""One table of provider, case, expected and got, over all the real servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from acceptance.servers import postgresql as _postgresql
from acceptance.servers import redis as _redis

_ROWS: list[tuple[str, str, str, str, bool]] = []
_HEAD = ("provider", "case", "expected", "got")


@dataclass
class Table:
    """Where a test enters what its server was expected to come to, and what it came to."""

    rows: list[tuple[str, str, str, str, bool]] = field(default_factory=lambda: _ROWS)

    def row(self, provider: str, case: str, *, expected: Any, got: Any) -> None:
        """Enter a case; it is passed when the two are equal.

        Raises:
            AssertionError: They are not; the row is entered all the same.
        """
        self.rows.append((provider, case, _short(expected), _short(got), expected == got))
        assert got == expected, f"{provider}, {case}"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[_postgresql.PostgreSQL]:
    """A PostgreSQL server; `postgresql.database(name)` makes an empty database in it."""
    with _postgresql.running() as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[str]:
    """A Redis server; where it is."""
    with _redis.running() as url:
        yield url


@pytest.fixture
def table() -> Table:
    """The table that is shown at the end."""
    return Table()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the table."""
    if not _ROWS:
        return
    widths = [max(len(row[column]) for row in [_HEAD, *_ROWS]) for column in range(4)]
    terminalreporter.section("real servers")
    terminalreporter.write_line("  " + "  ".join(map(str.ljust, _HEAD, widths)))
    for *cells, passed in _ROWS:
        terminalreporter.write_line(("  " if passed else "! ") + "  ".join(map(str.ljust, cells, widths)).rstrip())
    failed = sum(not passed for *_, passed in _ROWS)
    terminalreporter.write_line(f"{len(_ROWS)} cases, {len(_ROWS) - failed} as expected")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
