"""A job server that keeps a list of all it was asked, and kills its client in the midst of a request now and then."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trihop._clock import SystemClock

_CLOCK = SystemClock()
RESULT = bytes(range(256)) * 40
PAUSES_S = (1, 6, 1)
"""What it asks for on each poll but the last; the second is beyond the broker's visibility timeout."""


@dataclass
class Jobs:
    """What was asked, by key, and who is still to be killed."""

    made: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    polled_at: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    fetched: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    answered: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How many polls were answered, to a client that lived to see it."""
    by_token: dict[str, str] = field(default_factory=dict)
    fatal: dict[tuple[str, str], bool] = field(default_factory=dict)
    """(key, event) at which the client is killed, once; the value tells whether it was."""
    url: str = ""
    before_a_kill: Callable[[], None] = lambda: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def kills(self, event: str, key: str, client: str | None) -> bool:
        """Stop the client where it is, look around, and kill it, if it is to die here."""
        with self.lock:
            if self.fatal.get((key, event)) is not False or client is None:
                return False
            self.fatal[key, event] = True
        try:
            os.kill(int(client), signal.SIGSTOP)  # another thread of it may be at the end of an operation
            self.before_a_kill()
            os.kill(int(client), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *args: Any) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):
            self.close_connection = True  # the client was killed, perhaps in the midst of what it sent

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        jobs: Jobs = self.server.jobs
        key = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["key"]
        client = self.headers.get("X-Worker")
        if jobs.kills("asked", key, client):
            return
        token = self.headers["Idempotency-Key"]
        with jobs.lock:
            if token not in jobs.by_token:
                jobs.made[key] += 1
                jobs.by_token[token] = key
        if jobs.kills("made", key, client):
            return
        self._answer(202, json.dumps({"id": key}).encode(), Location=f"/jobs/{key}", Retry_After="1")

    def do_GET(self) -> None:
        jobs: Jobs = self.server.jobs
        _, what, key = self.path.split("/")
        client = self.headers.get("X-Worker")
        if what == "files":
            jobs.fetched[key] += 1
            if not jobs.kills("file", key, client):
                self._answer(200, RESULT)
            return
        jobs.polled_at[key].append(_CLOCK.monotonic())
        if jobs.kills("poll", key, client):
            return
        number = jobs.answered[key]
        jobs.answered[key] += 1
        if number < len(PAUSES_S):
            self._answer(200, b'{"state": "running"}', Retry_After=str(PAUSES_S[number]))
        else:
            self._answer(200, json.dumps({"state": "done", "result_url": f"/files/{key}"}).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving() -> Iterator[Jobs]:
    """A job server on loopback."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        jobs = Jobs(url=f"http://127.0.0.1:{server.server_port}")
        server.jobs = jobs  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield jobs
        finally:
            server.shutdown()
            thread.join()
