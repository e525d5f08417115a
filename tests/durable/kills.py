"""Kills a process where it is told to, lets a second one go on, and looks at what server and trace have of both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trihop._clock import SystemClock

RESULT = bytes(range(256)) * 800
WRITES = 5
"""How often the victim writes its record: intent, admission, a state, the job's end, the ending."""
SERVER = ("post", "made", "answered", "poll:1", "poll:3", "file")
_TESTS = Path(__file__).resolve().parents[1]
_LONGEST_S = 60
_PAUSE = threading.Event()
monotonic = SystemClock().monotonic


@dataclass
class Jobs:
    """A job server that counts, and kills its client at an event."""

    honours_keys: bool
    jobs: dict[str, str] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)
    polls: Counter[str] = field(default_factory=Counter)
    fatal: str | None = None
    victim: int | None = None
    url: str = ""
    answering: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.answering.set()

    def at(self, event: str) -> None:
        """Something happens; the client may not live to see it."""
        if event == self.fatal and self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
            self.fatal = None

    def make(self, key: str, idempotency_key: str | None) -> str:
        """The job of a submit."""
        if self.honours_keys and idempotency_key is not None and idempotency_key in self.jobs:
            return self.jobs[idempotency_key]
        self.made[key] += 1
        job = f"{key}-{self.made[key]}"
        if idempotency_key is not None:
            self.jobs[idempotency_key] = job
        return job


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *args: Any) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, OSError):
            self.close_connection = True  # the client was killed

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        jobs: Jobs = self.server.jobs
        key = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["key"]
        jobs.at("post")
        jobs.answering.wait(_LONGEST_S)
        _PAUSE.wait(0.02)
        job = jobs.make(key, self.headers.get("Idempotency-Key"))
        jobs.at("made")
        _PAUSE.wait(0.02)
        self._answer(202, json.dumps({"id": job}).encode(), Location=f"/jobs/{job}")
        jobs.at("answered")

    def do_GET(self) -> None:
        jobs: Jobs = self.server.jobs
        _, what, job = self.path.split("/")
        if what == "files":
            self.send_response(200)
            self.send_header("Content-Length", str(len(RESULT)))
            self.end_headers()
            for piece in range(4):
                if piece == 2:
                    jobs.at("file")
                self.wfile.write(RESULT[piece * len(RESULT) // 4 : (piece + 1) * len(RESULT) // 4])
                _PAUSE.wait(0.01)
            return
        jobs.polls[job] += 1
        jobs.at(f"poll:{jobs.polls[job]}")
        state = {"state": "running"} if jobs.polls[job] < 5 else {"state": "done", "result_url": f"/files/{job}"}
        self._answer(200, json.dumps(state).encode())


@contextmanager
def serving(*, honours_keys: bool = True) -> Iterator[Jobs]:
    """A job server on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        jobs = Jobs(honours_keys, url=f"http://127.0.0.1:{server.server_port}/")
        server.jobs = jobs  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield jobs
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Pair:
    """What two processes came to, the first of them killed."""

    die: str
    killed: bool
    terminal: bool
    traced: bool
    """Whether the first process lived to reserve the ids of a trace."""
    code: int
    said: str
    made: int
    result: bytes | None
    spans: list[dict[str, Any]]
    first: list[dict[str, Any]]
    record: dict[str, Any]

    @property
    def roots(self) -> list[dict[str, Any]]:
        """Spans of ours without a parent."""
        return [span for span in self.spans if not span["parent"]]

    @property
    def orphans(self) -> list[dict[str, Any]]:
        """Spans whose parent was never exported."""
        there = {span["span_id"] for span in self.spans}
        return [span for span in self.spans if span["parent"] and span["parent"] not in there]


def run_pair(
    jobs: Jobs, folder: Path, key: str, die: str, *, keyed: bool = True, sampler: str = "on", store: str | None = None
) -> Pair:
    """One process that dies as `die` says, and a second one that lives."""
    store = store or f"sqlite:///{folder}/operations.db"
    given = {"url": jobs.url, "key": key, "store": store, "to": str(folder / f"{key}.bin"), "keyed": keyed}
    first_spans, second_spans = folder / f"{key}-1.jsonl", folder / f"{key}-2.jsonl"
    kind, _, where = die.partition(":")
    jobs.fatal = where if kind == "server" else None
    first = _start({**given, "spans": str(first_spans), "sampler": "otlp" if sampler == "otlp" else "on", "die": die})
    jobs.victim = first.pid
    try:
        assert first.stdout is not None
        first.stdout.readline()
        if kind == "time":
            _PAUSE.wait(float(where))
            first.kill()
        code = first.wait(_LONGEST_S)
    finally:
        first.kill()
        first.wait()
        first.stdout.close()
    jobs.victim = None
    from trihop import SQLStore

    shelf = SQLStore(store)
    try:
        stored = shelf.get(key)
        terminal = stored is not None and stored.ended
        traced = stored is not None and stored.record["trace"] is not None
        second = _start({**given, "spans": str(second_spans), "sampler": sampler, "die": "never"})
        said, _ = second.communicate(timeout=_LONGEST_S)
        after = shelf.get(key)
    finally:
        shelf.close()
    result = folder / f"{key}.bin"
    told = spans_of(first_spans)
    return Pair(
        die,
        code == -signal.SIGKILL,
        terminal,
        traced,
        second.returncode,
        said,
        jobs.made[key],
        result.read_bytes() if result.exists() else None,
        told + spans_of(second_spans),
        told,
        {} if after is None else after.record,
    )


def run_both(jobs: Jobs, folder: Path, key: str) -> tuple[list[int], list[str]]:
    """Two processes that enter one key at once; their exit codes, and what they said."""
    given = {"url": jobs.url, "key": key, "store": f"sqlite:///{folder}/operations.db", "keyed": True, "sampler": "on"}
    given |= {"to": str(folder / f"{key}.bin"), "die": "wait"}
    both = [_start({**given, "spans": str(folder / f"{number}.jsonl")}) for number in (1, 2)]
    try:
        for process in both:
            assert process.stdout is not None
            process.stdout.readline()
        jobs.answering.clear()  # whoever works does so for as long as the other is there
        for process in both:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        until_s = monotonic() + _LONGEST_S
        while all(process.poll() is None for process in both) and monotonic() < until_s:
            _PAUSE.wait(0.01)
        jobs.answering.set()
        said = [process.communicate(timeout=_LONGEST_S)[0] for process in both]
        return [process.returncode for process in both], said
    finally:
        jobs.answering.set()
        for process in both:
            process.kill()
            process.wait()


def _start(given: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "durable.victim", json.dumps(given)],
        cwd=_TESTS,
        stdin=subprocess.PIPE if given["die"] == "wait" else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def spans_of(path: Path) -> list[dict[str, Any]]:
    """The spans in a file of OTLP JSON lines, or in that of the foreign tracer."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            told = json.loads(line)
        except ValueError:
            continue  # cut off by the kill
        if "resourceSpans" not in told:
            found.append(told)
            continue
        for resource in told["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                found += [
                    {
                        "name": span["name"],
                        "trace_id": span["traceId"],
                        "span_id": span["spanId"],
                        "parent": span.get("parentSpanId") or None,
                        "start_ns": int(span["startTimeUnixNano"]),
                        "end_ns": int(span["endTimeUnixNano"]),
                    }
                    for span in scope["spans"]
                ]
    return found
