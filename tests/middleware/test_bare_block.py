"""What the block alone does for the code inside it: the deadline, its errors, the ways out."""

from __future__ import annotations

import io
import itertools
import socket
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from trihop import DeadlineExceeded, Reply, operation
from trihop._clock import SystemClock
from trihop._middleware.evidence import Evidence
from trihop._telemetry import tracing as _tracing
from trihop.testing import ReceivedCall, ScriptedServer, SpanLog, VirtualClock, accepted, dripped, running, silent

ENDLESS = "x" * 400
monotonic = SystemClock().monotonic


def drip_for_ever(connection: socket.socket, call: ReceivedCall) -> None:
    """Headers, then a chunk of one byte every 50 ms, without an end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.settimeout(0.05)
    for _ in range(400):
        connection.sendall(b"1\r\nx\r\n")
        try:
            if not connection.recv(1):
                return
        except TimeoutError:
            pass


def whole(session: requests.Session, url: str) -> object:
    return session.get(url, timeout=30).content


def in_pieces(session: requests.Session, url: str) -> object:
    with session.get(url, timeout=30, stream=True) as response:
        return [*response.iter_content(1024)]


def line_by_line(session: requests.Session, url: str) -> object:
    with session.get(url, stream=True) as response:
        return [*response.iter_lines()]


def raw_stream(session: requests.Session, url: str) -> object:
    with session.get(url, stream=True) as response:
        return [*response.raw.stream(1)]


def raw_read(session: requests.Session, url: str) -> object:
    with session.get(url, stream=True) as response:
        return response.raw.read()


def later(session: requests.Session, url: str) -> object:
    """Only the reader is kept."""
    read = session.get(url, stream=True).raw.read
    return [*iter(lambda: read(10), b"")]


def stubborn(session: requests.Session, url: str) -> object:
    """What many have: whatever requests raises, try again."""
    while True:
        try:
            return session.get(url).content
        except requests.RequestException:
            continue


READERS = (whole, in_pieces, line_by_line, raw_stream, raw_read, later, stubborn)
ENDLESS_REPLIES: dict[str, Any] = {
    "chunks": drip_for_ever,
    "a length": dripped(ENDLESS, every=0.05),
    "headers": dripped(ENDLESS, every=0.05, part="headers"),
    "nothing": silent(),
}


@pytest.mark.parametrize("reply", ENDLESS_REPLIES)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_drip_without_an_end_is_cut_at_the_deadline(
    session: requests.Session, read: Callable[..., object], reply: str
):
    """However the body is read, and whatever comes so slowly, the block is over when its deadline strikes."""
    with ScriptedServer() as server:
        server.script(ENDLESS_REPLIES[reply])

        with (
            pytest.raises(DeadlineExceeded) as raised,
            operation("export", deadline=0.3, session=session),
        ):
            began_s = monotonic()
            read(session, server.url)

        assert monotonic() - began_s < 0.8
        assert raised.value.phase == ("body" if reply in ("chunks", "a length") else "headers")
        # The session is as good as before.
        server.script("afterwards")
        assert session.get(server.url).text == "afterwards"


@pytest.mark.parametrize(
    "retry",
    [
        Retry(5, status_forcelist=[503], respect_retry_after_header=True),
        Retry(5, status_forcelist=[503], backoff_factor=100, respect_retry_after_header=False),
    ],
    ids=["Retry-After", "backoff"],
)
def test_a_mounted_retry_does_not_sleep_past_the_deadline(session: requests.Session, retry: Retry):
    """A pause of urllib3's that cannot fit is not begun, and the error says what it would have been."""
    session.mount("http://", HTTPAdapter(max_retries=retry))
    with ScriptedServer() as server:
        server.script(503, then_always=Reply(503, headers={"Retry-After": "3600"}))
        began_s = monotonic()

        with (
            pytest.raises(DeadlineExceeded, match="a retry mounted on the session would wait") as raised,
            operation("export", deadline=2, session=session),
        ):
            session.get(server.url)

        assert monotonic() - began_s < 1.5
        assert (raised.value.phase, raised.value.asked) == ("wait", 3600 if retry.respect_retry_after_header else 120)


