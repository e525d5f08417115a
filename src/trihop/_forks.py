"""What a forked process must do before it goes on."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_the_child(renew: Callable[[], None]) -> None:
    """Have this done in every forked child, at once: a lock that another thread held is held there for ever."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks either
        os.register_at_fork(after_in_child=renew)
