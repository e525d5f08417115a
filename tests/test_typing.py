"""The types that users see."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("what", ["tests/typing/api.py", "examples"])
def test_mypy_finds_nothing(what):
    """In strict mode, as the oldest Python reads it, the public API and every example are clean."""
    from mypy import api

    files = [str(ROOT / what)] if what.endswith(".py") else sorted(map(str, (ROOT / what).glob("*.py")))
    options = ["--strict", "--python-version=3.10", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache'}"]
    report, errors, status = api.run([*options, *files])

    assert (status, errors) == (0, ""), report
