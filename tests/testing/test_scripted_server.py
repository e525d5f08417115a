"""The server as an honest one: what it sends, what it notes, what it complains about."""

import re
import socket
import sys
import threading

import pytest
import requests

from trihop import Reply
from trihop.testing import ScriptedServer, VirtualClock, accepted, delayed, done, failed, ranged, running
from trihop.testing import _server as server_module


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


@pytest.mark.parametrize(
    ("reply", "status", "content_type", "content"),
    [
        (503, 503, None, b""),
        ({"a": [1]}, 200, "application/json", b'{"a": [1]}'),
        ([], 200, "application/json", b"[]"),
        ("caf\u00e9", 200, "text/plain; charset=utf-8", "caf\u00e9".encode()),
        (b"\x00\x01", 200, "application/octet-stream", b"\x00\x01"),
        (Reply(201, {"id": "1"}, headers={"X-Id": "1"}), 201, "application/json", b'{"id": "1"}'),
        (Reply(200, content=b"a,b\n", headers={"Content-Type": "text/csv"}), 200, "text/csv", b"a,b\n"),
        (Reply(200, content=b"{not json"), 200, None, b"{not json"),
        (lambda call: {"asked": call.path}, 200, "application/json", b'{"asked": "/x"}'),
        (lambda call: 410, 410, None, b""),
    ],
)
def test_each_kind_of_reply_is_sent(server, session, reply, status, content_type, content):
    """A status, a dict, a list, a str, bytes, a Reply and a function of the call become what they say."""
    server.script(reply)

    got = session.get(server.url + "x")

    assert (got.status_code, got.headers.get("Content-Type"), got.content) == (status, content_type, content)
    assert got.headers["Content-Length"] == str(len(content))


def test_replies_come_in_the_order_of_requests_and_then_one_for_ever(server, session):
    """The script does not look at paths; after it `then_always` answers."""
    server.script(201, 202)
    server.script(203, then_always=404)

    assert [session.get(f"{server.url}{n}").status_code for n in range(5)] == [201, 202, 203, 404, 404]


def test_a_route_goes_before_the_script(server, session):
    """Requests named by on() get its replies, with any query, and leave the script alone."""
    server.script(200, 200)
    server.on("GET", "/jobs/1", {"n": 1})
    server.on("get", "jobs/1", {"n": 2}, then_always={"n": 3})
    server.on("GET", "/jobs/1?full=1", {"full": True})

    bodies = [session.get(server.url + "jobs/1" + query).json() for query in ("", "?x=1", "?full=1", "")]

    assert bodies == [{"n": 1}, {"n": 2}, {"full": True}, {"n": 3}]
    assert session.post(server.url + "jobs/1").status_code == 200
    assert session.get(server.url + "jobs").status_code == 200


def test_a_request_is_noted_as_it_came(server, session):
    """Path and query stay encoded, headers keep every value, the body is whole, the connection is known."""
    server.script(200, then_always=200)
    target = "jobs%2F1/%c3%a9?sig=a%2Bb%3d&sig=c"

    session.post(server.url + target, json={"a": 1}, headers={"X-Key": "k"})
    session.get(server.url, headers={"Accept": "text/csv"})
    first, second = server.calls

    assert (first.method, first.path) == ("POST", "/jobs%2F1/%C3%A9?sig=a%2Bb%3D&sig=c")  # urllib3 writes capitals
    assert (first.json(), first.text, first.query) == ({"a": 1}, '{"a": 1}', {"sig": "c"})
    assert (first.headers["x-KEY"], "x-key" in first.headers, first.headers.get("nothing")) == ("k", True, None)
    assert (first.connection, second.connection) == (1, 1)
    assert repr(first) == "ReceivedCall('POST', '/jobs%2F1/%C3%A9?sig=a%2Bb%3D&sig=c', 8 bytes)"


def test_the_bytes_of_a_target_and_every_header_value_are_kept(server):
    """Nothing between the spaces of the request line is touched, and a header sent twice has two values."""
    server.script(200)

    raw(server, b"GET /%7e/../a//b?x=\xff HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\n\r\n")
    (call,) = server.calls

    assert call.path == "/%7e/../a//b?x=\xff"
    assert (call.headers.all("X-A"), call.headers["X-A"]) == (["1", "2"], "1, 2")
    assert (sorted(call.headers), len(call.headers)) == (["Connection", "X-A"], 2)


