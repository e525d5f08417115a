"""Fifty processes killed at as many instants, and what the second one of each pair makes of it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from acceptance.servers.postgresql import PostgreSQL
from durable.kills import RESULT, SERVER, WRITES, Pair, run_pair, serving

SEED = int(os.environ.get("TRIHOP_KILLS_SEED", random.SystemRandom().randrange(10**6)))
PAIRS = int(os.environ.get("TRIHOP_KILLS", 50))

# Every write, before and after; every event at the server; the end before the exit; and the rest at random times.
PLACES = [
    *(f"save:{number}:{when}" for number in range(1, WRITES + 1) for when in ("before", "after")),
    *(f"server:{event}" for event in SERVER),
    "end",
]


def instants(count: int) -> list[str]:
    """Where to kill."""
    chance = random.Random(SEED)
    places = PLACES[:count]
    return places + [f"time:{chance.uniform(0.0, 0.45):.3f}" for _ in range(count - len(places))]


def told(pairs: list[Pair]) -> str:
    """What became of them, in lines."""
    before, after = [p for p in pairs if not p.terminal], [p for p in pairs if p.terminal]
    names = ("submit export", "poll export", "download export")
    lost = {name: sum(all(span["name"] != name for span in pair.spans) for pair in pairs) for name in names}
    return "\n".join(
        [
            f"{len(pairs)} pairs, seed {SEED}; killed: {sum(p.killed for p in pairs)}",
            f"finished: {sum(p.code == 0 and p.result == RESULT for p in pairs)}, jobs each: {[p.made for p in pairs]}",
            f"killed before the terminal write: {len(before)}, roots each: {[len(p.roots) for p in before]}",
            f"killed after it, or not at all: {len(after)}, roots each: {[len(p.roots) for p in after]}",
            f"orphans: {sum(len(p.orphans) for p in pairs)}; spans that were lost: {lost}",
        ]
    )


@pytest.mark.parametrize("sampler", ["otlp", "on", "off", "foreign"])
def test_every_pair_finishes_with_one_submit_and_one_trace(tmp_path: Path, sampler: str) -> None:
    """At a server that honours Idempotency-Key; fewer pairs with other tracers in the second process."""
    count = PAIRS if sampler == "otlp" else min(PAIRS, 12)
    with serving() as jobs:
        pairs = [
            run_pair(jobs, tmp_path, f"job-{number}", die, sampler=sampler)
            for number, die in enumerate(instants(count))
        ]
    print(f"\nsecond process: {sampler}\n{told(pairs)}")

    assert [(pair.die, pair.code, pair.made, pair.result == RESULT) for pair in pairs] == [
        (pair.die, 0, 1, True) for pair in pairs
    ], [pair.said for pair in pairs if pair.code]
    for pair in pairs:
        where = f"{pair.die}, seed {SEED}"
        ids = [span["span_id"] for span in pair.spans]
        assert len(ids) == len(set(ids)), where
        assert len({span["trace_id"] for span in pair.spans}) <= 1, where
        if sampler == "off" and not pair.traced:
            assert pair.spans == [], where  # the second process is the first to decide, and samples nothing
        elif sampler == "foreign":
            # The ids of a root can be reserved and not be used: at most one, and below it what there is.
            assert len(pair.roots) <= 1, where
        elif pair.terminal:
            assert len(pair.roots) <= 1, where
        else:
            [root] = pair.roots
            assert (root["start_ns"], pair.orphans) == (pair.record["started_ns"], []), where


def test_no_pair_makes_two_jobs_at_a_server_without_keys(tmp_path: Path) -> None:
    """Where nobody can know, it says so."""
    with serving(honours_keys=False) as jobs:
        pairs = [
            run_pair(jobs, tmp_path, f"job-{number}", die, keyed=False, sampler="otlp")
            for number, die in enumerate(instants(min(PAIRS, 24)))
        ]
    uncertain = [pair for pair in pairs if pair.code == 3]
    print(f"\nno keys: {told(pairs)}\nSubmitUncertain: {len(uncertain)}")

    assert [pair.die for pair in pairs if pair.made > 1] == []
    assert all("an earlier process stopped while it submitted" in pair.said for pair in uncertain)
    assert [pair.die for pair in pairs if pair.code not in (0, 3)] == []
    assert [pair.die for pair in pairs if pair.code == 0 and pair.result != RESULT] == []


def test_a_server_of_records_is_no_different(tmp_path: Path, postgresql: PostgreSQL) -> None:
    """The same on PostgreSQL."""
    with serving() as jobs:
        pairs = [
            run_pair(jobs, tmp_path, f"job-{number}", die, sampler="otlp", store=postgresql.url)
            for number, die in enumerate(instants(min(PAIRS, 20)))
        ]
    print(f"\nPostgreSQL: {told(pairs)}")

    assert [(pair.die, pair.code, pair.made, pair.result == RESULT) for pair in pairs] == [
        (pair.die, 0, 1, True) for pair in pairs
    ], [pair.said for pair in pairs if pair.code]
    assert all(len(pair.roots) == 1 and not pair.orphans for pair in pairs if not pair.terminal)
    assert all(len(pair.roots) <= 1 for pair in pairs)