class Wrapping(HTTPAdapter):
    """As people write them: whatever goes wrong is an error of their own."""

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        try:
            return super().send(*args, **kwargs)
        except Exception:
            raise requests.ConnectionError("no luck") from None


def test_an_adapter_that_makes_errors_of_its_own_does_not_hide_the_deadline(session: requests.Session, spans: SpanLog):
    """Whatever it makes of what it caught, the caller learns that the deadline struck."""
    session.mount("http://", Wrapping())
    with ScriptedServer() as server:
        server.script(silent())
        with pytest.raises(DeadlineExceeded) as raised, operation("export", deadline=0.2, session=session):
            session.get(server.url)

    assert (raised.value.phase, raised.value.__cause__) == ("headers", None)
    assert spans.named("GET").attributes["error.type"] == "deadline"


def test_an_error_of_an_adapters_own_stays_what_it_is(session: requests.Session, server: ScriptedServer, clock):
    """One that is raised while an earlier deadline is being dealt with is no deadline."""
    session.mount("http://", Wrapping())
    with pytest.raises(requests.ConnectionError, match="no luck"):
        try:
            with operation("export", deadline=10, session=session, clock=clock):
                clock.advance(11)
                session.get(server.url)
        except DeadlineExceeded:
            with operation("tidy up", deadline=10, session=session, clock=clock):
                session.delete("http://127.0.0.1:1/")


@pytest.mark.parametrize("body", ["raw", "pieces"])
def test_an_upload_of_what_is_being_downloaded_ends_with_the_deadline(
    session: requests.Session, spans: SpanLog, body: str
):
    """A body read within a body: urllib3 would tell of a connection that was lost."""
    with ScriptedServer() as server:
        server.script(dripped(ENDLESS, every=0.05), "unanswered")
        with pytest.raises(DeadlineExceeded), operation("copy", deadline=0.3, session=session):
            source = session.get(server.url, stream=True)
            session.put(server.url, data=source.raw if body == "raw" else source.iter_content(10))

    assert [spans.named(name).attributes["error.type"] for name in ("GET", "PUT")] == ["deadline", "deadline"]


def test_a_stream_that_a_hook_began_is_bounded_as_well(session: requests.Session):
    """Read after the request in which it was begun."""
    begun: list[requests.Response] = []

    def begin(response: requests.Response, **_: object) -> None:
        if not begun:
            begun.append(session.get(response.url, stream=True))

    with ScriptedServer() as server:
        server.script("x", dripped(ENDLESS, every=0.05))
        with pytest.raises(DeadlineExceeded), operation("export", deadline=0.3, session=session):
            session.get(server.url, hooks={"response": begin})
            assert begun[0].content


def test_the_next_request_after_the_deadline_is_not_sent(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock
):
    """A loop that slept too long, by whatever means, is told so before anything goes out."""
    server.script(accepted("/jobs/J-7001"), {"state": "InProgress"}, {"state": "InProgress"})

    with (
        pytest.raises(DeadlineExceeded) as raised,
        operation("export", deadline=60, session=session, clock=clock),
    ):
        location = session.post(f"{server.url}jobs").headers["Location"]
        while session.get(server.url.rstrip("/") + location).json()["state"] == "InProgress":
            clock.advance(40)

    assert len(server.calls) == 3
    error = raised.value
    assert (error.phase, error.hop, error.job_id, error.state, error.polls) == (
        "between",
        "poll",
        "J-7001",
        "InProgress",
        2,
    )
    assert "last state 'InProgress' after 2 polls" in str(error)


def test_a_broad_handler_does_not_outlast_the_deadline(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock
):
    """Whoever catches everything gets the same error from every further request."""
    server.script("x")
    caught = []

    with operation("export", deadline=10, session=session, clock=clock):
        for _ in range(3):
            try:
                session.get(server.url)
            except Exception as error:
                caught.append(type(error).__name__)
            clock.advance(20)

    assert caught == ["DeadlineExceeded", "DeadlineExceeded"]
    assert len(server.calls) == 1


def test_no_deadline_is_none(session: requests.Session, server: ScriptedServer, clock: VirtualClock):
    """With `deadline=None` the block traces and cuts nothing."""
    server.script("x", "y")

    with operation("export", deadline=None, session=session, clock=clock):
        session.get(server.url)
        clock.advance(10**7)
        assert session.get(server.url).text == "y"


