"""Turning a call into a prepared request: with the session's credentials at home, without them elsewhere.

A poll is prepared once and sent again as it is, where nothing that it was made
from can have changed; on this `requests` spends half its time. What freezes
with it, for all hops until one does not go well: `.netrc`, and what the environment
says of proxies and certificates.
"""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypedDict
from urllib.parse import unquote, urlencode

import requests
from requests.cookies import RequestsCookieJar
from requests.sessions import merge_setting
from requests.structures import CaseInsensitiveDict
from requests.utils import check_header_validity

from trihop._origin import Trusted, origin_of
from trihop._redact import is_signed
from trihop._secrets import CREDENTIAL_NAME, Secrets
from trihop._values import Call
from trihop._wire.flight import Flight, depart
from trihop._wire.sockets import Exchange
from trihop._wire.straight import Straight

# What a request to a foreign origin may take over from the session.
HARMLESS_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Connection")
_HARMLESS_ELSEWHERE = frozenset(
    name.lower() for name in (*HARMLESS_HEADERS, "Content-Type", "Range", "If-Range", "Prefer")
)
_TRACE_HEADERS = frozenset({"traceparent", "tracestate", "baggage"})

# Given on the submit, these hold for the later hops as well: they say how the
# API is reached, not what is asked of it.
_FOR_ALL_HOPS = ("auth", "proxies", "verify", "cert")

# URLs that neither requests nor urllib3 would rewrite need no help to arrive as they are.
_ARRIVES_AS_IT_IS = re.compile(
    r"https?://[a-z0-9.-]+(:\d+)?(/(?!\.)[\w.~-]*(?<!\.))*/?(\?[\w.~=&/:@!$'()*,;-]*)?", re.ASCII
)

_SLASHES_OF_AN_ORIGIN = 2


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


class Outgoing(NamedTuple):
    """A request that is ready to go.

    Args:
        send: Sends it; a function of the timeout.
        depart: Sends it and leaves its answer, as `flight.depart`; a function of exchange, timeout and time. None
            where it cannot go so.
        exact_url: To go out byte for byte, where it would be rewritten otherwise.
        url: What is asked, as it was given and without what the session adds: a job is known by it, and stored.
    """

    send: Callable[[Any], requests.Response]
    depart: Callable[[Exchange, Any, float], Flight | None] | None
    exact_url: str | None
    url: str


@dataclass(slots=True)
class _Way:
    """A request prepared once, and what it was made from; whatever differs from it in its URL alone shares it."""

    made_from: tuple[Any, ...]
    prepared: requests.PreparedRequest
    settings: dict[str, Any]
    at_home: bool
    with_credentials: bool

    def is_like(self, other: _Way) -> bool:
        """Whether both came out alike."""
        return self._parts() == other._parts()

    def _parts(self) -> tuple[Any, ...]:
        prepared = self.prepared
        fields = getattr(prepared.headers, "_store", prepared.headers)
        sent = (prepared.method, fields, prepared.body, prepared.hooks)
        return (*sent, self.made_from, self.settings, self.at_home, self.with_credentials)


@dataclass(slots=True)
class _Kept:
    """A call that was prepared once, and the way it goes out."""

    call: Call
    way: _Way
    full_url: str | None
    exact_url: str | None
    url: str

    def copy(self, headers: Mapping[str, str] | None) -> requests.PreparedRequest:
        """One to send: adapters and hooks may change its headers."""
        prepared, clone = self.way.prepared, requests.PreparedRequest()
        vars(clone).update(vars(prepared), url=self.full_url)
        clone.headers = fields = prepared.headers.copy()
        clone.hooks = {event: list(hooks) for event, hooks in prepared.hooks.items()}
        for name, value in (headers or {}).items():
            fields[name] = value
        return clone


class _Fields(CaseInsensitiveDict):  # type: ignore[type-arg]  # no generic before requests 2.33
    """Header fields that are copied as they are: requests' own mapping looks at each anew."""

    def __init__(self, fields: CaseInsensitiveDict[Any]) -> None:
        self._store = fields._store.copy()  # type: ignore[attr-defined]

    def copy(self) -> _Fields:
        """Another with the same fields."""
        return _Fields(self)


def _fields_of(session: requests.Session, call: Call) -> CaseInsensitiveDict[Any]:
    """The header fields of a call on the session, as requests merges and checks them."""
    own = call.headers or {}
    if type(session.headers) is CaseInsensitiveDict and None not in own.values():
        fields = _Fields(session.headers)
        if all(type(name) is type(value) is str for name, value in fields._store.values()):
            for name, value in own.items():
                check_header_validity((name, value))
                fields[name] = value
            return fields
    prepared = requests.PreparedRequest()
    prepared.prepare_headers(merge_setting(own, session.headers, dict_class=CaseInsensitiveDict))  # type: ignore[no-untyped-call]
    return prepared.headers


