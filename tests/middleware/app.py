"""An application that knows nothing of instrumentation: `opentelemetry-instrument python app.py URL`."""

from __future__ import annotations

import sys

import requests

from trihop import operation


def main(url: str) -> None:
    """One request outside, then a loop inside an operation that was given no session."""
    with requests.Session() as session:
        session.trust_env = False
        session.get(f"{url}outside")
        with operation("export", deadline=60):
            location = session.post(f"{url}jobs").headers["Location"]
            while session.get(url + location).json()["status"] == "running":
                pass


if __name__ == "__main__":
    main(sys.argv[1])