def test_a_chunked_upload_is_put_together(server, session):
    """A body sent in chunks is noted without its chunking."""
    server.script(200)

    session.put(server.url, data=iter([b"ab", b"c" * 70000, b"d"]))

    assert server.calls[0].body == b"ab" + b"c" * 70000 + b"d"


def test_an_upload_that_breaks_off_is_noted_as_far_as_it_came(server):
    """A client that goes away in its body leaves a call with the bytes that arrived."""
    server.script(200)

    raw(server, b"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc", half_close=True)

    assert [call.body for call in server.calls] == [b"abc"]


def test_a_reply_can_name_the_server(server, session):
    """`{url}` becomes the server's URL, in headers and bodies, of functions too."""
    server.script(accepted("{url}jobs/1"), lambda call: done(result_url="{url}files/1"))

    assert session.get(server.url).headers["Location"] == server.url + "jobs/1"
    assert session.get(server.url).json() == {"status": "succeeded", "result_url": server.url + "files/1"}


def test_the_ready_made_replies(server, session):
    """accepted, running, done and failed are the replies of a plain asynchronous API."""
    server.script(accepted(hint_s=40), running(hint_s=0.5, percent=10), done("complete", result=[1]), failed("no"))

    first, second, third, fourth = (session.get(server.url) for _ in range(4))

    assert (first.status_code, first.headers["Retry-After"], first.headers["Location"]) == (
        202,
        "40",
        server.url + "jobs/1",
    )
    assert (second.json(), second.headers["Retry-After"]) == ({"status": "running", "percent": 10}, "0.5")
    assert (third.json(), "Retry-After" in third.headers) == ({"status": "complete", "result": [1]}, False)
    assert fourth.json() == {"status": "failed", "error": "no"}


def test_no_body_follows_a_head_request_or_a_204(server, session):
    """HEAD gets the length and no byte, 204 neither; the connection goes on."""
    server.script("hello", 204, "bye")

    head, empty, last = session.head(server.url), session.get(server.url), session.get(server.url)

    assert (head.headers["Content-Length"], head.content) == ("5", b"")
    assert ("Content-Length" in empty.headers, empty.content, last.text) == (False, b"", "bye")
    assert {call.connection for call in server.calls} == {1}


def test_a_connection_ends_where_either_side_says_so(server, session):
    """`Connection: close` on the request or the reply makes the next request come over a new connection."""
    server.script(Reply(200, headers={"Connection": "close"}), then_always=200)

    session.get(server.url)
    session.get(server.url, headers={"Connection": "close"})
    session.get(server.url)

    assert [call.connection for call in server.calls] == [1, 2, 3]


@pytest.mark.parametrize(
    ("headers", "status", "content", "content_range"),
    [
        ({}, 200, b"0123456789", None),
        ({"Range": "bytes=4-6"}, 206, b"456", "bytes 4-6/10"),
        ({"Range": "bytes=7-"}, 206, b"789", "bytes 7-9/10"),
        ({"Range": "bytes=-2"}, 206, b"89", "bytes 8-9/10"),
        ({"Range": "bytes=5-99"}, 206, b"56789", "bytes 5-9/10"),
        ({"Range": "bytes=10-"}, 416, b"", "bytes */10"),
        ({"Range": "bytes=-"}, 200, b"0123456789", None),
        ({"Range": "bytes=4-", "If-Range": '"v1"'}, 206, b"456789", "bytes 4-9/10"),
        ({"Range": "bytes=4-", "If-Range": '"v2"'}, 200, b"0123456789", None),
    ],
)
def test_a_ranged_reply_obeys_range_and_if_range(server, session, headers, status, content, content_range):
    """The range asked for comes as 206, the whole as 200 when the validator is another, 416 past the end."""
    server.script(ranged(Reply(200, content=b"0123456789", headers={"ETag": '"v1"'})))

    got = session.get(server.url, headers=headers)

    assert (got.status_code, got.content, got.headers.get("Content-Range")) == (status, content, content_range)


