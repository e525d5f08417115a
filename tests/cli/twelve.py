"""The twelve scenes that a trace alone must explain, and the words that must be in the explanation."""

from __future__ import annotations

from collections.abc import Callable

from scenes import Pen, Values, bad, good, polled

STATUS_URL = "https://api.example.com/jobs/query/750xx001"
FILE_URL = "https://files.example.com/750xx001.csv"


def _ended(result: str, error: str, hop: str, more: Values) -> Values:
    return {
        "trihop.operation.result": result,
        "trihop.operation.ended_in": hop,
        "error.type": error,
        **more,
    }


def _polling(
    result: str,
    error: str,
    message: str,
    end: float,
    poll: Values,
    attempts: list[tuple[float, Values]],
    root: Values | None = None,
) -> bytes:
    """An operation that ended in its poll hop."""
    pen = Pen()
    told = _ended(result, error, "poll", root or {})
    with pen.root(end, told, error=message) as top:
        submit = pen.hop("submit", top, 0, 0.05, {"http.response.status_code": 200})
        pen.hop(
            "poll",
            top,
            0.05,
            end,
            {"error.type": error, **poll},
            attempts=attempts,
            follows=submit,
            error=message,
            url=STATUS_URL,
        )
    return pen.lines


def _downloading(
    result: str,
    error: str,
    message: str,
    end: float,
    download: Values,
    attempts: list[tuple[float, Values]],
    root: Values | None = None,
) -> bytes:
    """An operation that ended in its download hop."""
    pen = Pen()
    told = _ended(result, error, "download", root or {})
    with pen.root(end, told, error=message) as top:
        submit = pen.hop("submit", top, 0, 0.05, {"http.response.status_code": 200})
        poll = pen.hop(
            "poll",
            top,
            0.05,
            3,
            polled(3, waited=2.8, state="JobComplete"),
            attempts=[(2.9, good(3, "JobComplete", wait=None))],
            follows=submit,
            url=STATUS_URL,
        )
        pen.hop(
            "download",
            top,
            3,
            end,
            {"error.type": error, **download},
            attempts=attempts,
            follows=poll,
            error=message,
            url=FILE_URL,
        )
    return pen.lines


def job_failed() -> bytes:
    message = "INVALID_FIELD: no such column 'Foo' [operation=export job=750xx001 trace=aaaa]. Mend it."
    return _polling(
        "failure",
        "JobFailed",
        message,
        4.2,
        polled(3, waited=4.0, state="Failed"),
        [(1, good(1)), (4.1, good(3, "Failed", wait=None, trihop__attempt__verdict="failed"))],
        {
            "trihop.job.error.code": "INVALID_FIELD",
            "trihop.job.error.message": "no such column 'Foo'",
            "trihop.job.state": "Failed",
        },
    )


def queued_until_the_deadline() -> bytes:
    message = "no terminal state by 14:00:00Z, last state 'Queued' [operation=export trace=aaaa]. It may still finish."
    return _polling(
        "timeout",
        "DeadlineExceeded",
        message,
        7200,
        polled(250, waited=7190.0, state="Queued"),
        [(10, good(1, "Queued", wait=30.0)), (7195, good(250, "Queued", wait=None))],
        {
            "trihop.deadline.duration": 7200.0,
            "trihop.deadline.remaining": 0.0,
            "trihop.deadline.phase": "wait",
            "trihop.job.state": "Queued",
        },
    )


def a_pause_refused() -> bytes:
    message = "no result in time: the server asked for 3600 s and 900 s are left [operation=export trace=aaaa]."
    return _polling(
        "timeout",
        "DeadlineExceeded",
        message,
        900,
        polled(9, waited=880.0, state="Queued") | {"trihop.wait.refused": 3600.0},
        [(890, good(9, "Queued", wait=None))],
        {"trihop.deadline.duration": 1800.0, "trihop.deadline.remaining": 900.0, "trihop.deadline.phase": "wait"},
    )


def load_balancer_outage() -> bytes:
    attempts = [(float(n), good(n)) for n in range(1, 8)] + [
        (7 + 2.0 * n, bad(7 + n, wait=2.0 if n < 5 else None, headers={"x-request-id": f"req-{n}"}))
        for n in range(1, 6)
    ]
    return _polling(
        "timeout",
        "PollErrorsExhausted",
        "5 polls in a row failed, the last with HTTP 503 [operation=export trace=aaaa].",
        18,
        polled(12, errors=5, waited=17.0, state="InProgress") | {"http.response.status_code": 503},
        attempts,
    )


def a_captive_proxy() -> bytes:
    attempts = [(float(n), bad(n, "not_json", status=200, headers={"content-type": "text/html"})) for n in range(1, 6)]
    return _polling(
        "timeout",
        "PollErrorsExhausted",
        "5 polls in a row failed, the last: the body is not JSON [operation=export trace=aaaa].",
        7,
        polled(5, errors=5, waited=6.0, state="InProgress"),
        attempts,
    )


def token_expired() -> bytes:
    attempts = [
        (30.0, good(30)),
        (31.0, bad(31, "401", status=401, wait=None, headers={"www-authenticate": 'Bearer error="invalid_token"'})),
    ]
    return _polling(
        "error",
        "StatusUnavailable",
        "the status endpoint answered 401 [operation=export trace=aaaa].",
        31,
        polled(31, errors=1, waited=30.0, state="InProgress") | {"http.response.status_code": 401},
        attempts,
    )


