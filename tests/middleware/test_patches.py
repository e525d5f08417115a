"""`Session.send` and who wraps it: put on, kept outermost, taken off, and left alone under somebody else's."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import requests
import requests_mock
from opentelemetry.instrumentation.requests import RequestsInstrumentor

import trihop
from trihop import operation
from trihop.testing import ScriptedServer, SpanLog, VirtualClock


@pytest.fixture(autouse=True)
def untouched() -> Iterator[Callable[..., requests.Response]]:
    """Every test leaves `Session.send` as it found it."""
    original = requests.Session.send
    yield original
    trihop.uninstrument()
    assert requests.Session.send is original


def export(session: requests.Session | None, clock: VirtualClock, name: str = "export") -> Any:
    return operation(name, deadline=600, session=session, clock=clock)


def get(session: requests.Session, server: ScriptedServer) -> str:
    return session.get(server.url).text


def test_the_patch_lasts_as_long_as_an_operation(untouched, session, clock):
    """On when the first is entered, off when the last is left."""
    with export(session, clock):
        first = requests.Session.send
        assert first is not untouched
        with export(session, clock, "inner"):
            assert requests.Session.send is first
        assert requests.Session.send is first
    assert requests.Session.send is untouched


def test_instrumented_nothing_is_wrapped_between_operations(untouched, session, clock):
    """However often it was called: others find `Session.send` as it was."""
    trihop.instrument()
    trihop.instrument()
    assert requests.Session.send is untouched
    with export(session, clock):
        assert requests.Session.send is not untouched
    assert requests.Session.send is untouched
    trihop.uninstrument()
    trihop.uninstrument()
    assert requests.Session.send is untouched


def test_undone_within_an_operation_it_covers_the_sessions_it_was_given(untouched, session, server, clock, spans):
    """`uninstrument()` in the block: the operation's own session stays covered, others are not any more."""
    server.script("one", "two", "three")
    trihop.instrument()
    with requests.Session() as other, export(session, clock):
        other.trust_env = False
        get(other, server)
        trihop.uninstrument()
        get(other, server)
        get(session, server)

    assert [span.name for span in spans.all] == ["GET", "GET", "export"]


def test_without_instrument_only_the_session_given_is_covered(session, server, clock, spans):
    """Another session in the same block is nobody's business."""
    server.script("one", "two")
    with requests.Session() as other, export(session, clock):
        other.trust_env = False
        get(other, server)
        get(session, server)

    assert ["traceparent" in call.headers for call in server.calls] == [False, True]


def test_every_session_is_covered_once_instrumented(session, server, clock, spans, monkeypatch):
    """One that was there before, one made in the block, `requests.get`, and a class that was defined long ago."""

    class Old(requests.Session):
        def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
            return super().send(request, **kwargs)

    monkeypatch.setenv("NO_PROXY", "*")
    server.script(then_always="ok")
    with Old() as old:
        old.trust_env = False
        trihop.instrument()
        with export(None, clock), requests.Session() as new:
            new.trust_env = False
            for one in (session, old, new):
                get(one, server)
            requests.get(server.url, timeout=5)

    [root] = spans.roots
    assert [span.name for span in spans.children(root)] == ["GET"] * 4
    assert all("traceparent" in call.headers for call in server.calls)


def test_instrumented_and_outside_of_operations_nothing_happens(session, server, spans):
    """No span, no header, no copy of an argument."""
    server.script("ok")
    trihop.instrument()
    assert get(session, server) == "ok"
    assert spans.all == []
    assert "traceparent" not in server.calls[0].headers


# ---- with patches of others


def counting(counts: list[str], name: str) -> Callable[[Any], Any]:
    """A patch as people write it, copying what it wraps."""

    def patch(send: Any) -> Any:
        @functools.wraps(send)
        def counted(*args: Any, **kwargs: Any) -> Any:
            counts.append(name)
            return send(*args, **kwargs)

        return counted

    return patch


