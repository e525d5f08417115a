"""Polls that a fleet sends without waiting for their answers: they tell what polls tell that a thread waits for."""

import gc
import os
import re
import selectors
import socket
import struct
import threading
import time
from dataclasses import replace

import pytest
import sockets
from sockets import OVERSHOOT_S, Server

from trihop import Call, DeadlineExceeded, Fleet, MemoryStore, Pacing, Provider, ReadJob, ReadState
from trihop._clock import SystemClock
from trihop._fleet.job import FleetJob
from trihop._fleet.post import Post
from trihop._wire.flight import Flight

session = sockets.session
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
    """Jobs by the names they are submitted with: each poll of one is answered with its next answer, then it is done.

    An answer is bytes, or a function of the peer that sends them; `False` from it ends the connection.
    """

    def __init__(self, *answers, **jobs):
        self.answers = {"1": list(answers), **{name: list(given) for name, given in jobs.items()}}
        self.heads = []
        self.lock = threading.Lock()

    def __call__(self, peer):
        while head := peer.head():
            method, path, _ = head.split(b" ", 2)
            size = re.search(rb"(?i)content-length: (\d+)", head)
            body = b"" if size is None else peer.rest()
            while size is not None and len(body) < int(size[1]):
                body += peer.sock.recv(65536)
            with self.lock:
                self.heads.append(head)
                if method == b"POST":
                    answer = sized(body, status=b"201 Created")
                else:
                    left = self.answers[path.decode().rpartition("/")[2]]
                    answer = left.pop(0) if left else sized(DONE)
            if callable(answer):
                if answer(peer) is False:
                    return
            else:
                peer.send(answer)

    @property
    def asked(self):
        """What was asked, and whether the trace was told of."""
        return [(head.split()[1].decode(), b"traceparent: " in head) for head in self.heads]


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
        peer.sock.close()
        return False

    return send


@pytest.fixture
def landed(monkeypatch):
    """How many polls went out without a thread that waits."""
    flights, land = [], Flight.land

    def noting(flight):
        flights.append(flight.url)
        return land(flight)

    monkeypatch.setattr(Flight, "land", noting)
    return flights


ANSWERS = {
    "byte by byte": dripping(sized(RUNNING)),
    "chunks": in_parts(chunked(RUNNING[:5], RUNNING[5:])[:-3], chunked(RUNNING)[-3:]),
    "204": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "103": in_parts(b"HTTP/1.1 103 Early Hints\r\n\r\n", sized(RUNNING)),
    "close said": sized(RUNNING, headers=b"Connection: close\r\n"),
    "no HTTP": in_parts(b"SSH-2.0-OpenSSH\r\n"),
    "two lengths": sized(RUNNING, headers=b"Content-Length: 5\r\n"),
    "nothing": then_hang_up(),
    "half a body": then_hang_up(sized(RUNNING)[:-5]),
    "reset": then_reset(sized(RUNNING)[:20]),
    "two answers": sized(RUNNING) * 2,
    "two answers, one later": in_parts(sized(RUNNING), sized(RUNNING)),
    "cookie": sized(RUNNING, headers=b"Set-Cookie: a=b\r\n"),
    "307": sized(b"", status=b"307 Temporary Redirect", headers=b"Location: /elsewhere/1\r\n"),
    "307 to nowhere": sized(b"", status=b"307 Temporary Redirect", headers=b"Location: http://[\r\n"),
    "302": sized(b"", status=b"302 Found", headers=b"Location: /elsewhere/1\r\n"),
    "401": sized(b"", status=b"401 Unauthorized"),
    "404": sized(b"", status=b"404 Not Found"),
    "500": sized(b"oh", status=b"500 Error"),
    "failed": sized(b'{"state": "failed"}'),
    "no JSON": sized(b"<html>"),
}

CONVERSATION = (
    sized(RUNNING),
    sized(b"", status=b"503 Unavailable"),
    then_reset(),
    sized(b"", status=b"429 Too Many Requests", headers=b"Retry-After: 0\r\n"),
    chunked(RUNNING, trailers=b"A: b\r\n"),
    then_hang_up(sized(RUNNING, headers=b"Connection: close\r\n")),
    sized(RUNNING, headers=b"Set-Cookie: a=b\r\n"),
    sized(b"", status=b"307 Temporary Redirect", headers=b"Location: /elsewhere/1\r\n"),
    sized(RUNNING),
    sized(RUNNING),
    then_hang_up(),
    sized(RUNNING),
)


