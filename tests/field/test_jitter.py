"""Many pollers at once."""

from __future__ import annotations

import random

from field.jobs import JOBS, state, submitted
from trihop import Pacing, operation
from trihop.testing import VirtualClock


def test_herd_01_lockstep(server, session):
    """First polls and the pauses after them are spread by default, and a seed makes them the same again.

    https://github.com/ggozad/haiku.rag/pull/396
    """

    def pauses(seed, pacing):
        server.script(submitted(), *[state("running")] * 3, state("done"))
        clock = VirtualClock(random=random.Random(seed))
        with operation("export", deadline=600, session=session, provider=JOBS, clock=clock) as op:
            op.poll(op.submit("POST", server.url + "jobs", json={}), pacing=pacing)
        return clock.sleeps

    slow = Pacing(first=10, cap=30)
    herd = [pauses(seed, slow) for seed in range(10)]

    first, *later = zip(*herd, strict=True)
    assert max(first) - min(first) > 5
    assert 0 < min(first) <= max(first) <= 10
    assert [len(set(nth)) for nth in later] == [1, 10, 10]
    assert [(min(nth) >= 10, max(nth) <= 30) for nth in later] == [(True, True)] * 3
    assert pauses(7, slow) == herd[7]
    assert pauses(7, Pacing(first=10, cap=30, jitter=False)) == [10, 10, 20, 30]
