"""A job server in its own process, quick enough that the client is what is measured."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

POLLS = 5
RESULT = b"x" * 1000


class JobServer(asyncio.Protocol):
    """POST /jobs makes a job, its fifth poll says it is done, /results/ID has 1 kB; /status is always running.

    POST /endless makes a job that is never done, and says nothing of when to ask.
    """

    ids = itertools.count(1001)
    polled: ClassVar[dict[bytes, int]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            lower = head.lower()
            length = 0
            if b"content-length:" in lower:
                length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            method, target, _ = head.split(b" ", 2)
            self.transport.write(self.answer(method, target))  # type: ignore[attr-defined]

    def answer(self, method: bytes, target: bytes) -> bytes:
        if target == b"/endless":
            return reply(202, {"status": "Running"}, b"Location: /endless/%d\r\n" % next(self.ids))
        if target.startswith(b"/endless/"):
            return reply(200, {"status": "Running"})
        if method == b"POST":
            path = b"/jobs/%d" % next(self.ids)
            return reply(202, {"id": path.decode()[6:], "status": "Running"}, b"Location: " + path + b"\r\n")
        if target.startswith(b"/jobs/"):
            polls = self.polled[target] = self.polled.get(target, 0) + 1
            if polls < POLLS:
                return reply(200, {"status": "Running"})
            del self.polled[target]
            return reply(200, {"status": "Succeeded", "result_url": target.decode().replace("jobs", "results")})
        if target.startswith(b"/results/"):
            return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n" + RESULT
        return reply(200, {"status": "Running"}, b"Retry-After: 0\r\n")


def reply(status: int, body: object, headers: bytes = b"") -> bytes:
    content = json.dumps(body).encode()
    head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (status, len(content))
    return head + headers + b"\r\n" + content


@contextmanager
def running() -> Iterator[str]:
    """The server's URL, for as long as the block lasts."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(JobServer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # ends with the client
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