def test_an_unexpected_request_is_told_what_is_left(session):
    """The answer is 599 and says why each script did not match; so does close()."""
    server = ScriptedServer()
    server.script(200)
    server.on("GET", "/jobs/1", running(), 503)
    server.on("POST", "/jobs", 202)
    assert session.get(server.url).status_code == 200
    assert session.post(server.url + "jobs").status_code == 202

    answer = session.delete(server.url + "jobs/1?now=1")
    with pytest.raises(AssertionError) as raised:
        server.close()

    told = (
        "unexpected request: DELETE /jobs/1?now=1\n"
        "    the script, for any request: all used up (1), and no then_always\n"
        '    on GET /jobs/1: another method; 2 left: 200 {"status": "running"}, 503\n'
        "    on POST /jobs: another path; all used up (1), and no then_always"
    )
    assert (answer.status_code, answer.text) == (599, told)
    assert str(raised.value) == f"1 things went wrong at {server.url}\n- {told}"


def test_a_route_that_is_used_up_does_not_fall_through_to_the_script(session):
    """Requests named by on() are never answered by the script."""
    server = ScriptedServer()
    server.script(200)
    server.on("GET", "/a", 201)

    assert [session.get(server.url + "a").status_code for _ in range(2)] == [201, 599]
    with pytest.raises(
        AssertionError, match=r"the script is not asked for what \.on\(\) names\n    on GET /a: all used"
    ):
        server.close()


def test_closing_twice_complains_once(session):
    """The second close() does nothing, so a test may expect the first one's complaint."""
    server = ScriptedServer()
    session.get(server.url)

    with pytest.raises(AssertionError, match="unexpected request: GET /"):
        server.close()
    server.close()


def test_the_tests_own_error_goes_before_the_servers(session):
    """Out of a with block comes the error that was raised in it, with the complaint as a note where Python can."""

    def fails():
        with ScriptedServer() as server:
            session.get(server.url)
            raise KeyError("own")

    with pytest.raises(KeyError) as raised:
        fails()

    assert raised.value.args == ("own",)
    if sys.version_info >= (3, 11):
        assert "unexpected request: GET /" in raised.value.__notes__[0]


def test_replies_not_asked_for_are_reported_on_demand(server, session):
    """`left` and assert_done() tell what is left; a then_always is never left."""
    server.script(200, 503, then_always=404)
    server.on("GET", "/a", {"a": 1})
    session.get(server.url)

    assert server.left == [503, {"a": 1}]
    with pytest.raises(
        AssertionError, match=r"2 scripted replies were never asked for: 503, \{'a': 1\}; requests were: GET /$"
    ):
        server.assert_done()

    session.get(server.url)
    session.get(server.url + "a")
    server.assert_done()


def test_a_fault_in_a_function_of_the_script_is_reported(session):
    """An exception in a function of the call is answered 599, in one on the socket by a close; close() names both."""
    server = ScriptedServer()

    def wrong_key(call):
        assert call.headers["X-Key"] == "right", "the key is wrong"

    def tears(connection, call):
        raise FileNotFoundError("no such fixture")

    server.script(wrong_key, tears)
    assert session.get(server.url, headers={"X-Key": "left"}).status_code == 599
    with pytest.raises(requests.ConnectionError):
        session.get(server.url)

    with pytest.raises(AssertionError) as raised:
        server.close()
    assert re.search(r"the reply to GET /, wrong_key\(\), failed: .*the key is wrong", str(raised.value), re.DOTALL)
    assert re.search(r"the reply to GET /, tears\(\), failed: .*no such fixture", str(raised.value), re.DOTALL)


def test_a_function_that_returns_no_reply_is_reported(session):
    """What a function of the call returns must be a reply."""
    server = ScriptedServer()
    server.script(lambda call: None)

    assert "a scripted reply is a Reply, a status" in session.get(server.url).text
    with pytest.raises(AssertionError, match="got None"):
        server.close()


def test_what_is_not_http_is_reported():
    """A client that does not speak HTTP/1 is a fault of the test, not silence."""
    server = ScriptedServer()

    raw(server, b"PRI * HTTP/2.0\r\n\r\n")

    with pytest.raises(AssertionError, match="not an HTTP/1 request"):
        server.close()


@pytest.mark.parametrize("reply", [None, True, 99, 600, 2.0, {1, 2}, lambda: 200, lambda a, b, c: 200, object()])
def test_what_cannot_be_sent_is_refused_at_once(server, reply):
    """script(), on() and then_always= refuse what is no reply, where the test wrote it."""
    for script in (
        lambda: server.script(reply),
        lambda: server.on("GET", "/", reply),
        lambda: delayed(1, reply),
    ):
        with pytest.raises(TypeError, match="a scripted reply is a Reply, a status"):
            script()


