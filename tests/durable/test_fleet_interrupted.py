"""A fleet in a real process, really interrupted: it leaves at once, and another process goes on with every job."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from durable.fleet_victim import INTERRUPTED
from trihop import SQLStore
from trihop._clock import SystemClock

clock = SystemClock()
TESTS = Path(__file__).resolve().parents[1]


class Api(BaseHTTPRequestHandler):
    """Jobs that run for as long as `over` is not set; counts what it made."""

    protocol_version = "HTTP/1.1"
    made: Counter
    enough: int
    reached: threading.Event
    over: threading.Event
    lock: threading.Lock

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def answer(self, content):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        key = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["key"]
        with self.lock:
            self.made[key] += 1
            if self.made.total() >= self.enough:
                self.reached.set()
        self.answer({"id": key})

    def do_GET(self):
        _, what, key = self.path.split("/")
        if what == "files":
            self.answer(key.encode())
        elif self.over.is_set():
            self.answer({"state": "done", "file": f"/files/{key}"})
        else:
            self.answer({"state": "running"})


@pytest.fixture
def api():
    """The class of the server, with its `url`, for one test."""
    names = {"made": Counter(), "reached": threading.Event(), "over": threading.Event(), "lock": threading.Lock()}
    handler = type("_Api", (Api,), names)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        handler.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield handler
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("number", "enough", "started"),
    [(100, 20, False), (500, 250, True), (100, 100, True)],
    ids=["while they are started", "in the middle of the submits", "when all run"],
)
def test_an_interrupted_fleet_leaves_and_is_gone_on_with(api, tmp_path, number, enough, started):
    """Within two seconds; none of its jobs is lost, and none submitted twice."""
    api.enough = enough
    store = f"sqlite:///{tmp_path}/operations.db"
    (tmp_path / "out").mkdir()
    given = {"url": api.url, "store": store, "folder": str(tmp_path / "out"), "jobs": number, "first": 1.0}
    first = start(given)
    try:
        if started:
            assert first.stdout.readline() == "started\n"
        assert api.reached.wait(60)
        first.send_signal(signal.SIGINT)
        began_s = clock.monotonic()
        said, _ = first.communicate(timeout=30)
        took_s = clock.monotonic() - began_s
    finally:
        first.kill()
        first.wait()
    records = SQLStore(store)
    left = [stored for stored in records.list(limit=number + 1) if not stored.ended]
    held = [stored.holder for stored in left if stored.holder is not None]
    records.close()

    assert (first.returncode, said.splitlines()[-1]) == (INTERRUPTED, "interrupted")
    assert held == []
    assert len(left) == number if started else enough <= len(left) <= number

    api.over.set()
    second = start({**given, "first": 0.01})
    said, _ = second.communicate(timeout=120)
    assert (second.returncode, said.splitlines()) == (0, ["started", str(number)])
    assert api.made == Counter(f"job-{job}" for job in range(number))
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {
        str(job): f"job-{job}" for job in range(number)
    }
    assert took_s < 2.0


def start(given):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "durable.fleet_victim", json.dumps(given)],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
