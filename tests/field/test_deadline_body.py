"""Deadlines that have to strike inside an exchange. The time is real here: drops have to fall."""

from __future__ import annotations

import pytest

from field.jobs import JOBS, Noting, state, submitted
from trihop import DeadlineExceeded, Pacing, operation
from trihop._clock import SystemClock
from trihop.testing import delayed, dripped, silent

CLOCK = SystemClock()
AT_ONCE = Pacing(first=0.01, cap=0.01, floor=0)


def struck(server, session, *, after, **as_in_poll):
    """The error of a poll that is cut by its deadline, at that time and little later."""
    begun_s = CLOCK.monotonic()
    with (
        pytest.raises(DeadlineExceeded) as cut,
        operation("export", deadline=after, session=session, provider=JOBS) as op,
    ):
        op.poll(op.submit("POST", server.url + "jobs", json={}), pacing=AT_ONCE, **as_in_poll)
    assert after - 0.02 <= CLOCK.monotonic() - begun_s <= after + 0.3
    return cut.value


@pytest.mark.parametrize(("part", "phase"), [("status", "headers"), ("headers", "headers"), ("body", "body")])
def test_dl_01_drip_body(server, session, part, phase):
    """The deadline ends a reply that drips, in whichever part, though no single wait reaches the timeout.

    https://github.com/postmanlabs/httpbin/issues/642
    """
    server.script(submitted(), dripped(state("running", padding="." * 500), part=part, every=0.05))

    assert struck(server, session, after=0.3, timeout=3).phase == phase


def test_dl_03_head_plus_body_doubles(server, session):
    """One instant bounds headers and body together; neither begins a time of its own.

    https://github.com/0x676e67/wreq/pull/1263
    """
    server.script(submitted(), delayed(0.2, dripped(state("done"), every=0.2, size=1000)))

    assert struck(server, session, after=0.3).phase == "body"


def test_dl_09_network_loss_hang(server, session):
    """A peer that fell silent is given up at the deadline, and after a minute where the deadline is far.

    https://github.com/googleapis/python-bigquery/issues/2310
    """
    session.mount(server.url, noting := Noting())
    server.script(submitted(), silent())

    error = struck(server, session, after=0.3)
    assert (error.phase, error.job_id, noting.timeouts[-1]) == ("headers", "J1", (10.0, 60.0))
    assert "before its reply" in str(error)
    assert "The job may still finish" in str(error)
