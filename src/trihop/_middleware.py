"""The middleware for `requests`: what the caller's own code sends inside an operation.

`requests.Session.send` is wrapped on the class, outermost, while an operation is
open; where another patch sits on ours by then, ours stays and lets everything
through. A request in no operation then costs one look at a context variable. What
it cannot see: a mock that put its own function on one session, or that started
inside the block and kept the original.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

import requests

from trihop._exchange import DeadlineCut, Exchange
from trihop._exchange_sockets import current
from trihop._forks import in_the_child
from trihop._network import error_type_of
from trihop._session import Exchanged, Sent
from trihop._straight import Send, wrappers
from trihop._streamed import watch_body
from trihop._tracing import quietly
from trihop._watch import Watch


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """An operation, as far as the requests in its context go.

    Args:
        watch: What it makes of them.
        session: The session it covers; None for a session of its own.
        outer: The operation around it.
    """

    watch: Watch
    session: requests.Session | None
    outer: Cover | None

    def over(self, session: requests.Session) -> Cover | None:
        """The innermost open operation that covers a session."""
        found: Cover | None = self
        while found is not None and (found.watch.ended or not (_everywhere or found.session is session)):
            found = found.outer
        return found


class _Handling(Exchange):
    """A send of the caller's while it lasts; the redirects it follows are sends within it."""

    __slots__ = ("request", "trace_headers", "watch", "within")

    def __init__(self, watch: Watch, request: requests.PreparedRequest) -> None:
        super().__init__(watch.remaining)
        self.watch = watch
        self.request = request
        self.trace_headers: tuple[str, ...] = ()
        self.within: list[tuple[requests.PreparedRequest, Sent]] = []


_cover: ContextVar[Cover | None] = ContextVar("trihop_cover", default=None)

_lock = threading.Lock()
_open = 0
_everywhere = False


def enter(watch: Watch, session: requests.Session | None) -> Token[Cover | None]:
    """Cover a session in this context, from outside whatever else wraps `Session.send`."""
    global _open
    with _lock:
        _open += 1
        _wrap_outermost()
    return cover(watch, session)


def cover(watch: Watch, session: requests.Session | None) -> Token[Cover | None]:
    """Cover a session in this context, for an operation that was entered in another."""
    return _cover.set(Cover(watch, session, _cover.get()))


def leave(token: Token[Cover | None], watch: Watch) -> None:
    """Undo `enter`; the covers of generators that were closed out of turn go along."""
    global _open
    with _lock:
        _open -= 1
        if _open == 0:
            _unwrap()
    top = _cover.get()
    if top is not None and top.watch is watch:
        try:
            _cover.reset(token)
        except ValueError:  # entered in another context, of which this one is a copy
            _cover.set(top.outer)
    while (top := _cover.get()) is not None and top.watch.ended:
        _cover.set(top.outer)


def instrument() -> None:
    """Have operations cover every `requests.Session`, those to come and `requests.get` as well.

    For the process; calling it again does nothing. Between operations nothing is
    wrapped: other instrumentations come and go as if we were not there.
    """
    global _everywhere
    _everywhere = True


def uninstrument() -> None:
    """Undo `instrument()`: operations cover the session they were given, from the next request on."""
    global _everywhere
    _everywhere = False


