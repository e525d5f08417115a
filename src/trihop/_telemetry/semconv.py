"""Every span, event, attribute and metric name we emit, with its meaning and unit.

A name is written once, in the row that explains it; the row's function hands
the bare string back, and that constant is all the emitting code ever touches.
The whole table is `TABLE`, for documentation, dashboards and tests; `METRICS`
picks the rows that an instrument is made from.

Ours live under `trihop.`, as `{object}.{property}`. Borrowed ones are the
stable names of OpenTelemetry's semantic conventions, kept here as strings:
their package pins the API to its own release, and would drag the user's along.

All times are seconds, all texts redacted and at most 64 characters unless the
meaning says otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

SCOPE = "trihop"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"


class Name(NamedTuple):
    """One row of the table."""

    kind: str
    """span, event, attribute or metric."""
    name: str
    """As it goes out; a span's name is a pattern with `{operation}` or `{method}` in it."""
    type: str
    """Of an attribute: str, str[], int, double or bool. Of a metric: its instrument. Of a span: its kind."""
    unit: str
    """In UCUM, as `s`, `By` or `{attempt}`; empty where the value is not a quantity."""
    meaning: str
    """One line, for the reader of a trace."""
    on: tuple[str, ...] = ()
    """Where it may stand: every (span), hop, root, poll, download, segment, attempt (the event), metric."""
    values: tuple[str, ...] = ()
    """The closed set that a text comes from; empty where it is open."""
    cardinality: str = "low"
    """low, medium or high: what the name would cost as the label of a metric."""
    stable: bool = True
    """False while the name may still change without notice."""
    at_start: bool = False
    """Given when the span starts, so that a sampler can see it."""
    borrowed: bool = False
    """From OpenTelemetry's semantic conventions rather than ours."""
    attributes: tuple[str, ...] = ()
    """The labels of a metric."""
    buckets: tuple[float, ...] = ()
    """The upper bounds a histogram advises, in its unit."""


_rows: list[Name] = []


def _span(name: str, type: str, meaning: str) -> str:
    _rows.append(Name("span", name, type, "", meaning))
    return name


def _attribute(
    type: str, name: str, unit: str, meaning: str, on: str, values: tuple[str, ...], cardinality: str, flags: str
) -> str:
    """Flags are single letters: `D`evelopment, `*` given at span start, `B`orrowed."""
    where = tuple(on.split())
    row = ("attribute", name, type, unit, meaning, where, values, cardinality)
    _rows.append(Name(*row, stable="D" not in flags, at_start="*" in flags, borrowed="B" in flags))
    return name


def _text(
    name: str, meaning: str, on: str, flags: str = "", *, cardinality: str = "low", values: tuple[str, ...] = ()
) -> str:
    return _attribute("str", name, "", meaning, on, values, cardinality, flags)


def _texts(name: str, meaning: str, on: str, flags: str = "") -> str:
    return _attribute("str[]", name, "", meaning, on, (), "high", flags)


def _count(name: str, unit: str, meaning: str, on: str, flags: str = "", *, cardinality: str = "high") -> str:
    return _attribute("int", name, unit, meaning, on, (), cardinality, flags)


def _double(name: str, unit: str, meaning: str, on: str, flags: str = "") -> str:
    return _attribute("double", name, unit, meaning, on, (), "high", flags)


def _metric(
    name: str,
    type: str,
    unit: str,
    meaning: str,
    *,
    attributes: tuple[str, ...],
    buckets: tuple[float, ...] = (),
    borrowed: bool = False,
) -> str:
    _rows.append(Name("metric", name, type, unit, meaning, borrowed=borrowed, attributes=attributes, buckets=buckets))
    return name