def harmless(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of the headers of a request, those that may go where a server at home sends us."""
    return {name: value for name, value in (headers or {}).items() if name.lower() in _HARMLESS_ELSEWHERE}


def without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """A URL without its user and password, and these: what a job is known by and stored under has no credentials.

    >>> without_user("https://me:p%40w@api.example/jobs")
    ('https://api.example/jobs', ('me', 'p@w'))
    """
    scheme, _, rest = url.partition("://")
    end = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    user, sign, host = rest[:end].rpartition("@")
    if not sign:
        return url, None
    name, _, password = user.partition(":")
    return f"{scheme}://{host}{rest[end:]}", (unquote(name), unquote(password))


class Preparing:
    """Prepares the requests of one operation."""

    def __init__(self, session: requests.Session, trusted: Trusted) -> None:
        self.session = session
        self.trusted = trusted
        self.options: dict[str, Any] = {}
        self.secrets = Secrets(session)
        self._straight = Straight()
        self._kept: _Kept | None = None
        self._model: _Kept | None = None
        self._way_before: _Way | None = None
        self._settled: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def adopt(self, as_in_requests: AsInRequests) -> None:
        """Take over what a submit says about how the API is reached."""
        given: Mapping[str, Any] = as_in_requests
        self.options = {name: given[name] for name in _FOR_ALL_HOPS if name in given}
        self.forget()

    def apart(self, url: str, as_in_requests: AsInRequests) -> tuple[str, AsInRequests]:
        """A URL that the caller wrote, its user and password taken as `auth=`, where there is no other."""
        url, user = without_user(url)
        if user is None or as_in_requests.get("auth") is not None or self.session.auth is not None:
            return url, as_in_requests
        return url, {**as_in_requests, "auth": user}

    @property
    def asks_the_caller(self) -> bool:
        """Whether code of the caller's signs each request, which may take its time or be asked once only."""
        auth = self.options.get("auth") or self.session.auth
        return auth is not None and not isinstance(auth, tuple)

    def forget(self) -> None:
        """Prepare the next request afresh: something happened that may have changed what it is made from."""
        self._kept = self._model = self._settled = None
        self.secrets.look_again()

    def transmit(
        self, call: Call, body: AsInRequests | None, headers: Mapping[str, str] | None, *, repeat: bool
    ) -> Outgoing:
        """The call made ready.

        Args:
            call: What to send.
            body: The caller's own arguments, instead of those of the call.
            headers: `traceparent` and the like, for trusted origins.
            repeat: Whether a request prepared before may be sent again.

        Raises:
            ValueError, TypeError: It cannot be prepared.
        """
        if headers is not None and is_signed(call.url):
            headers = None  # a signature may cover the headers
        kept = self._kept
        if kept is None or not repeat or kept.call != call or kept.way.made_from != self._made_from(self.options):
            origin_of(call.url)  # what is not clearly one is never sent
            at_home = call.url in self.trusted
            with_credentials = call.credentials == "always" or (call.credentials == "origin" and at_home)
            options = {**self.options, **(body or {})}
            if with_credentials and _overridden(self.session):
                return self._by_the_session(call, body, options, headers if at_home else None)
            made_from = self._made_from(options) if with_credentials else None
            kept = self._after_the_model(call, made_from) if body is None else None
            if kept is None:
                kept = self._prepare(call, at_home, with_credentials, options, body)
            if made_from is not None:
                kept.way.made_from = kept.way.made_from or made_from
                if repeat and isinstance(kept.way.prepared.body, (bytes, str, type(None))):
                    if self._way_before is not None and self._way_before.is_like(kept.way):
                        kept.way = self._way_before
                    self._kept, self._way_before = kept, kept.way
                if _may_be_a_model(kept, arguments_of(call, body), options):
                    self._model = kept
        way = kept.way
        session = self.session if way.with_credentials else _stranger(self.session)
        prepared, settings = kept.copy(headers if way.at_home else None), way.settings
        return Outgoing(
            lambda timeout: self._straight.send(session, prepared, timeout=timeout, settings=settings),
            lambda exchange, timeout, at_s: depart(
                self._straight, session, prepared, exchange, timeout=timeout, settings=settings, at_s=at_s
            ),
            kept.exact_url,
            kept.url,
        )

    def signs_differently(self, call: Call, refused: requests.PreparedRequest | None) -> bool:
        """Whether preparing the call again gives other credentials than those that were refused."""
        self.forget()
        at_home = call.url in self.trusted
        if refused is None or not (at_home or call.credentials == "always"):
            return False
        if _overridden(self.session):
            return True  # an OAuth session refreshes as it sends; there is no telling beforehand
        now = self._prepare(call, at_home, True, dict(self.options), None).way.prepared
        return now.url != refused.url or any(refused.headers.get(name) != value for name, value in now.headers.items())

    def as_written(self, url: str) -> str:
        """The URL without the session's params: they are added to each request anew, and may be credentials."""
        params: Any = self.session.params
        if not params or "?" not in url:
            return url
        written = params.decode() if isinstance(params, bytes) else params
        added = (written if isinstance(written, str) else urlencode(written, doseq=True)).split("&")
        before, _, query = url.partition("#")[0].partition("?")
        kept = "&".join(item for item in query.split("&") if item not in added)
        return f"{before}?{kept}" if kept else before

    # ---- the ways to prepare

    def _by_the_session(
        self, call: Call, body: AsInRequests | None, options: dict[str, Any], headers: Mapping[str, str] | None
    ) -> Outgoing:
        """For a session with its own way to build a request, as OAuth sessions have."""
        session, asked = self.session, arguments_of(call, body)
        arguments = {**options, **asked, "headers": {**(asked.get("headers") or {}), **(headers or {})}}

        def send(timeout: Any) -> requests.Response:
            response = session.request(
                call.method, call.url, timeout=timeout, allow_redirects=False, stream=True, **arguments
            )
            self.secrets.learn(response.request)
            return response

        return Outgoing(send, None, None, _as_asked(call, asked))

    def _prepare(
        self, call: Call, at_home: bool, with_credentials: bool, options: dict[str, Any], body: AsInRequests | None
    ) -> _Kept:
        session, arguments, method = self.session, arguments_of(call, body), call.method.upper()
        if with_credentials:
            own = {name: options.get(name) for name in ("auth", "cookies", "hooks")}
            prepared = session.prepare_request(requests.Request(method, call.url, **own, **arguments))
            cert = options.get("cert")
        else:
            # Without the session: no auth, cookies, params, hooks or netrc; only what says who asks.
            plain = {
                name: value for name in HARMLESS_HEADERS if (value := (session.headers or {}).get(name)) is not None
            }
            written = arguments.get("headers") or {}
            if not at_home:
                written = {name: value for name, value in written.items() if _may_leave(name)}
            arguments["headers"] = {**plain, **written}
            prepared = requests.PreparedRequest()
            prepared.prepare(method=method, url=call.url, **arguments)
            cert = None
        url = prepared.url or call.url
        settings = self._settings(url, options, cert)
        if not with_credentials:
            settings["cert"] = None
        self.secrets.learn(prepared)
        if type(prepared.headers) is CaseInsensitiveDict:
            prepared.headers = _Fields(prepared.headers)
        exact_url, url = _exact(call, prepared), _as_asked(call, arguments)
        return _Kept(call, _Way((), prepared, settings, at_home, with_credentials), prepared.url, exact_url, url)

    def _after_the_model(self, call: Call, made_from: tuple[Any, ...] | None) -> _Kept | None:
        """A GET as the session would prepare it, from the request before it to this origin; None where that differs.

        The same credentials and hooks, another path and the headers of its own: the work
        of taking a URL and the session apart is spared, and a look at `.netrc`.
        """
        model, session = self._model, self.session
        if model is None or made_from is None or model.way.made_from != made_from or session.params:
            return None
        if call.method != "GET" or call.params or call.json is not None or call.data is not None:
            return None
        if origin_of(call.url) != origin_of(model.call.url) or not _is_as_prepared(call.url):
            return None
        way = model.way
        if model.call.method != "GET" or model.call.headers != call.headers:
            prepared = requests.PreparedRequest()
            vars(prepared).update(vars(way.prepared), method="GET", body=None, _body_position=None)
            prepared.headers = _fields_of(session, call)
            authorization = way.prepared.headers.get("Authorization")
            # Of `auth` or of `.netrc`, which come last; what merely stood among the headers is merged as they are.
            written = (session.headers or {}).get("Authorization")
            signed = self.options.get("auth") or session.auth or authorization != written
            if authorization is not None and signed:
                prepared.headers["Authorization"] = authorization
            settings = self._settings(call.url, self.options, self.options.get("cert"))
            way = _Way(way.made_from, prepared, settings, way.at_home, True)
        kept = _Kept(call, way, call.url, None, call.url)
        self.secrets.learn(kept.copy(None))
        return kept

    def _settings(self, url: str, options: dict[str, Any], cert: Any) -> dict[str, Any]:
        """Proxies, verify and cert for a URL; the environment is read once an origin, as that costs half a send."""
        session = self.session
        given = (options.get("proxies"), options.get("verify"), cert)
        asked = (origin_of(url), *given, dict(session.proxies or {}), session.verify, session.cert, session.trust_env)
        if self._settled is None or self._settled[0] != asked:
            self._settled = (asked, self._merged(url, *given))
        return dict(self._settled[1])

    def _merged(self, url: str, proxies: Any, verify: Any, cert: Any) -> dict[str, Any]:
        session = self.session
        if proxies or session.proxies or (session.trust_env and not _environment_knows_no_proxy()):
            return dict(session.merge_environment_settings(url, dict(proxies or {}), True, verify, cert))
        # What comes of it where there are no proxies at all.
        if session.trust_env and (verify is None or verify is True):
            verify = _certificates() or verify
        return {
            "proxies": {},
            "stream": True,
            "verify": session.verify if verify is None else verify,
            "cert": session.cert if cert is None else cert,
        }

    def _made_from(self, options: dict[str, Any]) -> tuple[Any, ...] | None:
        """What a prepared request depends on; None where it must be prepared each time."""
        session = self.session
        auth = options.get("auth") or session.auth
        if auth is not None and not isinstance(auth, tuple):
            return None  # a callable signs each request by itself
        if len(session.cookies) > 0 or options.get("cookies") or _overridden(session):
            return None
        return (
            # Past the methods of requests' own mapping, which cost as much as all the rest.
            tuple(getattr(session.headers, "_store", session.headers or {}).items()),
            auth,
            _frozen(session.params),
            dict(session.proxies or {}),
            {event: hooks if callable(hooks) else list(hooks or ()) for event, hooks in (session.hooks or {}).items()},
            session.verify,
            session.cert,
            session.trust_env,
        )


def arguments_of(call: Call, body: AsInRequests | None = None) -> dict[str, Any]:
    """What a call sends, in the words of `requests`; the caller's own arguments stand for those of the call."""
    if body is not None:
        given: Mapping[str, Any] = body
        return {name: given[name] for name in ("params", "data", "json", "headers", "files") if name in given}
    asked: dict[str, Any] = {"params": call.params, "json": call.json, "data": call.data, "headers": call.headers}
    return {
        name: dict(value) if isinstance(value, Mapping) and name != "json" else value
        for name, value in asked.items()
        if value is not None
    }


_OVERRIDABLE = frozenset({"request", "prepare_request", "merge_environment_settings"})


_ways = attrgetter(*sorted(_OVERRIDABLE))

# As they were when we came: who replaces one later, on the class itself, is asked as well.
_AS_REQUESTS_HAS_THEM = _ways(requests.Session)


def _overridden(session: requests.Session) -> bool:
    return _ways(type(session)) != _AS_REQUESTS_HAS_THEM or not _OVERRIDABLE.isdisjoint(vars(session))


def _stranger(session: requests.Session) -> requests.Session:
    """The session with an empty cookie jar of its own: what a foreign host sets stays out of the caller's."""
    clone = object.__new__(type(session))
    vars(clone).update(vars(session))
    clone.cookies = RequestsCookieJar()
    return clone


def _environment_knows_no_proxy() -> bool:
    """Whether no variable says a word about proxies.

    To look for names is a fraction of what requests does: it goes through all
    variables and their values, twice. Where proxies may come from elsewhere
    (Windows' registry, macOS' settings), never.
    """
    if urllib.request.getproxies is not urllib.request.getproxies_environment:
        return False
    return b"_proxy=" not in b"=".join([*os.environb, b""]).lower()


def _certificates() -> str | None:
    """Whom to trust instead of the usual authorities, by the environment; as in `merge_environment_settings`."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")


def _may_leave(name: str) -> bool:
    """Whether a header that the caller wrote may go to a foreign origin."""
    return CREDENTIAL_NAME.search(name) is None and name.lower() not in _TRACE_HEADERS


def _as_asked(call: Call, arguments: Mapping[str, Any]) -> str:
    """The call's URL with its own parameters."""
    if not arguments.get("params"):
        return call.url
    asked = requests.PreparedRequest()
    asked.prepare_url(call.url, arguments["params"])
    return asked.url or call.url


def _may_be_a_model(kept: _Kept, asked: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether its credentials and hooks are those of any request to this origin."""
    signed = any(name.lower() == "authorization" for name in asked.get("headers") or ())
    return not signed and not options.get("hooks") and _is_as_prepared(kept.call.url)


def _is_as_prepared(url: str) -> bool:
    """Whether requests would leave a URL as it is, and it says nothing of a user."""
    return url.count("/") > _SLASHES_OF_AN_ORIGIN and _ARRIVES_AS_IT_IS.fullmatch(url) is not None


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _frozen(part)) for key, part in value.items())
    return tuple(value) if isinstance(value, list) else value


def _exact(call: Call, prepared: requests.PreparedRequest) -> str | None:
    """The call's URL, if it can go out as it is, nothing was merged into it, and it would be rewritten otherwise."""
    url = call.url.partition("#")[0]
    if _ARRIVES_AS_IT_IS.fullmatch(url) or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        return None
    plain = requests.PreparedRequest()
    plain.prepare_url(url, None)
    return url if plain.url == prepared.url else None
