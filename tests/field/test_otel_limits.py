"""Polls beyond what a span may hold."""

from __future__ import annotations

from field.jobs import state, submitted
from trihop import Pacing


def test_otel_18_events_dropped_oldest(server, spans, wait_for):
    """Of 500 polls the span keeps the first, the last and the changes as events, counts them all, and drops none.

    https://github.com/Rul1an/assay/pull/1602
    """
    replies = [state("queued")] * 250 + [503] + [state("running")] * 248 + [state("done")]
    server.script(submitted(), *replies)

    wait_for(deadline=None, pacing=Pacing(first=1, cap=1))

    poll = spans.named("poll export")
    kept = [event.attributes["trihop.attempt.number"] for event in poll.events]
    assert kept == [*range(1, 9), 251, 252, *range(485, 501)]
    assert poll.dropped_events == 0
    assert {name: poll.attributes[f"trihop.poll.{name}"] for name in ("attempts", "errors", "events_omitted")} == {
        "attempts": 500,
        "errors": 1,
        "events_omitted": 500 - len(kept),
    }
    assert poll.attributes["trihop.poll.statuses"] == ("200=499", "503=1")