# Closed sets: words that two places must spell alike.
HOPS = ("submit", "poll", "download", "request")
RESULTS = ("success", "partial", "failure", "timeout", "cancellation", "error")
PHASES = ("wait", "connect", "tls", "headers", "body", "between")
WAIT_REASONS = ("hint", "pacing", "backoff", "caller")
VERDICTS = (
    *("accepted", "rejected", "transient"),
    *("succeeded", "partial", "failed", "cancelled", "expired", "ambiguous"),
    *("content", "link_expired", "gone"),
)
MARK_UNKNOWN_STATE = "unknown_state"
MARK_HINT_UNREADABLE = "hint_unreadable"
MARK_STATE_REGRESSED = "state_regressed"
MARK_LATE = "late"
MARK_SAME_LINK = "same_link"
MARKS = (MARK_UNKNOWN_STATE, MARK_HINT_UNREADABLE, MARK_STATE_REGRESSED, MARK_LATE, MARK_SAME_LINK)

# Spans, and their one event.
SPAN_OPERATION = _span("{operation}", "internal", "The whole triangle, under the name its caller gave it.")
SPAN_SUBMIT = _span("submit {operation}", "client", "The request for the job, its re-sends folded in.")
SPAN_POLL = _span("poll {operation}", "internal", "Every question to the status monitor, folded into one span.")
SPAN_DOWNLOAD = _span("download {operation}", "client", "The result to its last byte, its re-sends folded in.")
SPAN_REQUEST = _span("{method}", "client", "A request whose part in the triangle nothing shows.")
SPAN_START = _span(
    "start {operation}", "internal", "Zero length: a durable operation, or a job of a fleet, began here."
)
SPAN_RESUME = _span("resume {operation}", "internal", "Zero length: another process took it up here.")
SPAN_FENCED = _span("fenced {operation}", "internal", "Zero length: a holder learnt that it was no longer its own.")

ATTEMPT = "trihop.attempt"
_rows.append(Name("event", ATTEMPT, "", "", "One HTTP exchange, at its own time; at most 48 on a span.", ("hop",)))

# Every span.
OPERATION_NAME = _text("trihop.operation.name", "What the caller calls it.", "every metric", "*")
OPERATION_ID = _text("trihop.operation.id", "One run of it, as uuid hex.", "every", "*", cardinality="high")
PROVIDER = _text("trihop.provider", "The API family spoken, if one was named.", "every metric", "*")
JOB_ID = _text("trihop.job.id", "The server's id for the job, once known.", "every", cardinality="high")

# Hops.
HOP = _text("trihop.hop", "Which side of the triangle.", "hop", "*", values=HOPS)
HTTP_REQUEST_METHOD = _text("http.request.method", "The method asked with.", "hop metric", "*B")
SERVER_ADDRESS = _text("server.address", "The host asked.", "hop metric", "*B", cardinality="medium")
SERVER_PORT = _count("server.port", "", "The port asked.", "hop metric", "*B", cardinality="low")
URL_FULL = _text("url.full", "The URL asked, redacted, cut at 2,048 characters.", "hop", "*B", cardinality="high")
HTTP_RESPONSE_STATUS_CODE = _count(
    "http.response.status_code", "", "On a span, of its last exchange.", "hop attempt metric", "B", cardinality="low"
)
HTTP_REQUEST_RESEND_COUNT = _count(
    "http.request.resend_count", "{attempt}", "How often the same request went out again.", "hop", "B"
)
ERROR_TYPE = _text(
    "error.type",
    'On spans the class of the exception; on attempts and the HTTP metric "503", read_timeout and their like.',
    "hop root attempt metric",
    "B",
    cardinality="medium",
)

