"""Polls that a fleet sends without waiting for their answers: they tell what polls tell that a thread waits for."""

import gzip
import re
import socket
import struct
import threading

import pytest

from tests.wire.sockets import Server, session, tls, tls_files, trusted  # noqa: F401
from trihop import Call, Fleet, Pacing, Provider, ReadJob, ReadState
from trihop._clock import SystemClock
from trihop._fleet.job import FleetJob
from trihop._wire.flight import Flight

clock = SystemClock()

QUICK = Provider(
    "quick",
    submit=ReadJob(id="id", status_url=None),
    status="/jobs/{id}",
    poll=ReadState("state", pending={"running"}, succeeded={"done"}, failed={"failed"}, data="data"),
    pacing=Pacing(first=0.01, cap=0.01),
)
RUNNING = b'{"state": "running"}'
DONE = b'{"state": "done", "data": 7}'


def sized(body, *, status=b"200 OK", headers=b""):
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


def chunked(*parts, trailers=b"", headers=b""):
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\n%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (headers, pieces, trailers)


class Api:
    """One job: its submit is answered, then each poll with the next of the answers, then it is done.

    An answer is bytes, or a function of the peer that sends them; `False` from it ends the connection.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.paths = []
        self.lock = threading.Lock()

    def __call__(self, peer):
        while head := peer.head():
            method, path, _ = head.split(b" ", 2)
            size = re.search(rb"(?i)content-length: (\d+)", head)
            body = b"" if size is None else peer.rest()
            while size is not None and len(body) < int(size[1]):
                body += peer.sock.recv(65536)
            with self.lock:
                self.paths.append(path.decode())
                if method == b"POST":
                    answer = sized(b'{"id": "1"}', status=b"201 Created")
                else:
                    answer = self.answers.pop(0) if self.answers else sized(DONE)
            if callable(answer):
                if answer(peer) is False:
                    return
            else:
                peer.send(answer)


def dripping(data, *, every=0.001):
    return lambda peer: peer.drip(data, every=every)


def in_parts(*parts, pause=0.03):
    def send(peer):
        for part in parts:
            peer.send(part)
            peer.server.over.wait(pause)

    return send


def then_hang_up(data=b""):
    def send(peer):
        peer.send(data)
        return False

    return send


def then_reset(data=b""):
    def send(peer):
        peer.send(data)
        peer.server.over.wait(0.03)
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.detach() if False else peer.sock.close()
        return False

    return send


def stall(peer):
    peer.stall()


@pytest.fixture
def landed(monkeypatch):
    """How many polls went out without a thread that waits."""
    flights, land = [], Flight.land

    def noting(flight):
        flights.append(flight)
        return land(flight)

    monkeypatch.setattr(Flight, "land", noting)
    return flights


BIG = b'{"state": "running", "x": "' + b"x" * 3_000_000 + b'"}'

ANSWERS = {
    "byte by byte": dripping(sized(RUNNING)),
    "head and body apart": in_parts(sized(RUNNING)[: -len(RUNNING)], RUNNING),
    "chunked": chunked(RUNNING[:5], RUNNING[5:]),
    "chunked byte by byte": dripping(chunked(RUNNING[:5], RUNNING[5:])),
    "split in the last chunk": in_parts(chunked(RUNNING)[:-3], chunked(RUNNING)[-3:]),
    "trailers": in_parts(chunked(RUNNING, trailers=b"A: b\r\nC: d\r\n")),
    "trailers apart": in_parts(chunked(RUNNING), b""),
    "chunk with an extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14;a=b\r\n" + RUNNING + b"\r\n0;c\r\n\r\n",
    "chunk like the last one": in_parts(*[
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n18\r\n{"state": "running"    \r\n}'[:-3],
        b"\r\n}\r\n0\r\n\r\n"[:3] + b"\r\n0\r\n\r\n"]),
    "chunk of noughts": in_parts(
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1c\r\n{"state": "running", "n": 0\r\n\r\n', b"1\r\n}\r\n0\r\n\r\n"),
    "bad chunk": in_parts(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n" + RUNNING),
    "until close": then_hang_up(b"HTTP/1.1 200 OK\r\n\r\n" + RUNNING),
    "HTTP/1.0": then_hang_up(b"HTTP/1.0 200 OK\r\n\r\n" + RUNNING),
    "HTTP/1.0 sized": then_hang_up(b"HTTP/1.0 200 OK\r\nContent-Length: 20\r\n\r\n" + RUNNING),
    "line feeds only": b"HTTP/1.1 200 OK\nContent-Length: 20\n\n" + RUNNING,
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "204 with a length": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 20\r\n\r\n",
    "100": b"HTTP/1.1 100 Continue\r\n\r\n" + sized(RUNNING),
    "100 apart": in_parts(b"HTTP/1.1 100 Continue\r\n\r\n", sized(RUNNING)),
    "103": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + sized(RUNNING),
    "103 apart": in_parts(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", sized(RUNNING)),
    "gzip": sized(gzip.compress(RUNNING), headers=b"Content-Encoding: gzip\r\n"),
    "bad gzip": sized(RUNNING, headers=b"Content-Encoding: gzip\r\n"),
    "gzip chunked": chunked(gzip.compress(RUNNING), headers=b"Content-Encoding: gzip\r\n"),
    "3 MB": sized(BIG),
    "3 MB chunked": chunked(*[BIG[at: at + 10000] for at in range(0, len(BIG), 10000)]),
    "close said": then_hang_up(sized(RUNNING, headers=b"Connection: close\r\n")),
    "close said and not done": sized(RUNNING, headers=b"Connection: close\r\n"),
    "garbage": in_parts(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "garbage and gone": then_hang_up(b"\x15\x03\x01\x00\x02\x02\x46"),
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Length: 21\r\n\r\n" + RUNNING,
    "two equal lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Length: 20\r\n\r\n" + RUNNING,
    "folded length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 20\r\n\r\n" + RUNNING,
    "no number": then_hang_up(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n" + RUNNING),
    "negative": then_hang_up(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + RUNNING),
    "signed": b"HTTP/1.1 200 OK\r\nContent-Length: +20\r\n\r\n" + RUNNING,
    "hangs up": then_hang_up(),
    "hangs up in the head": then_hang_up(sized(RUNNING)[:20]),
    "hangs up in the body": then_hang_up(sized(RUNNING)[:-5]),
    "hangs up in the chunks": then_hang_up(chunked(RUNNING)[:-8]),
    "reset": then_reset(),
    "reset in the head": then_reset(sized(RUNNING)[:20]),
    "reset in the body": then_reset(sized(RUNNING)[:-5]),
    "pipelined": sized(RUNNING) * 2,
    "pipelined later": in_parts(sized(RUNNING), sized(RUNNING)),
    "cookie": sized(RUNNING, headers=b"Set-Cookie: a=b\r\n"),
    "307": sized(b"", status=b"307 Temporary Redirect", headers=b"Location: /elsewhere/1?a=%2f\r\n"),
    "bad 307": sized(b"", status=b"307 Temporary Redirect", headers=b"Location: http://[\r\n"),
    "302": sized(b"", status=b"302 Found", headers=b"Location: /elsewhere/1\r\n"),
    "401": sized(b"", status=b"401 Unauthorized"),
    "403": sized(b"", status=b"403 Forbidden"),
    "404": sized(b"", status=b"404 Not Found"),
    "410": sized(b"", status=b"410 Gone"),
    "429": sized(b"", status=b"429 Too Many Requests", headers=b"Retry-After: 0.1\r\n"),
    "429 unsaid": sized(b"", status=b"429 Too Many Requests"),
    "503": sized(b"", status=b"503 Unavailable", headers=b"Retry-After: 0\r\n"),
    "500": sized(b"oh", status=b"500 Error"),
    "rationed": sized(RUNNING, headers=b"X-RateLimit-Remaining: 1\r\nX-RateLimit-Reset: 1\r\n"),
    "101 headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"Content-Length: 20\r\n\r\n" + RUNNING,
    "failed": sized(b'{"state": "failed"}'),
    "no json": sized(b"<html>"),
}

_OF_ITS_OWN = re.compile(r"time|duration|\.delay|wait|_id$|\.id$|port|url|attempts$|spent|late|elapsed|bytes_s")


def told(spans):
    """Names, attributes and events of the spans, but for ids, times and ports."""

    def kept(attributes):
        return {
            name: re.sub(r"\d+\.\d+ ?s|:\d{4,5}\b|[0-9a-f]{12,}|\"[a-z_]+_s\": [\d.e-]+", "_", str(value))
            for name, value in (attributes or {}).items()
            if not re.search(r"_time|duration|wait|operation\.id|server\.port|elapsed|deadline|overrun|lateness", name)
        }

    return [
        (span.name, span.status.status_code, re.sub(r"[\d.]+|\[.*\]", "_", span.status.description or ""),
         kept(span.attributes), [(e.name, kept(e.attributes)) for e in span.events])
        for span in spans
    ]


def run(api, session, spans, *, verify=None, tls=None, deadline=20, **options):
    """The outcome of the one job, and what its spans tell."""
    spans.clear()
    session.cookies.clear()
    with Server(api, tls=tls) as server:
        began_s = clock.monotonic()
        with Fleet(session=session, provider=QUICK, workers=1, **options) as fleet:
            fleet.start("export", Call("POST", f"{server.url}/jobs", json={}), deadline=deadline)
            (outcome,) = fleet.outcomes()
        took_s = clock.monotonic() - began_s
    error = re.sub(r"\[.*\]|[\d.]{3,}|:\d+", "", f"{type(outcome.error).__name__}: {outcome.error}")
    cause = getattr(outcome.error, "cause", None)
    return (error, type(cause), dict(session.cookies), [*api.paths]), told(spans.all), took_s


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_means_what_it_means_to_a_thread_that_waits(name, session, spans, landed, monkeypatch):  # noqa: F811
    """Whatever comes and however it comes: the outcome and all that the spans tell are the same."""
    got = run(Api(sized(RUNNING), ANSWERS[name]), session, spans)
    assert landed
    session.close()
    monkeypatch.setattr(FleetJob, "depart", lambda *_, **__: None)
    waited = run(Api(sized(RUNNING), ANSWERS[name]), session, spans)
    assert got[:2] == waited[:2]
    assert got[2] < waited[2] + 0.5, (got[2], waited[2])
    print(name, got[0][0], f"{got[2]:.2f} {waited[2]:.2f}", len(landed))
