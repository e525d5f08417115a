"""A disk that is really full, under a SQLite file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FILL = """
import json, sys
from trihop.stores import SQLStore, StoreError
url = f"sqlite:///{sys.argv[1]}/operations.db"
store = SQLStore(url)
record = {"version": 1, "name": "export"}
claim = store.begin(record, key="nightly", holder="one", lease_s=600)
polls, errors = 0, []
with open(sys.argv[1] + "/other", "wb", buffering=0) as other:
    other.write(b"x" * 100_000)
    while len(errors) < 2:
        try:
            polls += not errors
            store.save(claim, {**record, "polls": polls, "fold": "x" * 20_000})
        except StoreError as error:
            errors.append(str(error))
    other.truncate(0)
again = SQLStore(url)
kept = again.get("nightly").record["polls"]
store.save(claim, {**record, "polls": polls})
print(json.dumps([polls, errors, kept, again.get("nightly").record["polls"]]))
"""


def test_what_was_saved_before_the_disk_was_full_is_there(tmp_path: Path) -> None:
    """The error says what is the matter; with room again, the same claim goes on."""
    # A disk of its own, which goes when the process does; as root at once, else in a namespace where we are it.
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    mount = f'mount -t tmpfs -o size=300k tmpfs "{tmp_path}" && exec "$0" -W error -c "$1" "{tmp_path}"'
    finished = subprocess.run(
        [*namespace, "sh", "-c", mount, sys.executable, FILL], capture_output=True, text=True, timeout=60, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    polls, errors, kept, at_last = json.loads(finished.stdout)

    assert polls > 1
    assert (kept, at_last) == (polls - 1, polls)
    assert len(errors) == 2
    for error in errors:
        assert f"the store sqlite:///{tmp_path}/operations.db has no room left (database or disk is full)" in error
        assert error.endswith("free some space, then run it again")
