"""Connections that were no longer what they seemed."""

from __future__ import annotations

from dataclasses import replace

from field.jobs import JOBS, state, submitted
from trihop import LongPoll
from trihop.testing import delayed, reset, silent


def test_conn_01_keepalive_shorter_than_interval(server, spans, wait_for):
    """A poll that fails before a byte of its reply on a reused connection is sent once more, and is no error.

    https://github.com/FMCorz/mdk/pull/262
    """
    server.script(submitted(), state("running"), reset(), state("done"))

    assert wait_for().state == "done"
    assert [call.connection for call in server.calls] == [1, 1, 1, 2]
    poll = spans.named("poll export").attributes
    assert (poll["trihop.poll.attempts"], poll["trihop.poll.errors"]) == (2, 0)


def test_conn_04_silent_nat_drop(server, spans, wait_for):
    """A poll that times out is an error, and the next one goes over a fresh connection.

    The report would close connections before a long pause as well; we keep them.

    https://github.com/psf/requests/issues/6064
    """
    server.script(submitted(), state("running"), silent(), state("done"))

    assert wait_for(timeout=0.4).state == "done"
    assert [call.connection for call in server.calls] == [1, 1, 1, 2]
    assert [event.attributes.get("error.type") for event in spans.named("poll export").events] == [
        None,
        "read_timeout",
        None,
    ]


def test_conn_06_lb_idle_502(server, spans, wait_for):
    """A gateway that gives up on a poll which the server was asked to hold is no error, unlike one that fails at once.

    How long the server is to hold it is a setting, to be kept below the gateway's limit.

    https://github.com/medic/cht-core/issues/7183
    """
    provider = replace(JOBS, long_poll=LongPoll(seconds=20, params={"wait": "{seconds}"}))
    server.script(submitted(), *[delayed(30, 502)] * 7, 502, state("done"))

    assert wait_for(provider=provider).state == "done"
    assert {call.path for call in server.calls[1:]} == {"/jobs/J1?wait=20"}
    at_once = [event.attributes.get("error.type") for event in spans.named("poll export").events]
    assert at_once == [None] * 7 + ["502", None]