def _wrap_outermost() -> None:
    inner = requests.Session.send
    if inner in wrappers:
        return

    def send(self: requests.Session, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        top = _cover.get()
        if top is None:
            return inner(self, request, **kwargs)
        return _send(top, inner, self, request, kwargs)

    # No attribute of what it wraps goes along: others mark their wrappers by one, and would take ours for theirs.
    send.__module__ = __name__
    wrappers[send] = inner
    requests.Session.send = send  # type: ignore[method-assign]


def _unwrap() -> None:
    while (inner := wrappers.get(requests.Session.send)) is not None:
        requests.Session.send = inner  # type: ignore[method-assign]


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


in_the_child(_renew_lock)


def _send(
    top: Cover,
    inner: Send,
    session: requests.Session,
    request: requests.PreparedRequest,
    arguments: Mapping[str, Any],
) -> requests.Response:
    """Send within the deadline, as the caller wrote it but for `traceparent`.

    Raises:
        DeadlineExceeded: The deadline had passed, and nothing was sent; or it struck.
    """
    around = current.get()
    if around is not None and (not isinstance(around, _Handling) or around.request is request):
        return inner(session, request, **arguments)  # the engine's own, or a wrapper of ours further out is at it
    found = top if top.session is session and not top.watch.ended else top.over(session)
    if found is None or not isinstance(request, requests.PreparedRequest):
        return inner(session, request, **arguments)
    watch = found.watch
    silence = watch.silence.around()
    # Exporters ask for silence while they send: one with a session of its own has nothing to do with the operation.
    if silence is None and found.session is not session:
        return inner(session, request, **arguments)
    outer = around if around is not None and around.watch is watch else None
    monotonic = watch.monotonic
    began_s = monotonic()
    if began_s >= watch.until_s:
        watch.run.check_deadline()
    handling = _Handling(watch, request)
    if silence is not None and (outer is not None or (request.method, request.url) not in watch.untraced):
        quietly(_add_trace_headers, handling, outer)
    sent = Sent(started_s=began_s, asked_s=began_s, url=request.url or "", method=request.method or "GET")
    token = current.set(handling)
    try:
        if silence is None:
            response = inner(session, request, **arguments)
        else:
            with silence:
                response = inner(session, request, **arguments)
    except DeadlineCut as cut:
        sent.cut, sent.error_type = cut, "deadline"
    except Exception as error:
        # What failed in a redirect was answered itself.
        sent.error_type = None if handling.within else error_type_of(error)
        raise
    else:
        sent.response = response
    finally:
        current.reset(token)
        sent.duration_s = monotonic() - began_s
        if handling.trace_headers:
            _change(request.headers, remove=handling.trace_headers)
        if silence is not None:
            quietly(_came, handling, sent, outer)
    if sent.cut is not None:
        raise watch.exceeded(sent.cut) from None
    if outer is None and arguments.get("stream", session.stream):
        watch_body(response, sent, watch)
    return response


def _came(handling: _Handling, sent: Sent, outer: _Handling | None) -> None:
    """Tell of an exchange, and of those within it, in the order in which they went out."""
    if handling.requests > 1:
        sent.resends = handling.requests - 1
    response = sent.response
    if response is not None and response.history:
        if handling.within:  # redirects: what came of this request is the first of them
            sent.response = response = response.history[0]
            sent.duration_s = response.elapsed.total_seconds()
        for earlier in response.history:  # an auth handler's own way to ask again
            request = earlier.request
            took_s = earlier.elapsed.total_seconds()
            sent.earlier.append(Exchanged(request.method or "", request.url or "", earlier.status_code, None, took_s))
            sent.asked_s = min(sent.asked_s + took_s, sent.started_s + sent.duration_s)
    if outer is not None:
        outer.within += [(handling.request, sent), *handling.within]
        return
    handling.watch.take(handling.request, sent)
    for request, one in handling.within:
        handling.watch.take(request, one)


def _add_trace_headers(handling: _Handling, outer: _Handling | None) -> None:
    """`traceparent` by the origin rule; a redirect has inherited that of the request before, and loses it first."""
    watch, request = handling.watch, handling.request
    headers, inherited = request.headers, () if outer is None else outer.trace_headers
    if inherited:
        _change(headers, remove=inherited)
    redirected_from = None if outer is None else outer.request.url
    if not watch.may_carry_trace(request.method or "GET", request.url or "", redirected_from):
        return
    added = {name: value for name, value in watch.run.root.headers().items() if name not in headers}
    handling.trace_headers = tuple(added)
    _change(headers, add=added)


def _change(headers: Any, *, add: Mapping[str, str] = {}, remove: tuple[str, ...] = ()) -> None:
    """Change header fields in one step: two threads may send the same prepared request."""
    store = getattr(headers, "_store", None)
    if store is None:  # the caller put a dictionary of another kind there
        headers.update(add)
        for name in remove:
            headers.pop(name, None)
        return
    changed = store.copy()
    for name in remove:
        changed.pop(name.lower(), None)
    for name, value in add.items():
        changed[name.lower()] = (name, value)
    headers._store = changed
