from __future__ import annotations

from collections.abc import Iterator

import pytest
from telling import Meter, metering


@pytest.fixture
def meter() -> Iterator[Meter]:
    """What is measured during the test."""
    with metering() as meter:
        yield meter
