"""No credential and no signed link reaches the store: every scenario once more, and then the bytes of the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from security import canaries, scenarios
from security.canaries import assert_silent
from security.scenarios import SCENARIOS, World
from trihop import SQLStore, operation

CARRIED = ("session", "basic", "userinfo")


@pytest.mark.parametrize("world", CARRIED, indirect=True)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_credential_reaches_the_store(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what is asked, nor by what a server says, quotes or hands out, nor by an error.

    But for one: a monitor whose own address is signed has no other, and there is no going on without it.
    """
    store = SQLStore(f"sqlite:///{world.tmp_path}/operations.db")
    monkeypatch.setattr(
        scenarios, "operation", lambda *given, **options: operation(*given, **{"key": "k", **options, "store": store})
    )
    run, _ = SCENARIOS[name]
    try:
        with contextlib.suppress(Exception, KeyboardInterrupt):
            run(world)
        stored = store.list()
    finally:
        store.close()

    monitors = {(one.record["job"] or {}).get("status_url") or "" for one in stored} - {""}

    def texts() -> Iterator[tuple[str, str]]:
        for path in world.tmp_path.glob("operations.db*"):
            content = path.read_bytes().decode("latin-1")
            for monitor in monitors:
                content = content.replace(monitor, "")
            yield path.name, content
        for one in stored:
            yield from ((where, text) for where, text in told(one.record) if where != "record.job.status_url")

    assert_silent(texts(), {**canaries.CREDENTIALS, **canaries.LINKS})


def told(value: Any, where: str = "record") -> Iterator[tuple[str, str]]:
    """Every text of a record, under its place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from told(inner, f"{where}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from told(inner, where)
    elif isinstance(value, str):
        yield where, value
