"""What the tests of secrets share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from security.canaries import carry
from security.scenarios import World
from trihop.testing import ScriptedServer, VirtualClock


@pytest.fixture
def world(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """Servers and a session that carries one kind of credentials."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with requests.Session() as plain, ScriptedServer(clock=clock) as server, ScriptedServer(clock=clock) as foreign:
        session = carry(request.param, plain, tmp_path / "netrc", monkeypatch)
        yield World(server, foreign, session, clock, tmp_path, request.param, monkeypatch)
        session.close()
