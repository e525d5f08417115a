"""One report from several jobs: one operation, one deadline, one trace."""

from __future__ import annotations

import requests

from trihop import operation


def main(session: requests.Session, api: str, years: list[int]) -> dict[str, str]:
    """The report of each year, in the order in which they are done."""
    with operation("report", deadline=1800, session=session) as op:
        jobs = [op.submit("POST", f"{api}/reports", json={"year": year}) for year in years]
        return {str(ready.job.id): op.download(ready).text for ready in op.gather(jobs)}
