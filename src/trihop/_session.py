"""One request on the user's session: a call goes in, what it came to comes out.

The session's own pipeline prepares and sends (adapters, auth, cookies, hooks,
proxies keep working), bounded by the deadline, byte for byte where a server
handed the URL out, and with credentials only where they belong.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

import requests

from trihop._clock import Clock
from trihop._exchange import DeadlineCut, Exchange, bounded, install
from trihop._origin import Trusted
from trihop._template import join
from trihop._values import Call, Reply

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


Timeout = float | tuple[float | None, float | None] | None

# Bodies that are parsed are bounded; a result is streamed and is not.
MAX_PARSED_BYTES = 64 * 2**20

# Without these a peer that vanished would hold an attempt for as long as the
# deadline lasts, where a fresh connection would be answered at once.
DEFAULT_TIMEOUT = (10.0, 60.0)

# What a request to a foreign origin may take over from the session, and what a
# redirect may carry there.
_HARMLESS_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Connection")
_HARMLESS_ON_REDIRECT = frozenset(
    name.lower() for name in (*_HARMLESS_HEADERS, "Content-Type", "Range", "If-Range", "Prefer")
)
_CREDENTIAL_NAME = re.compile(r"auth|cookie|key|token|secret|signature|password|session", re.IGNORECASE)

_SAFE_TO_REPEAT = frozenset({"GET", "HEAD"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_METHOD_KEPT = frozenset({307, 308})


class AsInRequests(TypedDict, total=False):
    """What `op.submit` passes on, as in `requests.request`."""

    params: Any
    data: Any
    json: Any
    headers: Mapping[str, str | bytes | None] | None
    cookies: Any
    files: Any
    auth: Any
    hooks: Any
    proxies: Any
    verify: Any
    cert: Any


# Given on the submit, these hold for the later hops as well: they say how the
# API is reached, not what is asked of it.
_FOR_ALL_HOPS = ("auth", "proxies", "verify", "cert")


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
        url: The URL that was asked last.
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


@dataclass(slots=True)
class _Kept:
    """A request prepared once, and under which conditions it may be sent again."""

    call: Call
    fingerprint: tuple[Any, ...]
    prepared: requests.PreparedRequest
    settings: dict[str, Any]
    exact_url: str | None


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
        self.options: dict[str, Any] = {}
        self.written_secrets: list[str] = []
        self._kept: _Kept | None = None

    def adopt(self, as_in_requests: AsInRequests) -> None:
        """Take over what a submit says about how the API is reached."""
        self.options = {name: as_in_requests[name] for name in _FOR_ALL_HOPS if name in as_in_requests}  # type: ignore[literal-required]
        written = as_in_requests.get("headers") or {}
        self.written_secrets += [str(value) for name, value in written.items() if _CREDENTIAL_NAME.search(name)]

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

        Raises:
            ValueError, TypeError: The call cannot be prepared.
        """
        sent = Sent(started_s=self.clock.monotonic(), url=call.url)
        asked = call
        for _ in range(self.session.max_redirects + 1):
            response = self._send_once(asked, sent, quiet, body, headers, timeout, repeat)
            target = None if response is None else _redirect_target(response, follow_all)
            if response is None or target is None:
                break
            response.close()
            repeat = False
            target = join(sent.url, target)
            if sent.url.startswith("https:") and not target.startswith("https:"):
                sent.error_type, sent.reply, sent.response = "insecure_redirect", None, None
                sent.cause = requests.exceptions.InvalidURL("a redirect led from https to http")
                break
            leaves_home = sent.url in self.trusted and target not in self.trusted
            asked, body = _redirected(
                asked, body, target, response.status_code, strip=leaves_home and call.credentials != "always"
            )
        else:
            sent.error_type, sent.reply = "too_many_redirects", None
        if sent.response is not None and sent.error_type is None:
            self._read(sent, stream)
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
    ) -> requests.Response | None:
        at_home = call.url in self.trusted
        trace_headers = headers if at_home else None
        sent.url = call.url
        for again in (False, True):
            transmit, exact_url = self._prepared(call, at_home, body, trace_headers, repeat)
            exchange = Exchange(self.remaining, exact_url=exact_url)
            try:
                with quiet(), bounded(exchange):
                    response = transmit(DEFAULT_TIMEOUT if timeout is None else timeout)
            except DeadlineCut as cut:
                self._kept = None
                sent.left = sent.left or exchange.sent
                sent.cut, sent.error_type = cut, "deadline"
                return None
            except (requests.RequestException, OSError) as error:
                self._kept = None
                if isinstance(error, ValueError) and not exchange.sent:
                    raise  # a URL or an option that requests itself refuses
                sent.left = sent.left or exchange.sent or _maybe_sent(error, exchange)
                sent.resends += max(0, exchange.requests - 1)
                # A server may close an idle connection while our request is on its way.
                stale = exchange.reused and not exchange.received and call.method in _SAFE_TO_REPEAT
                if stale and not again and error_type_of(error) == "connection_reset":
                    sent.resends += 1
                    continue
                sent.error_type, sent.cause = error_type_of(error), error
                return None
            sent.left = True
            sent.resends += max(0, exchange.requests - 1)
            sent.response = response
            return response
        raise AssertionError("unreachable")  # pragma: no cover

    def would_sign_differently(self, call: Call, sent: Sent) -> bool:
        """Whether preparing the call again gives other credentials than those that were refused."""
        if _overridden(self.session):
            return True  # an OAuth session refreshes as it sends; there is no telling beforehand
        if sent.response is None or sent.response.request is None:
            return False
        self._kept = None
        at_home = call.url in self.trusted
        if not at_home and call.credentials != "always":
            return False
        now = self._prepare(call, True, dict(self.options), None, None).prepared
        before = sent.response.request
        return now.url != before.url or any(before.headers.get(name) != value for name, value in now.headers.items())

    # ---- preparing

    def _prepared(
        self, call: Call, at_home: bool, body: AsInRequests | None, headers: Mapping[str, str] | None, repeat: bool
    ) -> tuple[Callable[[Timeout], requests.Response], str | None]:
        """A function that sends the call, and the URL to be sent byte for byte, if any."""
        session = self.session
        with_credentials = call.credentials == "always" or (call.credentials == "origin" and at_home)
        options = {**self.options, **(body or {})}
        if with_credentials and _overridden(session):
            arguments = {
                **options,
                **_asked(call, body),
                "headers": {**(_asked(call, body).get("headers") or {}), **(headers or {})},
            }
            return (
                lambda timeout: session.request(
                    call.method, call.url, timeout=timeout, allow_redirects=False, stream=True, **arguments
                ),
                None,
            )
        fingerprint = self._fingerprint(options) if repeat and with_credentials else None
        kept = self._kept
        if kept is None or fingerprint is None or kept.fingerprint != fingerprint or kept.call != call:
            kept = self._prepare(call, with_credentials, options, body, fingerprint)
            self._kept = kept if fingerprint is not None else None
        prepared = copy.copy(kept.prepared)
        prepared.headers = kept.prepared.headers.copy()
        if headers:
            prepared.headers.update(headers)
        settings = kept.settings
        return lambda timeout: session.send(
            prepared, timeout=timeout, allow_redirects=False, **settings
        ), kept.exact_url

    def _prepare(
        self,
        call: Call,
        with_credentials: bool,
        options: dict[str, Any],
        body: AsInRequests | None,
        fingerprint: tuple[Any, ...] | None,
    ) -> _Kept:
        session = self.session
        arguments = _asked(call, body)
        if with_credentials:
            request = requests.Request(
                call.method.upper(),
                call.url,
                auth=options.get("auth"),
                cookies=options.get("cookies"),
                hooks=options.get("hooks"),
                **arguments,
            )
            prepared = session.prepare_request(request)
            cert = options.get("cert")
        else:
            # Without the session: no auth, cookies, params, hooks or netrc; only what says who asks.
            own = {name: value for name in _HARMLESS_HEADERS if (value := session.headers.get(name)) is not None}
            written = arguments.get("headers") or {}
            if call.url not in self.trusted:
                written = {name: value for name, value in written.items() if not _CREDENTIAL_NAME.search(name)}
            arguments["headers"] = {**own, **written}
            prepared = requests.PreparedRequest()
            prepared.prepare(method=call.method.upper(), url=call.url, **arguments)
            cert = None
        url = prepared.url or call.url
        settings = session.merge_environment_settings(
            url, options.get("proxies") or {}, True, options.get("verify"), cert
        )
        if not with_credentials:
            settings["cert"] = None
        return _Kept(call, fingerprint or (), prepared, dict(settings), _exact(call, prepared))

    def _fingerprint(self, options: dict[str, Any]) -> tuple[Any, ...] | None:
        """What a request prepared once depends on; None where it must be prepared each time."""
        session = self.session
        auth = options.get("auth") or session.auth
        if (auth is not None and not isinstance(auth, tuple)) or len(session.cookies) > 0 or options.get("cookies"):
            return None
        return (
            tuple(session.headers.items()),
            auth,
            _frozen(session.params),
            _frozen(session.proxies),
            _frozen(session.hooks),
            session.verify,
            session.cert,
            session.trust_env,
        )

    # ---- reading

    def _read(self, sent: Sent, stream: bool) -> None:
        response = sent.response
        assert response is not None
        if response.status_code not in (200, 202) or "Set-Cookie" in response.headers:
            self._kept = None

        def load() -> bytes:
            return read_parsed(response)

        url = response.url or sent.url
        sent.reply = Reply.streamed(response.status_code, response.headers, url, load)
        if stream:
            return
        try:
            sent.reply.content  # noqa: B018 - read here, inside the deadline
        except DeadlineCut as cut:
            self._kept = None
            sent.reply, sent.error_type, sent.cut = None, "deadline", cut
        except (requests.RequestException, OSError) as error:
            self._kept = None
            sent.reply, sent.error_type, sent.cause = None, error_type_of(error), error
        finally:
            response.close()


