"""Answers that lack the state, or are about something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import PollErrorsExhausted


def test_shape_01_neither_field(server, wait_for):
    """A table may name several paths to the state; where none leads to a word the poll is an error, up to the budget.

    https://github.com/hashicorp/go-azure-sdk/issues/542
    """
    provider = replace(JOBS, poll=replace(JOBS.poll, state="state || properties.provisioningState"))
    server.script(submitted(), {"properties": {"provisioningState": "done"}})
    assert wait_for(provider=provider).state == "done"

    server.script(submitted(), then_always={"properties": {"sku": "S1"}})
    with pytest.raises(PollErrorsExhausted, match="5 times in a row, last with no_state") as exhausted:
        wait_for(provider=provider)
    assert (exhausted.value.polls, exhausted.value.job_id, exhausted.value.status_code) == (5, "J1", 200)


def test_shape_03_poll_returns_other_id(server, spans, wait_for):
    """The id of the submit stays the job's; what a poll calls `id` is not looked at, so there is nothing to mark.

    https://github.com/openai/openai-python/issues/2724
    """
    server.script(submitted(), state("running", id="store-7"), state("done", id="store-7"))

    assert wait_for().job.id == "J1"
    assert [call.path for call in server.calls] == ["/jobs", "/jobs/J1", "/jobs/J1"]
    assert {span.attributes["trihop.job.id"] for span in spans.all if span.name != "submit export"} == {"J1"}


def test_shape_05_results_202_not_done(server, fetch, tmp_path):
    """A 202 from the place of the result means not ready: the job is polled again, and no empty file appears.

    https://github.com/DataBiosphere/jade-data-repo/pull/1192
    """
    server.script(
        submitted(), state("done", results="/rows"), 202, state("running"), state("done", results="/rows"), b"rows"
    )

    assert fetch(to=tmp_path / "rows").path.read_bytes() == b"rows"
    assert [call.path for call in server.calls] == ["/jobs", "/jobs/J1", "/rows", "/jobs/J1", "/jobs/J1", "/rows"]
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
