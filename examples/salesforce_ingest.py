"""Load a CSV into Salesforce: create, upload, close, wait, and read what became of every row.

    SALESFORCE_JOBS=https://acme.my.salesforce.com/services/data/v62.0/jobs SALESFORCE_TOKEN=… \
        python examples/salesforce_ingest.py accounts.csv
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import requests

from trihop import JobPartiallyFailed, operation, show
from trihop.providers import salesforce


def load(session: requests.Session, jobs: str, csv: Path, out: Path) -> list[dict[str, str]]:
    """Insert the rows as accounts; the rows that failed, with `sf__Error`.

    Raises:
        trihop.OperationError: There is no result; the message says why, and what next.
    """
    with operation("load accounts", deadline=7200, session=session, provider=salesforce.INGEST, on_event=show) as op:
        job = op.submit(
            "POST", f"{jobs}/ingest", json={"object": "Account", "operation": "insert", "contentType": "CSV"}
        )

        def upload() -> None:
            with csv.open("rb") as body:
                put = session.put(f"{jobs}/ingest/{job.id}/batches", data=body, headers={"Content-Type": "text/csv"})
            put.raise_for_status()
            session.patch(f"{jobs}/ingest/{job.id}", json={"state": "UploadComplete"}).raise_for_status()

        op.once("upload", upload)
        try:
            ready = op.poll(job)
        except JobPartiallyFailed as failure:
            ready = failure.ready
        files = op.download(ready, into=out)
    return list(files["failedResults"].iter_rows())


def main() -> int:
    """The exit status: 1 if a row failed."""
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {os.environ['SALESFORCE_TOKEN']}"
        failed = load(session, os.environ["SALESFORCE_JOBS"], Path(sys.argv[1]), Path("out"))
    for row in failed:
        print(row["sf__Error"], row)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