class BodyTruncated(requests.exceptions.ConnectionError):
    """Fewer bytes came than the server announced."""


class BodyTooLarge(requests.exceptions.ConnectionError):
    """A body to be parsed is larger than we would parse."""


def read_parsed(response: requests.Response) -> bytes:
    """A whole body that is to be parsed, its length bounded and checked.

    Raises:
        requests.RequestException: It broke off, is short or too large.
    """
    parts, size = [], 0
    for part in response.iter_content(65536):
        parts.append(part)
        size += len(part)
        if size > MAX_PARSED_BYTES:
            raise BodyTooLarge(f"a reply of more than {MAX_PARSED_BYTES} bytes was to be parsed")
    check_length(response)
    return b"".join(parts)


def check_length(response: requests.Response) -> None:
    """Compare the bytes on the wire with what the server announced; urllib3 1.26 does not.

    Raises:
        BodyTruncated: They do not add up.
    """
    announced = response.headers.get("Content-Length", "")
    method = response.request.method if response.request is not None else None
    if not announced.isdigit() or method == "HEAD" or response.status_code in (204, 304):
        return
    raw = response.raw
    if not hasattr(raw, "_fp_bytes_read") or "Transfer-Encoding" in response.headers:
        return  # not urllib3's: a mock, or an adapter with a reader of its own
    received = raw.tell()
    if received < int(announced):
        raise BodyTruncated(f"the body broke off after {received} of {announced} bytes")


