"""A courier that hears what replies say of their origin's limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trihop._clock import utc
from trihop._limits import Ration, read_ration
from trihop._origin import Trusted
from trihop._pacing import read_hint
from trihop._values import Call
from trihop._wire.session import Courier, Sent

if TYPE_CHECKING:
    import requests

    from trihop._clock import Clock

_TOO_MANY = 429  # RFC 6585 section 4
_NOT_NOW = 503  # RFC 9110 section 15.6.4
_UNSAID_S = 1.0  # after a 429 that does not say for how long


class Ears(Courier):
    """A courier that remembers the reply it had last: what one job is told of an origin's limits is for all.

    It says so before it waits for an answer, as its thread may have others to see to.
    """

    def __init__(
        self, session: requests.Session, trusted: Trusted, clock: Clock, remaining: Callable[[], float]
    ) -> None:
        super().__init__(session, trusted, clock, remaining)
        self.hand_over: Callable[[], None] | None = None
        """Called before a request whose answer is waited for."""
        self.last: Sent | None = None
        self.shown: dict[tuple[str, int], str] = {}
        """Texts of the server's as they may be written down; many jobs are told the same."""

    def about_to_wait(self) -> None:
        """Let somebody else keep the time."""
        if self.hand_over is not None:
            self.hand_over()

    def send(self, call: Call, **how: Any) -> Sent:
        """As any courier."""
        self.last = super().send(call, **how)
        return self.last

    def heard(self, now_ns: int) -> tuple[float | None, Ration | None]:
        """What the last reply said of its origin: for how long to leave it alone, and how many requests it has left.

        Args:
            now_ns: Nanoseconds since the epoch.
        """
        reply = None if self.last is None else self.last.reply
        if reply is None:
            return None, None
        hold_s = None
        if reply.status_code in (_TOO_MANY, _NOT_NOW):
            hold_s = read_hint(reply.headers, received_at=utc(now_ns)).seconds
            if hold_s is None and reply.status_code == _TOO_MANY:
                hold_s = _UNSAID_S
        return hold_s, read_ration(reply.headers, now=now_ns / 1e9)
