"""What came of a crowd: by the server's list, the records, the files and the spans."""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from acceptance.crowd.jobs import PAUSES_S, RESULT, Jobs
from durable.kills import spans_of
from trihop import SQLStore
from trihop.stores import Claim, Fenced, Taken

T = TypeVar("T")

POLLS = len(PAUSES_S) + 1
_PAUSE = threading.Event()


@dataclass
class Crowd:
    """Two hundred operations under way.

    Args:
        jobs: The server.
        store: Their records.
        folder: Where spans and files go.
        keys: Theirs.
    """

    jobs: Jobs
    store: SQLStore
    folder: Path
    keys: list[str]
    excused: set[str] = field(default_factory=set)
    """Ended, and no root written yet, when a process was killed: it may have been about to."""
    duplicates: int = 0
    begun_again: int = 0
    fenced: list[str] = field(default_factory=list)

    def open(self) -> list[str]:
        """Keys of those that have no ending yet."""
        ended = {stored.key for stored in self.store.list(limit=10_000) if stored.ended}
        return [key for key in self.keys if key not in ended]

    def look_before_a_kill(self) -> None:
        """Note whose root is about to be written."""
        ended = [stored for stored in self.store.list(limit=10_000) if stored.ended]
        there = {span["span_id"] for span in spans_of(self.folder / "spans.jsonl")}
        self.excused |= {one.key for one in ended if one.record["trace"]["span_id"] not in there}

    def send_twice(self, send: Callable[[str], Any], until: threading.Event, *, seed: int) -> None:
        """Deliver messages on purpose that nobody asked for, twice each."""
        chance = random.Random(seed)
        while not until.wait(0.1):
            key = chance.choice(self.keys)
            for _ in range(2):
                send(key)
                self.duplicates += 1

    def come_back_late(self, key: str) -> None:
        """Claim an operation, stall until somebody else has taken over, and write with the stale token."""
        stale = self._until(lambda: self._claimed(key))
        self._until(lambda: self._replaced(stale))
        try:
            self.store.save(stale, {**stale.record, "state": "stale"}, ended=True, due_in_s=math.inf, release=True)
        except Fenced:
            self.fenced.append(key)

    def _claimed(self, key: str) -> Claim | None:
        stored = self.store.get(key)
        if stored is None or stored.record["phase"] != "submitted":
            return None
        try:
            return self.store.claim(key, holder="a machine that stalls", lease_s=0.2)
        except Taken:
            return None

    def _replaced(self, stale: Claim) -> bool:
        stored = self.store.get(stale.key)
        return stored is not None and stored.token != stale.token and stored.holder is None

    def _until(self, found: Callable[[], T]) -> T:
        for _ in range(3000):
            if result := found():
                return result
            _PAUSE.wait(0.02)
        raise TimeoutError("a minute has passed")

    def wait(self, seconds: float, meanwhile: Callable[[], None], start: Callable[[str], Any]) -> None:
        """Until all have their ending, or that long; those without a record are begun again after a while.

        Redis has handed a message out before the worker has noted that it is at it: who
        is killed in between has lost it. Nothing was sent then, and a block may come twice.
        """
        for number in range(round(seconds / 0.5)):
            if not self.open():
                return
            meanwhile()
            _PAUSE.wait(0.5)
            if number % 20 == 19:
                for key in set(self.keys) - {stored.key for stored in self.store.list(limit=10_000)}:
                    start(key)
                    self.begun_again += 1

    # ---- what came of it

    def outcomes(self) -> dict[str, int]:
        """How many ended how."""
        found: dict[str, int] = {}
        for stored in self.store.list(limit=10_000):
            result = (stored.record["outcome"] or {"result": "open"})["result"]
            found[result] = found.get(result, 0) + 1
        return found

    def whole_files(self) -> int:
        """How many results are there, and whole."""
        return sum((self.folder / f"{key}.bin").read_bytes() == RESULT for key in self.keys)

    def extra_polls(self) -> int:
        """Polls beyond those that the jobs took."""
        return sum(len(self.jobs.polled_at[key]) - POLLS for key in self.keys)

    def early_polls(self) -> int:
        """Polls that came before the pause was over that the server had asked for."""
        early = 0
        for key in self.keys:
            at = self.jobs.polled_at[key]
            gaps = [later - sooner for sooner, later in itertools.pairwise(at)]
            early += sum(gap < pause_s - 0.05 for gap, pause_s in zip(gaps, PAUSES_S, strict=False))
        return early

    def traces(self) -> dict[str, list[dict[str, Any]]]:
        """Spans by key; under "" those of no operation that is known."""
        by_trace = {stored.record["trace"]["trace_id"]: stored.key for stored in self.store.list(limit=10_000)}
        found: dict[str, list[dict[str, Any]]] = {key: [] for key in ["", *self.keys]}
        for span in spans_of(self.folder / "spans.jsonl"):
            found[by_trace.get(span["trace_id"], "")].append(span)
        return found


def roots(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those without a parent."""
    return [span for span in spans if not span["parent"]]


def orphans(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those whose parent was never written."""
    there = {span["span_id"] for span in spans}
    return [span for span in spans if span["parent"] and span["parent"] not in there]


@contextmanager
def in_threads(*tasks: Callable[[], Any]) -> Iterator[None]:
    """Do them beside the block, each in a thread of its own; what goes wrong in one is raised at the block's end."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        begun = [pool.submit(task) for task in tasks]
        yield
        for one in begun:
            one.result()