# The root.
OPERATION_RESULT = _text("trihop.operation.result", "How it ended.", "root metric", values=RESULTS)
OPERATION_ENDED_IN = _text("trihop.operation.ended_in", "The hop it ended in, unless well.", "root", values=HOPS)
OPERATION_POLLS = _count("trihop.operation.polls", "{attempt}", "Questions asked of the status monitor.", "root")
OPERATION_SEGMENTS = _count("trihop.operation.segments", "{segment}", "Processes that took part, in turn.", "root")
OPERATION_RESUMED = _attribute(
    "bool", "trihop.operation.resumed", "", "True when it was taken up again; else absent.", "root", (), "low", "*"
)
OPERATION_JOBS = _count("trihop.operation.jobs", "{job}", "Jobs gathered; there is no job id then.", "root", "D")
JOB_STATE = _text(
    "trihop.job.state", "The server's own word for the job's state.", "root poll attempt", cardinality="medium"
)
JOB_ERROR_CODE = _text("trihop.job.error.code", "The server's code for what failed.", "root", "D", cardinality="high")
JOB_ERROR_MESSAGE = _text(
    "trihop.job.error.message", "The server's words for it, at most 256 characters.", "root", "D", cardinality="high"
)
JOB_ITEMS_TOTAL = _count("trihop.job.items.total", "{item}", "Items the job had.", "root", "D")
JOB_ITEMS_FAILED = _count("trihop.job.items.failed", "{item}", "Items that did not succeed.", "root", "D")
DEADLINE_AT = _text("trihop.deadline.at", "The instant, as RFC 3339 writes it.", "root", "*", cardinality="high")
DEADLINE_DURATION = _double("trihop.deadline.duration", "s", "From the start to the deadline.", "root", "*")
DEADLINE_REMAINING = _double("trihop.deadline.remaining", "s", "What was left of it at the end.", "root")
DEADLINE_PHASE = _text("trihop.deadline.phase", "What was going on when it passed.", "root", values=PHASES)

# The poll.
POLL_ATTEMPTS = _count("trihop.poll.attempts", "{attempt}", "Exchanges made.", "poll")
POLL_ERRORS = _count("trihop.poll.errors", "{attempt}", "Exchanges that brought no answer.", "poll")
POLL_EVENTS_OMITTED = _count("trihop.poll.events_omitted", "{attempt}", "Exchanges without an event.", "poll")
POLL_STATUSES = _texts("trihop.poll.statuses", 'At most eight, the most frequent first: "200=41".', "poll", "D")
POLL_UNKNOWN_STATES = _texts(
    "trihop.poll.unknown_states", "At most eight states that the surface has no word for.", "poll", "D"
)
POLL_REQUEST_TIME = _double("trihop.poll.request_time", "s", "Spent in exchanges.", "poll")
POLL_REQUEST_TIME_MAX = _double("trihop.poll.request_time_max", "s", "The longest exchange.", "poll")
POLL_WAIT_TIME = _double("trihop.poll.wait_time", "s", "Spent in pauses.", "poll")
POLL_WAIT_TIME_MAX = _double("trihop.poll.wait_time_max", "s", "The longest pause.", "poll")
POLL_WAIT_OVERRUN_MAX = _double(
    "trihop.poll.wait_overrun_max", "s", "How far a pause outlasted its plan, if over 1 s.", "poll", "D"
)
WAIT_REFUSED = _double("trihop.wait.refused", "s", "The hint that lay beyond the deadline.", "poll")

# The download.
DOWNLOAD_SIZE = _count("trihop.download.size", "By", "Received so far.", "download")
DOWNLOAD_EXPECTED_SIZE = _count("trihop.download.expected_size", "By", "As the server announced it.", "download")
DOWNLOAD_RESUMES = _count("trihop.download.resumes", "{resume}", "Broken streams carried on by range.", "download")
DOWNLOAD_PAGES = _count("trihop.download.pages", "{page}", "Pages fetched.", "download")
DOWNLOAD_SHA256 = _text("trihop.download.sha256", "The digest verified.", "download", "D", cardinality="high")
DOWNLOAD_RATE = _double("trihop.download.rate", "By/s", "Bytes a second.", "download", "D")
DOWNLOAD_LINK_AGE = _double("trihop.download.link_age", "s", "How old the signed link was.", "download", "D")
DOWNLOAD_LINK_REFRESHES = _count("trihop.download.link_refreshes", "{link}", "Fresh links got.", "download", "D")

