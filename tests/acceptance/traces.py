"""Traces to look at: a success, a deadline that passed, four hundred polls; and one of thousands of spans."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

# The pen with which the command line's tests write traces.
sys.path.append(str(Path(__file__).resolve().parents[1] / "cli"))

from scenes import Pen, Values, bad, good, polled, success

STATUS_URL = "https://api.example.com/jobs/query/750xx001"


def deadline() -> bytes:
    """Half an hour of a queue that did not move, then a pause that would not have fitted."""
    message = (
        "no result in time: the server asked for 120 s and 48 s are left, last state 'Queued' after 15 polls"
        " [operation=export job=750xx001 trace=aaaa]. The job may still finish."
    )
    told = {
        "trihop.operation.result": "timeout",
        "trihop.operation.ended_in": "poll",
        "trihop.operation.polls": 15,
        "trihop.deadline.duration": 1800.0,
        "trihop.deadline.remaining": 48.0,
        "trihop.deadline.phase": "wait",
        "trihop.job.state": "Queued",
        "error.type": "DeadlineExceeded",
    }
    polls: list[tuple[float, Values]] = []
    for number in range(1, 16):
        at = 0.4 + 116.8 * number
        if number in (6, 7):
            headers = {"x-request-id": f"8f1c0a{number}", "retry-after": "120"}
            polls.append((at, bad(number, wait=116.7, headers=headers)))
        else:
            polls.append((at, good(number, "Queued", wait=None if number == 15 else 116.7)))
    pen = Pen("export", provider="salesforce.query")
    with pen.root(1752.0, told, error=message) as root:
        submit = pen.hop("submit", root, 0.0, 0.4, {"http.response.status_code": 200})
        ended = polled(15, errors=2, waited=1751.2, state="Queued", wait_time_max=116.9)
        ended = {**ended, "trihop.wait.refused": 120.0, "error.type": "DeadlineExceeded"}
        pen.hop("poll", root, 0.4, 1752.0, ended, attempts=polls, follows=submit, error=message, url=STATUS_URL)
    return pen.lines


def four_hundred_polls() -> bytes:
    """Forty minutes with a state change and an outage in the midst; the fold keeps 48 of the polls."""
    polls: list[tuple[float, Values]] = []
    for number in (*range(1, 9), *(60 + 12 * n for n in range(24)), *range(385, 401)):
        state, wait = "Queued" if number < 72 else "InProgress", 6.0 + number % 7 / 10
        if 120 < number < 168:
            told = bad(number, headers={"x-request-id": f"req-{number}", "retry-after": "6"}, wait=6.1)
        elif number == 400:
            told = good(number, "JobComplete", wait=None, trihop__attempt__verdict="succeeded")
        else:
            told = good(number, state, wait=wait)
        polls.append((6.0 * number, told))
    pen = Pen("export", provider="salesforce.query")
    told = {
        "trihop.operation.result": "success",
        "trihop.operation.polls": 400,
        "trihop.deadline.duration": 7200.0,
        "trihop.deadline.remaining": 4788.0,
        "trihop.job.state": "JobComplete",
        "trihop.job.items.total": 1_200_000,
    }
    with pen.root(2412.0, told) as root:
        submit = pen.hop("submit", root, 0.0, 0.41, {"http.response.status_code": 200})
        ended = {**polled(400, errors=31, waited=2395.0, state="JobComplete"), "http.response.status_code": 200}
        poll = pen.hop("poll", root, 0.41, 2400.1, ended, attempts=polls, follows=submit, url=STATUS_URL)
        download = {
            "http.response.status_code": 200,
            "trihop.download.size": 512_000_000,
            "trihop.download.expected_size": 512_000_000,
            "trihop.download.rate": 4.7e7,
            "trihop.download.link_age": 0.3,
        }
        link = "https://files.example.com/750xx001.csv?X-Amz-Signature=REDACTED"
        pen.hop("download", root, 2400.1, 2411.8, download, follows=poll, url=link)
    return pen.lines


def resumed() -> bytes:
    """Killed five minutes after its start, taken up by another process fifty minutes later, and well in the end."""
    polls: list[tuple[float, Values]] = [
        (30.4 * number, good(number, "Queued" if number < 4 else "InProgress", wait=None if number == 10 else 30.4))
        for number in range(1, 11)
    ]
    polls += [(3304.0 + 30.4 * number, good(11 + number, wait=30.4)) for number in range(7)]
    polls.append((3516.8, good(18, "JobComplete", wait=None, trihop__attempt__verdict="succeeded")))
    pen = Pen("export", provider="salesforce.query")
    told = {
        "trihop.operation.result": "success",
        "trihop.operation.polls": 18,
        "trihop.operation.resumed": True,
        "trihop.operation.segments": 2,
        "trihop.deadline.duration": 7200.0,
        "trihop.deadline.remaining": 3670.0,
        "trihop.job.state": "JobComplete",
        "trihop.job.items.total": 1_200_000,
    }
    with pen.root(3529.0, told) as root:
        pen.span("start export", root, 0.0, 1e-9, {**pen.shared, "trihop.segment.number": 1})
        submit = pen.hop("submit", root, 0.01, 0.41, {"http.response.status_code": 200})
        segment = {
            "trihop.segment.number": 2,
            "trihop.segment.gap": 2999.0,
            "trihop.segment.reason": "lease_expired",
        }
        pen.span("resume export", root, 3303.0, 3303.0 + 1e-9, {**pen.shared, **segment})
        ended = {
            **polled(18, waited=486.4, state="JobComplete", wait_time_max=30.6),
            "http.response.status_code": 200,
        }
        poll = pen.hop("poll", root, 0.41, 3516.9, ended, attempts=polls, follows=submit, url=STATUS_URL)
        download = {
            "http.response.status_code": 200,
            "trihop.download.size": 512_000_000,
            "trihop.download.expected_size": 512_000_000,
            "trihop.download.rate": 4.2e7,
        }
        link = "https://files.example.com/750xx001.csv?X-Amz-Signature=REDACTED"
        pen.hop("download", root, 3516.9, 3528.9, download, follows=poll, url=link)
    return pen.lines


def many_spans(number: int) -> bytes:
    """A trace of so many spans that are not trihop's, six below each; every 500th failed."""
    start_ns = 1_772_366_400_000_000_000
    attributes = [{"key": f"some.attribute.{n}", "value": {"stringValue": f"value {n}"}} for n in range(12)]
    spans = [
        {
            "traceId": "ab" * 16,
            "spanId": f"{n + 1:016x}",
            "parentSpanId": f"{(n - 1) // 6 + 1:016x}" if n else "",
            "name": f"GET /thing/{n}",
            "kind": 3,
            "startTimeUnixNano": str(start_ns + n * 10**6),
            "endTimeUnixNano": str(start_ns + n * 10**6 + 800_000 if n else start_ns + number * 10**6),
            "attributes": attributes,
            "status": {"code": 2 if n % 500 == 499 else 0},
        }
        for n in range(number)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


SCENES: Mapping[str, Callable[[], bytes]] = {
    "success": success,
    "deadline": deadline,
    "400 polls": four_hundred_polls,
    "resumed": resumed,
}
