"""What a durable record costs: three updates of a record in a SQLite file, and a durable triangle, in hand loops."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import requests
from tests.bench.measure import ratios
from tests.bench.server import running
from tests.bench.triangle import PROVIDER, by_trihop, hand_written

from trihop import SQLStore, operation
from trihop.stores import Claim

_keys = itertools.count()


def durable(session: requests.Session, url: str, store: SQLStore) -> bytes:
    """The triangle under a key."""
    with operation(
        "bench", deadline=60, session=session, provider=PROVIDER, key=f"bench-{next(_keys)}", store=store
    ) as op:
        return op.run("POST", f"{url}/jobs", json={"q": 1}).content


def three_updates(store: SQLStore, claim: Claim) -> None:
    """Intent, admission, ending."""
    for _ in range(3):
        store.save(claim, claim.record, due_in_s=1.0, lease_s=60.0)


def report(*, rounds: int = 15, repeats: int = 20) -> dict[str, float]:
    """Print the table; the ratios by name."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running() as url,
        requests.Session() as session,
        requests.Session() as other,
        requests.Session() as third,
    ):
        store = SQLStore(f"sqlite:///{Path(folder)}/operations.db")
        durable(other, url, store)
        record = store.list()[0].record
        claim = store.begin({**record, "outcome": None}, key="updates", holder="bench", lease_s=600.0)
        found = ratios(
            {
                "hand loop": lambda: hand_written(session, url),
                "three updates": lambda: three_updates(store, replace(claim)),
                "trihop": lambda: by_trihop(third, url),
                "durable": lambda: durable(other, url, store),
            },
            "hand loop",
            rounds=rounds,
            repeats=repeats,
        )
        store.close()
    table = {
        "three updates of a record / hand loop": (found["three updates"][0], 0.15),
        "durable triangle / hand loop": (found["durable"][0], None),
        "triangle / hand loop": (found["trihop"][0], None),
    }
    for title, (ratio, limit) in table.items():
        print(f"{title:<55} {ratio:6.2f}" + ("" if limit is None else f"   (reach {limit:.2f})"))
    print(f"{'durable triangle, ms of CPU':<55} {found['durable'][1] * 1000:6.2f}")
    return {title: ratio for title, (ratio, _) in table.items()}


if __name__ == "__main__":
    report()
