"""A hop named by hand, around requests that the caller's own loop sends."""

import pytest
import requests

from trihop import (
    Budget,
    DeadlineExceeded,
    Job,
    JobExpired,
    JobFailed,
    PollErrorsExhausted,
    ReadState,
    Ready,
    operation,
)
from trihop.testing import accepted, done, failed, running

WORDS = ReadState("status", pending={"running"}, succeeded={"succeeded"}, failed={"failed"}, results="result_url")


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture
def by_hand(server, clock, session):
    """A loop of the caller's own, whose answers a hop judges."""

    def by_hand(*replies, deadline=600, surface=None):
        server.script(accepted(), *replies)
        with operation("export", deadline=deadline, clock=clock, session=session) as op:
            status = session.post(f"{server.url}jobs").headers["Location"]
            with op.hop("poll", surface=surface) as hop:
                while (ready := hop.wait(session.get(status))) is None:
                    pass
            return ready

    return by_hand


def test_it_waits_between_the_callers_polls_and_hands_the_end_over(by_hand, server, clock):
    """Pauses are those of a poll hop: the hint where there is one, else our own."""
    ready = by_hand(running(hint_s=40), running(), done(result_url="/files/1"))

    assert isinstance(ready, Ready)
    assert [result.at for result in ready.results] == [f"{server.url}files/1"]
    assert clock.sleeps == [40, 2]
    server.assert_done()


def test_it_knows_its_job_by_the_urls_that_were_asked(by_hand, server):
    """The URL polled, and the last request outside the hop."""
    assert by_hand(done()).job == Job(
        status_url=f"{server.url}jobs/1", submit_url=f"{server.url}jobs", state="succeeded"
    )  # fmt: skip


def test_its_surface_is_the_providers_or_its_own(by_hand):
    """A table of words judges in its place."""
    assert by_hand(running(), done(), surface=WORDS).state == "succeeded"


def test_endings_are_raised_as_by_poll(by_hand):
    """With the operation's story in them."""
    with pytest.raises(JobFailed, match="no such column") as caught:
        by_hand(running(), failed("no such column"))

    assert (caught.value.polls, caught.value.hop, caught.value.state) == (2, "poll", "failed")


def test_errors_are_counted_and_waited_out_as_by_poll(by_hand, clock, spans):
    """A 503 is backed off from and cured by the next answer; five in a row are the end."""
    by_hand(running(), 503, 503, running(), done())
    assert clock.sleeps == [1, 1, 2, 2]
    assert spans.named("poll export").attributes["trihop.poll.errors"] == 2

    with pytest.raises(PollErrorsExhausted):
        by_hand(*[503] * Budget().consecutive_errors)


def test_a_job_that_is_gone_after_an_answer_has_expired(by_hand):
    """The status goes first here, too."""
    with pytest.raises(JobExpired):
        by_hand(running(), 404)


def test_a_pause_that_does_not_fit_is_refused(by_hand, spans):
    """The deadline is the operation's."""
    with pytest.raises(DeadlineExceeded, match="asked for 3600 s and 600 s are left"):
        by_hand(running(hint_s=3600))

    assert spans.named("poll export").attributes["error.type"] == "DeadlineExceeded"


def test_its_span_is_the_one_in_the_trace(by_hand, spans):
    """The polls are attempts of this hop, and no plain requests beside it."""
    by_hand(running(), running(), done())

    root = spans.named("export")
    assert "poll export" in [span.name for span in spans.children(root)]
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 3
    assert root.attributes["trihop.operation.polls"] == 3
    assert [span.name for span in spans.all if span.name.startswith("GET")] == []


@pytest.mark.parametrize("name", ["submit", "download"])
def test_any_hop_can_be_named(server, clock, session, spans, name):
    """Requests inside it are its own."""
    server.script(200)
    with operation("export", deadline=60, clock=clock, session=session) as op, op.hop(name):
        session.get(f"{server.url}x")

    assert [span.name for span in spans.children(spans.named("export"))] == [f"{name} export"]


def test_a_hop_of_an_operation_that_has_ended_is_not_entered(server, clock, session, spans):
    """Nor does one that is left open judge an answer: no span comes after the end."""
    server.script(running())
    with operation("export", deadline=60, clock=clock, session=session) as op:
        late, open_one = op.hop("download"), op.hop("poll").__enter__()
        answer = session.get(f"{server.url}jobs/1")
    ended = [span.name for span in spans.all]

    with pytest.raises(RuntimeError, match="'export' has ended"), late:
        pass
    with pytest.raises(RuntimeError, match="'export' has ended"):
        open_one.wait(answer)
    assert [span.name for span in spans.all] == ended
    assert clock.sleeps == []


def test_the_callers_own_exception_ends_the_hop_it_was_raised_in(server, clock, spans):
    """Hop and root have its name as their error; it passes through as it is."""
    with pytest.raises(KeyError), operation("export", deadline=60, clock=clock) as op, op.hop("poll"):
        raise KeyError("mine")

    assert [spans.named(name).attributes["error.type"] for name in ("poll export", "export")] == ["KeyError"] * 2


def test_it_is_not_begun_after_the_deadline(clock):
    """A hop whose time has passed raises before the caller's requests."""
    with pytest.raises(DeadlineExceeded), operation("export", deadline=60, clock=clock) as op:
        clock.advance(60)
        with op.hop("poll"):
            pytest.fail("it was begun")
