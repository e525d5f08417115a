"""Beside OpenTelemetry's instrumentations of requests and urllib3, whoever came first."""

from __future__ import annotations

import pytest
from test_without_sdk import alone

OURS = ["submit export", "poll export", "download export", "export"]


@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize("names", ["requests", "urllib3", "requests urllib3"])
def test_a_triangle_stays_four_spans(names: str, when: str):
    """Activated before trihop is imported, after, or after its first operation: theirs are silent while we send."""
    came = alone(SDK="on", INSTRUMENT=f"{names} {when}")
    export = [span for span in came["spans"] if span["trace"] == came["trace_id"]]
    assert [span["name"] for span in export] == OURS
    assert {span["scope"] for span in export} == {"trihop"}
    root = export[-1]
    assert [span["parent"] for span in export] == [root["id"], root["id"], root["id"], None]


@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize("names", ["requests", "urllib3"])
def test_their_spans_outside_of_an_operation_are_untouched(names: str, when: str):
    """A request of the caller's own before, between and after operations is theirs, in a trace of its own."""
    came = alone(SDK="on", INSTRUMENT=f"{names} {when}")
    theirs = [span for span in came["spans"] if span["scope"] == f"opentelemetry.instrumentation.{names}"]
    outside = [span for span in theirs if span["parent"] is None]
    assert [span["name"] for span in outside] == ["GET", "GET"]
    ours = {span["trace"] for span in came["spans"] if span["scope"] == "trihop"}
    assert not ours & {span["trace"] for span in outside}


@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize("names", ["requests", "urllib3", "requests urllib3"])
def test_a_request_of_the_callers_own_inside_is_one_span(names: str, when: str):
    """Inside an operation, a request that the caller sends is told once, below the root."""
    came = alone(SDK="on", INSTRUMENT=f"{names} {when}")
    (root,) = [span for span in came["spans"] if span["name"] == "around"]
    below = [span for span in came["spans"] if span["trace"] == root["trace"] and span is not root]
    assert [(span["name"], span["parent"]) for span in below] == [("GET", root["id"])]
