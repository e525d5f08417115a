"""The demo's job server: an API behind a bearer token, and on a second port the files behind signed links."""

from __future__ import annotations

import json
import secrets
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from trihop._clock import Clock, SystemClock
from trihop.demo._jobs import Answer, DemoJob, error, rows, submitted
from trihop.demo._links import refusal, signed

_JOBS = "/jobs/query"
_MOST_BODY = 64_000
_MOST_READ = 1_000_000  # a client that is still sending would not see the answer; beyond this it need not
_CHUNKS = 16
_DRIP_S = 0.04  # long enough that the download is seen on a time axis of some seconds


class DemoServer:
    """Two listeners on free ports of 127.0.0.1, served by threads while the block is open.

    Attributes:
        api: Where jobs are submitted, under `/jobs/query`; wants `Authorization: Bearer <token>`.
        files: Where results lie; answers 403 without a valid signature, and 400 to an Authorization header.
        token: The bearer token, new for each server.
        jobs: What was submitted, by id.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.token = secrets.token_urlsafe(24)
        self.secret = secrets.token_bytes(32)
        self.jobs: dict[str, DemoJob] = {}
        self.lock = threading.Lock()
        self._listeners = [_Listener(self, handler) for handler in (_Api, _Files)]
        self.api, self.files = (listener.url for listener in self._listeners)

    def __enter__(self) -> DemoServer:
        for listener in self._listeners:
            threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()

    def now_s(self) -> int:
        """Seconds since the epoch."""
        return self.clock.time_ns() // 10**9

    def link(self, job: DemoJob) -> str:
        """A fresh link to a job's result."""
        return signed(self.files, f"/results/{job.id}.csv", self.secret, now_s=self.now_s())

    def described(self) -> dict[str, str]:
        """What a client must know."""
        return {"api": self.api, "files": self.files, "token": self.token}


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, demo: DemoServer, handler: type[_Handler]) -> None:
        self.demo = demo
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client that hung up is nobody's business
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True
    timeout = 30

    @property
    def demo(self) -> DemoServer:
        return self.server.demo

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the demo's terminal shows the client."""

    def send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Request-Id", secrets.token_hex(8))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Api(_Handler):
    def do_POST(self) -> None:
        request = self._request()
        if isinstance(request, Answer):
            return self._answer(request)
        if urlsplit(self.path).path != _JOBS:
            return self._answer(error(404, "NOT_FOUND", "jobs are submitted to /jobs/query"))
        made = submitted(f"750{secrets.token_hex(7)}", request)
        if isinstance(made, DemoJob):
            with self.demo.lock:
                self.demo.jobs[made.id] = made
            made = made.describe("")
        return self._answer(made)

    def do_GET(self) -> None:
        with self.demo.lock:
            job = self._job()
            answer = job if isinstance(job, Answer) else job.poll(self.demo.link(job))
        self._answer(answer)

    def do_PATCH(self) -> None:
        request = self._request()
        with self.demo.lock:
            job = self._job()
            if isinstance(job, DemoJob):
                job.aborted = job.aborted or request == {"state": "Aborted"}
                aborted = job.describe("")
                job = aborted if job.aborted else error(400, "INVALIDJOBSTATE", "a job can be set to Aborted only")
        self._answer(job)

    def _job(self) -> DemoJob | Answer:
        if refused := self._refusal():
            return refused
        job = self.demo.jobs.get(urlsplit(self.path).path.removeprefix(f"{_JOBS}/"))
        return error(404, "NOT_FOUND", "there is no such job") if job is None else job

    def _refusal(self) -> Answer | None:
        given = self.headers.get("Authorization", "")
        if secrets.compare_digest(given.encode(), f"Bearer {self.demo.token}".encode()):
            return None
        return error(401, "INVALID_SESSION_ID", "Session expired or invalid")

    def _request(self) -> Any:
        """The JSON that came, which is read in any case: what is left unread would be taken for the next request."""
        length = self.headers.get("Content-Length", "")
        size = int(length) if length.isdecimal() else _MOST_READ + 1
        body = self.rfile.read(size) if size <= _MOST_READ else b""
        self.close_connection = self.close_connection or size > _MOST_READ
        if size > _MOST_BODY:
            return error(413, "REQUEST_LIMIT_EXCEEDED", "a job is described in 64 kB at most, of a length told before")
        if refused := self._refusal():
            return refused
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return error(400, "INVALIDJOB", "the body is no JSON")

    def _answer(self, answer: Answer) -> None:
        headers = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
        if answer.status == 401:
            headers["WWW-Authenticate"] = 'Bearer error="invalid_token"'
        self.send(answer.status, "application/json", json.dumps(answer.body).encode(), headers)


class _Files(_Handler):
    def do_GET(self) -> None:
        if "Authorization" in self.headers:
            return self._refuse(400, "InvalidArgument", "Only one way of signing in is allowed")
        if why := refusal(self.path, self.demo.secret, now_s=self.demo.now_s()):
            return self._refuse(403, "AccessDenied", why)
        body = rows()
        self.send_response(200)
        self.send_header("Content-Type", "text/csv")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        size = len(body) // _CHUNKS + 1
        for start in range(0, len(body), size):
            self.wfile.write(body[start : start + size])
            self.wfile.flush()
            self.demo.clock.sleep(_DRIP_S)
        return None

    def _refuse(self, status: int, code: str, why: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>{why}</Message></Error>"
        self.send(status, "application/xml", text.encode())
