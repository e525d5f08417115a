"""The reports and the tests that answer them, kept in step."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from field.ids import REPORTS

HERE = Path(__file__)


def functions() -> list[tuple[str, ast.FunctionDef]]:
    """Every test of this folder, under its module's name."""
    return [
        (path.stem, node)
        for path in sorted(HERE.parent.glob("test_*.py"))
        if path != HERE
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_each_report_has_exactly_one_test():
    """No report is without its test, none has two, and no test is without a report."""
    assert Counter((module, function.name) for module, function in functions()) == Counter(
        report.test for report in REPORTS
    )


def test_each_test_names_the_report_that_it_answers():
    """The docstring of a test ends with the address of its report."""
    sources = {report.test: report.source for report in REPORTS}

    assert {
        (module, function.name): (ast.get_docstring(function) or "").split()[-1:] for module, function in functions()
    } == {test: [source] for test, source in sources.items()}
