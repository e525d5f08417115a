"""Fixtures of the command line's tests."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from processes import Run, run_in


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command line in an empty folder."""
    return partial(run_in, tmp_path)
