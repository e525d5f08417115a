"""No credential gets into a record, whatever goes wrong: the file of the store is read as bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from security import canaries
from security.canaries import assert_silent
from security.scenarios import SCENARIOS, World
from trihop import Operation, SQLStore

# The status monitor is a signed link in these scenarios, and to go on with a job is what a record is for.
KEPT = {"the signature of an Azure link"}


@pytest.mark.parametrize("world", ["session", "userinfo"], indirect=True)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_credential_gets_into_a_record(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the session's own nor a signed link to a result, also where a server quotes them."""
    store = SQLStore(f"sqlite:///{world.tmp_path}/records.db")
    without = World.operation

    def stored(self: World, **options: Any) -> contextlib.AbstractContextManager[Operation]:
        return without(self, **{"key": "k", "store": store, **options})

    monkeypatch.setattr(World, "operation", stored)
    with contextlib.suppress(Exception, KeyboardInterrupt):
        SCENARIOS[name][0](world)

    def written() -> Iterator[tuple[str, str]]:
        for file in world.tmp_path.glob("records.db*"):
            yield file.name, file.read_bytes().decode("latin-1")

    looked_for = {**canaries.CREDENTIALS, **canaries.LINKS}
    assert_silent(written(), {name: canary for name, canary in looked_for.items() if name not in KEPT})
    if name.startswith("success"):
        assert any("/jobs/7" in text for _, text in written())
