"""Several results into a folder, each under its name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from trihop._hops.hop import Hop
from trihop._hops.poll import Poller
from trihop._results.download import Download
from trihop._results.fetch import Fetch, Terms
from trihop._results.part_file import cut
from trihop._values import Result

_NOTHING = Download("result", None, 0, _memory=b"")
_EXTENSIONS = (
    ("ndjson", ".ndjson"),
    ("jsonl", ".jsonl"),
    ("json", ".json"),
    ("csv", ".csv"),
    ("parquet", ".parquet"),
    ("xml", ".xml"),
)


def fetch_into(
    hop: Hop, poller: Poller | None, results: list[tuple[str, Result]], into: Path, terms: Terms
) -> dict[str, Download]:
    """Fetch several results into a folder, each under its name.

    Raises:
        As `Fetch.to`; files that were fetched before stay.
    """
    into.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()

    def named(target: Path, content_type: str | None) -> Path:
        return _free(target, _extension(content_type), taken)

    seen: Counter[str] = Counter()
    found: dict[str, Download] = {}
    for name, result in results:
        fetch = Fetch(hop, poller, name, result, terms, among=seen[result.name])
        seen[result.name] += 1
        found[name] = fetch.to(into / _file_name(name), named=named)
    return found


def nothing() -> Download:
    """What a job that left no result comes to in memory."""
    return _NOTHING


def _extension(content_type: str | None) -> str:
    kind = (content_type or "").partition(";")[0].lower()
    return next((extension for sign, extension in _EXTENSIONS if sign in kind), "")


def _file_name(name: str) -> str:
    """A result's name as the name of a file: no separators, not hidden, never empty."""
    return cut(re.sub(r"[^\w.+=@ -]", "_", name).lstrip(".").strip()) or "result"


def _free(target: Path, extension: str, taken: set[str]) -> Path:
    """The target with an extension, and a number where its name is taken, also on disks that fold case."""
    stem, suffix = (target.stem, target.suffix) if target.suffix else (target.name, extension)
    name, number = stem + suffix, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}-{number}{suffix}"
    taken.add(name.casefold())
    return target.with_name(name)
