"""Which scripted reply answers which request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from trihop.testing._replies import ScriptedReply, checked, described


class Script:
    """Replies in order; afterwards one reply for ever, or none."""

    def __init__(self) -> None:
        self.left: deque[ScriptedReply] = deque()
        self.given = 0
        self.always: ScriptedReply | None = None

    def add(self, replies: Iterable[ScriptedReply], then_always: ScriptedReply | None) -> None:
        """Append replies.

        Raises:
            TypeError: One of them is nothing that can be sent.
        """
        self.left.extend([checked(reply) for reply in replies])
        if then_always is not None:
            self.always = checked(then_always)

    def next(self) -> ScriptedReply | None:
        """The reply whose turn it is; None where there is none."""
        if not self.left:
            return self.always
        self.given += 1
        return self.left.popleft()

    def __str__(self) -> str:
        if self.left:
            shown = ", ".join(described(reply) for reply in list(self.left)[:5])
            return f"{len(self.left)} left: {shown}{', ...' if len(self.left) > 5 else ''}"
        return "no reply" if self.given == 0 else f"all used up ({self.given}), and no then_always"


class Replies:
    """One script for everything, and scripts for single requests, which go first."""

    def __init__(self) -> None:
        self.script = Script()
        self.routes: dict[tuple[str, str], Script] = {}

    def on(self, method: str, path: str) -> Script:
        """The script for this request; without a query in `path`, whatever the query is."""
        where = path if "://" in path else "/" + path.lstrip("/")
        return self.routes.setdefault((method.upper(), where), Script())

    def choose(self, method: str, path: str) -> ScriptedReply | None:
        """The reply for a request, taken off its script; None: nobody expected it."""
        for where in (path, path.partition("?")[0]):
            if (route := self.routes.get((method, where))) is not None:
                return route.next()
        return self.script.next()

    def why_not(self, method: str, path: str) -> list[str]:
        """For each script, what is left of it and why that did not answer this request."""
        found = [f"the script, for any request: {self.script}"]
        for (its_method, its_path), script in self.routes.items():
            if its_path not in (path, path.partition("?")[0]):
                reason = "another path; "
            elif its_method != method:
                reason = "another method; "
            else:
                reason = ""
                found[0] = "the script is not asked for what .on() names"
            found.append(f"on {its_method} {its_path}: {reason}{script}")
        return found

    @property
    def left(self) -> list[ScriptedReply]:
        """Replies that no request asked for; a `then_always` does not count."""
        return [reply for script in (self.script, *self.routes.values()) for reply in script.left]
