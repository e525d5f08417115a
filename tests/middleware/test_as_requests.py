"""What `requests` promises its users: kept without us, instrumented, and inside an operation."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import pickle
import socket
import threading
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import requests
import requests_mock
import responses
from cachecontrol import CacheControl
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPDigestAuth
from requests_toolbelt import MultipartEncoder, StreamingIterator
from requests_toolbelt.sessions import BaseUrlSession
from urllib3.util import Retry

import trihop
from trihop import Reply, operation
from trihop.testing import ReceivedCall, ScriptedServer, VirtualClock, chunked, short, silent

MODES = ("bare", "instrumented", "inside", "inside, instrumented")


@pytest.fixture(params=MODES, autouse=True)
def mode(request: pytest.FixtureRequest, session: requests.Session, clock: VirtualClock) -> Iterator[str]:
    """Without us, with `instrument()`, inside an operation, and with both."""
    original = requests.Session.send
    with contextlib.ExitStack() as stack:
        if "instrumented" in request.param:
            trihop.instrument()
            stack.callback(trihop.uninstrument)
        if "inside" in request.param:
            stack.enter_context(operation("export", deadline=600, session=session, clock=clock))
        yield request.param
    assert requests.Session.send is original


def seen(call: ReceivedCall) -> dict[str, str]:
    """A request's headers, but for ours."""
    return {name: value for name, value in call.headers.items() if name != "traceparent"}


def redirect(status: int, to: str) -> Reply:
    return Reply(status, headers={"Location": to})


# ---- redirects


def test_redirects_are_followed_and_remembered(session, server):
    server.script(redirect(302, "/b"), redirect(301, "/c"), "here")
    response = session.get(f"{server.url}a")
    assert (response.text, response.url) == ("here", f"{server.url}c")
    assert [(one.status_code, one.url) for one in response.history] == [
        (302, f"{server.url}a"),
        (301, f"{server.url}b"),
    ]
    assert [one.request.url for one in response.history] == [f"{server.url}a", f"{server.url}b"]
    assert response.is_redirect is False


@pytest.mark.parametrize(
    ("status", "method", "body"), [(302, "GET", b""), (303, "GET", b""), (307, "POST", b"x=1"), (308, "POST", b"x=1")]
)
def test_the_method_of_a_redirected_post(session, server, status, method, body):
    server.script(redirect(status, "/b"), "ok")
    session.post(f"{server.url}a", data={"x": 1})
    assert [(call.method, call.body) for call in server.calls] == [("POST", b"x=1"), (method, body)]


def test_redirects_need_not_be_followed(session, server):
    server.script(redirect(302, "/b"))
    response = session.get(f"{server.url}a", allow_redirects=False)
    assert (response.status_code, response.history, response.next.url) == (302, [], f"{server.url}b")


def test_head_follows_no_redirect_by_default(session, server):
    server.script(redirect(302, "/b"))
    assert session.head(f"{server.url}a").status_code == 302


def test_too_many_redirects(session, server):
    server.script(then_always=redirect(302, "/again"))
    session.max_redirects = 3
    with pytest.raises(requests.TooManyRedirects) as raised:
        session.get(server.url)
    assert len(raised.value.response.history) == 3
    assert len(server.calls) == 4


def test_a_redirect_elsewhere_loses_the_authorization(session, server, clock):
    with ScriptedServer(clock=clock) as other:
        server.script(redirect(302, f"{other.url}b"))
        other.script("there")
        session.get(server.url, auth=("me", "secret"))
        assert "Authorization" in server.calls[0].headers
        assert "Authorization" not in other.calls[0].headers


def test_a_redirect_to_nowhere(session, server):
    server.script(redirect(302, "http://127.0.0.1:1/"))
    with pytest.raises(requests.ConnectionError):
        session.get(server.url)


# ---- cookies, auth, hooks


def test_cookies_are_kept_and_sent(session, server):
    server.script(Reply(200, headers={"Set-Cookie": "a=1; Path=/"}), "ok")
    session.get(server.url)
    session.get(server.url)
    assert session.cookies.get_dict() == {"a": "1"}
    assert server.calls[1].headers["Cookie"] == "a=1"


def test_cookies_set_by_a_redirect_go_along(session, server):
    server.script(Reply(302, headers={"Set-Cookie": "a=1", "Location": "/b"}), "ok")
    session.get(server.url)
    assert server.calls[1].headers["Cookie"] == "a=1"


