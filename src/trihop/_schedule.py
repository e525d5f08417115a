"""Which of many jobs is asked next: due times, limits and requests to wait per origin, fair turns.

Decisions alone: no clock, socket or thread. Whoever drives it says what time it
is, and takes items out one by one; `Fleet` does so under a lock, a simulation in
a loop.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from random import Random

ASK, DOWNLOAD = "ask", "download"
"""The two lanes of a fleet: submits, polls and cancels; and downloads, which may last."""

_LONGEST_DRAIN_S = 30.0


class Planned(Protocol):
    """What can be planned: anything with room for a number."""

    entry: int
    """The schedule's own: which of the plans for it counts."""


Item = TypeVar("Item", bound=Planned)


@dataclass(frozen=True, slots=True)
class Taken(Generic[Item]):
    """An item whose turn it is.

    Args:
        item: What was planned.
        origin: Where; to be given back with `done`.
        due_s: When it was due.
        held: Whether a request to wait, of the origin's, stood between.
    """

    item: Item
    origin: Hashable
    due_s: float
    held: bool


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item]):
    entry: int
    item: Item
    due_s: float
    until_s: float


class _Origin:
    """What holds for all items of one origin, in whichever lane."""

    __slots__ = ("drain_s", "gap_s", "gap_until_s", "held_until_s", "key", "next_s", "planned")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.planned = 0
        self.held_until_s = -math.inf
        self.drain_s = 0.0
        self.gap_s = 0.0
        self.gap_until_s = -math.inf
        self.next_s = -math.inf

    def free_s(self, now_s: float) -> float:
        """When it may be asked next."""
        return max(self.held_until_s, self.next_s) if now_s < self.gap_until_s else self.held_until_s

    def wake(self, now_s: float, waiting: int) -> None:
        """What waited while it was left alone does not fall upon it at once."""
        if waiting > 1 and self.held_until_s <= now_s < self.held_until_s + self.drain_s:
            self.spread(now_s, self.drain_s, waiting)
            self.drain_s = 0.0

    def spread(self, now_s: float, over_s: float, requests: int) -> None:
        """No more than so many requests in that time, evenly."""
        self.gap_s, self.gap_until_s = over_s / requests, now_s + over_s


class _Queue(Generic[Item]):
    """The items of one origin in one lane that are due."""

    __slots__ = ("asleep", "busy", "count", "in_turn", "origin", "waiting")

    def __init__(self, origin: _Origin) -> None:
        self.origin = origin
        self.waiting: deque[_Waiting[Item]] = deque()
        self.count = 0  # planned, waiting or under way
        self.busy = 0
        self.in_turn = False
        self.asleep = False


class _Lane(Generic[Item]):
    """Items that are served by the same workers."""

    __slots__ = ("busy", "heap", "queues", "turns", "workers")

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.busy = 0
        self.heap: list[tuple[float, int, Item | None, _Queue[Item], float]] = []
        self.queues: dict[Hashable, _Queue[Item]] = {}
        self.turns: deque[_Queue[Item]] = deque()

    def leave(self, queue: _Queue[Item], count: int = 1) -> None:
        """So many items of a queue are over; an empty one is forgotten."""
        queue.count -= count
        if queue.count == 0:
            del self.queues[queue.origin.key]


