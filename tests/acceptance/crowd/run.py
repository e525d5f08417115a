"""One crowd from its begin to its end, whatever the engine, and what has to be true of it."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acceptance.crowd.hands import working
from acceptance.crowd.jobs import serving
from acceptance.crowd.looks import POLLS, Crowd, in_threads, orphans, roots
from trihop import SQLStore
from trihop._clock import SystemClock

SEED = int(os.environ.get("TRIHOP_CROWD_SEED", random.SystemRandom().randrange(10**6)))
OPERATIONS = 200
KILLS = 8
EVENTS = ("asked", "made", "poll", "file")
_TIMES_EACH = 3
_LATE = 3


def run(
    engine: str,
    commands: Mapping[str, tuple[Sequence[str], float]],
    given: Mapping[str, Any],
    *,
    store: str,
    folder: Path,
    start: Callable[[str], Any],
    step: Callable[[str], Any],
    table: Any,
) -> None:
    """Start them, kill, send twice, come back late; and see what came of it."""
    chance = random.Random(SEED)
    keys = [f"job-{number}" for number in range(OPERATIONS)]
    clock = SystemClock()
    with serving() as jobs:
        for number, key in enumerate(chance.sample(keys, _TIMES_EACH * len(EVENTS))):
            jobs.fatal[key, EVENTS[number % len(EVENTS)]] = False
        crowd = Crowd(jobs, SQLStore(store), folder, keys)
        jobs.before_a_kill = crowd.look_before_a_kill
        all_given = {**given, "api": jobs.url, "store": store, "folder": str(folder)}
        over = threading.Event()
        begun_s = clock.monotonic()
        try:
            crowd.store.list()  # makes the tables
            with working(commands, all_given, seed=SEED, before=crowd.look_before_a_kill) as hands:
                for key in keys:
                    start(key)
                for key in chance.sample(keys, 20):
                    start(key)
                late = chance.sample([key for key in keys if not any(key == dies for dies, _ in jobs.fatal)], _LATE)
                with in_threads(
                    lambda: crowd.send_twice(step, over, seed=SEED),
                    *[lambda key=key: crowd.come_back_late(key) for key in late],
                ):
                    try:
                        hands.kill_at_random(KILLS, every_s=(0.5, 2.0))
                        crowd.wait(150, lambda: hands.keep_up(0), start)
                    finally:
                        over.set()
            took_s = clock.monotonic() - begun_s
            tell(engine, crowd, table, kills=hands.killed + sum(jobs.fatal.values()), took_s=took_s)
        finally:
            crowd.store.close()


def tell(engine: str, crowd: Crowd, table: Any, *, kills: int, took_s: float) -> None:
    """A row of the table for each thing that has to be true."""

    def row(case: str, *, expected: Any, got: Any) -> None:
        table.row(engine, case, expected=expected, got=got)

    jobs = crowd.jobs
    traces = crowd.traces()
    made = Counter(jobs.made[key] for key in crowd.keys)
    extra, early = crowd.extra_polls(), crowd.early_polls()
    few = f"at most {kills}, one a kill"
    print(
        f"\n{engine}, seed {SEED}: {took_s:.0f} s, {kills} kills ({sum(jobs.fatal.values())} within a request), "
        f"{crowd.duplicates} messages sent twice on purpose, {crowd.begun_again} begun again, {extra} polls repeated, "
        f"{early} polls early, {sum(jobs.fetched.values()) - OPERATIONS} downloads repeated, "
        f"excused of a root: {sorted(crowd.excused)}"
    )
    row("operations that ended well", expected={"success": OPERATIONS}, got=crowd.outcomes())
    row("jobs made by each", expected={1: OPERATIONS}, got=dict(made))
    row("results that are whole", expected=OPERATIONS, got=crowd.whole_files())
    row("killed within a request", expected=_TIMES_EACH * len(EVENTS), got=sum(jobs.fatal.values()))
    row(f"polls beyond {POLLS} each: {extra}", expected=few, got=few if 0 <= extra <= kills else extra)
    row(f"polls before their time: {early}", expected=few, got=few if early <= kills else early)
    row("stale tokens that were refused", expected=_LATE, got=len(crowd.fenced))
    row("spans of no operation", expected=0, got=len(traces.pop("")))
    enough = "more than a hundred"
    row(f"messages sent twice: {crowd.duplicates}", expected=enough, got=enough if crowd.duplicates > 100 else "fewer")
    several = [key for key, spans in traces.items() if len(roots(spans)) > 1]
    row("traces with several roots", expected=[], got=several)
    ids = [span["span_id"] for spans in traces.values() for span in spans]
    row("spans that were written twice", expected=0, got=len(ids) - len(set(ids)))
    rootless = {key for key, spans in traces.items() if not roots(spans)}
    row("traces without a root, or with orphans", expected=[], got=sorted((rootless | torn(traces)) - crowd.excused))
    polls = [sum(span["name"] == "poll export" for span in spans) for spans in traces.values()]
    row("poll spans of each, at most one", expected=1, got=max(polls))


def torn(traces: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """Keys of traces with orphans."""
    return {key for key, spans in traces.items() if orphans(spans)}