def test_cookies_of_one_request_are_not_kept(session, server):
    server.script("ok", "ok")
    session.get(server.url, cookies={"a": "1"})
    session.get(server.url)
    assert [call.headers.get("Cookie") for call in server.calls] == ["a=1", None]


def test_basic_auth(session, server):
    server.script("ok")
    session.auth = ("me", "pw")
    session.get(server.url)
    assert server.calls[0].headers["Authorization"] == "Basic bWU6cHc="


def test_an_auth_callable_sees_the_request_and_signs_it(session, server):
    class Signed(AuthBase):
        def __call__(self, request):
            request.headers["X-Signed"] = f"{request.method} {request.path_url} {len(request.headers)}"
            return request

    server.script("ok")
    session.get(f"{server.url}a?b=1", auth=Signed())
    assert server.calls[0].headers["X-Signed"] == "GET /a?b=1 4"


def test_digest_auth_asks_again(session, server):
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'}
    server.script(Reply(401, headers=challenge), "in")
    response = session.get(server.url, auth=HTTPDigestAuth("me", "pw"))
    assert (response.text, [one.status_code for one in response.history]) == ("in", [401])
    assert server.calls[1].headers["Authorization"].startswith('Digest username="me"')


def test_netrc(session, server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password pw\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("NO_PROXY", "*")
    session.trust_env = True
    server.script("ok")
    session.get(server.url)
    assert server.calls[0].headers["Authorization"] == "Basic bWU6cHc="


def test_a_hook_gets_the_response_and_what_it_was_sent_with(session, server):
    def note(response, **kwargs):
        got.append((response.text, kwargs["timeout"], kwargs["stream"]))

    got: list[Any] = []
    server.script("ok")
    session.get(server.url, hooks={"response": note}, timeout=(3, 4))
    assert got == [("ok", (3, 4), False)]


def test_a_hook_may_put_another_response_in_place(session, server):
    def replace(response, **_):
        other = requests.Response()
        other.status_code, other._content = 299, b"other"
        return other

    session.hooks["response"].append(replace)
    server.script("ok")
    response = session.get(server.url)
    assert (response.status_code, response.text) == (299, "other")


def test_what_a_hook_raises_reaches_the_caller(session, server):
    def check(response, **_):
        assert response.content == b"gone"
        response.raise_for_status()

    server.script(Reply(404, content=b"gone"))
    with pytest.raises(requests.HTTPError) as raised:
        session.get(server.url, hooks={"response": check})
    assert raised.value.response.status_code == 404


def test_a_hook_may_send_a_request_of_its_own(session, server):
    def sign_in(response, **_):
        if response.status_code == 401:
            session.headers["X-Token"] = session.post(f"{server.url}token", hooks={"response": []}).text
            return session.get(response.request.url, hooks={"response": []})
        return None

    server.script(401, "t-1", "in")
    assert session.get(server.url, hooks={"response": sign_in}).text == "in"
    assert [(call.method, call.headers.get("X-Token")) for call in server.calls] == [
        ("GET", None),
        ("POST", None),
        ("GET", "t-1"),
    ]


# ---- bodies


def test_json_goes_out_as_json(session, server):
    server.script("ok")
    session.post(server.url, json={"a": [1, None]})
    call = server.calls[0]
    assert (call.json(), call.headers["Content-Type"]) == ({"a": [1, None]}, "application/json")


def test_a_form_goes_out_as_a_form(session, server):
    server.script("ok")
    session.post(server.url, data=[("a", "1"), ("a", "ü")])
    call = server.calls[0]
    assert (call.body, call.headers["Content-Type"]) == (b"a=1&a=%C3%BC", "application/x-www-form-urlencoded")


def test_files_go_out_as_multipart(session, server):
    server.script("ok")
    session.post(server.url, files={"f": ("name.txt", io.BytesIO(b"content"), "text/plain")}, data={"a": "1"})
    body = server.calls[0].body
    assert b'name="f"; filename="name.txt"' in body
    assert b"content" in body
    assert b'name="a"' in body


def test_a_generator_goes_out_in_chunks(session, server):
    server.script("ok")
    session.post(server.url, data=(piece for piece in (b"one", b"two")))
    call = server.calls[0]
    assert (call.body, call.headers["Transfer-Encoding"]) == (b"onetwo", "chunked")


def test_a_file_goes_out_with_its_length(session, server, tmp_path: Path):
    (tmp_path / "f").write_bytes(b"z" * 100_000)
    server.script("ok")
    with (tmp_path / "f").open("rb") as body:
        session.put(server.url, data=body)
    call = server.calls[0]
    assert (len(call.body), call.headers["Content-Length"]) == (100_000, "100000")


def test_a_body_is_rewound_for_a_redirect(session, server):
    server.script(redirect(307, "/b"), "ok")
    session.post(server.url, data=io.BytesIO(b"again"))
    assert [call.body for call in server.calls] == [b"again", b"again"]


def test_params_are_merged_and_encoded(session, server):
    server.script("ok")
    session.params = {"k": "v"}
    session.get(f"{server.url}p?x=1", params={"a": ["1", "2"], "b": "ä b"})
    assert server.calls[0].path == "/p?x=1&k=v&a=1&a=2&b=%C3%A4+b"


def test_headers_are_merged_and_none_takes_one_away(session, server):
    server.script("ok")
    session.headers.update({"X-One": "1", "User-Agent": "mine"})
    session.get(server.url, headers={"X-Two": "2", "User-Agent": None})
    fields = seen(server.calls[0])
    assert (fields["X-One"], fields["X-Two"]) == ("1", "2")
    assert "mine" not in fields.values()


# ---- answers


def test_encodings_of_a_text(session, server):
    server.script(
        Reply(200, content="grün".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"}),
        Reply(200, content="grün".encode(), headers={"Content-Type": "application/json"}),
    )
    first, second = session.get(server.url), session.get(server.url)
    assert (first.encoding, first.text, second.encoding, second.apparent_encoding) == (
        "latin-1",
        "grün",
        "utf-8",
        "utf-8",
    )


def test_compressed_content_is_undone(session, server):
    server.script(Reply(200, content=gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"}))
    assert session.get(server.url).content == b"plain"


def test_json_that_is_none(session, server):
    server.script("no json")
    with pytest.raises(requests.exceptions.JSONDecodeError):
        session.get(server.url).json()


def test_links_status_and_elapsed(session, server):
    server.script(Reply(404, headers={"Link": '</b>; rel="next"'}))
    response = session.get(server.url)
    assert (response.links["next"]["url"], response.ok, response.reason) == ("/b", False, "Not Found")
    assert response.elapsed > dt.timedelta(0)
    with pytest.raises(requests.HTTPError, match="404 Client Error"):
        response.raise_for_status()


def test_a_stream_is_read_piece_by_piece(session, server):
    server.script(chunked("a" * 10, 3))
    with session.get(server.url, stream=True) as response:
        assert response._content is False
        assert b"".join(response.iter_content(4)) == b"a" * 10


def test_a_stream_is_read_line_by_line(session, server):
    server.script("one\ntwo\n")
    with session.get(server.url, stream=True) as response:
        assert [*response.iter_lines()] == [b"one", b"two"]


def test_the_raw_reader(session, server):
    server.script("0123456789")
    with session.get(server.url, stream=True) as response:
        assert (response.raw.read(4), response.raw.tell(), response.raw.read()) == (b"0123", 4, b"456789")


def test_a_stream_of_the_session(session, server):
    server.script("0123456789")
    session.stream = True
    with session.get(server.url) as response:
        assert response.raw.read(4) == b"0123"


def test_a_stream_read_to_its_end_gives_its_connection_back(session, server):
    server.script("one", "two")
    for expected in (b"one", b"two"):
        with session.get(server.url, stream=True) as response:
            assert b"".join(response.iter_content()) == expected
    assert {call.connection for call in server.calls} == {1}


def test_a_body_that_breaks_off(session, server):
    server.script(short(chunked("0123456789", 5), 7))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        session.get(server.url)


# ---- time and connections


def test_connections_are_kept_alive(session, server):
    server.script(then_always="ok")
    for _ in range(3):
        session.get(server.url)
    assert {call.connection for call in server.calls} == {1}


@pytest.mark.parametrize("given", [None, 5, (3.5, 7), (None, 9)])
def test_a_timeout_is_handed_to_the_adapter_as_it_is(session, given):
    class Noting(HTTPAdapter):
        def send(self, request, **kwargs):
            got.append(kwargs)
            response = requests.Response()
            response.status_code, response._content, response.request, response.url = 200, b"", request, request.url
            return response

    got: list[Any] = []
    session.mount("http://", Noting())
    session.get("http://api.example/", timeout=given, verify=False, cert="c.pem", proxies={"http": "http://p"})
    [kwargs] = got
    assert (kwargs["timeout"], kwargs["verify"], kwargs["cert"], kwargs["stream"]) == (given, False, "c.pem", False)
    assert dict(kwargs["proxies"]) == {"http": "http://p"}


def test_a_read_timeout_stays_the_callers(session):
    with ScriptedServer() as server:
        server.script(silent())
        with pytest.raises(requests.ReadTimeout):
            session.get(server.url, timeout=(1, 0.05))


def test_a_refused_connection(session):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(requests.ConnectionError) as raised:
            session.get(f"http://127.0.0.1:{bound.getsockname()[1]}/")
    assert raised.value.request.method == "GET"


def test_a_proxy_is_asked_for_the_whole_url(session, server):
    server.script("by proxy")
    assert session.get("http://api.example/x", proxies={"http": server.url}).text == "by proxy"
    assert server.calls[0].path == "http://api.example/x"


def test_certificates_are_verified(session, clock):
    with ScriptedServer(tls=True, clock=clock) as server:
        server.script("ok")
        assert session.get(server.url, verify=server.ca_file).text == "ok"
        with requests.Session() as another, pytest.raises(requests.exceptions.SSLError):
            another.trust_env = False
            another.get(server.url)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("no-scheme", requests.exceptions.MissingSchema),
        ("http://", requests.exceptions.InvalidURL),
        ("ftp://a/", requests.exceptions.InvalidSchema),
    ],
)
def test_what_is_no_url(session, url, error):
    with pytest.raises(error):
        session.get(url)


# ---- sessions, adapters, prepared requests


def test_a_prepared_request_is_sent_as_it_is_and_stays_so(session, server):
    prepared = session.prepare_request(requests.Request("POST", f"{server.url}x", data="abc", headers={"X-A": "1"}))
    before = dict(prepared.headers)
    server.script("one", "two")
    first, second = session.send(prepared), session.send(prepared, timeout=5)
    assert (first.text, second.text) == ("one", "two")
    assert first.request is second.request is prepared
    assert dict(prepared.headers) == before
    assert seen(server.calls[0]) == seen(server.calls[1])


def test_only_a_prepared_request_can_be_sent(session, server):
    with pytest.raises(ValueError, match="PreparedRequest"):
        session.send(requests.Request("GET", server.url))


def test_an_adapter_is_found_as_it_was_mounted(session, server):
    class Mine(HTTPAdapter):
        pass

    mine = Mine()
    session.mount(server.url, mine)
    assert session.get_adapter(server.url) is mine
    assert isinstance(session.get_adapter("https://elsewhere.example"), HTTPAdapter)


def test_a_mounted_retry_asks_again_and_says_so(session, server):
    session.mount("http://", HTTPAdapter(max_retries=Retry(3, status_forcelist=[503], backoff_factor=0)))
    server.script(503, 503, "ok")
    response = session.get(server.url)
    assert (response.text, [one.status for one in response.raw.retries.history]) == ("ok", [503, 503])


def test_a_mounted_retry_gives_up(session, server):
    session.mount("http://", HTTPAdapter(max_retries=Retry(1, status_forcelist=[503], backoff_factor=0)))
    server.script(then_always=503)
    with pytest.raises(requests.exceptions.RetryError):
        session.get(server.url)
    assert len(server.calls) == 2


def test_a_session_survives_pickling(session, server):
    session.headers["X-A"] = "1"
    session.cookies.set("c", "2")
    server.script("ok")
    with pickle.loads(pickle.dumps(session)) as copy:
        assert type(copy) is requests.Session
        assert copy.get(server.url).text == "ok"
    assert (server.calls[0].headers["X-A"], server.calls[0].headers["Cookie"]) == ("1", "c=2")


def test_a_response_survives_pickling(session, server):
    server.script({"a": 1}, {"b": 2})
    for stream in (False, True):
        response = session.get(server.url, stream=stream)
        copy = pickle.loads(pickle.dumps(response))
        assert (copy.json(), copy.url, copy.request.url) == (response.json(), server.url, server.url)


def test_a_subclass_with_a_request_of_its_own(server):
    class Api(requests.Session):
        def request(self, method, url, **kwargs):
            return super().request(method, server.url + url, **kwargs)

    server.script("ok")
    with Api() as session:
        session.trust_env = False
        assert session.get("x").text == "ok"
    assert server.calls[0].path == "/x"


def test_a_subclass_with_a_send_of_its_own(server):
    class Again(requests.Session):
        def send(self, request, **kwargs):
            for _ in range(3):
                response = super().send(request, **kwargs)
                if response.status_code != 503:
                    break
            return response

    server.script(503, 503, "ok")
    with Again() as session:
        session.trust_env = False
        assert session.get(server.url).text == "ok"


def test_requests_without_a_session(server, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    server.script("one", {"two": 2})
    assert requests.get(server.url, timeout=5).text == "one"
    assert requests.post(server.url, json={}, timeout=5).json() == {"two": 2}


def test_one_session_in_many_threads(session, server):
    def fetch(number: int) -> None:
        texts[number] = session.get(f"{server.url}{number}").text

    texts: dict[int, str] = {}
    server.script(then_always=lambda call: call.path)
    threads = [threading.Thread(target=fetch, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: f"/{number}" for number in range(8)}


def test_one_prepared_request_in_many_threads(session, server):
    prepared = session.prepare_request(requests.Request("GET", server.url))
    server.script(then_always="ok")
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(session.send(prepared).text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["ok"] * 8
    assert "traceparent" not in prepared.headers


# ---- with others


def test_responses(session):
    with responses.RequestsMock() as mocked:
        mocked.get("http://api.example/x", json={"a": 1}, headers={"X-H": "h"})
        response = session.get("http://api.example/x")
        assert (response.json(), response.headers["X-H"], len(mocked.calls)) == ({"a": 1}, "h", 1)
        assert "traceparent" not in mocked.calls[0].request.headers
        with pytest.raises(requests.ConnectionError):
            session.get("http://api.example/unknown")


def test_requests_mock(session):
    with requests_mock.Mocker() as mocked:
        mocked.get("http://api.example/x", text="mocked")
        assert session.get("http://api.example/x").text == "mocked"
        assert mocked.call_count == 1


def test_requests_mock_of_one_session(session):
    with requests_mock.Mocker(session=session) as mocked:
        mocked.get("http://api.example/x", text="mocked")
        assert session.get("http://api.example/x").text == "mocked"


def test_a_mock_in_the_place_of_sockets(session, monkeypatch):
    """As mocket has it: a class that answers to everything, and knows nothing of files that share a socket."""

    class Mocked:
        def __init__(self, *_: object, **__: object) -> None:
            self.sent = b""

        def sendall(self, data: bytes) -> None:
            self.sent += data

        def makefile(self, *_: object) -> io.BytesIO:
            return io.BytesIO(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nmocked")

        def gettimeout(self) -> None:
            return None

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

    monkeypatch.setattr(socket, "socket", Mocked)
    for stream in (False, True):
        assert session.get("http://127.0.0.1/x", stream=stream).text == "mocked"


def test_a_mounted_mock_adapter(session):
    adapter = requests_mock.Adapter()
    adapter.register_uri("GET", "mock://api.example/x", text="mocked")
    session.mount("mock://", adapter)
    assert session.get("mock://api.example/x").text == "mocked"


def test_toolbelt_uploads(session, server):
    server.script("ok", "ok")
    encoder = MultipartEncoder({"f": ("n", io.BytesIO(b"content"), "text/plain")})
    session.post(server.url, data=encoder, headers={"Content-Type": encoder.content_type})
    session.post(server.url, data=StreamingIterator(6, iter([b"abc", b"def"])))
    assert b"content" in server.calls[0].body
    assert server.calls[1].body == b"abcdef"


def test_toolbelt_base_url(server):
    server.script("ok")
    with BaseUrlSession(base_url=f"{server.url}v1/") as session:
        session.trust_env = False
        assert session.get("jobs").text == "ok"
    assert server.calls[0].path == "/v1/jobs"


def test_cache_control(session, server):
    cached = CacheControl(session)
    server.script(
        Reply(200, content=b"fresh", headers={"Cache-Control": "max-age=60", "Date": formatdate(usegmt=True)}),
        Reply(200, content=b"tagged", headers={"ETag": '"1"', "Cache-Control": "no-cache"}),
        304,
    )
    first, second = cached.get(f"{server.url}a"), cached.get(f"{server.url}a")
    assert (first.text, second.text, second.from_cache) == ("fresh", "fresh", True)
    assert [cached.get(f"{server.url}b").text for _ in range(2)] == ["tagged", "tagged"]
    assert server.calls[-1].headers["If-None-Match"] == '"1"'
