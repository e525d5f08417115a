"""What all tests share; the fixtures `clock`, `server` and `spans` come from trihop's own pytest plugin."""

from collections.abc import Iterator

import pytest
import requests
from hypothesis import settings

pytest_plugins = ["pytester"]

# How long an example takes is up to the machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session that looks at nothing but what the test gives it."""
    with requests.Session() as session:
        session.trust_env = False
        yield session
