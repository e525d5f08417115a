"""Reading OTLP JSON lines: what OpenTelemetry's exporters write, and what they would never write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import OPERATION_ID, START_NS, Pen, bad, good, polled, success, trace_id

from trihop.viewer import Fault, attempts, folded, read, total_attempts
from trihop.viewer._words import plain, shortened


def lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


def test_what_the_file_exporter_writes_comes_back_as_plain_values():
    """Ids, times, kinds, attributes, events, links and status survive the file."""
    (trace,) = read(lines(success())).traces
    poll = next(span for span in trace.spans if span.hop == "poll")
    submit = next(span for span in trace.spans if span.hop == "submit")

    assert trace.id == trace_id(1)
    assert [span.name for span in trace.spans] == ["export", "submit export", "poll export", "download export"]
    assert [span.kind for span in trace.spans] == ["internal", "client", "internal", "client"]
    assert trace.start_ns == START_NS
    assert trace.duration_s == 6.42
    assert poll.operation_id == OPERATION_ID
    assert poll.attributes["trihop.poll.statuses"] == ("200=4", "503=1")
    assert poll.attributes.number("trihop.poll.wait_time") == 5.8
    assert poll.links[0].span_id == submit.span_id
    assert [attempt.number for attempt in attempts(poll)] == [1, 2, 3, 4, 5]
    assert trace.operations[0].result == "success"
    assert trace.spans[0].service == "nightly"


def test_an_error_status_and_its_description_are_read():
    """A span's failure is its status code and message."""
    pen = Pen()
    pen.hop("submit", None, 0, 1, {}, error="the server refused")
    (trace,) = read(lines(pen.lines)).traces

    assert (trace.spans[0].status, trace.spans[0].description) == ("error", "the server refused")


def test_enums_may_come_by_name_and_numbers_as_numbers():
    """Protobuf's JSON allows both spellings; other exporters use the other one."""
    span = {
        "traceId": "AB" * 16,
        "spanId": "CD" * 8,
        "name": "x",
        "kind": "SPAN_KIND_CLIENT",
        "startTimeUnixNano": 1,
        "endTimeUnixNano": 3,
        "status": {"code": "STATUS_CODE_ERROR"},
        "attributes": [{"key": "n", "value": {"intValue": 7}}, {"key": "d", "value": {"doubleValue": "NaN"}}],
    }
    (trace,) = read([json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()]).traces
    (found,) = trace.spans

    assert (found.kind, found.status, trace.id) == ("client", "error", "ab" * 16)
    assert (found.attributes.count("n"), found.attributes.number("d")) == (7, None)


def test_a_line_that_is_no_json_costs_that_line_alone():
    """The spans before and after a broken line are there, and the line is named."""
    good_lines = lines(success())
    reading = read([good_lines[0], b"{broken\n", *good_lines[1:]])

    assert len(reading.traces[0].spans) == 4
    assert reading.faults == (Fault(2, "no JSON"),)


def test_a_half_written_last_line_is_told_from_a_broken_one():
    """A writer that was stopped in mid-line leaves a line without its end."""
    text = success()
    reading = read(lines(text[:-40]))

    assert len(reading.traces[0].spans) == 3
    assert reading.faults[0].line == 4
    assert "cut off" in reading.faults[0].reason


def test_other_signals_are_passed_over():
    """The collector writes metrics and logs to the same file: no fault, no span."""
    reading = read([b'{"resourceMetrics":[]}\n', b'{"resourceLogs":[]}\n', b"\n"])

    assert (reading.traces, reading.faults) == ((), ())


@pytest.mark.parametrize("line", [b"[]", b"7", b"null", b'{"a":1}', b"[" * 100_000, b"\xff\xfe\x00"])
def test_a_line_that_is_no_export_is_a_fault(line: bytes):
    """Whatever a line holds, reading goes on."""
    assert len(read([line + b"\n"]).faults) == 1