def told(spans):
    """Names, attributes and events of the spans, but for ids, times and ports."""

    def kept(attributes):
        return {
            name: re.sub(r":\d{4,5}\b", "", str(value))
            for name, value in (attributes or {}).items()
            if not re.search(r"_time|duration|wait|overrun|deadline|operation\.id|server\.port", name)
        }

    return [
        (span.name, span.status.status_code, kept(span.attributes), [(e.name, kept(e.attributes)) for e in span.events])
        for span in spans
    ]


def submit(server, name):
    return Call("POST", f"{server.url}/jobs", json={"id": name})


def run(api, session, spans):
    """What the one job came to and what was asked for it, what its spans tell, and in how many seconds."""
    session.cookies.clear()
    session.close()
    spans.clear()
    with Server(api) as server:
        began_s = clock.monotonic()
        with Fleet(session=session, provider=QUICK, workers=1) as fleet:
            fleet.start("export", submit(server, "1"), deadline=60)
            (outcome,) = fleet.outcomes()
        took_s = clock.monotonic() - began_s
        session.close()
    error = outcome.error
    cause = getattr(error, "cause", None)
    came_to = (type(error), type(cause), getattr(error, "status_code", None), dict(session.cookies), api.asked)
    return came_to, told(spans.all), took_s


@pytest.fixture
def waiting(monkeypatch):
    """From when it is called on, no poll flies."""
    return lambda: monkeypatch.setattr(FleetJob, "depart", lambda *_, **__: None)


# ---- parity


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_means_what_it_means_to_a_thread_that_waits(name, session, spans, landed, waiting):
    """Whatever comes, and however: the outcome, all that was asked and all that the spans tell; and no later."""
    flown = run(Api(sized(RUNNING), ANSWERS[name]), session, spans)
    assert len(landed) >= 2
    waiting()
    waited = run(Api(sized(RUNNING), ANSWERS[name]), session, spans)
    assert flown[0] == waited[0]
    assert flown[1] == waited[1]
    assert flown[2] < waited[2] + 1.5


def test_a_conversation_is_told_as_by_a_thread_that_waits(session, spans, landed, waiting):
    """Failures, waits that the server asks for, resends, redirects: outcome, requests and spans are equal."""
    came = []
    for _ in range(2):
        came.append(run(Api(*CONVERSATION), session, spans)[:2])
        assert len(landed) >= 6
        waiting()
    assert came[0] == came[1]
    came_to, spans_told = came[0]
    assert came_to[0] is type(None)
    (poll,) = [attributes for name, _, attributes, _ in spans_told if name == "poll export"]
    assert poll["trihop.poll.errors"] == "2"


def test_who_signed_in_anew_is_asked_once_more(session, spans, landed, waiting):
    """A 401 ends no job whose session has other credentials by then."""

    def refuses(peer):
        session.headers["Authorization"] = "Bearer new"
        peer.send(sized(b"", status=b"401 Unauthorized"))

    came = []
    for _ in range(2):
        session.headers["Authorization"] = "Bearer old"
        api = Api(sized(RUNNING), refuses)
        came.append((*run(api, session, spans)[:2], [b"Bearer new" in head for head in api.heads]))
        assert landed
        waiting()
    assert came[0] == came[1]
    assert came[0][2] == [False, False, False, True]


# ---- who waits for whom


def keeps_asking(api, session, over, *, workers=4):
    """The job `slow`, whose server waits for `over`, and `quick`, which is to be over before."""
    with Server(api) as server, Fleet(session=session, provider=QUICK, workers=workers) as fleet:
        for name in ("slow", "quick"):
            fleet.start("export", submit(server, name), key=name, deadline=60)
        for outcome in fleet.outcomes():
            assert outcome.error is None
            if outcome.key == "quick":
                over.set()
            else:
                assert over.is_set()
    session.close()


def test_an_answer_that_never_ends_keeps_nobody_waiting(session, landed):
    """One thread hears both; the other job is over before."""
    over = threading.Event()

    def drips(peer):
        for byte in b"HTTP/1.1 200 OK\r\nX: ":
            peer.send(bytes([byte]))
        while not over.wait(0.005):
            peer.send(b"x")
        peer.send(b"\r\n" + sized(DONE).partition(b"\r\n")[2])

    api = Api(slow=[sized(RUNNING)] * 3 + [drips], quick=[sized(RUNNING)] * 20)
    keeps_asking(api, session, over, workers=2)


def test_a_redirect_that_is_slow_keeps_nobody_waiting(session, landed):
    """It is followed by a thread that waits, while another one keeps the time."""
    over, late = threading.Event(), []

    def slow(peer):
        late.append(not over.wait(10))
        peer.send(sized(DONE))

    there = sized(b"", status=b"307 Temporary Redirect", headers=b"Location: /elsewhere/slow\r\n")
    keeps_asking(Api(slow=[*[sized(RUNNING)] * 6, there, slow], quick=[sized(RUNNING)] * 40), session, over)
    assert late == [False]