def error_type_of(error: BaseException) -> str:
    """A short word of low cardinality for why there was no answer.

    >>> error_type_of(requests.exceptions.ReadTimeout())
    'read_timeout'
    """
    chain: list[BaseException] = []
    pending: list[object] = [error]
    while pending and len(chain) < 12:
        link = pending.pop(0)
        if isinstance(link, BaseException) and link not in chain:
            chain.append(link)
            pending += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]
    names = {type(link).__name__ for link in chain}
    for word, signs in _ERROR_WORDS:
        if names & signs:
            return word
    return "connection_error"


_ERROR_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("body_too_large", frozenset({"BodyTooLarge"})),
    ("body_truncated", frozenset({"BodyTruncated", "IncompleteRead", "InvalidChunkLength"})),
    ("name_resolution", frozenset({"gaierror", "NameResolutionError", "herror"})),
    ("connect_timeout", frozenset({"ConnectTimeout", "ConnectTimeoutError"})),
    ("read_timeout", frozenset({"ReadTimeout", "ReadTimeoutError"})),
    ("tls", frozenset({"SSLError", "SSLCertVerificationError", "SSLEOFError", "CertificateError"})),
    ("content_decoding", frozenset({"ContentDecodingError", "DecodeError"})),
    ("proxy", frozenset({"ProxyError", "ProxySchemeUnknown", "SOCKSHTTPError", "GeneralProxyError"})),
    ("connect_refused", frozenset({"ConnectionRefusedError", "NewConnectionError"})),
    (
        "connection_reset",
        frozenset(
            {"ConnectionResetError", "RemoteDisconnected", "ConnectionAbortedError", "BrokenPipeError", "BadStatusLine"}
        ),
    ),
    ("read_timeout", frozenset({"TimeoutError", "timeout"})),
    ("retries_exhausted", frozenset({"RetryError", "MaxRetryError", "ResponseError"})),
    ("connection_reset", frozenset({"ProtocolError", "ChunkedEncodingError"})),
)

