"""A paid inference that has to settle, under an idempotency key, with a check before its result is used.

python examples/settled_inference.py https://api.example.com/inference "a prompt"
"""

from __future__ import annotations

import sys
from typing import Any

import requests

from trihop import OutcomeAmbiguous, operation
from trihop.providers import settle

INFERENCE = settle.jobs("acme.inference", idempotency="Idempotency-Key")


def infer(session: requests.Session, url: str, body: object) -> Any:
    """The result, once it is settled and, if it is a candidate, active.

    Raises:
        trihop.OutcomeAmbiguous: Nobody knows what became of it: reconcile it by hand.
    """
    with operation("infer", deadline=600, session=session, provider=INFERENCE) as op:
        ready = op.poll(op.submit("POST", url, json=body))

        def activate() -> None:
            session.post(f"{ready.job.status_url}/activation").raise_for_status()

        if settle.needs_activation(ready):
            op.once("activate", activate)
        return ready.data


if __name__ == "__main__":
    with requests.Session() as session:
        try:
            print(infer(session, sys.argv[1], {"prompt": sys.argv[2]}))
        except OutcomeAmbiguous as stop:
            sys.exit(f"reconcile by hand: {stop}")
