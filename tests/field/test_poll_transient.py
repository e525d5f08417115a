"""Polls that failed: which of them may be asked again, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest
import requests

from field.jobs import JOBS, Noting, state, submitted
from trihop import Job, PollErrorsExhausted, Reply, StatusUnavailable


@pytest.mark.parametrize("outage", [500, "{", {}], ids=["500", "bad JSON", "no state"])
def test_body_05_everything_is_pending(server, spans, wait_for, dead_port, outage):
    """Polls without an answer are errors, apart from those that say pending; a good one begins the count anew.

    https://github.com/Scottcjn/bottube/issues/2209
    """
    server.script(submitted(), *[outage] * 4, state("queued"), *[outage] * 5)

    with pytest.raises(PollErrorsExhausted, match="failed 5 times in a row") as exhausted:
        wait_for()
    assert (exhausted.value.polls, exhausted.value.state) == (10, "queued")
    poll = spans.named("poll export").attributes
    assert (poll["trihop.poll.attempts"], poll["trihop.poll.errors"]) == (10, 9)

    server.script(submitted(Location=f"http://127.0.0.1:{dead_port}/jobs/J1"))
    with pytest.raises(PollErrorsExhausted, match="5 times in a row, last with connect_refused"):
        wait_for()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_poll_02_502_not_503(server, spans, wait_for, status):
    """All of 408, 425, 429 and 5xx are polls to be asked again.

    https://github.com/Open-EO/openeo-python-client/issues/352
    """
    server.script(submitted(), Reply(status, content=b"Bad Gateway"), state("done"))

    assert wait_for().state == "done"
    failed, _ = spans.named("poll export").events
    assert failed.attributes["error.type"] == str(status)


def test_poll_04_throttle_is_terminal(server, wait_for):
    """A 400 refuses for good whatever it says, unless the surface accepts it: then its words of throttling are heard.

    The report would have such words retried on every API; which words these are, only the surface of an API knows.

    https://github.com/aws/aws-sdk/issues/714
    """
    throttled = Reply(400, {"Code": "Throttling", "Message": "Rate exceeded"})
    server.script(submitted(), throttled)
    with pytest.raises(StatusUnavailable, match="HTTP 400"):
        wait_for()

    heard = replace(JOBS, poll=replace(JOBS.poll, transient="Code", accept=[400]))
    server.script(submitted(), throttled, throttled, state("done"))
    assert wait_for(provider=heard).state == "done"


@pytest.mark.parametrize(("status", "polls"), [(401, 2), (403, 1), (404, 1)])
def test_poll_06_retry_everything(server, session, wait_for, status, polls):
    """A refusal ends the polls at once, a 401 after one more with other credentials; the error names the job.

    https://github.com/firecrawl/firecrawl/pull/2608
    """
    session.auth = Fresh()
    server.script(submitted(), then_always=status)

    with pytest.raises(StatusUnavailable, match=rf"HTTP {status}.*job=J1") as refused:
        wait_for()
    assert (refused.value.job_id, refused.value.status_code, refused.value.polls) == ("J1", status, polls)
    assert len(server.calls) == 1 + polls


class Fresh(requests.auth.AuthBase):
    """Another token for each request."""

    def __init__(self):
        self.given = 0

    def __call__(self, request):
        self.given += 1
        request.headers["Authorization"] = f"Bearer {self.given}"
        return request


def test_poll_08_permanent_as_temporary(server, wait_for):
    """A 4xx that does not say later is the end, and the error quotes what it said.

    https://github.com/m-lab/telescope/issues/25
    """
    server.script(submitted(), state("running"), Reply(400, {"message": "query timed out after 6 h"}))

    with pytest.raises(StatusUnavailable, match="query timed out after 6 h") as refused:
        wait_for()
    assert (refused.value.state, refused.value.polls) == ("running", 2)


def test_poll_10_dropped_while_running(server, session, clock, wait_for, black_hole):
    """Each connect is bounded, the pauses grow below the deadline, and the error has the job to go on with.

    https://github.com/ecmwf/cdsapi/issues/56
    """
    monitor = f"http://127.0.0.1:{black_hole}/jobs/J1"
    session.mount(monitor, noting := Noting(instead=(0.05, 5)))
    server.script(Reply(202, {"id": "J1"}, headers={"Location": monitor}))

    with pytest.raises(PollErrorsExhausted, match=r"last with connect_timeout.*may still finish") as exhausted:
        wait_for()

    assert noting.timeouts == [(10.0, 60.0)] * 5
    assert clock.sleeps == [1, 1, 2, 4, 8]
    assert exhausted.value.job == Job(id="J1", status_url=monitor, submit_url=server.url + "jobs")
