"""State words that were spelled otherwise, were new, or meant something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import Budget, JobCancelled, JobFailed, PollBudgetExhausted, Succeeded
from trihop.providers import generic


def test_state_01_space_mismatch(server, spans, wait_for, caplog):
    """Words are compared without case, space, `-` and `_`; an unknown one is pending, bounded by budget and deadline.

    https://github.com/simple-salesforce/simple-salesforce/issues/517
    """
    provider = replace(JOBS, poll=replace(JOBS.poll, succeeded={"Not Processed"}))
    for word in ("NotProcessed", "not-processed", "NOT_PROCESSED"):
        server.script(submitted(), state(word))
        assert wait_for(provider=provider).state == word

    spans.clear()
    server.script(submitted(), then_always=state("Parked"))
    with pytest.raises(PollBudgetExhausted, match="last state 'Parked'"):
        wait_for(budget=Budget(polls=4))
    poll = spans.named("poll export")
    assert poll.attributes["trihop.poll.unknown_states"] == ("Parked",)
    assert [event.attributes["trihop.attempt.mark"] for event in poll.events] == ["unknown_state"] * 4
    assert [record.levelname for record in caplog.records if "Parked" in record.getMessage()] == ["WARNING"]


def test_state_03_extra_terminals_option(server, wait_for):
    """A ready-made table is a value: a variant with more words, or another surface for one poll, is one line.

    https://github.com/Azure/azure-sdk-for-python/issues/31755
    """
    longer = replace(JOBS.poll, succeeded={"done", "deleted"}, cancelled={"cancelled", "withdrawn"})
    server.script(submitted(), state("Deleted"), submitted(), state("withdrawn"), submitted(), state("Deleted"))

    assert wait_for(provider=replace(JOBS, poll=longer)).state == "Deleted"
    with pytest.raises(JobCancelled):
        wait_for(surface=longer)
    assert wait_for(provider=generic.ACCEPTED, surface=longer).state == "Deleted"


def test_state_05_aborted(server, wait_for):
    """A job that was aborted is raised, never handed over as a result of None.

    https://github.com/replicate/replicate-python/pull/460
    """
    server.script(submitted(), {"status": "aborted", "output": None})

    with pytest.raises(JobCancelled, match="'aborted'"):
        wait_for(provider=generic.ACCEPTED)


def test_state_07_waiting_read_as_done(server, wait_for):
    """A word is an ending only where the table lists it, never because it is not the word for running.

    https://github.com/lightly-ai/lightly/pull/187
    """
    server.script(submitted(), state("WAITING"), state("WAITING"), state("done", results="/tags/1"))

    assert wait_for().results[0].at == server.url + "tags/1"
    assert [call.path for call in server.calls] == ["/jobs"] + ["/jobs/J1"] * 3


def no_data_is_fine(reply, job):
    word = reply.json()["state"]
    return Succeeded(word) if word == "CANCELLED" else JOBS.poll(reply, job)


def test_state_09_cancelled_is_no_data(server, wait_for):
    """The surface says what each ending means, here that cancelled is a success without data; nothing is resubmitted.

    https://github.com/amzn/selling-partner-api-models/issues/2357
    """
    fatal = replace(JOBS, poll=replace(JOBS.poll, failed={"FATAL"}))
    server.script(submitted(), state("CANCELLED"), submitted(), state("FATAL"))

    assert wait_for(surface=no_data_is_fine).results == ()
    with pytest.raises(JobFailed):
        wait_for(provider=fatal)
    assert [call.method for call in server.calls] == ["POST", "GET", "POST", "GET"]
