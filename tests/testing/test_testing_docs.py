"""The examples of docs/testing.md are run as they stand."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_every_example_on_the_page_passes(pytester: pytest.Pytester):
    """The page's code, put into one file, is a test module whose tests all pass."""
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
    pytester.makepyfile(test_page=code)

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error")

    result.assert_outcomes(passed=code.count("\ndef test_"))


def test_the_examples_in_docstrings_pass(pytester: pytest.Pytester):
    """Doctests of the package hold."""
    result = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--doctest-modules", "--pyargs", "trihop.testing", "-W", "error"
    )

    result.assert_outcomes(passed=3)