KEYS = (
    *(
        "resourceSpans",
        "resource",
        "scopeSpans",
        "spans",
        "attributes",
        "key",
        "value",
        "arrayValue",
        "values",
        "intValue",
    ),
    *("traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "status", "code", "message"),
    *("events", "links"),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "-1", "x" * 40]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(json_values)
def test_no_json_makes_the_reader_raise(value: object):
    """A span of any shape is a span or a fault."""
    span = value if isinstance(value, dict) else {"attributes": value, "events": value, "links": value, "status": value}
    ids = {"traceId": "a", "spanId": "b", "startTimeUnixNano": "5"}
    for spans in (value, [{**span, **ids}], [span]):
        export = {"resourceSpans": [{"resource": value, "scopeSpans": [{"spans": spans}]}]}
        for trace in read([json.dumps(export).encode()]).traces:
            assert trace.rows


def test_a_span_that_came_twice_is_shown_once():
    """A file that two exporters wrote, or one wrote again, still has one root."""
    text = success()
    (trace,) = read(lines(text + text)).traces

    assert len(trace.spans) == 4


def test_spans_in_a_circle_are_all_in_the_tree():
    """Parents that lead nowhere do not hide a span, and do not make the tree endless."""

    def span(own: str, parent: str) -> dict[str, str]:
        return {"traceId": "a", "spanId": own, "parentSpanId": parent, "name": own, "startTimeUnixNano": "5"}

    spans = [span("a", "b"), span("b", "a"), span("c", "c"), span("d", "gone"), span("e", "d")]
    (trace,) = read([json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()]).traces

    assert sorted(row.span.name for row in trace.rows) == ["a", "b", "c", "d", "e"]
    assert {row.span.name: len(row.last) for row in trace.rows}["e"] == 1


def test_a_tree_of_thousands_of_levels_is_walked():
    """Depth costs no recursion."""
    spans = [
        {"traceId": "a", "spanId": f"{n}", "parentSpanId": f"{n - 1}", "name": "x", "startTimeUnixNano": "5"}
        for n in range(1, 3000)
    ]
    (trace,) = read([json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()]).traces

    assert len(trace.rows[-1].last) == 2998


def test_a_state_is_changed_against_the_last_one_known():
    """An error in between has no state, so the poll after it changed nothing."""
    pen = Pen()
    events = [(1.0, good(1, "Queued")), (2.0, bad(2)), (3.0, good(3, "Queued")), (4.0, good(4, "Running"))]
    pen.hop("poll", None, 0, 5, polled(4, errors=1, waited=4, state="Running"), attempts=events)
    (trace,) = read(lines(pen.lines)).traces

    assert [attempt.changed for attempt in attempts(trace.spans[0])] == [False, False, False, True]


def test_several_marks_are_told_apart():
    """Marks are written as one text, joined by commas."""
    pen = Pen()
    pen.hop("poll", None, 0, 5, {}, attempts=[(1.0, good(1, trihop__attempt__mark="late,unknown_state"))])
    (trace,) = read(lines(pen.lines)).traces

    assert attempts(trace.spans[0])[0].marks == ("late", "unknown_state")


def test_attempts_folded_away_are_counted_where_they_are_missing():
    """Gaps in the numbers, and what the total says beyond the last one kept."""
    pen = Pen()
    pen.hop("poll", None, 0, 9, polled(9, waited=8, state="x"), attempts=[(1.0, good(1)), (6.0, good(6))])
    (trace,) = read(lines(pen.lines)).traces
    kept = attempts(trace.spans[0])

    shown = [row if isinstance(row, int) else f"#{row.number}" for row in folded(kept, total_attempts(trace.spans[0]))]
    assert shown == ["#1", 4, "#6", 3]


@pytest.mark.parametrize("evil", ["\x1b]0;owned\x07", "a\nb\r\tc", "\u202eabc", "\ud800", "\x9b31m"])
def test_foreign_text_becomes_printable_on_one_line(evil: str):
    """No control character, no direction override and no lone surrogate is left in what is shown."""
    assert plain(evil).isprintable()


def test_a_text_is_cut_with_a_mark():
    """What is cut says so, and what fits is whole."""
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab…")
