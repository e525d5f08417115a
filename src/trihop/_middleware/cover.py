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

from trihop._errors import DeadlineExceeded
from trihop._forks import in_the_child
from trihop._middleware.handling import Handling, add_trace_headers, answer_of, at_their_proper_addresses
from trihop._middleware.streamed import watch_body
from trihop._middleware.watch import Watch
from trihop._telemetry.tracing import quietly
from trihop._wire.exchange import DeadlineCut
from trihop._wire.network import error_type_of
from trihop._wire.session import Exchanged, Sent
from trihop._wire.sockets import current
from trihop._wire.straight import Send, wrappers


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
    if around is not None and (not isinstance(around, Handling) or around.request is request or _within(inner)):
        # The engine's own, sent once more by a hook of its own, or a wrapper of ours further out is at it.
        return inner(session, request, **arguments)
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
    handling = Handling(watch, request)
    asked = request if outer is None else outer.request
    if silence is not None and (asked.method, asked.url) not in watch.untraced:
        quietly(add_trace_headers, handling, outer)
    request = handling.request
    answer: requests.Response | None = None
    struck: DeadlineCut | DeadlineExceeded | None = None
    sent = Sent(started_s=began_s, asked_s=began_s, url=request.url or "", method=request.method or "GET")
    token = current.set(handling)
    try:
        if silence is None:
            response = inner(session, request, **arguments)
        else:
            with silence:
                response = inner(session, request, **arguments)
    except Exception as error:
        struck = _deadline_in(error, watch)
        sent.cut = struck if isinstance(struck, DeadlineCut) else None
        if sent.cut is not None or not handling.within:  # what failed in a redirect was answered itself
            sent.error_type = error_type_of(error) if struck is None else "deadline"
        if struck is None or (struck is error and sent.cut is None):
            raise
    else:
        sent.response = answer = answer_of(response)
    finally:
        current.reset(token)
        sent.duration_s = monotonic() - began_s
        quietly(handling.over, answer)
        if silence is not None:
            quietly(_came, handling, sent, outer)
    if struck is not None:
        raise (struck if sent.cut is None else watch.exceeded(sent.cut)) from None
    if answer is not None and arguments.get("stream", session.stream):
        watch_body(answer, sent, watch)
    return response


def _within(inner: Send) -> bool:
    """Whether the wrapper that stands for this function has another of ours around it, with somebody's in between."""
    outermost: Send = requests.Session.send
    return outermost in wrappers and wrappers[outermost] is not inner


def _deadline_in(error: Exception, watch: Watch) -> DeadlineCut | DeadlineExceeded | None:
    """The deadline of the operation, as it struck below whatever an adapter, urllib3 or requests made of it."""
    link: BaseException | None = error
    for _ in range(16):
        if link is None or isinstance(link, DeadlineCut):
            return link
        # As of a body that was read within a body: an upload of what is being downloaded.
        if isinstance(link, DeadlineExceeded) and isinstance(error, (requests.RequestException, DeadlineExceeded)):
            return link if link.operation_id == watch.run.operation_id else None
        link = link.__context__ if link.__cause__ is None else link.__cause__
    return None


def _came(handling: Handling, sent: Sent, outer: Handling | None) -> None:
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
    exchanges = [(handling.written, sent), *handling.within]
    if outer is not None:
        outer.within += exchanges
        return
    for request, one in at_their_proper_addresses(exchanges):
        handling.watch.take(request, one)
