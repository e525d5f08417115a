"""Links that run out."""

from __future__ import annotations

import threading

import pytest

from field.jobs import JOBS, state, submitted
from trihop import Reply, ResultUnavailable, operation
from trihop.testing import ranged, reset

EXPIRED = Reply(
    403,
    content=b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
    headers={"Content-Type": "application/xml"},
)


def link(n, begins):
    return f"/chunk?n={n}&X-Amz-Date=20260301T{begins}Z&X-Amz-Expires=21599&X-Amz-Signature=s{n}"


def test_exp_01_six_hours(server, clock, session, tmp_path):
    """A link of six hours that ran out is refreshed before it is asked again, and the rest is fetched by range.

    https://github.com/snowflakedb/snowflake-jdbc/issues/2023
    """
    chunk = Reply(200, content=b"row\n" * 1_000, headers={"ETag": '"v1"'})
    old, fresh = link(1, "120000"), link(2, "190000")

    def slow(call):
        clock.advance(7 * 3600)
        return reset(chunk, 1_500)

    server.script(submitted(), state("done", results=old), slow, state("done", results=fresh), ranged(chunk))
    with operation("export", deadline=10 * 3600, session=session, clock=clock, provider=JOBS) as op:
        rows = op.run("POST", f"{server.url}jobs", to=tmp_path / "rows.csv", json={})

    assert rows.path.read_bytes() == chunk.content
    assert [call.path for call in server.calls[2:]] == [old, "/jobs/J1", fresh]
    assert server.calls[-1].headers["Range"] == "bytes=1500-"


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_exp_03_any_403_is_expiry(server, fetch, status):
    """Whatever its text, a refusal is met with one fresh link, and the same link is not asked again.

    https://github.com/Sage-Bionetworks/synapsePythonClient/pull/371
    """
    refusal = Reply(status, content=b"a text that nobody has seen before")
    server.script(submitted(), state("done", results="/chunk?sig=a"), refusal, state("done", results="/chunk?sig=b"))
    server.script(b"row")
    assert fetch().content == b"row"

    server.script(submitted(), state("done", results="/chunk?sig=a"), refusal, state("done", results="/chunk?sig=a"))
    with pytest.raises(ResultUnavailable, match="a fresh poll gave the same link: a text that nobody has seen"):
        fetch()


def test_exp_05_stampede(server, clock, session, tmp_path):
    """Ranges that are refused together are answered by one poll for all of them.

    https://github.com/mem9-ai/drive9/issues/138
    """
    chunk = Reply(200, content=b"row\n" * 2**20, headers={"ETag": '"v1"', "Accept-Ranges": "bytes"})
    together = threading.Barrier(3)

    def refused(call):
        together.wait(10)
        return EXPIRED

    server.on("POST", "/jobs", submitted())
    server.on("GET", "/jobs/J1", state("done", results="/a"), state("done", results="/b"))
    server.on("GET", "/a", ranged(chunk), refused, refused, refused)
    server.on("GET", "/b", then_always=ranged(chunk))
    with operation("export", deadline=600, session=session, clock=clock, provider=JOBS) as op:
        ready = op.poll(op.submit("POST", f"{server.url}jobs", json={}))
        rows = op.download(ready, to=tmp_path / "rows.csv", parallel=4)

    assert rows.path.read_bytes() == chunk.content
    assert [call.path for call in server.calls].count("/jobs/J1") == 2
