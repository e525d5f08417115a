"""The middleware for `requests`: what the caller's own code sends inside an operation.

`requests.Session.send` is wrapped on the class, outermost, while an operation is
open, or for good by `instrument()`. Outside an operation the wrapper costs one
look at a context variable. What it cannot see: a mock that put its own function
on one session, or that started inside the block and kept the original.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import requests

from trihop._exchange import DeadlineCut, Exchange, bounded
from trihop._exchange_sockets import current
from trihop._network import error_type_of
from trihop._session import Sent
from trihop._watch import Watch

Send = Callable[..., requests.Response]


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

    def watching(self, session: requests.Session) -> Watch | None:
        """The innermost open operation that covers a session."""
        cover: Cover | None = self
        while cover is not None:
            if not cover.watch.ended and (_everywhere or cover.session is session):
                return cover.watch
            cover = cover.outer
        return None


@dataclass(slots=True, eq=False)
class _Handling:
    """A send of the caller's while it lasts; the redirects it follows are sends within it."""

    request: requests.PreparedRequest
    trace_headers: tuple[str, ...] = ()
    within: list[tuple[requests.PreparedRequest, Sent]] = field(default_factory=list)


_cover: ContextVar[Cover | None] = ContextVar("trihop_cover", default=None)
_handling: ContextVar[_Handling | None] = ContextVar("trihop_handling", default=None)

_lock = threading.Lock()
_wrapped: list[tuple[Send, Send]] = []  # ours and what it stands for, the outermost last
_open = 0
_everywhere = False


def enter(watch: Watch, session: requests.Session | None) -> Token[Cover | None]:
    """Cover a session in this context, from outside whatever else wraps `Session.send`."""
    global _open
    with _lock:
        _open += 1
        _wrap_outermost()
    return _cover.set(Cover(watch, session, _cover.get()))


def leave(token: Token[Cover | None]) -> None:
    """Undo `enter`."""
    global _open
    with _lock:
        _open -= 1
        if _open == 0 and not _everywhere:
            _unwrap()
    try:
        _cover.reset(token)
    except ValueError:  # a generator that was entered in another context
        _cover.set(None)


def instrument() -> None:
    """Have operations cover every `requests.Session`, those to come and `requests.get` as well.

    For the process, once; calling it again does nothing.
    """
    global _everywhere
    with _lock:
        _everywhere = True
        _wrap_outermost()


def uninstrument() -> None:
    """Undo `instrument()`; where another patch sits on ours, ours lets everything through instead."""
    global _everywhere
    with _lock:
        _everywhere = False
        if _open == 0:
            _unwrap()


def _wrap_outermost() -> None:
    inner = requests.Session.send
    if _wrapped and _wrapped[-1][0] is inner:
        return

    def send(self: requests.Session, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        cover = _cover.get()
        if cover is None:
            return inner(self, request, **kwargs)
        return _send(cover, inner, self, request, kwargs)

    _wrapped.append((send, inner))
    requests.Session.send = send  # type: ignore[method-assign]


def _unwrap() -> None:
    while _wrapped and requests.Session.send is _wrapped[-1][0]:
        requests.Session.send = _wrapped.pop()[1]  # type: ignore[method-assign]


def _send(
    cover: Cover,
    inner: Send,
    session: requests.Session,
    request: requests.PreparedRequest,
    arguments: Mapping[str, Any],
) -> requests.Response:
    """Send within the deadline, as the caller wrote it but for `traceparent`.

    Raises:
        DeadlineExceeded: The deadline had passed, and nothing was sent; or it struck.
    """
    outer = _handling.get()
    if outer is None and current.get() is not None:
        return inner(session, request, **arguments)  # a request of the engine's own
    if outer is not None and outer.request is request:
        return inner(session, request, **arguments)  # a wrapper of ours further out is at it
    watch = cover.watching(session)
    if watch is None:
        return inner(session, request, **arguments)
    if outer is None:
        watch.run.check_deadline()
    handling = _Handling(request)
    handling.trace_headers = _add_trace_headers(watch, request, outer)
    sent = Sent(started_s=watch.run.clock.monotonic(), url=request.url or "", method=request.method or "GET")
    sent.asked_s = sent.started_s
    token = _handling.set(handling)
    try:
        with watch.run.root.sending(), bounded(Exchange(watch.remaining)):
            response = inner(session, request, **arguments)
    except DeadlineCut as cut:
        sent.cut, sent.error_type = cut, "deadline"
        if outer is not None:
            raise
    except Exception as error:
        sent.error_type = error_type_of(error)
        raise
    else:
        sent.response = response.history[0] if response.history else response
    finally:
        _handling.reset(token)
        for name in handling.trace_headers:
            request.headers.pop(name, None)
        sent.duration_s = watch.run.clock.monotonic() - sent.started_s
        if handling.within and sent.response is not None:
            sent.duration_s = sent.response.elapsed.total_seconds()
        came = [(request, sent), *handling.within]
        if outer is not None:
            outer.within += came
        else:
            watch.take(came)
    if sent.cut is not None:
        raise _exceeded(watch, sent.cut) from None
    if arguments.get("stream") and outer is None:
        _bind_body(watch, response)
    return response


def _add_trace_headers(watch: Watch, request: requests.PreparedRequest, outer: _Handling | None) -> tuple[str, ...]:
    """`traceparent` by the origin rule; a redirect has inherited that of the request before, and loses it first."""
    headers = request.headers
    if outer is not None:
        for name in outer.trace_headers:
            headers.pop(name, None)
    redirected_from = None if outer is None else outer.request.url
    if not watch.may_carry_trace(request.method or "GET", request.url or "", redirected_from):
        return ()
    found = {name: value for name, value in watch.run.root.headers().items() if name not in headers}
    headers.update(found)
    return tuple(found)


def _exceeded(watch: Watch, cut: DeadlineCut) -> Exception:
    run = watch.run
    if cut.asked_s is None:
        return run.deadline_exceeded(cut.phase, "the request was cut off")
    left = max(0.0, run.deadline.remaining())
    what = f"a retry mounted on the session would wait {cut.asked_s:g} s and {left:g} s are left"
    return run.deadline_exceeded(cut.phase, what, asked=cut.asked_s)


# ---- a body that the caller reads later

_READERS = ("read", "read1", "readinto", "readline", "readlines")
_ITERATORS = ("stream", "read_chunked")


def _bind_body(watch: Watch, response: requests.Response) -> None:
    """Have a streamed body raise `DeadlineExceeded` at its outer edge: further in, urllib3 takes it for its own."""
    raw = response.raw
    if raw is None or not hasattr(raw, "_fp_bytes_read"):
        return
    for name in _READERS:
        if (method := getattr(raw, name, None)) is not None:
            setattr(raw, name, partial(_read, watch, method))
    for name in _ITERATORS:
        if (method := getattr(raw, name, None)) is not None:
            setattr(raw, name, partial(_iterate, watch, method))


def _read(watch: Watch, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return method(*args, **kwargs)
    except DeadlineCut as cut:
        raise _exceeded(watch, cut) from None


def _iterate(watch: Watch, method: Callable[..., Iterator[bytes]], *args: Any, **kwargs: Any) -> Iterator[bytes]:
    try:
        yield from method(*args, **kwargs)
    except DeadlineCut as cut:
        raise _exceeded(watch, cut) from None
