"""The shortest way: an API that answers 202 with a Location, and a result that goes to a file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import requests

from trihop import Download, operation, show


def main(session: requests.Session, api: str, to: Path) -> Download:
    """Export everything; progress is printed as it comes."""
    with operation("export", deadline=timedelta(minutes=30), session=session, on_event=show) as op:
        return op.run("POST", f"{api}/exports", json={"query": "all"}, to=to)
