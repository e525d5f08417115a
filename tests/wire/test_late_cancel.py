"""A cancel when the deadline has passed, on real sockets and the real clock."""

import threading
from dataclasses import replace

import pytest
import sockets

from trihop import Call, DeadlineExceeded, Pacing, operation
from trihop._clock import SystemClock
from trihop.providers import generic
from trihop.testing import ScriptedServer, accepted, silent

session = sockets.session

CLOCK = SystemClock()
PROVIDER = replace(
    generic.ACCEPTED, pacing=Pacing(first=0.01, cap=0.02, floor=0.01), cancel=Call("DELETE", "{status_url}")
)


@pytest.mark.parametrize(("answer", "taken"), [(204, True), (silent(), False)], ids=["answered", "silent"])
def test_who_caught_the_deadline_can_cancel_and_is_not_held_up(session, monkeypatch, answer, taken):
    """The cancel is sent, and a server that does not answer it gets its own few seconds and no more."""
    monkeypatch.setattr("trihop._block._CANCEL_WITHIN_S", 1.0)
    with ScriptedServer() as server:
        server.script(accepted(), answer)
        with operation("export", deadline=0.5, session=session, provider=PROVIDER) as op:
            op.submit("POST", f"{server.url}jobs")
            threading.Event().wait(op.remaining())
            with pytest.raises(DeadlineExceeded):
                op.poll()
            begun_s = CLOCK.monotonic()
            assert op.cancel() is taken
            took_s = CLOCK.monotonic() - begun_s

    assert [call.method for call in server.calls] == ["POST", "DELETE"]
    assert (took_s >= 0.98) is not taken
    assert took_s < 1.5
