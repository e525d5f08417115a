"""A process with a fleet of jobs under keys, that is interrupted; says how many outcomes it saw.

Arguments as one JSON object: url, store, folder, jobs, first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import requests

from trihop import Call, Fleet, Pacing, Provider, ReadJob, ReadState, SQLStore

INTERRUPTED = 130


def main(given: dict[str, Any]) -> int:
    """Start them all and see how they end."""
    provider = Provider(
        "victim.jobs",
        submit=ReadJob(id="id", status_url=None),
        status="/jobs/{id}",
        poll=ReadState("state", pending={"running"}, succeeded={"done"}, results="file"),
        pacing=Pacing(first=given["first"], factor=1, cap=given["first"]),
    )
    store, folder, ended = SQLStore(given["store"]), Path(given["folder"]), 0
    try:
        with requests.Session() as session, Fleet(session=session, provider=provider, store=store) as fleet:
            for number in range(given["jobs"]):
                call = Call("POST", f"{given['url']}jobs", json={"key": f"job-{number}"})
                fleet.start("export", call, key=f"job-{number}", deadline=600, to=folder / f"{number}")
            print("started", flush=True)
            for outcome in fleet.outcomes():
                if outcome.error is not None:
                    print(outcome.key, outcome.error, flush=True)
                ended += outcome.error is None
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return INTERRUPTED
    finally:
        store.close()
    print(ended, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
