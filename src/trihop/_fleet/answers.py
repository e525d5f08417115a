"""Polls that are on their way, and the one thread that waits for all of their answers."""

from __future__ import annotations

import math
import selectors
import socket
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

from trihop._wire.flight import Flight

Turn = TypeVar("Turn")


class Answers(Generic[Turn]):
    """What is in flight, each with the turn it belongs to; to be used under the crew's lock, but for `rest`."""

    def __init__(self) -> None:
        self._selector: selectors.BaseSelector | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._under_way: dict[Flight, Turn] = {}
        self._here: deque[tuple[Turn, Flight]] = deque()
        self._until_s = math.inf

    def expect(self, flight: Flight, turn: Turn, now_s: float) -> None:
        """Wait for the answer of a flight, on behalf of whoever took that turn."""
        if flight.is_over:  # it was not sent
            self._here.append((turn, flight))
            return
        self.open().register(flight.sock, selectors.EVENT_READ, flight)
        self._under_way[flight] = turn
        self._until_s = min(self._until_s, flight.until_s(now_s))

    def next(self, now_s: float) -> tuple[Turn, Flight] | None:
        """A flight that can be landed without a wait, as far as that can be told."""
        if not self._here and self._under_way:
            self._listen(now_s)
        return self._here.popleft() if self._here else None

    @property
    def until_s(self) -> float:
        """When to look again at the latest, though nothing is heard; `inf` where nothing is under way."""
        return -math.inf if self._here else self._until_s if self._under_way else math.inf

    def rest(self, seconds: float) -> None:
        """Wait until a flight has something to tell, or the bell rings, or so long; by one thread, without the lock."""
        for key, _ in self.open().select(max(0.0, seconds)):
            if key.data is None:
                self._hush()

    def ring(self) -> None:
        """Wake who rests."""
        if self._bell is not None:
            with suppress(BlockingIOError):  # it has been rung before, and nobody has heard it yet
                self._bell[1].send(b"!")

    def drop(self) -> list[Turn]:
        """Let go of all that is under way; whose turns it was."""
        turns = [*self._under_way.values(), *(turn for turn, _ in self._here)]
        for flight in (*self._under_way, *(flight for _, flight in self._here)):
            self._forget(flight)
            flight.drop()
        self._under_way.clear()
        self._here.clear()
        return turns

    def open(self) -> selectors.BaseSelector:
        """Borrow from the system what a rest takes.

        Raises:
            OSError: It has none to lend.
        """
        if self._selector is None:
            selector = selectors.DefaultSelector()
            try:
                self._bell = socket.socketpair()
            except OSError:
                selector.close()
                raise
            for end in self._bell:
                end.setblocking(False)
            selector.register(self._bell[0], selectors.EVENT_READ)
            self._selector = selector
        return self._selector

    def close(self) -> None:
        """Free what the system lent."""
        if self._selector is not None and self._bell is not None:
            self._selector.close()
            for end in self._bell:
                end.close()
            self._selector = self._bell = None

    # ---- inside

    def _listen(self, now_s: float) -> None:
        for key, _ in self.open().select(0):
            flight = key.data
            if flight is None:
                self._hush()
            elif flight.hear(now_s):
                self._landed(flight)
        if now_s >= self._until_s:
            for flight in [flight for flight in self._under_way if flight.until_s(now_s) <= now_s]:
                flight.give_up()
                self._landed(flight)
            self._until_s = min((flight.until_s(now_s) for flight in self._under_way), default=math.inf)

    def _hush(self) -> None:
        assert self._bell is not None
        with suppress(BlockingIOError):
            while self._bell[0].recv(64):
                pass

    def _landed(self, flight: Flight) -> None:
        self._forget(flight)
        self._here.append((self._under_way.pop(flight), flight))

    def _forget(self, flight: Flight) -> None:
        if self._selector is not None:  # whoever rests may have closed it
            with suppress(KeyError, ValueError):
                self._selector.unregister(flight.sock)
