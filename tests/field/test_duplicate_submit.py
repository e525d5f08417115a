"""Submits that were sent and never answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state
from trihop import Accepted, Reply, SubmitUncertain, accepts, operation
from trihop.testing import reset, short, silent


def test_conn_03_post_on_stale(server, session, clock):
    """A submit lost on a connection that the server dropped is not sent again without a key, and is uncertain.

    The report would also open a fresh connection for each submit; the pool's own look at the connection is ours.

    https://github.com/dashscope/dashscope-sdk-python/pull/175
    """
    server.script("warm", reset())
    session.get(server.url)

    with (
        pytest.raises(SubmitUncertain, match=r"never answered \(connection_reset\).*look for it at the server"),
        operation("export", deadline=600, session=session, provider=JOBS, clock=clock) as op,
    ):
        op.submit("POST", server.url + "jobs", json={})
    assert [(call.method, call.connection) for call in server.calls] == [("GET", 1), ("POST", 1)]


@pytest.mark.parametrize("lost", [504, 502, short(), silent()], ids=str)
def test_dup_02_lost_response(server, session, clock, lost):
    """However the answer was lost, there is one POST, and the error says where to look before another one.

    https://github.com/codalab/codabench/issues/2425
    """
    server.script(lost)

    with (
        pytest.raises(SubmitUncertain, match="look for it at the server before submitting again"),
        operation("export", deadline=600, session=session, provider=JOBS, clock=clock) as op,
    ):
        op.submit("POST", server.url + "jobs", json={}, timeout=0.1)
    assert [call.method for call in server.calls] == ["POST"]


@accepts(422)
def knows_the_first(reply):
    return Accepted(reply.json()["job"], "/jobs/J1") if reply.status_code == 422 else JOBS.submit(reply)


def test_dup_04_key_reject_not_replay(server, wait_for):
    """An operation has one key; one refused the second time may hide a job, which the surface can find.

    https://github.com/Comfy-Org/docs/pull/1723
    """
    keyed = replace(JOBS, idempotency="Idempotency-Key")
    reused = Reply(422, {"code": "idempotency_key_reuse", "job": "J1"})

    server.script(short(), reused)
    with pytest.raises(SubmitUncertain, match="idempotency_key_reuse"):
        wait_for(provider=keyed)

    server.script(short(), reused, state("done"))
    assert wait_for(provider=replace(keyed, submit=knows_the_first)).job.id == "J1"

    keys = [call.headers["Idempotency-Key"] for call in server.calls if call.method == "POST"]
    assert keys[0] == keys[1] != keys[2] == keys[3]
