"""Jobs and results that exist already and cannot be seen yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import (
    Content,
    Provider,
    ReadJob,
    Reply,
    ResultUnavailable,
    StatusUnavailable,
    Transient,
    accepts,
    operation,
)


def test_vis_01_404_first_poll(server, session, clock):
    """Within `grace` of the submit a 404 is pending, and after it the end.

    https://github.com/hashicorp/go-azure-sdk/issues/740
    """
    things = Provider("things", submit=ReadJob("id", None), status="{submit_url}", poll=JOBS.poll, grace=90)
    created = Reply(201, {"id": "T1"}, headers={"Retry-After": "60"})
    server.on("PUT", "/things/1", then_always=created)
    server.on("GET", "/things/1", 404, state("done"), then_always=404)

    with operation("create", deadline=600, session=session, provider=things, clock=clock) as op:
        assert op.poll(op.submit("PUT", server.url + "things/1", json={})).state == "done"
    assert [call.at for call in server.calls] == [0, 60, 61]

    with (
        pytest.raises(StatusUnavailable, match="404") as gone,
        operation("create", deadline=600, session=session, provider=things, clock=clock) as op,
    ):
        op.poll(op.submit("PUT", server.url + "things/1", json={}))
    assert gone.value.elapsed >= 90


@accepts(404)
def settling(reply, result):
    return Transient("404") if reply.status_code == 404 else Content()


def test_vis_03_results_race(server, fetch):
    """A 5xx on the result is tried again on the download hop, a 404 where the surface says so; nothing is resubmitted.

    By itself a 404 is a link that may have changed, which one more poll finds out.

    https://github.com/ecmwf/cdsapi/issues/110
    """
    server.on("POST", "/jobs", then_always=submitted())
    server.on("GET", "/jobs/J1", then_always=state("done", results="/rows"))

    server.on("GET", "/rows", 503, 500, b"rows")
    assert fetch().content == b"rows"

    server.on("GET", "/rows", 404, b"rows")
    assert fetch(provider=replace(JOBS, download=settling)).content == b"rows"

    server.on("GET", "/rows", 404)
    with pytest.raises(ResultUnavailable, match="a fresh poll gave the same link"):
        fetch()
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        *["POST /jobs", "GET /jobs/J1", "GET /rows", "GET /rows", "GET /rows"],
        *["POST /jobs", "GET /jobs/J1", "GET /rows", "GET /rows"],
        *["POST /jobs", "GET /jobs/J1", "GET /rows", "GET /jobs/J1"],
    ]
