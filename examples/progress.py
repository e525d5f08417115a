"""Progress of one's own making: a function of an event."""

from __future__ import annotations

import logging
from pathlib import Path

import requests

from trihop import Event, operation

log = logging.getLogger("exports")


def report(event: Event) -> None:
    """Log changes, and how far the download has come."""
    if event.kind == "state_changed":
        log.info("%s is %s after %d polls", event.operation, event.state, event.polls)
    elif event.kind == "downloading":
        log.info("%s: %d of %s bytes", event.operation, event.bytes_done, event.bytes_total)
    elif event.kind == "ended":
        log.warning("%s: %s", event.operation, event.message)


def main(session: requests.Session, api: str, to: Path) -> None:
    """Export, and log how it goes."""
    with operation("export", deadline=1800, session=session, on_event=report) as op:
        op.run("POST", f"{api}/exports", to=to)
