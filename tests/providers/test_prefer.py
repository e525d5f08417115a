"""RFC 7240: the server may heed what we prefer, or not, and both answers are read."""

import doctest

import pytest

from trihop import Reply, operation
from trihop.providers import prefer
from trihop.testing import accepted, done


def test_the_examples_hold():
    """What the module shows is what it does."""
    assert doctest.testmod(prefer) == (0, 2)


@pytest.mark.parametrize("seconds", [-1, 2.5, True, "10"])
def test_a_wait_is_whole_seconds(seconds):
    """delay-seconds is a non-negative integer; anything else is the caller's mistake."""
    with pytest.raises(ValueError, match="whole seconds"):
        prefer.wait(seconds)
    with pytest.raises(ValueError, match="whole seconds"):
        prefer.respond_async(wait=seconds)


@pytest.mark.parametrize(
    ("replies", "polls"),
    [
        ([Reply(200, [1, 2], headers={"Preference-Applied": "wait=10"})], 0),
        ([Reply(200, [1, 2])], 0),
        ([accepted(), done(result=[1, 2])], 1),
    ],
    ids=["quick", "ignored", "a job"],
)
def test_a_result_at_once_and_a_job_come_to_the_same(server, clock, replies, polls):
    """Whether the server was quick, slow or deaf to what we prefer, the caller gets the result."""
    server.script(*replies)

    with operation("export", deadline=600, clock=clock) as op:
        headers = prefer.respond_async(wait=10)
        got = op.download(op.poll(op.submit("POST", server.url + "jobs", headers=headers, json={}))).json()

    assert got == [1, 2]
    assert server.calls[0].headers["Prefer"] == "respond-async, wait=10"
    assert len(server.calls) == 1 + polls