def test_a_function_on_the_socket_writes_what_it_likes(server, session):
    """Its bytes are the answer, and the connection goes on unless it closes it."""

    def twice_the_cookie(connection: socket.socket, call):
        connection.sendall(b"HTTP/1.1 200 Fine\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok")

    def until_the_end(connection: socket.socket, call):
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + call.path.encode())
        connection.close()

    server.script(twice_the_cookie, until_the_end)

    first, second = session.get(server.url), session.get(server.url + "x")

    assert (first.reason, first.text, first.cookies.get_dict()) == ("Fine", "ok", {"a": "1", "b": "2"})
    assert (second.text, [call.connection for call in server.calls]) == ("/x", [1, 1])


def test_time_is_the_clocks_own(session):
    """Date headers, the times of calls and delays are those of the virtual clock."""
    clock = VirtualClock()
    with ScriptedServer(clock=clock) as server:
        server.script(200, delayed(3600, 200))

        dates = [session.get(server.url).headers["Date"] for _ in range(2)]

    assert dates == ["Sun, 01 Mar 2026 12:00:00 GMT"] * 2
    assert ([call.at for call in server.calls], clock.monotonic(), clock.sleeps) == ([0.0, 0.0], 3600.0, [])


def test_tls_is_verified_with_the_servers_own_authority():
    """`ca_file` verifies it, nothing else does, and the file is gone after close()."""
    with ScriptedServer(tls=True) as server:
        server.script(then_always={"secure": True})

        assert server.url.startswith("https://127.0.0.1:")
        assert requests.get(server.url, verify=server.ca_file).json() == {"secure": True}
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(server.url)

    with pytest.raises(FileNotFoundError):
        open(server.ca_file).close()


def test_tls_without_trustme_says_what_to_install(monkeypatch):
    """Without trustme the server names it."""
    monkeypatch.setitem(sys.modules, "trustme", None)

    with pytest.raises(RuntimeError, match="pip install trustme"):
        ScriptedServer(tls=True)


def test_several_servers_are_several_origins(server, session):
    """Each server has its own port, script and log."""
    with ScriptedServer() as other:
        other.script("the file")
        server.script(Reply(302, headers={"Location": other.url + "file"}))

        assert session.get(server.url).text == "the file"

        assert ([call.path for call in server.calls], [call.path for call in other.calls]) == (["/"], ["/file"])


def test_many_clients_at_once_each_get_one_reply(server):
    """Replies of one script are shared out between threads without loss or doubling."""
    server.script(*({"n": n} for n in range(40)))
    got = []

    def ask():
        with requests.Session() as session:
            got.extend(session.get(server.url).json()["n"] for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (sorted(got), len(server.calls)) == (list(range(40)), 40)


def test_close_ends_idle_connections_and_every_thread():
    """After close() no thread of the server lives and its port refuses."""
    server = ScriptedServer()
    server.script(then_always=200)
    with requests.Session() as session:
        session.get(server.url)
        with socket.create_connection(server._address):
            server.close()

        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("ScriptedServer")] == []
        with pytest.raises(requests.ConnectionError):
            session.get(server.url)


def test_a_function_that_does_not_end_is_reported(monkeypatch):
    """close() does not wait for ever for a function on the socket, and says so."""
    monkeypatch.setattr(server_module, "_JOIN_S", 0.05)
    server = ScriptedServer()
    over = threading.Event()
    started = threading.Event()

    def stubborn(connection, call):
        started.set()
        over.wait(10)

    server.script(stubborn)
    with socket.create_connection(server._address) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert started.wait(10)
        with pytest.raises(AssertionError, match="ScriptedServer connection 1 does not end"):
            server.close()
    over.set()


def test_it_shows_where_it_is_and_what_it_has(server):
    """The repr tells URL, calls and replies left."""
    server.script(200, then_always={})

    assert repr(server) == f"ScriptedServer({server.url!r}, 0 calls, 1 replies left)"


def raw(server, request, *, half_close=False):
    """Send bytes, read until the server closes."""
    with socket.create_connection(server._address, timeout=10) as client:
        client.sendall(request)
        if half_close:
            client.shutdown(socket.SHUT_WR)
        received = b""
        while data := client.recv(65536):
            received += data
        return received
