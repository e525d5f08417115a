"""docs/telemetry.md says what is emitted, and has the names from the table that emits them."""

from __future__ import annotations

import re

from docs_telemetry import PAGE, page, tables
from trihop._telemetry import semconv

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_name_of_the_table_and_nothing_of_an_older_one():
    """Whoever changes a name makes the page anew: `python -m tests.docs_telemetry`."""
    assert page(TEXT) == TEXT


def test_each_name_stands_in_a_row_with_its_unit_and_its_labels():
    """A row for each name; a metric's row has its unit, labels and buckets."""
    rows = {match[1]: line for line in tables().splitlines() if (match := re.match(r"\| `([^`]+)`", line))}

    assert set(rows) == {row.name for row in semconv.TABLE}
    assert len([line for line in tables().splitlines() if line.startswith("| `")]) == len(semconv.TABLE)
    duration = next(line for line in tables().splitlines() if "`trihop.operation.duration` | histogram | s |" in line)
    assert "`trihop.operation.name`, `trihop.provider`, `trihop.operation.result`, `error.type`" in duration
    assert "| 1 5 10 30 60 " in duration
    assert "`trihop.operation.name`*" in rows["trihop.operation.name"]
    assert "(D)" in rows["trihop.job.error.code"]


def test_what_the_text_names_exists():
    """Attributes named in the prose are rows of the table."""
    prose = TEXT.partition("## Names")[0]
    named = set(re.findall(r"`(trihop\.[a-z_]+\.[a-z_.]+)`", prose))

    assert len(named) > 2
    assert named - {row.name for row in semconv.TABLE} == set()
