"""Tests of a provider of one's own: plain calls for the facts, a scripted server and a virtual clock for the triangle.

Run with `pytest examples/testing_a_provider.py`; the fixtures `clock` and `server` come with trihop.
"""

from __future__ import annotations

from one_endpoint import SQL, headers

from trihop import Job, Pending, Reply, Succeeded, operation
from trihop.testing import ScriptedServer, VirtualClock, check_provider

JOB = Job(id="q1", submit_url="https://sql.example.com/")


def execution(word: str) -> Reply:
    return Reply(200, {"QueryExecution": {"Status": {"State": word}}})


def test_the_state_is_asked_for_by_post() -> None:
    call = SQL.status_call(JOB)
    assert (call.method, call.url, call.json) == ("POST", "https://sql.example.com/", {"QueryExecutionId": "q1"})


def test_a_word_is_pending_succeeded_or_unknown() -> None:
    assert SQL.poll(execution("RUNNING"), JOB) == Pending("RUNNING")
    assert isinstance(SQL.poll(execution("succeeded"), JOB), Succeeded)
    assert SQL.poll(execution("THINKING"), JOB) == Pending("THINKING", known=False)


def test_the_triangle(clock: VirtualClock, server: ScriptedServer) -> None:
    server.script(
        {"QueryExecutionId": "q1"},
        execution("QUEUED"),
        503,
        execution("SUCCEEDED"),
        {"ResultSet": {"Rows": [{"n": 1}, {"n": 2}]}},
    )
    with operation("query", deadline=600, provider=SQL, clock=clock) as op:
        rows = op.run("POST", server.url, headers=headers("StartQueryExecution"))

    assert list(rows.iter_rows()) == [{"n": 1}, {"n": 2}]
    assert clock.sleeps == [1, 1, 1]
    assert [call.headers["X-Amz-Target"].partition(".")[2] for call in server.calls] == [
        "StartQueryExecution",
        *["GetQueryExecution"] * 3,
        "GetQueryResults",
    ]


def test_it_keeps_the_rules() -> None:
    check_provider(SQL, pending=execution("RUNNING"), succeeded=execution("SUCCEEDED"), failed=execution("FAILED"))
