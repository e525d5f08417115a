"""Many operations in one line: how many are over, and where the others stand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trihop._events import Event

_MOST_STATES = 3


class Crowd:
    """The operations of one name, counted."""

    def __init__(self) -> None:
        self.seen = 0
        self.well = 0
        self.badly = 0
        self.left = 0
        self.resumable = 0
        self._now: dict[str, str] = {}

    @property
    def over(self) -> int:
        """How many have ended, well or not."""
        return self.well + self.badly

    def take(self, event: Event) -> None:
        """Count an event in."""
        if event.kind == "started":
            self.seen += 1
        if event.kind == "finished":
            self.well += 1
        elif event.resumable:
            self.resumable += 1
        elif event.left:
            self.left += 1
        elif event.kind == "ended":
            self.badly += 1
        else:
            self._now[event.operation_id] = "downloading" if event.kind == "downloading" else event.state or "started"
            return
        self._now.pop(event.operation_id, None)

    def __str__(self) -> str:
        """In words, the commonest states first."""
        told = [f"{self.over} of {self.seen} over"]
        if self.badly:
            told.append(f"{self.badly} not well")
        if self.resumable:
            told.append(f"{self.resumable} can be gone on with")
        if self.left:
            told.append(f"{self.left} left")
        states = Counter(self._now.values()).most_common()
        told += [f"{count} {state}" for state, count in states[:_MOST_STATES]]
        others = sum(count for _, count in states[_MOST_STATES:])
        return ", ".join([*told, f"{others} in other states"] if others else told)
