"""Signs of life: one thread that renews the leases of this process's visits, in real time, until they end."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trihop._durable.visit import Visit

_RENEWALS_IN_A_LEASE = 3

_changed = threading.Condition()
_visits: set[Visit] = set()
_thread: threading.Thread | None = None
_every_s = float("inf")


def watch(visit: Visit) -> None:
    """Renew its lease from now on."""
    global _thread, _every_s
    every_s = visit.lease_s / _RENEWALS_IN_A_LEASE
    with _changed:
        _visits.add(visit)
        if _thread is None:
            _every_s = every_s
            _thread = threading.Thread(target=_run, name="trihop leases", daemon=True)
            _thread.start()
        elif every_s < _every_s:
            _every_s = every_s
            _changed.notify()


def forget(visit: Visit) -> None:
    """It has ended."""
    with _changed:
        _visits.discard(visit)


def _run() -> None:
    global _thread, _every_s
    while True:
        with _changed:
            _changed.wait(_every_s)
            if not _visits:
                _thread = None  # the next visit starts another one
                return
            _every_s = min(visit.lease_s / _RENEWALS_IN_A_LEASE for visit in _visits)
            visits = list(_visits)
        for visit in visits:
            visit.renew()


def _after_fork() -> None:
    """What a child has a copy of is the parent's to renew."""
    global _changed, _thread
    _changed, _thread = threading.Condition(), None
    for visit in _visits:
        visit.in_the_child()
    _visits.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
