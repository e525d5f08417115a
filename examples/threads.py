"""Work inside an operation that a pool of threads does: `op.bind` takes the trace and the deadline along."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import requests

from trihop import operation


def main(session: requests.Session, api: str, query: dict[str, object]) -> list[bytes]:
    """Submit and poll here, fetch the parts in four threads at once; all of it is one trace under one deadline."""
    with operation("export", deadline=1800, session=session) as op:
        job = op.submit("POST", f"{api}/jobs", json=query)
        parts = op.poll(job).data["parts"]

        def fetch(part: str) -> bytes:
            response = session.get(f"{api}{part}")
            response.raise_for_status()
            return response.content

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(op.bind(fetch), parts))
