from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session that looks at nothing but what the test gives it."""
    with requests.Session() as session:
        session.trust_env = False
        yield session