def test_a_large_answer_that_is_slow_keeps_nobody_waiting(session, landed):
    """What is beyond a mebibyte is read by a thread that waits, while another one keeps the time."""
    over, late = threading.Event(), []
    answer = sized(DONE[:-1] + b" " * 2_000_000 + b"}")

    def slow(peer):
        peer.send(answer[:1_500_000])
        late.append(not over.wait(10))
        peer.send(answer[1_500_000:])

    keeps_asking(Api(slow=[*[sized(RUNNING)] * 6, slow], quick=[sized(RUNNING)] * 40), session, over)
    assert late == [False]


def test_a_listener_that_is_slow_keeps_nobody_waiting_for_long(session, landed, monkeypatch):
    """Whoever keeps the time is relieved when its step lasts."""
    monkeypatch.setattr("trihop._fleet.post.LOOK_EVERY_S", 0.1)
    over, late = threading.Event(), []

    def listens(event):
        if event.key == "slow" and event.polls == 6 and not late:
            late.append(not over.wait(10))

    api = Api(slow=[sized(RUNNING)] * 9, quick=[sized(RUNNING)] * 40)
    with Server(api) as server:
        with Fleet(session=session, provider=QUICK, workers=4, on_event=listens) as fleet:
            for name in ("slow", "quick"):
                fleet.start("export", submit(server, name), key=name, deadline=60)
            for outcome in fleet.outcomes():
                assert outcome.error is None
                over.set()
        session.close()
    assert late == [False]


def test_a_deadline_that_strikes_in_flight_strikes_on_time(session, landed):
    """For each job its own, before the answer and in its body."""

    def stalls(part):
        def stall(peer):
            peer.send(part)
            peer.stall()

        return stall

    api = Api(head=[sized(RUNNING), stalls(b"")], body=[sized(RUNNING), stalls(sized(RUNNING)[:-3])])
    with Server(api) as server:
        began_s = clock.monotonic()
        with Fleet(session=session, provider=QUICK, workers=2) as fleet:
            for name in ("head", "body"):
                fleet.start("export", submit(server, name), key=name, deadline=1.0)
            errors = {outcome.key: outcome.error for outcome in fleet.outcomes()}
        took_s = clock.monotonic() - began_s
        session.close()
    assert {key: type(error) for key, error in errors.items()} == dict.fromkeys(errors, DeadlineExceeded)
    assert 1.0 <= took_s < 1.0 + OVERSHOOT_S + 0.3
    assert "before its reply" in str(errors["head"])
    assert "in the body" in str(errors["body"])


def test_the_keeper_is_told_of_what_another_thread_sends(monkeypatch):
    """It rests beyond the time when that has to be given up."""
    monkeypatch.setattr("trihop._fleet.post.LOOK_EVERY_S", 50.0)
    lock = threading.Lock()
    post = Post("fleet", 2, lock, lambda: None)
    one, other = socket.socketpair()

    class Sent:
        sock, is_over = one, False

        def until_s(self, now_s):
            return clock.monotonic() + 5

        def drop(self):
            one.close()

    def keep():
        with lock:
            assert post.keep(clock.monotonic())
            kept.set()
            post.rest(clock.monotonic() + 50, clock.monotonic())

    post.answers.open()
    kept, keeper = threading.Event(), threading.Thread(target=keep)
    keeper.start()
    assert kept.wait(10)
    with lock:  # it has it only while the keeper rests
        assert not post.keep(clock.monotonic())
        post.expect(Sent(), "turn", clock.monotonic())
    keeper.join(20)
    assert not keeper.is_alive()
    assert post.answers.drop() == ["turn"]
    post.answers.close()
    other.close()


# ---- what a fleet takes of the machine