class Schedule(Generic[Item]):
    """Items with due times, taken one at a time.

    - Within an origin the one that was due first goes first, so that under overload all wait alike.
    - Origins take turns, each with at most `per_origin` items under way in a lane.
    - The last free worker is kept for an origin that has none: slow ones do not starve the others.
    - An origin that asked to be left alone is, whichever item it said so to. What came due meanwhile
      is spread over as long a time again, 30 s at most.

    Args:
        workers: How many items may be under way, by lane.
        per_origin: How many of these at one origin.

    Times are seconds on any clock that does not run backwards, as long as it is always the same one.

    >>> class Job:
    ...     entry = 0
    >>> schedule = Schedule({ASK: 2}, per_origin=1)
    >>> first, second = Job(), Job()
    >>> schedule.plan(first, due_s=5.0, origin="https://a.example")
    >>> schedule.plan(second, due_s=5.1, origin="https://a.example")
    >>> schedule.take(4.0), schedule.next_s()
    (None, 5.0)
    >>> schedule.take(6.0).item is first, schedule.take(6.0)
    (True, None)
    >>> schedule.done("https://a.example"); schedule.take(6.0).item is second
    True
    """

    def __init__(self, workers: Mapping[str, int], *, per_origin: int) -> None:
        self._lanes: dict[str, _Lane[Item]] = {name: _Lane(number) for name, number in workers.items()}
        self._per_origin = per_origin
        self._origins: dict[Hashable, _Origin] = {}
        self._entries = 0

    # ---- planning

    def plan(self, item: Item, *, due_s: float, origin: Hashable, lane: str = ASK, until_s: float = math.inf) -> None:
        """Plan an item; an earlier plan for it counts no more.

        Args:
            item: What to hand out.
            due_s: When.
            origin: Whose limits it is under.
            lane: Whose workers serve it.
            until_s: When there is no use in it any more: its deadline.
        """
        queue = self._queue(lane, origin)
        self._entries += 1
        item.entry = self._entries
        queue.count += 1
        queue.origin.planned += 1
        heappush(self._lanes[lane].heap, (due_s, item.entry, item, queue, until_s))

    def planned(self, origin: Hashable) -> int:
        """How many items are planned at an origin, by plans that count no more, too, for a while."""
        found = self._origins.get(origin)
        return 0 if found is None else found.planned

    # ---- taking

    def take(self, now_s: float, lane: str = ASK) -> Taken[Item] | None:
        """The item whose turn it is; None where there is none, or nobody free to serve it."""
        served = self._lanes[lane]
        self._promote(served, now_s)
        if served.busy >= served.workers:
            return None
        kept: list[_Queue[Item]] = []
        found: Taken[Item] | None = None
        while found is None and served.turns:
            queue = served.turns.popleft()
            if queue.busy and served.workers - served.busy == 1 and len(served.queues) > 1:
                kept.append(queue)  # the last one is for those who have none
                continue
            queue.in_turn = False
            found = self._first_of(queue, served, now_s)
        served.turns.extend(kept)
        return found

    def done(self, origin: Hashable, lane: str = ASK) -> None:
        """What was taken is no longer under way."""
        served = self._lanes[lane]
        queue = served.queues[origin]
        served.busy -= 1
        queue.busy -= 1
        self._offer(queue, served)
        served.leave(queue)

    def next_s(self, lane: str = ASK) -> float:
        """When to look again, if nothing is taken or done before; `inf` where nothing is planned."""
        heap = self._lanes[lane].heap
        return heap[0][0] if heap else math.inf

    def hopeless(self, now_s: float) -> list[Item]:
        """Items that wait for a turn and cannot have one before their `until_s`; they are planned no more."""
        found = []
        for lane in self._lanes.values():
            for queue in list(lane.queues.values()):
                end_s = max(now_s, queue.origin.held_until_s)
                late = [one for one in queue.waiting if one.until_s <= end_s and one.item.entry == one.entry]
                if late:
                    queue.waiting = deque(one for one in queue.waiting if one.until_s > end_s)
                    self._strike(queue, lane, len(late))
                    for one in late:
                        one.item.entry = 0
                        found.append(one.item)
        return found

    # ---- what an origin asks for

    def hold(self, origin: Hashable, now_s: float, seconds: float) -> None:
        """Leave an origin alone for so long: it said so to one of its items (429 or 503 with Retry-After)."""
        found = self._origins.get(origin)
        if found is not None and now_s + seconds > found.held_until_s:
            found.held_until_s = now_s + seconds
            found.drain_s = min(seconds, _LONGEST_DRAIN_S)

    def ration(self, origin: Hashable, now_s: float, *, remaining: int, reset_s: float) -> None:
        """An origin says how many more requests it takes within how many seconds.

        Where these are fewer than there are items, they are spread over that time.
        """
        found = self._origins.get(origin)
        if found is None or reset_s <= 0 or remaining >= found.planned:
            return
        if remaining == 0:
            self.hold(origin, now_s, reset_s)
        else:
            found.spread(now_s, reset_s, remaining)

    def held_until_s(self, origin: Hashable) -> float:
        """Until when an origin asked to be left alone; `-inf` where it never did."""
        found = self._origins.get(origin)
        return -math.inf if found is None else found.held_until_s

    # ---- inside

    def _queue(self, lane: str, origin: Hashable) -> _Queue[Item]:
        queues = self._lanes[lane].queues
        queue = queues.get(origin)
        if queue is None:
            known = self._origins.get(origin)
            if known is None:
                known = self._origins[origin] = _Origin(origin)
            queue = queues[origin] = _Queue(known)
        return queue

    def _promote(self, lane: _Lane[Item], now_s: float) -> None:
        """Queue what has come due, and wake the origins whose time has come."""
        heap = lane.heap
        while heap and heap[0][0] <= now_s:
            due_s, entry, item, queue, until_s = heappop(heap)
            if item is None:
                queue.asleep = False
                queue.origin.wake(now_s, len(queue.waiting))
            elif item.entry == entry:
                queue.waiting.append(_Waiting(entry, item, due_s, until_s))
            else:
                self._strike(queue, lane)
            self._offer(queue, lane)

    def _strike(self, queue: _Queue[Item], lane: _Lane[Item], count: int = 1) -> None:
        """Forget plans that count no more."""
        queue.origin.planned -= count
        lane.leave(queue, count)

    def _offer(self, queue: _Queue[Item], lane: _Lane[Item]) -> None:
        if queue.waiting and not queue.in_turn and not queue.asleep and queue.busy < self._per_origin:
            queue.in_turn = True
            lane.turns.append(queue)

    def _first_of(self, queue: _Queue[Item], lane: _Lane[Item], now_s: float) -> Taken[Item] | None:
        origin = queue.origin
        while queue.waiting and queue.waiting[0].item.entry != queue.waiting[0].entry:
            queue.waiting.popleft()
            self._strike(queue, lane)
        if not queue.waiting:
            return None
        free_s = origin.free_s(now_s)
        if free_s > now_s:
            queue.asleep = True
            self._entries += 1
            heappush(lane.heap, (free_s, self._entries, None, queue, math.inf))
            return None
        first = queue.waiting.popleft()
        first.item.entry = 0
        origin.planned -= 1
        if now_s < origin.gap_until_s:
            origin.next_s = now_s + origin.gap_s
        lane.busy += 1
        queue.busy += 1
        self._offer(queue, lane)
        return Taken(first.item, origin.key, first.due_s, first.due_s <= origin.held_until_s <= now_s)


def spread(seconds: float, *, among: int, room_s: float | None, random: Random) -> float:
    """A pause that the server asked of many jobs at once, lengthened so that they do not come back in step.

    Args:
        seconds: What it asked for.
        among: How many jobs there are at its origin; one alone comes back when it was told to.
        room_s: Seconds until the job's deadline, of which half the spare is left alone; None without one.
        random: The clock's.

    Returns:
        Between `seconds` and twice that.

    >>> import random
    >>> spread(10, among=1, room_s=None, random=random.Random(7))
    10.0
    """
    longer_s = seconds * (1 - 1 / max(1, among))
    if room_s is not None:
        longer_s = min(longer_s, max(0.0, room_s - seconds) / 2)
    return seconds + longer_s * random.random()
