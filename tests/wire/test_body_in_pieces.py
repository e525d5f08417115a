"""A body of known length that comes in pieces, on a connection that stays open."""

import pytest
import requests

from trihop import operation
from trihop.testing import ScriptedServer, dripped

ROWS = bytes(range(256)) * 800


@pytest.mark.parametrize("size", [7_000, 51_200, 150_000])
def test_nothing_is_waited_for_beyond_the_end_of_a_body(tmp_path, size):
    """However its pieces fall between what is moved and what is received."""
    with ScriptedServer() as server, requests.Session() as session:
        session.trust_env = False
        server.on("GET", "/rows", then_always=dripped(ROWS, every=0.002, size=size))
        for turn in range(4):
            with operation("export", deadline=10, session=session) as op:
                found = op.download(f"{server.url}rows", to=tmp_path / f"rows-{turn}")
            assert found.content == ROWS
