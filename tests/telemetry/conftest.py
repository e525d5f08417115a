from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from telling import Meter, metering


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session that looks at nothing but what the test gives it."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def meter() -> Iterator[Meter]:
    """What is measured during the test."""
    with metering() as meter:
        yield meter