# Known to have failed before a byte of the request left, where no urllib3 told us.
_NEVER_CONNECTED = frozenset({"connect_refused", "connect_timeout", "name_resolution"})


def _maybe_sent(error: BaseException, exchange: Exchange) -> bool:
    return (
        exchange.requests == 0
        and not exchange.sent
        and error_type_of(error) not in _NEVER_CONNECTED
        and not _by_urllib3(error)
    )


def _by_urllib3(error: BaseException) -> bool:
    inner = error.args[0] if error.args else None
    return type(inner).__module__.startswith("urllib3")


def _asked(call: Call, body: AsInRequests | None) -> dict[str, Any]:
    if body is not None:
        return {name: body[name] for name in ("params", "data", "json", "headers", "files") if name in body}
    asked: dict[str, Any] = {"params": call.params, "json": call.json, "data": call.data, "headers": call.headers}
    return {
        name: dict(value) if isinstance(value, Mapping) and name != "json" else value
        for name, value in asked.items()
        if value is not None
    }


def _overridden(session: requests.Session) -> bool:
    """Whether the session has its own way to build a request, as OAuth sessions do."""
    base, kind = requests.Session, type(session)
    names = ("request", "prepare_request", "merge_environment_settings")
    return any(getattr(kind, name) is not getattr(base, name) or name in vars(session) for name in names)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _frozen(part)) for key, part in value.items())
    return tuple(value) if isinstance(value, list) else value


def _exact(call: Call, prepared: requests.PreparedRequest) -> str | None:
    """The call's URL if it can go out as it is and nothing was merged into it."""
    url = call.url.partition("#")[0]
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        return None
    plain = requests.PreparedRequest()
    plain.prepare_url(url, None)
    return url if plain.url == prepared.url else None


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
        return {
            name: value for name, value in (headers or {}).items() if not strip or name.lower() in _HARMLESS_ON_REDIRECT
        } or None

    method = call.method.upper()
    if status not in _METHOD_KEPT:
        headers = call.headers if body is None else body.get("headers")
        kept = {name: value for name, value in (carried(headers) or {}).items() if name.lower() != "content-type"}
        return Call(
            "HEAD" if method == "HEAD" else "GET", target, headers=kept or None, credentials=call.credentials
        ), None
    again = Call(
        method, target, headers=carried(call.headers), json=call.json, data=call.data, credentials=call.credentials
    )
    if body is None:
        return again, None
    arguments: dict[str, Any] = {
        name: value for name, value in body.items() if name not in ("params", "cookies", "auth")
    }
    arguments["headers"] = carried(body.get("headers"))
    if hasattr(arguments.get("data"), "seek"):
        arguments["data"].seek(0)
    return again, cast("AsInRequests", arguments)
