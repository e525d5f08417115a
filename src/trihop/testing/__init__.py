"""For tests of code that uses trihop: a clock, a server, captured spans, a check of providers.

Importing this package imports nothing else: pytest imports it at its start, for
the fixtures, in every project of an environment that has trihop.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trihop.testing._conform import check_provider
    from trihop.testing._misbehaviour import (
        chunked,
        close_delimited,
        deaf,
        delayed,
        dripped,
        ranged,
        reset,
        short,
        silent,
    )
    from trihop.testing._ready_made import accepted, done, failed, running
    from trihop.testing._received import ReceivedCall, ReceivedHeaders
    from trihop.testing._replies import ScriptedReply
    from trihop.testing._server import ScriptedServer
    from trihop.testing._spans import SpanLog
    from trihop.testing._virtual import VirtualClock

_HOMES = {
    "_virtual": ("VirtualClock",),
    "_server": ("ScriptedServer",),
    "_received": ("ReceivedCall", "ReceivedHeaders"),
    "_replies": ("ScriptedReply",),
    "_misbehaviour": (
        "chunked",
        "close_delimited",
        "deaf",
        "delayed",
        "dripped",
        "ranged",
        "reset",
        "short",
        "silent",
    ),
    "_ready_made": ("accepted", "done", "failed", "running"),
    "_spans": ("SpanLog",),
    "_conform": ("check_provider",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    # time
    "VirtualClock",
    # the server and what it got
    "ScriptedServer",
    "ReceivedCall",
    "ReceivedHeaders",
    # what it may answer
    "ScriptedReply",
    "accepted",
    "running",
    "done",
    "failed",
    "ranged",
    "chunked",
    "close_delimited",
    "delayed",
    "dripped",
    "short",
    "reset",
    "silent",
    "deaf",
    # what was traced
    "SpanLog",
    # a provider of your own
    "check_provider",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
