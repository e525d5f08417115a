"""Reading traces back: OTLP JSON lines to plain values, and what to say of them.

Apart from drawing, so that a terminal, a page and an export can share it. Needs neither OpenTelemetry nor an extra.
"""

from trihop.viewer._attempts import Attempt, attempts, folded, gaps, told_apart, total_attempts
from trihop.viewer._axis import axis_label, axis_step
from trihop.viewer._jaeger import to_jaeger
from trihop.viewer._model import Attributes, Link, Operation, Row, Span, SpanEvent, Trace
from trihop.viewer._notes import Note, headline, notes
from trihop.viewer._otlp import Fault, Reading, read
from trihop.viewer._page import to_html
from trihop.viewer._story import Story, story
from trihop.viewer._words import clock, counted, instant, plain, seconds, size

__all__ = [
    "Attempt",
    "Attributes",
    "Fault",
    "Link",
    "Note",
    "Operation",
    "Reading",
    "Row",
    "Span",
    "SpanEvent",
    "Story",
    "Trace",
    "attempts",
    "axis_label",
    "axis_step",
    "clock",
    "counted",
    "folded",
    "gaps",
    "headline",
    "instant",
    "notes",
    "plain",
    "read",
    "seconds",
    "size",
    "story",
    "to_html",
    "to_jaeger",
    "told_apart",
    "total_attempts",
]