# Segments of a durable operation, on its spans of zero length.
SEGMENT_NUMBER = _count("trihop.segment.number", "", "Which process in turn, from one.", "segment", "D")
SEGMENT_GAP = _double("trihop.segment.gap", "s", "For how long nobody was there.", "segment", "D")
SEGMENT_REASON = _text("trihop.segment.reason", "Why: lease_expired, or visited_again.", "segment", "D")

# The attempt.
ATTEMPT_NUMBER = _count("trihop.attempt.number", "", "From one, over all processes.", "attempt")
ATTEMPT_DURATION = _double("trihop.attempt.duration", "s", "How long the exchange took.", "attempt")
ATTEMPT_VERDICT = _text(
    "trihop.attempt.verdict", "What the surface made of it, unless pending.", "attempt", values=VERDICTS
)
ATTEMPT_MARK = _text(
    "trihop.attempt.mark", "What was odd about it; several are joined by commas.", "attempt", values=MARKS
)
WAIT_DURATION = _double("trihop.wait.duration", "s", "The pause after it.", "attempt")
WAIT_REASON = _text("trihop.wait.reason", "What set that pause.", "attempt metric", values=WAIT_REASONS)

# By the field name in lower case. The convention makes each a list of texts, also for one.
RESPONSE_HEADERS = {
    field: _texts(f"http.response.header.{field}", meaning, "attempt", "B")
    for field, meaning in (
        ("x-request-id", "The id to quote to the vendor."),
        ("retry-after", "The hint as it was written."),
        ("content-type", "Tells a login page from an answer."),
        ("www-authenticate", "Why it was a 401; at most 128 characters."),
    )
}

# Metrics.
OPERATION_DURATION = _metric(
    "trihop.operation.duration",
    "histogram",
    "s",
    "From start to ending.",
    attributes=(OPERATION_NAME, PROVIDER, OPERATION_RESULT, ERROR_TYPE),
    buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400),
)
OPERATION_DEADLINE_UTILIZATION = _metric(
    "trihop.operation.deadline.utilization",
    "histogram",
    "1",
    "How much of its deadline an operation took.",
    attributes=(OPERATION_NAME, PROVIDER, OPERATION_RESULT),
    buckets=(0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1),
)
OPERATION_ACTIVE = _metric(
    "trihop.operation.active",
    "updowncounter",
    "{operation}",
    "Blocks open in this process.",
    attributes=(OPERATION_NAME, PROVIDER),
)
OPERATION_OVERDUE = _metric(
    "trihop.operation.overdue",
    "gauge",
    "{operation}",
    "Past the deadline without an ending, by the store.",
    attributes=(OPERATION_NAME,),
)
_metric(
    POLL_ATTEMPTS,
    "counter",
    "{attempt}",
    "Exchanges made; those with an error type gave no answer.",
    attributes=(OPERATION_NAME, PROVIDER, ERROR_TYPE),
)
POLL_WAIT_DURATION = _metric(
    "trihop.poll.wait.duration",
    "histogram",
    "s",
    "Pauses between polls.",
    attributes=(OPERATION_NAME, WAIT_REASON),
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600),
)
_metric(
    DOWNLOAD_SIZE,
    "histogram",
    "By",
    "Bytes of one result.",
    attributes=(OPERATION_NAME, PROVIDER),
    buckets=(1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10),
)
HTTP_CLIENT_REQUEST_DURATION = _metric(
    "http.client.request.duration",
    "histogram",
    "s",
    "One exchange on the wire.",
    attributes=(HTTP_REQUEST_METHOD, SERVER_ADDRESS, SERVER_PORT, HTTP_RESPONSE_STATUS_CODE, ERROR_TYPE),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
    borrowed=True,
)

TABLE = tuple(_rows)
METRICS = {row.name: row for row in TABLE if row.kind == "metric"}
