"""Each misbehaviour, as a plain client sees it."""

import socket
import ssl

import pytest
import requests

from trihop import Reply
from trihop._clock import SystemClock
from trihop.testing import (
    ScriptedServer,
    VirtualClock,
    _outgoing,
    chunked,
    close_delimited,
    deaf,
    delayed,
    dripped,
    reset,
    short,
    silent,
)

GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
HELLO = Reply(200, content=b"hello", headers={"Content-Type": "text/plain", "Date": "today"})
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: today\r\nContent-Length: 5\r\n\r\n"


@pytest.fixture(params=[False, True], ids=["http", "https"])
def any_server(request):
    with ScriptedServer(tls=request.param) as server:
        yield server


@pytest.fixture
def any_client(any_server):
    with socket.create_connection(any_server._address, timeout=10) as client:
        if any_server.ca_file is None:
            yield client
        else:
            context = ssl.create_default_context(cafile=any_server.ca_file)
            with context.wrap_socket(client, server_hostname="127.0.0.1") as secure:
                yield secure


@pytest.fixture
def client(server):
    with socket.create_connection(server._address, timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield client


def test_an_honest_reply_in_bytes(server, client):
    """Head and body come as they are, in one go; the other tests differ from this."""
    server.script(HELLO)
    client.sendall(GET)

    assert read(client, len(HEAD) + 5) == HEAD + b"hello"


def test_delayed_waits_before_the_first_byte(server, client):
    """Not a byte comes before the delay is over, then all of it."""
    server.script(delayed(0.15, HELLO))
    client.sendall(GET)

    client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(10)
    assert read(client, len(HEAD) + 5) == HEAD + b"hello"


def test_a_delay_ends_when_the_server_is_closed():
    """close() does not wait for a delay to pass."""
    began = SystemClock().monotonic()
    with ScriptedServer() as server, socket.create_connection(server._address) as client:
        server.script(delayed(60, 200))
        client.sendall(GET)
        while not server.calls:
            assert SystemClock().monotonic() < began + 10

    assert SystemClock().monotonic() < began + 10


@pytest.mark.parametrize(
    ("part", "dripping"),
    [("status", b"HTTP/1.1 200 OK\r\n"), ("headers", HEAD.partition(b"\r\n")[2]), ("body", b"hello")],
)
def test_dripped_pauses_before_each_drop_of_one_part(part, dripping):
    """The drops of the part take their time, counted on the virtual clock; the bytes are those of the honest reply."""
    clock = VirtualClock()
    with ScriptedServer(clock=clock) as server, socket.create_connection(server._address, timeout=10) as client:
        server.script(dripped(HELLO, every=2, size=2, part=part))
        client.sendall(GET)

        assert read(client, len(HEAD) + 5) == HEAD + b"hello"

    assert clock.monotonic() == 2 * -(-len(dripping) // 2)


def test_a_drip_is_seen_drop_by_drop(server, client):
    """In real time a client gets one byte of the body at a time."""
    server.script(dripped(HELLO, every=0.03))
    client.sendall(GET)
    read(client, len(HEAD))

    assert [client.recv(64) for _ in range(5)] == [b"h", b"e", b"l", b"l", b"o"]


def test_chunked_has_no_length(server, client):
    """The body comes in chunks of the size asked for, and the last is empty."""
    server.script(chunked(HELLO, 2))
    client.sendall(GET)
    head = HEAD.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")
    body = b"2\r\nhe\r\n2\r\nll\r\n1\r\no\r\n0\r\n\r\n"

    assert read(client, len(head) + len(body)) == head + body


def test_close_delimited_ends_with_the_connection(any_server):
    """There is no length, the body is whole, and the next request needs a new connection."""
    any_server.script(close_delimited("hello"), 200)

    with requests.Session() as session:
        first, second = (session.get(any_server.url, verify=any_server.ca_file) for _ in range(2))

    assert (first.text, {"Content-Length", "Transfer-Encoding"} & set(first.headers)) == ("hello", set())
    assert (second.status_code, [call.connection for call in any_server.calls]) == (200, [1, 2])


@pytest.mark.parametrize("sent", [0, 2])
def test_short_promises_more_than_it_sends(any_server, any_client, sent):
    """The length is that of the whole body, the bytes are fewer, then the connection is closed."""
    any_server.script(short(HELLO, sent))
    any_client.sendall(GET)

    assert read(any_client, 1000) == HEAD + b"hello"[:sent]


def test_short_without_a_reply_closes_before_a_byte(any_server, any_client):
    """The client has sent its request and gets an end of file."""
    any_server.script(short())
    any_client.sendall(GET)

    assert read(any_client, 1) == b""


def test_short_in_chunks_lacks_the_last_chunk(any_server, any_client):
    """A chunked body is cut in the bytes that are on the wire."""
    any_server.script(short(chunked(HELLO, 2), 9))
    any_client.sendall(GET)

    assert read(any_client, 1000).partition(b"\r\n\r\n")[2] == b"2\r\nhe\r\n2\r"


def test_reset_before_a_byte(server, client):
    """The client's first read fails with a reset."""
    server.script(reset())
    client.sendall(GET)

    with pytest.raises(ConnectionResetError):
        client.recv(1)


@pytest.mark.parametrize("sent", [0, 3])
def test_reset_after_the_headers_or_in_the_body(server, client, sent):
    """The headers come, and so many bytes; reading on fails with a reset."""
    server.script(reset(HELLO, sent))
    client.sendall(GET)

    assert read(client, len(HEAD) + sent) == HEAD + b"hello"[:sent]
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_session_meets_a_reset_as_a_connection_error(any_server):
    """With TLS as well, a reset before the answer is a ConnectionError of requests."""
    any_server.script(reset())

    with requests.Session() as session, pytest.raises(requests.ConnectionError):
        session.get(any_server.url, verify=any_server.ca_file)


def test_silent_never_answers(server, client):
    """Not a byte comes, and the connection stays."""
    server.script(silent())
    client.sendall(GET)

    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(1)


def test_silent_in_the_body(server, client):
    """The head and so many bytes come, then nothing."""
    server.script(silent(HELLO, 2))
    client.sendall(GET)
    assert read(client, len(HEAD) + 2) == HEAD + b"he"

    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(1)


def test_a_client_that_waits_for_ever_is_reported(monkeypatch):
    """When nobody gives up on a silent reply, close() says on which request."""
    monkeypatch.setattr(_outgoing, "_PATIENCE_S", 0.05)
    server = ScriptedServer()
    server.script(silent())
    with socket.create_connection(server._address, timeout=10) as client:
        client.sendall(GET)
        assert client.recv(1) == b""

    with pytest.raises(AssertionError, match=r"GET / is left unanswered, and nobody gave up in 0\.05 s"):
        server.close()


def test_deaf_lets_an_upload_get_stuck(server, client):
    """The head is noted, the body is not read, and a large one cannot be sent."""
    server.script(deaf())
    client.settimeout(0.2)

    with pytest.raises(TimeoutError):
        client.sendall(b"PUT /file HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n" + bytes(20_000_000))

    assert [(call.path, call.body) for call in server.calls] == [("/file", b"")]


def test_misbehaviours_can_be_put_together(server, client):
    """A delay around a drip around a short chunked body is all of these."""
    server.script(delayed(0.01, dripped(short(chunked(HELLO, 2), 7), every=0.001)))
    client.sendall(GET)
    head = HEAD.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")

    assert read(client, 1000) == head + b"2\r\nhe\r\n"


def test_a_function_may_choose_the_misbehaviour(server, client):
    """What a function of the call returns may misbehave, and a socket function may be delayed."""
    server.script(lambda call: short(HELLO, 1), delayed(0.01, lambda connection, call: connection.sendall(b"odd")))
    client.sendall(GET)
    assert read(client, 1000) == HEAD + b"h"

    with socket.create_connection(server._address, timeout=10) as another:
        another.sendall(GET)
        assert read(another, 3) == b"odd"


@pytest.mark.parametrize("cut", [short, reset, silent])
def test_a_reply_cut_after_its_end_is_reported(cut):
    """A cut that would leave nothing out is a fault of the script."""
    server = ScriptedServer()
    server.script(cut(HELLO, 5))
    with requests.Session() as session:
        assert session.get(server.url).status_code == 599

    with pytest.raises(AssertionError, match="the body has no byte after these 5"):
        server.close()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: dripped(HELLO, part="tail"), "part="),
        (lambda: dripped(HELLO, size=0), "size"),
        (lambda: chunked(HELLO, 0), "size"),
        (lambda: reset(sent=3), "no meaning"),
    ],
)
def test_a_misbehaviour_that_makes_no_sense_is_refused(make, told):
    """Options that say nothing raise ValueError where the test wrote them."""
    with pytest.raises(ValueError, match=told):
        make()


@pytest.mark.parametrize("shape", [dripped, chunked, close_delimited, short, reset, silent])
def test_only_a_delay_goes_around_a_function_on_the_socket(shape):
    """What such a function writes has no parts to shape."""
    with pytest.raises(TypeError, match="got <function"):
        shape(lambda connection, call: None)


def test_a_misbehaviour_tells_what_it_is():
    """Messages about replies left show them as they were written."""
    shown = [delayed(2, 503), dripped("x", part="headers"), short({"a": 1}, 3), reset(), silent(), deaf()]

    assert [repr(reply) for reply in shown] == [
        "delayed(2, 503)",
        "dripped('x', part='headers')",
        "short({'a': 1}, 3)",
        "reset()",
        "silent()",
        "deaf()",
    ]


def read(client, size):
    """So many bytes, or fewer where the connection ends."""
    received = b""
    while len(received) < size and (data := client.recv(size - len(received))):
        received += data
    return received