def test_a_patch_before_ours_is_called_within(untouched, session, server, clock, monkeypatch):
    """It sees the request that goes out, once."""
    counts: list[str] = []
    server.script("ok")
    with monkeypatch.context() as patch:
        patch.setattr(requests.Session, "send", counting(counts, "theirs")(untouched))
        with export(session, clock):
            get(session, server)
    assert counts == ["theirs"]


def test_a_patch_on_ours_makes_ours_let_everything_through(untouched, session, server, clock, spans):
    """Put on inside a block and left there: their wrapper stays, ours beneath it does nothing any more."""
    counts: list[str] = []
    server.script("in", "out")
    with export(session, clock):
        ours = requests.Session.send
        requests.Session.send = counting(counts, "theirs")(ours)
        get(session, server)
    theirs = requests.Session.send
    try:
        assert theirs is not ours
        assert get(session, server) == "out"
        assert counts == ["theirs", "theirs"]
        assert [span.name for span in spans.all] == ["GET", "export"]
    finally:
        assert requests.Session.send is theirs
        requests.Session.send = untouched


def test_on_top_again_at_the_next_operation(untouched, session, server, clock, spans):
    """With a patch of others in between, a request is told once, by the outermost of ours."""
    counts: list[str] = []
    server.script("ok")
    trihop.instrument()
    requests.Session.send = theirs = counting(counts, "theirs")(requests.Session.send)
    with export(session, clock):
        get(session, server)
    assert requests.Session.send is theirs
    assert [span.name for span in spans.all] == ["GET", "export"]
    assert counts == ["theirs"]
    trihop.uninstrument()
    requests.Session.send = untouched


def test_a_patch_between_two_of_ours_may_send_a_copy(untouched, session, server, clock, spans):
    """Put on in an outer block, and changing what it sends: within an inner block a request is told once."""
    server.script("ok")
    with export(session, clock, "outer"):
        ours = requests.Session.send
        requests.Session.send = lambda self, request, **options: ours(self, request.copy(), **options)
        try:
            with export(session, clock, "inner"):
                get(session, server)
        finally:
            requests.Session.send = ours
    assert [span.name for span in spans.all] == ["GET", "inner", "outer"]
    assert spans.named("GET").parent.span_id == spans.named("inner").context.span_id


def test_a_patch_that_goes_back_to_what_it_found_takes_ours_along(untouched, session, server, clock, spans):
    """As a mock does that ends in the block: from then on nothing is seen, and the next operation is covered again."""
    server.script("unseen", "seen")
    before = requests.Session.send
    with export(session, clock, "first"):
        requests.Session.send = before
        get(session, server)
    with export(session, clock, "second"):
        get(session, server)
    assert [span.name for span in spans.all] == ["first", "GET", "second"]


def test_nothing_of_ours_is_kept_once_it_is_gone(session, clock):
    """Ten thousand operations leave no chain of wrappers behind."""
    with export(session, clock):
        ours = weakref.ref(requests.Session.send)
    gc.collect()
    assert ours() is None


def test_our_wrapper_copies_no_attributes(untouched, session, clock, monkeypatch):
    """A mark that others put on their wrapper says that it is theirs: ours must not say so."""
    marked = counting([], "theirs")(untouched)
    marked.mark = True
    with monkeypatch.context() as patch:
        patch.setattr(requests.Session, "send", marked)
        with export(session, clock):
            assert not hasattr(requests.Session.send, "mark")
            assert not hasattr(requests.Session.send, "__wrapped__")


# ---- with OpenTelemetry's own


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_beside_the_instrumentation_of_requests(session, server, clock, spans: SpanLog, first):
    """Whoever came first: inside an operation a request is told once, outside it is theirs, and both can be undone."""
    server.script(then_always="ok")
    theirs = RequestsInstrumentor()
    activate = [trihop.instrument, theirs.instrument]
    for one in activate if first == "ours" else reversed(activate):
        one()
    with export(session, clock):
        get(session, server)
    get(session, server)
    told = [(span.name, span.instrumentation_scope.name) for span in spans.all]
    assert told == [
        ("GET", "trihop"),
        ("export", "trihop"),
        ("GET", "opentelemetry.instrumentation.requests"),
    ]
    if first == "ours":
        theirs.uninstrument()
        trihop.uninstrument()
    else:
        trihop.uninstrument()
        theirs.uninstrument()
    spans.clear()
    get(session, server)
    assert spans.all == []