def test_a_body_that_outlives_its_block_is_not_cut(session: requests.Session, clock: VirtualClock):
    """What the block handed out is the caller's: it is read to its end, whatever time it is."""
    with ScriptedServer(clock=clock) as server:
        server.script("abc" * 1000)
        with operation("export", deadline=10, session=session, clock=clock):
            response = session.get(server.url, stream=True)
        clock.advance(100)

        assert response.text == "abc" * 1000


# ---- what the caller's own code raises


def polled_twice(session: requests.Session, server: ScriptedServer) -> requests.Response:
    server.script(accepted("/jobs/J-7001"), running(), running(), 500)
    status = server.url.rstrip("/") + session.post(f"{server.url}jobs").headers["Location"]
    for _ in range(2):
        response = session.get(status)
    return response


def test_an_error_of_the_callers_own_leaves_as_it_was(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """The very object, unchained and untouched but for a note; the root says where it happened and what it was."""
    mine = ValueError("no such column")

    with (
        pytest.raises(ValueError, match="no such column") as raised,
        operation("export", deadline=60, session=session, clock=clock) as op,
    ):
        polled_twice(session, server)
        raise mine

    assert raised.value is mine
    assert (mine.__cause__, mine.__context__) == (None, None)
    if sys.version_info >= (3, 11):
        assert mine.__notes__ == [f"trihop: operation 'export', trace {op.trace_id}"]
    root, poll = spans.named("export"), spans.named("poll export")
    told = {
        name: root.attributes[name] for name in ("trihop.operation.result", "trihop.operation.ended_in", "error.type")
    }
    assert told == {"trihop.operation.result": "error", "trihop.operation.ended_in": "poll", "error.type": "ValueError"}
    assert root.status.description == "ValueError: no such column"
    assert poll.status.status_code.name == "UNSET"


def test_an_http_error_marks_the_hop_that_it_came_of(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """`raise_for_status()` on a poll: the poll's span has failed, and so has the root."""
    with (
        pytest.raises(requests.HTTPError) as raised,
        operation("export", deadline=60, session=session, clock=clock) as op,
    ):
        last = polled_twice(session, server)
        session.get(last.url).raise_for_status()

    if sys.version_info >= (3, 11):
        assert op.trace_id in raised.value.__notes__[0]
    for name in ("export", "poll export"):
        assert spans.named(name).attributes["error.type"] == "requests.exceptions.HTTPError"
        assert spans.named(name).status.status_code.name == "ERROR"
    assert spans.named("export").attributes["trihop.operation.ended_in"] == "poll"


def test_a_note_is_made_once_for_a_trace(session: requests.Session, clock: VirtualClock, spans: SpanLog):
    """Through two blocks of one trace the note is there once, with the inner operation's name."""
    with (
        pytest.raises(KeyError) as raised,
        operation("outer", deadline=60, session=session, clock=clock),
        operation("inner", deadline=60, session=session, clock=clock) as inner,
    ):
        raise KeyError("x")

    if sys.version_info >= (3, 11):
        assert raised.value.__notes__ == [f"trihop: operation 'inner', trace {inner.trace_id}"]


def test_an_error_that_takes_no_note_leaves_as_it_was(session: requests.Session, clock: VirtualClock, spans: SpanLog):
    """An exception that is a frozen dataclass cannot be written on; the operation ends all the same."""

    @dataclass(frozen=True)
    class Missing(Exception):
        column: str

    original = requests.Session.send
    with pytest.raises(Missing) as raised, operation("export", deadline=60, session=session, clock=clock):
        raise Missing("owner")

    assert raised.value == Missing("owner")
    assert spans.named("export").attributes["error.type"].endswith("Missing")
    assert requests.Session.send is original


@pytest.mark.parametrize("leaves", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_ways_out_that_are_no_errors(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog, leaves: type[BaseException]
):
    """An interrupt, an exit or a closed generator cancels the operation; all is told, and nothing is covered on."""
    with pytest.raises(leaves) as raised, operation("export", deadline=60, session=session, clock=clock):
        polled_twice(session, server)
        raise leaves

    assert not hasattr(raised.value, "__notes__")
    root = spans.named("export")
    assert root.attributes["trihop.operation.result"] == "cancellation"
    assert root.status.status_code.name == "UNSET"
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 2
    spans.clear()
    assert session.get(server.url).status_code == 500
    assert spans.all == []


def test_an_interrupt_within_a_request_leaves_nothing_behind(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """Ctrl-C while a hook runs: the request is told, and the session works on."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    server.script("x", "y")
    with pytest.raises(KeyboardInterrupt), operation("export", deadline=60, session=session, clock=clock):
        session.get(server.url, hooks={"response": interrupt})

    assert [span.name for span in spans.all] == ["GET", "export"]
    assert session.get(server.url).text == "y"


def test_a_return_out_of_the_block_ends_it(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """As a function leaves that has its answer."""

    def fetch() -> str:
        with operation("export", deadline=60, session=session, clock=clock):
            return session.get(server.url).text

    server.script("x")
    assert fetch() == "x"
    assert spans.named("export").attributes["trihop.operation.result"] == "success"


# ---- what streams


def test_a_streamed_download_lasts_until_its_last_byte(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog
):
    """Not until its headers: the span covers the body, and says how much came."""
    server.script(accepted("/jobs/J-7001"), running(), running("done", href="/files/f-1"), dripped("x" * 10, every=3))

    with operation("export", deadline=600, session=session, clock=clock):
        status = server.url + "jobs/J-7001"
        session.post(f"{server.url}jobs")
        session.get(status)
        href = session.get(status).json()["href"]
        with session.get(server.url.rstrip("/") + href, stream=True) as response:
            assert b"".join(response.iter_content(4)) == b"x" * 10

    download = spans.named("download export")
    assert download.attributes["trihop.download.size"] == 10
    assert (download.end_time - download.start_time) / 1e9 == pytest.approx(30, abs=4)


def test_a_streamed_response_that_nobody_reads_frees_its_connection(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock
):
    """Dropped, it is closed at once, as without us: nothing of ours keeps it."""

    server.script(then_always="x" * 100_000)
    with operation("export", deadline=600, session=session, clock=clock):
        response = session.get(server.url, stream=True)
        dropped = weakref.ref(response.raw)
        del response

        assert dropped() is None


def test_a_reader_stays_what_it_is(session: requests.Session, server: ScriptedServer, clock: VirtualClock):
    """`raw` is an instance of its own class, under that class's name, and can be read like any file."""

    server.script("first\nsecond\n")
    with operation("export", deadline=600, session=session, clock=clock):
        raw = session.get(server.url, stream=True).raw
        assert isinstance(raw, urllib3.HTTPResponse)
        assert type(raw).__name__ == "HTTPResponse"
        raw.auto_close = False
        assert [*io.TextIOWrapper(raw)] == ["first\n", "second\n"]


def test_a_long_block_keeps_little(session: requests.Session, clock: VirtualClock, spans: SpanLog):
    """Of ten thousand different requests each is a span, and no more than 256 wait for their part to become clear."""

    class Answers(HTTPAdapter):
        def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
            response = requests.Response()
            response.status_code, response.url, response.request = 200, str(request.url), request
            response._content = b'{"id": "%d"}' % next(numbers)
            return response

    numbers = itertools.count(100_000)
    session.mount("http://", Answers())
    with operation("export", deadline=600, session=session, clock=clock):
        for number in range(1000):
            session.get(f"http://api.example/items/{number}")
        waiting = 1000 - len(spans.all)

    assert waiting == 256
    assert len(spans.all) == 1001


def test_a_fault_in_the_telling_reaches_nobody(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, spans: SpanLog, monkeypatch
):
    """Whatever goes wrong in the naming of the parts: the block ends as it would, and so does its root span."""
    monkeypatch.setattr(Evidence, "role", lambda *_: 1 / 0)
    monkeypatch.setattr(_tracing, "_faults_told", set())
    server.script("x")
    with operation("export", deadline=60, session=session, clock=clock):
        assert session.get(server.url).text == "x"

    assert spans.named("export").attributes["trihop.operation.result"] == "success"