def an_old_link() -> bytes:
    attempts = [
        (3.1, bad(1, "403", status=403, wait=None)),
        (3.2, good(2, "JobComplete", wait=None, trihop__attempt__mark="same_link")),
    ]
    return _downloading(
        "error",
        "ResultUnavailable",
        "the link has expired, and the server gave the same again [operation=export trace=aaaa].",
        3.4,
        {
            "http.response.status_code": 403,
            "trihop.download.link_age": 4200.0,
            "trihop.download.link_refreshes": 1,
            "trihop.download.size": 0,
        },
        attempts,
    )


def a_dripped_body() -> bytes:
    return _downloading(
        "timeout",
        "DeadlineExceeded",
        "the deadline passed in the body [operation=export trace=aaaa].",
        1800,
        {
            "http.response.status_code": 200,
            "trihop.download.size": 40_000_000,
            "trihop.download.expected_size": 100_000_000,
            "trihop.download.rate": 22_000.0,
        },
        [],
        {"trihop.deadline.duration": 1800.0, "trihop.deadline.remaining": 0.0, "trihop.deadline.phase": "body"},
    )


def killed_and_resumed() -> bytes:
    pen = Pen()
    message = "no terminal state by 13:00:00Z [operation=export trace=aaaa]."
    told = _ended(
        "timeout",
        "DeadlineExceeded",
        "poll",
        {
            "trihop.deadline.duration": 3600.0,
            "trihop.deadline.remaining": 0.0,
            "trihop.deadline.phase": "wait",
            "trihop.operation.resumed": True,
            "trihop.operation.segments": 2,
        },
    )
    with pen.root(3600, told, error=message) as top:
        pen.span("start export", top, 0, 0, {**pen.shared, "trihop.segment.number": 1})
        submit = pen.hop("submit", top, 0, 0.05, {"http.response.status_code": 200})
        pen.span(
            "resume export",
            top,
            3300,
            3300,
            {
                **pen.shared,
                "trihop.segment.number": 2,
                "trihop.segment.gap": 3000.0,
                "trihop.segment.reason": "lease_expired",
            },
        )
        pen.hop(
            "poll",
            top,
            0.05,
            3600,
            polled(40, waited=590.0, state="InProgress") | {"error.type": "DeadlineExceeded"},
            attempts=[(10, good(1)), (3590, good(40, wait=None))],
            follows=submit,
            error=message,
        )
    return pen.lines


def the_machine_slept() -> bytes:
    return _polling(
        "timeout",
        "DeadlineExceeded",
        "no terminal state by 12:45:00Z [operation=export trace=aaaa].",
        2700,
        polled(9, waited=2690.0, state="InProgress") | {"trihop.poll.wait_overrun_max": 2400.0},
        [(5, good(1)), (2690, good(9, wait=None))],
        {"trihop.deadline.duration": 1800.0, "trihop.deadline.remaining": 0.0, "trihop.deadline.phase": "wait"},
    )


def some_items_failed() -> bytes:
    return _polling(
        "partial",
        "JobPartiallyFailed",
        "3 of 10000 items failed [operation=export trace=aaaa].",
        5,
        polled(4, waited=4.8, state="JobComplete"),
        [(4.9, good(4, "JobComplete", wait=None, trihop__attempt__verdict="partial"))],
        {"trihop.job.items.total": 10_000, "trihop.job.items.failed": 3},
    )


def a_word_nobody_knew() -> bytes:
    attempts = [(float(n), good(n, "Paused", trihop__attempt__mark="unknown_state")) for n in range(1, 9)]
    return _polling(
        "timeout",
        "PollBudgetExhausted",
        "8 polls were allowed and made [operation=export trace=aaaa].",
        9,
        polled(8, waited=8.0, state="Paused") | {"trihop.poll.unknown_states": ["Paused"]},
        attempts,
    )


TWELVE: dict[Callable[[], bytes], tuple[str, ...]] = {
    job_failed: ("JobFailed", "INVALID_FIELD: no such column 'Foo'", "in poll", "mend what the server names"),
    queued_until_the_deadline: (
        "DeadlineExceeded",
        "'Queued'",
        "in poll",
        "250 polls",
        "It waited 2 h of",
        "may still finish",
    ),
    a_pause_refused: ("DeadlineExceeded", "asked for 3600 s and 900 s are left", "in poll", "may still finish"),
    load_balancer_outage: (
        "PollErrorsExhausted",
        "in poll",
        "12 polls, 5 of them failed",
        "x-request-id=req-5",
        "once the status endpoint",
    ),
    a_captive_proxy: (
        "PollErrorsExhausted",
        "not JSON",
        "5 polls, 5 of them failed",
        "a proxy or a sign-in page",
        "content-type=text/html",
    ),
    token_expired: (
        "StatusUnavailable",
        "401",
        "31 polls",
        "sign in anew",
        'www-authenticate=Bearer error="invalid_token"',
    ),
    an_old_link: ("ResultUnavailable", "in download", "link was 1 h 10 m old", "gave the same link", "fresh link"),
    a_dripped_body: (
        "DeadlineExceeded",
        "in download",
        "40.0 MB of 100 MB (40%)",
        "22.0 kB/s",
        "download again with more time",
    ),
    killed_and_resumed: (
        "DeadlineExceeded",
        "Nobody was there for 50 m (lease expired)",
        "in poll",
        "may still finish",
    ),
    the_machine_slept: ("DeadlineExceeded", "40 m longer than planned", "suspended", "may still finish"),
    some_items_failed: ("JobPartiallyFailed", "3 of 10,000 items failed", "in poll", "allow_partial=True"),
    a_word_nobody_knew: ("PollBudgetExhausted", "does not list the state Paused", "8 polls", "Teach the provider"),
}
