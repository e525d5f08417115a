"""One request on the user's session: a call goes in, what it came to comes out.

The session's own pipeline sends (adapters, auth, cookies, hooks and proxies keep
working), bounded by the deadline, byte for byte where a server handed the URL
out, and with credentials only where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import requests

from trihop._clock import Clock
from trihop._origin import Trusted, origin_of
from trihop._redact import redacted_cause
from trihop._template import join
from trihop._values import Call, Reply
from trihop._wire.exchange import DeadlineCut, Exchange, bounded, install
from trihop._wire.flight import Flight
from trihop._wire.network import BROKEN, error_type_of, looked_ahead, may_have_left, read_parsed
from trihop._wire.prepare import AsInRequests, Outgoing, Preparing, harmless

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Timeout = float | tuple[float | None, float | None] | None

# Without these a peer that vanished would hold an attempt for as long as the
# deadline lasts, where a fresh connection would be answered at once.
DEFAULT_TIMEOUT = (10.0, 60.0)

# What a redirect may carry to another origin.
_SAFE_TO_REPEAT = frozenset({"GET", "HEAD"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_METHOD_KEPT = frozenset({307, 308})


class Exchanged(NamedTuple):
    """One exchange on the wire, as the metric of the HTTP client wants it."""

    method: str
    url: str
    status_code: int | None
    error_type: str | None
    duration_s: float


@dataclass(slots=True)
class Sent:
    """What one request came to.

    Args:
        reply: The answer; None where there was none.
        response: The same as `requests` has it, for the streaming of its body.
        error_type: A short word for why there was no answer.
        cause: What was raised; not redacted.
        cut: Set where the deadline struck; its phase says where.
        left: Whether a byte of the request may have reached the server.
        started_s, duration_s: On the clock's monotonic time.
        resends: Requests on the wire beyond the first: a mounted Retry, a stale connection.
        url, method: What was asked last.
        asked_s: When it was; later than `started_s` where there were exchanges before it.
        earlier: These: redirects that were followed, a connection that had gone stale.
        size_bytes: What came of a body on the wire, where somebody counts.
    """

    reply: Reply | None = None
    response: requests.Response | None = None
    error_type: str | None = None
    cause: Exception | None = None
    cut: DeadlineCut | None = None
    left: bool = False
    started_s: float = 0.0
    duration_s: float = 0.0
    resends: int = 0
    url: str = ""
    method: str = ""
    asked_s: float = 0.0
    earlier: list[Exchanged] = field(default_factory=list)
    size_bytes: int | None = None

    @property
    def status_code(self) -> int | None:
        """Of the last exchange, also where the body that followed was of no use."""
        answer = self.response if self.response is not None else self.reply
        return None if answer is None else answer.status_code

    def ask(self, call: Call, at_s: float) -> None:
        """Begin an exchange; the one before it, if there was one, is over."""
        if self.method:
            status, self.response = self.status_code, None
            error_type = "connection_reset" if status is None else None
            self.earlier.append(Exchanged(self.method, self.url, status, error_type, at_s - self.asked_s))
        self.method, self.url, self.asked_s = call.method.upper(), call.url, at_s

    def last(self, error_type: str | None) -> Exchanged:
        """The last exchange, under the name its failure goes by."""
        duration_s = self.started_s + self.duration_s - self.asked_s
        return Exchanged(self.method, self.url, self.status_code, error_type, duration_s)


class Courier:
    """Sends the requests of one operation on one session."""

    def __init__(
        self, session: requests.Session, trusted: Trusted, clock: Clock, remaining: Callable[[], float]
    ) -> None:
        install()
        self.session = session
        self.trusted = trusted
        self.clock = clock
        self.remaining = remaining
        self.preparing = Preparing(session, trusted)

    def secrets(self) -> list[str]:
        """Texts that must never be shown, wherever they turn up."""
        return self.preparing.secrets.known(self.preparing.options)

    def credentials(self) -> list[str]:
        """Of those texts the ones that have no place in a path or an id."""
        return self.preparing.secrets.credentials(self.preparing.options)

    def about_to_wait(self) -> None:
        """A request will be sent whose answer is waited for here; for who has something better to do meanwhile."""

    def depart(
        self,
        call: Call,
        *,
        quiet: Callable[[], AbstractContextManager[None]],
        headers: Mapping[str, str] | None,
        timeout: Timeout,
    ) -> Flight | None:
        """Send a poll, and leave its answer for `send`; None where nothing was sent, and it has to be sent as ever.

        Args:
            call, quiet, headers, timeout: As in `send`.

        Raises:
            ValueError, TypeError: The call cannot be prepared.
        """
        if self.preparing.asks_the_caller:
            return None
        outgoing = self._outgoing(call, None, headers, repeat=True)
        if outgoing.depart is None:
            return None
        exchange = Exchange(self.remaining, exact_url=outgoing.exact_url)
        try:
            with quiet(), bounded(exchange):
                flight = outgoing.depart(exchange, _timeout(timeout), self.clock.monotonic())
        except DeadlineCut:
            return None
        if flight is not None:
            flight.url = outgoing.url
        return flight

    def send(
        self,
        call: Call,
        *,
        quiet: Callable[[], AbstractContextManager[None]],
        body: AsInRequests | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Timeout = None,
        follow_all: bool = False,
        stream: bool = False,
        repeat: bool = False,
        flight: Flight | None = None,
    ) -> Sent:
        """Send a call and read its answer; redirects are followed here, by the origin rule.

        Args:
            call: What to send; its URL absolute.
            quiet: Keeps other instrumentation silent while we send.
            body: The caller's own arguments, instead of those of the call.
            headers: `traceparent` and the like; only the API's own and named origins get them.
            timeout: As in `requests`.
            follow_all: Follow every redirect as a download does; else 307 and 308 only.
            stream: Leave the body unread, for `Sent.response`.
            repeat: A poll: prepare it once, and send it again as it is.
            flight: The call was sent before, by `depart`; its answer is to be read.

        Raises:
            ValueError, TypeError: The call cannot be prepared.
        """
        sent = Sent(started_s=self.clock.monotonic() if flight is None else flight.asked_s, url=call.url)
        asked = call
        for _ in range(self.session.max_redirects + 1):
            response = self._send_once(asked, sent, quiet, body, headers, timeout, repeat, flight)
            flight = None
            target = None if response is None else _redirect_target(response, follow_all)
            if response is None or target is None:
                break
            response.close()
            self.preparing.forget()
            repeat = False
            target = join(sent.url, target)
            wrong = _wrong_with(target, after=sent.url)
            if wrong is not None:
                sent.error_type, sent.reply, sent.response = wrong, None, None
                sent.cause = requests.exceptions.InvalidURL(f"{wrong}: it was not followed")
                break
            strip = call.credentials != "always" and self.trusted.leaves(sent.url, target)
            asked, body = _redirected(asked, body, target, response.status_code, strip=strip)
        else:
            sent.error_type, sent.reply = "too_many_redirects", None
        if sent.response is not None and sent.error_type is None:
            self._read(sent, sent.response, stream)
        sent.duration_s = self.clock.monotonic() - sent.started_s
        return sent

    def _send_once(
        self,
        call: Call,
        sent: Sent,
        quiet: Callable[[], AbstractContextManager[None]],
        body: AsInRequests | None,
        headers: Mapping[str, str] | None,
        timeout: Timeout,
        repeat: bool,
        flight: Flight | None,
    ) -> requests.Response | None:
        for again in (False, True):
            if flight is None:
                self.about_to_wait()
                sent.ask(call, self.clock.monotonic())
                outgoing = self._outgoing(call, body, headers, repeat=repeat)
                sent.url = outgoing.url
                send: Callable[[], requests.Response] = partial(outgoing.send, _timeout(timeout))
                exchange = Exchange(self.remaining, exact_url=outgoing.exact_url)
            else:
                sent.ask(call, flight.asked_s)
                sent.url, send, exchange, flight = flight.url, flight.land, flight.exchange, None
            response: requests.Response | None = None
            refused: BaseException | None = None
            try:
                with quiet(), bounded(exchange):
                    response = send()
            except DeadlineCut as cut:
                self.preparing.forget()
                sent.left = sent.left or exchange.sent
                sent.cut, sent.error_type = cut, "deadline"
                return None
            except (requests.RequestException, OSError, ValueError) as error:
                if exchange.sent and not isinstance(error, OSError) and not looked_ahead(error):
                    raise  # a hook or an adapter of the caller's own
                if isinstance(error, requests.HTTPError):  # of a hook that judges the status, which is not its business
                    response = error.response
                if response is None:
                    refused = self._failed(sent, exchange, error)
            if exchange.requests > 1:
                sent.resends += exchange.requests - 1
            if response is not None:
                self.preparing.secrets.last = response.request
                sent.error_type = sent.cause = None
                sent.left = True
                sent.response = response
                if response.status_code < 200:  # http.client takes a 103 for the answer; the next request is not to
                    response.raw.close()  # get the real one
                return response
            if refused is None and sent.error_type is None:  # something was sent, and nothing failed
                refused = TypeError("the session's send() returned None, expected a requests.Response")
            if refused is not None:
                raise refused  # out here, where it has no context with a request
            # A server may close an idle connection while our request is on its way.
            stale = exchange.reused and not exchange.received and sent.error_type == "connection_reset"
            if not stale or again or call.method not in _SAFE_TO_REPEAT:
                return None
            sent.resends += 1
        return None

    def _failed(self, sent: Sent, exchange: Exchange, error: Exception) -> BaseException | None:
        """Note why there is no answer; what to raise, if it is a URL or an option that requests itself refuses."""
        self.preparing.forget()
        self.preparing.secrets.last = getattr(error, "request", None)
        if looked_ahead(error):
            sent.left, sent.error_type, sent.cause = True, "bad_redirect", error
            return None
        if isinstance(error, ValueError) and not exchange.sent:
            return redacted_cause(error, self.secrets())
        unseen = exchange.requests == 0 and not exchange.sent
        sent.left = sent.left or exchange.sent or (unseen and may_have_left(error))
        sent.error_type, sent.cause = error_type_of(error), error
        return None

    def _outgoing(
        self, call: Call, body: AsInRequests | None, headers: Mapping[str, str] | None, *, repeat: bool
    ) -> Outgoing:
        try:
            return self.preparing.transmit(call, body, headers, repeat=repeat)
        except (ValueError, requests.RequestException) as error:
            self.preparing.secrets.look_again()
            refused = redacted_cause(error, self.secrets())
        raise refused

    def _read(self, sent: Sent, response: requests.Response, stream: bool) -> None:
        if response.status_code not in (200, 202) or "Set-Cookie" in response.headers:
            self.preparing.forget()
        url = sent.url
        if stream:
            sent.reply = Reply.streamed(response.status_code, response.headers, url, lambda: read_parsed(response))
            return
        try:
            content = read_parsed(response)
        except DeadlineCut as cut:
            self.preparing.forget()
            sent.error_type, sent.cut = "deadline", cut
        except BROKEN as error:
            self.preparing.forget()
            sent.error_type, sent.cause = error_type_of(error), error
        else:
            sent.reply = Reply(response.status_code, headers=response.headers, url=url, content=content)
        finally:
            response.close()


def _timeout(given: Timeout) -> float | tuple[float | None, float | None]:
    return DEFAULT_TIMEOUT if given is None else given


def _wrong_with(target: str, *, after: str) -> str | None:
    """Why a redirect is not followed, in a short word; None where it is."""
    try:
        secure = origin_of(target).scheme == "https"
    except ValueError:
        return "bad_redirect"
    return "insecure_redirect" if origin_of(after).scheme == "https" and not secure else None


def _redirect_target(response: requests.Response, follow_all: bool) -> str | None:
    if response.status_code not in (_REDIRECTS if follow_all else _METHOD_KEPT):
        return None
    location = response.headers.get("Location")
    if not location:
        return None
    try:
        # Header bytes arrive as latin-1; a Location that is not ASCII is UTF-8 in practice.
        return location.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return location


def _redirected(
    call: Call, body: AsInRequests | None, target: str, status: int, *, strip: bool
) -> tuple[Call, AsInRequests | None]:
    """The next request of a redirect (RFC 9110 section 15.4)."""

    def carried(headers: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return (harmless(headers) if strip else dict(headers or {})) or None

    method = call.method.upper()
    if status not in _METHOD_KEPT:
        headers = call.headers if body is None else body.get("headers")
        kept = {name: value for name, value in (carried(headers) or {}).items() if name.lower() != "content-type"}
        method = "HEAD" if method == "HEAD" else "GET"
        return Call(method, target, headers=kept or None, credentials=call.credentials), None
    again = Call(
        method, target, headers=carried(call.headers), json=call.json, data=call.data, credentials=call.credentials
    )
    if body is None:
        return again, None
    dropped = ("params", "cookies", "auth") if strip else ("params",)
    arguments: dict[str, Any] = {name: value for name, value in body.items() if name not in dropped}
    arguments["headers"] = carried(body.get("headers"))
    if hasattr(arguments.get("data"), "seek"):
        arguments["data"].seek(0)
    return again, cast("AsInRequests", arguments)
