"""The fixtures `clock`, `server` and `spans`, for pytest.

pytest finds them by itself once trihop is installed; a fixture of the same name
in a conftest.py or a test module goes first, and `-p no:trihop` takes them away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trihop.testing import ScriptedServer, SpanLog, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    """A `trihop.testing.VirtualClock` at noon, without jitter."""
    from trihop.testing import VirtualClock

    return VirtualClock()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    """A `trihop.testing.ScriptedServer`, on `clock` if the test has both; an unexpected request is an error."""
    from trihop.testing import ScriptedServer, VirtualClock

    clock = request.getfixturevalue("clock") if "clock" in request.fixturenames else None
    # Another plugin's or the project's own `clock` may be something else.
    with ScriptedServer(clock=clock if isinstance(clock, VirtualClock) else None) as server:
        yield server


@pytest.fixture
def spans() -> Iterator[SpanLog]:
    """A `trihop.testing.SpanLog` of the OpenTelemetry spans that end during the test."""
    try:
        from trihop.testing._capture import captured
    except ImportError as error:
        pytest.fail(
            f"the fixture `spans` needs the OpenTelemetry SDK ({error}): pip install opentelemetry-sdk", pytrace=False
        )
    with captured() as log:
        yield log