def test_by_opentelemetrys_convention(session, server, clock, spans):
    """`TrihopInstrumentor` is `instrument()` and `uninstrument()` under the names that are usual there."""
    instrumentor = trihop.TrihopInstrumentor()
    server.script(then_always="ok")
    for switch in (instrumentor.instrument, instrumentor.uninstrument):
        switch()
        with export(None, clock):
            get(session, server)
    assert [span.name for span in spans.all] == ["GET", "export", "export"]
    assert instrumentor.is_instrumented_by_opentelemetry is False
    assert instrumentor.instrumentation_dependencies() == ("requests>=2.31",)


def test_without_opentelemetrys_package_the_convention_says_what_to_do(monkeypatch):
    """Whoever asks for it is told what to install; whoever loads what there is finds a module missing, and goes on."""
    monkeypatch.delitem(sys.modules, "trihop._middleware.instrumentor", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.instrumentation.instrumentor", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install opentelemetry-instrumentation, or call") as raised:
        importlib.import_module("trihop._middleware.instrumentor")
    assert raised.value.name == "opentelemetry.instrumentation.instrumentor"


# ---- with mocks


def test_a_mock_that_was_there_before_is_seen(session, clock, spans):
    """requests-mock, started before the block: the request is answered by it and told by us."""
    with requests_mock.Mocker() as mocked:
        mocked.get("http://api.example/x", text="mocked")
        with export(session, clock):
            assert session.get("http://api.example/x").text == "mocked"
    assert [span.name for span in spans.all] == ["GET", "export"]


def test_a_mock_that_begins_in_the_block_is_not_seen(session, clock, spans):
    """requests-mock, started inside: it kept the original and goes around us. It works, and nothing is told."""
    with export(session, clock), requests_mock.Mocker() as mocked:
        mocked.get("http://api.example/x", text="mocked")
        assert session.get("http://api.example/x").text == "mocked"
    assert [span.name for span in spans.all] == ["export"]


class Fake:
    """What tests put in the place of a response."""

    status_code = 404


FAKES: dict[str, Any] = {
    "a class of one's own": Fake(),
    "a mock": mock.Mock(status_code=404),
    "a mock of a response": mock.Mock(spec=requests.Response, status_code=404),
    "a mock of everything": mock.MagicMock(status_code=404),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fake", FAKES)
def test_what_is_no_response_is_handed_on(session, clock, spans, caplog, fake, stream):
    """A `Session.send` that was patched may return anything: the caller gets it, and its status is told."""
    with mock.patch("requests.Session.send", return_value=FAKES[fake]), export(session, clock):
        assert session.get("http://api.example/x", stream=stream) is FAKES[fake]
    assert spans.named("GET").attributes["http.response.status_code"] == 404
    assert caplog.records == []


def test_nothing_may_stand_for_a_response(session, clock, spans, caplog):
    """Nor does it need to have a status."""
    with mock.patch("requests.Session.send", return_value=None), export(session, clock):
        assert session.get("http://api.example/x", stream=True) is None
    assert "http.response.status_code" not in spans.named("GET").attributes
    assert caplog.records == []


def test_a_session_with_a_send_of_its_own_on_the_instance_is_not_seen(session, clock, spans):
    """As requests-mock has it with `session=`."""
    with requests_mock.Mocker(session=session) as mocked, export(session, clock):
        mocked.get("http://api.example/x", text="mocked")
        assert session.get("http://api.example/x").text == "mocked"
    assert [span.name for span in spans.all] == ["export"]