def test_a_fleet_that_waits_does_nothing(session, landed, monkeypatch):
    """Ten jobs that pause for longer than an answer may take cost no processor time."""
    monkeypatch.setattr("trihop._wire.session.DEFAULT_TIMEOUT", (5.0, 0.3))
    patient = replace(QUICK, pacing=Pacing(first=0.02, cap=30, factor=30))
    names = [str(number) for number in range(10)]
    with Server(Api(**{name: [sized(RUNNING)] * 9 for name in names})) as server:
        with (
            pytest.raises(KeyboardInterrupt),
            Fleet(session=session, provider=patient, workers=2, per_origin=2) as fleet,
        ):
            for name in names:
                fleet.start("export", submit(server, name), deadline=60)
            threading.Event().wait(0.6)
            assert landed
            before_s = time.process_time()
            threading.Event().wait(0.9)
            took_s = time.process_time() - before_s
            raise KeyboardInterrupt
        session.close()
    assert took_s < 0.3


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("workers", [1, 8])
def test_a_fleet_leaves_nothing_behind(session, landed, workers):
    """No thread and no file descriptor, when its jobs are over."""
    files, threads = open_files(), set(threading.enumerate())
    names = [str(number) for number in range(12)]
    with Server(Api(**{name: [sized(RUNNING)] * 3 for name in names})) as server:
        with Fleet(session=session, provider=QUICK, workers=workers) as fleet:
            for name in names:
                fleet.start("export", submit(server, name), deadline=60)
        assert not [one for one in set(threading.enumerate()) - threads if one.name.startswith("trihop")]
        session.close()
    assert landed
    assert open_files() <= files


def test_a_fleet_that_is_left_with_polls_in_flight_is_gone_on_with(session, landed):
    """It does not wait for the answers, leaves no socket open, and no job is submitted twice."""
    files, asked = open_files(), threading.Event()
    names = ["one", "two", "three"]

    def stalls(peer):
        asked.set()
        peer.stall()

    store = MemoryStore()
    api = Api(one=[sized(RUNNING), sized(RUNNING), stalls], two=[sized(RUNNING)] * 9, three=[sized(RUNNING)] * 9)
    with Server(api) as server:
        with (
            pytest.raises(KeyboardInterrupt),
            Fleet(session=session, provider=QUICK, workers=1, store=store) as fleet,  # whose thread has sent before
        ):
            for name in names:
                fleet.start("export", submit(server, name), key=name, deadline=60)
            assert asked.wait(20)
            began_s = clock.monotonic()
            raise KeyboardInterrupt
        assert clock.monotonic() - began_s < 0.8
        with Fleet(session=session, provider=QUICK, workers=3, store=store) as fleet:
            for name in names:
                fleet.start("export", submit(server, name), key=name, deadline=60)
            assert {outcome.error for outcome in fleet.outcomes()} == {None}
        session.close()
    assert sum(head.startswith(b"POST") for head in api.heads) == len(names)
    assert open_files() <= files


def test_a_job_is_cancelled_when_its_poll_has_been_answered(session, landed):
    """Not before: the answer may be that it is over."""
    asked, go = threading.Event(), threading.Event()

    def holds(peer):
        asked.set()
        go.wait(10)
        peer.send(sized(RUNNING))

    api = Api(sized(RUNNING), holds, sized(b"", status=b"204 No Content"))
    provider = replace(QUICK, cancel=Call("DELETE", "/jobs/{id}"))
    with Server(api) as server:
        with Fleet(session=session, provider=provider, workers=2) as fleet:
            key = fleet.start("export", submit(server, "1"), deadline=60)
            assert asked.wait(10)
            fleet.cancel(key)
            go.set()
            list(fleet.outcomes())
        session.close()
    assert [head.split()[0] for head in api.heads[:4]] == [b"POST", b"GET", b"GET", b"DELETE"]


# ---- faults of others


def test_a_store_that_fails_ends_its_job_and_no_thread(session, monkeypatch):
    """Also where it is looked into before a poll is sent."""

    class Failing(MemoryStore):
        fails = False

        def get(self, key):
            if self.fails:
                raise RuntimeError("no such table")
            return super().get(key)

    store = Failing()
    monkeypatch.setattr("trihop._fleet.crew._WOKEN_WITHIN_S", 0.05)

    def fails(peer):
        store.fails = True
        peer.send(sized(RUNNING, headers=b"Retry-After: 5\r\n"))

    with Server(Api(sized(RUNNING), fails)) as server:
        with Fleet(session=session, provider=QUICK, workers=1, store=store) as fleet:
            fleet.start("export", submit(server, "1"), key="1", deadline=20)
            ended = [outcome.error for outcome in fleet.outcomes()]
            store.fails = False
        session.close()
    assert [str(error) for error in ended] == ["no such table"]


def test_a_system_without_file_descriptors_is_told_of_where_a_job_is_started(session, monkeypatch):
    """The job is not under way."""

    def refuse():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(selectors, "DefaultSelector", refuse)
    with Fleet(session=session, provider=QUICK) as fleet:
        with pytest.raises(OSError, match="Too many open files"):
            fleet.start("export", Call("POST", "http://127.0.0.1:9/jobs"), deadline=20)
        assert list(fleet.outcomes()) == []
