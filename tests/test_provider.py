"""How to ask, as templates or as functions of the job."""

from __future__ import annotations

import pytest

from trihop import Call, Job, Provider, operation

JOB = Job(id="a b", status_url="https://api.test/jobs/7?v=1", submit_url="https://api.test/jobs", state="running")


def test_a_status_and_a_cancel_may_be_functions_of_the_job():
    """A function gives the call or its URL; a status URL alone is a GET, a cancel URL alone a POST."""
    provider = Provider(
        "acme", status=lambda job: f"{job.status_url}&full=1", cancel=lambda job: f"/jobs/{job.id}/stop-{job.state}"
    )

    assert provider.status_call(JOB) == Call("GET", "https://api.test/jobs/7?v=1&full=1")
    assert provider.cancel_call(JOB) == Call("POST", "https://api.test/jobs/a b/stop-running")


def test_what_a_function_gives_is_a_template_again():
    """Ids are percent-encoded in its URL, and relative references are the submit's."""
    provider = Provider("acme", cancel=lambda job: Call("DELETE", "jobs/{id}", headers={"If-State": "{state}"}))

    assert provider.cancel_call(JOB) == Call("DELETE", "https://api.test/jobs/a%20b", headers={"If-State": "running"})


def test_a_cancel_that_cannot_be_done_now_says_why(server):
    """A function that refuses is the caller's error, and nothing is sent."""

    def only_while_running(job):
        raise ValueError("the job is over")

    with (
        operation("export", deadline=60, provider=Provider("acme", cancel=only_while_running)) as op,
        pytest.raises(ValueError, match=r"'export'.*cannot cancel the job: the job is over"),
    ):
        op.cancel(Job(id="7", submit_url=server.url))

    assert server.calls == []
