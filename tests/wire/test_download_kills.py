"""Downloads whose processes are killed, and later processes that go on with them."""

import hashlib
import os
import random
import signal
import subprocess
import sys

import pytest

from trihop import DeadlineExceeded, MemoryStore, Reply, operation
from trihop.testing import ScriptedServer, accepted, done, dripped, ranged

KILLS = 20
BODY = random.Random(7).randbytes(8_000_000)
SHA256 = hashlib.sha256(BODY).hexdigest()
WHOLE = Reply(200, content=BODY, headers={"ETag": '"v1"'})

DOWNLOAD = """
import sys
from trihop import operation
url, to, sha256 = sys.argv[1:]
with operation("export", deadline=60) as op:
    download = op.download(url, to=to, sha256=sha256)
print(download.resumes)
"""


def slowly(call):
    """The bytes that were asked for, 50 kB at a time, so that there is a midst of it to be killed in."""
    return dripped(ranged(WHOLE)(call), every=0.02, size=50_000)


def downloading(url, target):
    environment = {**os.environ, "NO_PROXY": "*", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", DOWNLOAD, url, target, SHA256]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def kill_beyond(process, part, size_bytes):
    """Kill it once its part has so many bytes; it is no news if it has ended by then."""
    while process.poll() is None:
        try:
            if part.stat().st_size >= size_bytes:
                process.send_signal(signal.SIGKILL)
                break
        except FileNotFoundError:
            pass
        try:
            process.wait(0.005)
        except subprocess.TimeoutExpired:
            continue
    process.communicate()
    return process.returncode


def test_a_download_that_is_killed_time_and_again_ends_whole(tmp_path):
    """Each process goes on where the last one was killed; the target shows the whole or what it was before."""
    target, offsets = tmp_path / "rows.bin", random.Random(20260301)
    target.write_bytes(b"yesterday's")
    with ScriptedServer() as server:
        server.script(then_always=slowly)
        for _ in range(KILLS):
            process = downloading(f"{server.url}rows", target)
            part = next(iter(tmp_path.glob(".*.part")), None) or tmp_path / _part_name("rows.bin")
            held = part.stat().st_size if part.exists() else 0
            killed = kill_beyond(process, part, held + offsets.randrange(1, 120_000))
            assert killed == -signal.SIGKILL
            assert target.read_bytes() == b"yesterday's"
        out, _ = downloading(f"{server.url}rows", target).communicate(timeout=60)

        begins = [int(call.headers.get("Range", "bytes=0-")[6:-1]) for call in server.calls]

    assert target.read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["rows.bin"]
    assert out == "1\n"
    assert begins == sorted(begins)
    assert begins[-1] > 0


def _part_name(name):
    return f".{name}.{hashlib.sha256(name.encode()).hexdigest()[:8]}.part"


@pytest.fixture
def begun(server, clock, tmp_path):
    """An operation with a record that ran out of time in mid-download."""
    store = MemoryStore()
    server.script(accepted(), done(result_url="/rows"), lambda call: dripped(WHOLE, every=10, size=100_000))
    with (
        pytest.raises(DeadlineExceeded),
        operation("export", deadline=100, clock=clock, key="nightly", store=store) as op,
    ):
        op.run("POST", f"{server.url}jobs", to=tmp_path / "rows.bin")
    return store


def test_an_operation_with_a_record_goes_on_with_its_download(begun, server, clock, tmp_path):
    """The next visit asks for the rest alone, of the same job, and its digest is of all of it."""
    held = (tmp_path / _part_name("rows.bin")).stat().st_size
    assert held > 0
    assert not (tmp_path / "rows.bin").exists()
    server.script(ranged(WHOLE))

    with operation("export", deadline=100, clock=clock, key="nightly", store=begun) as op:
        download = op.run("POST", f"{server.url}jobs", to=tmp_path / "rows.bin")

    server.assert_done()
    assert (tmp_path / "rows.bin").read_bytes() == BODY
    assert download.resumes == 1
    assert server.calls[-1].headers["Range"] == f"bytes={held}-"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.bin"]


def test_an_operation_without_a_record_leaves_nothing(server, clock, tmp_path):
    """Nobody would come to tidy up."""
    server.script(lambda call: dripped(WHOLE, every=10, size=100_000))
    with pytest.raises(DeadlineExceeded), operation("export", deadline=100, clock=clock) as op:
        op.download(f"{server.url}rows", to=tmp_path / "rows.bin")

    assert list(tmp_path.iterdir()) == []
