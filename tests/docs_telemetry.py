"""The tables of names in docs/telemetry.md, made from `_semconv.TABLE`.

python -m tests.docs_telemetry
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from trihop._telemetry import semconv
from trihop._telemetry.semconv import Name

PAGE = Path(__file__).resolve().parents[1] / "docs" / "telemetry.md"
BEGIN, END = "<!-- names: made by `python -m tests.docs_telemetry` -->", "<!-- end of names -->"

_UNITS = {"s": "s", "By": "bytes", "By/s": "bytes/s", "1": "share"}


def tables() -> str:
    """A table for each kind of name, in Markdown."""
    return "\n\n".join(
        [
            f"### Spans\n\n{_table(('Name', 'Kind', 'Meaning'), _spans())}",
            f"### Attributes\n\n{_table(('Name', 'Type', 'Unit', 'On', 'Meaning'), _attributes())}",
            f"### Metrics\n\n{_table(('Name', 'Kind', 'Unit', 'Labels', 'Buckets', 'Meaning'), _metrics())}",
        ]
    )


def page(text: str) -> str:
    """The page with fresh tables between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _of(*kinds: str) -> Iterator[Name]:
    return (row for row in semconv.TABLE if row.kind in kinds)


def _spans() -> Iterator[tuple[str, ...]]:
    for row in _of("span", "event"):
        yield f"`{row.name}`", row.type or row.kind, row.meaning


def _attributes() -> Iterator[tuple[str, ...]]:
    for row in _of("attribute"):
        values = f" One of {', '.join(row.values)}." if row.values else ""
        flags = ("*" if row.at_start else "") + ("" if row.stable else " (D)")
        yield f"`{row.name}`{flags}", row.type, _unit(row), ", ".join(row.on), f"{row.meaning}{values}"


def _metrics() -> Iterator[tuple[str, ...]]:
    for row in _of("metric"):
        labels = ", ".join(f"`{name}`" for name in row.attributes)
        yield (
            f"`{row.name}`",
            row.type,
            _unit(row),
            labels,
            " ".join(f"{bound:g}" for bound in row.buckets),
            row.meaning,
        )


def _unit(row: Name) -> str:
    return _UNITS.get(row.unit, row.unit.strip("{}"))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
