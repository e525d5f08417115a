"""Credentials that are easy to find again, ways to carry them, and the places where they must not turn up."""

from __future__ import annotations

import base64
import io
import json
import logging
import pickle
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import requests

from trihop import Call, Event, Provider, Ready, Result, TrihopError, show

BEARER = "b34rer-c4n4ry-tok3n"
API_KEY = "4pikey/c4n4ry+k3y="
COOKIE_HOME, COOKIE_ANYWHERE = "c00kie-c4n4ry-home", "c00kie-c4n4ry-anywhere"
PARAM = "p4r4m-c4n4ry"
WRITTEN = "wr1tten-c4n4ry-header"
PASSWORD, USER = "p4ss+c4n4ry/word", "us3r-c4n4ry"
NETRC = "n3trc-c4n4ry"
PROXY = "pr0xy-c4n4ry"
CERT = "c3rt-c4n4ry"
OAUTH = "04uth-c4n4ry-token"

LINKS = {
    "the signature of an AWS link": "s1gn4ture-aws-c4n4ry",
    "the signature of an Azure link": "s1gn4ture-azure-c4n4ry",
    "the signature of a CloudFront link": "s1gn4ture-cloudfront-c4n4ry",
    "the password in a link": "l1nk-p4ss-c4n4ry",
}
AWS, AZURE, CLOUDFRONT, LINK_PASSWORD = LINKS.values()
CREDENTIALS = {
    "the session's bearer token": BEARER,
    "the session's API key": API_KEY,
    "a cookie of the API's domain": COOKIE_HOME,
    "a cookie without a domain": COOKIE_ANYWHERE,
    "a param of the session": PARAM,
    "a token given to op.submit": WRITTEN,
    "the password of auth=": PASSWORD,
    "the user of auth=": USER,
    "the password of .netrc": NETRC,
    "the password of the proxy": PROXY,
    "the path of the client certificate": CERT,
    "an OAuth token": OAUTH,
    "auth= as the wire has it": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(),
    "the proxy's as the wire has it": base64.b64encode(f"me:{PROXY}".encode()).decode(),
    ".netrc as the wire has it": base64.b64encode(f"me:{NETRC}".encode()).decode(),
}


def signed(url: str) -> dict[str, str]:
    """One thing behind links of four makes."""
    parts = urlsplit(url)
    return {
        "aws": f"{url}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={AWS}&X-Amz-Signature={AWS}",
        "azure": f"{url}?sv=2022-11-02&sig={AZURE}",
        "cloudfront": f"{url}?Expires=4102444800&Signature={CLOUDFRONT}&Key-Pair-Id=K1",
        "userinfo": f"{parts.scheme}://me:{LINK_PASSWORD}@{parts.netloc}{parts.path}",
    }


def echo(call: Any) -> str:
    """All that a server was sent, as servers quote it: plainly, percent-encoded, in prose and in JSON."""
    values = [*(value for _, value in call.headers.fields), call.path, *call.query.values()]
    values += [base64.b64decode(value[6:]).decode("latin-1") for value in values if value.startswith("Basic ")]
    told = "; ".join(values)
    return f"you sent {told} and that is {quote(told)} or {json.dumps(told)}"


class OAuthLike(requests.Session):
    """Signs in `request`, as OAuth sessions do."""

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        headers = {**(kwargs.pop("headers", None) or {}), "Authorization": f"Bearer {OAUTH}"}
        return super().request(method, url, headers=headers, **kwargs)


def carry(kind: str, session: requests.Session, netrc: Path, monkeypatch: Any) -> requests.Session:
    """The session with one kind of credentials, or with all that go together."""
    session.trust_env = kind == "netrc" or kind == "netrc default"
    match kind:
        case "session":
            session.headers["Authorization"] = f"Bearer {BEARER}"
            session.headers["X-Api-Key"] = API_KEY
            session.cookies.set("sid", COOKIE_HOME, domain="127.0.0.1", path="/")
            session.cookies.set("anywhere", COOKIE_ANYWHERE)
            session.params = {"api_key": PARAM}
            session.cert = str(netrc.parent / f"{CERT}.pem")
            Path(session.cert).touch()  # requests looks for it over http, too
        case "basic":
            session.auth = (USER, PASSWORD)
        case "netrc":
            netrc.write_text(f"machine 127.0.0.1 login me password {NETRC}\n")
            monkeypatch.setenv("NETRC", str(netrc))
        case "netrc default":
            netrc.write_text(f"default login me password {NETRC}\n")
            monkeypatch.setenv("NETRC", str(netrc))
        case "oauth":
            session = OAuthLike()
            session.trust_env = False
    return session


# ---- places


def span_texts(spans: Any) -> Iterator[tuple[str, str]]:
    for span in spans:
        where = f"span {span.name!r}"
        yield f"{where}, its name", span.name
        yield f"{where}, its status", str(span.status.description)
        for key, value in (span.attributes or {}).items():
            yield f"{where}, attribute {key}", f"{key}={value}"
        for event in span.events:
            for key, value in (event.attributes or {}).items():
                yield f"{where}, event {event.name}, attribute {key}", f"{key}={value}"
        for link in span.links:
            yield f"{where}, a link", str(dict(link.attributes or {}))
        yield f"{where}, its resource", str(dict(span.resource.attributes))


def log_texts(records: list[logging.LogRecord]) -> Iterator[tuple[str, str]]:
    """Of every logger but urllib3's own, which writes request targets at DEBUG and is switched off by its user."""
    formatter = logging.Formatter()
    for record in records:
        if not record.name.startswith("urllib3"):
            yield f"log of {record.name}", formatter.format(record)
            yield f"log of {record.name}, its arguments", repr(record.args)


def error_texts(error: BaseException, *, in_pickle: bool = True) -> Iterator[tuple[str, str]]:
    where = type(error).__name__
    yield f"str({where})", str(error)
    yield f"repr({where})", repr(error)
    yield f"{where}.args", repr(error.args)
    yield f"the traceback of {where}", "".join(traceback.format_exception(type(error), error, error.__traceback__))
    seen: BaseException | None = error
    while seen is not None:
        seen = seen.__cause__ or seen.__context__
        if seen is not None:
            yield (
                f"what {where} was raised from, {type(seen).__name__}",
                f"{seen} {seen!r} {seen.args!r} {vars(seen)!r}",
            )
    if isinstance(error, TrihopError):
        yield f"{where}.what and .then", error.what + error.then
        yield f"repr({where}.record)", f"{error.record!r} {error.record}"
        yield f"{where}.state", str(error.state)
        cause = error.cause
        yield f"{where}.cause", f"{cause} {cause!r} {getattr(cause, 'args', '')!r} {vars(cause) if cause else ''!r}"
        for name in ("ready", "reply"):
            yield f"repr({where}.{name})", repr(getattr(error, name, None))


def pickle_texts(error: BaseException) -> Iterator[tuple[str, str]]:
    where = type(error).__name__
    try:
        pickled = pickle.dumps(error)
    except Exception as fault:
        yield f"{where} cannot be pickled", repr(fault)
        raise
    yield f"the pickle of {where}", pickled.decode("latin-1")
    yield f"the text of {where} after a pickle", str(pickle.loads(pickled))


def value_texts(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        yield f"repr of {name}", repr(value)


def event_texts(events: list[Event]) -> Iterator[tuple[str, str]]:
    for event in events:
        yield f"event {event.kind}", repr(event)
        printed = io.StringIO()
        show(event, to=printed)
        yield f"event {event.kind}, as show() prints it", printed.getvalue()


def reprs_of(ready: Ready | None, provider: Provider) -> dict[str, object]:
    results = list(ready.results) if ready is not None else []
    return {
        "Provider": provider,
        "its templates": [provider.status, provider.cancel],
        "Ready": ready,
        "Result": results,
        "Call": [Call("GET", result.at) for result in results if isinstance(result.at, str)],
        "a Result from a Call": [Result(Call("GET", result.at)) for result in results if isinstance(result.at, str)],
    }


def assert_silent(texts: Iterator[tuple[str, str]], canaries: Mapping[str, str]) -> int:
    """No canary is in any of the texts, in any spelling.

    Returns:
        How many texts there were, for a test to see that it looked somewhere.
    """
    leaks, count = [], 0
    for place, text in texts:
        count += 1
        spellings = {text, unquote(text), unquote(unquote(text))}
        for name, canary in canaries.items():
            for spelt in {canary, quote(canary), quote(canary, safe=""), json.dumps(canary)[1:-1]}:
                if any(spelt in spelling for spelling in spellings):
                    at = next(spelling.find(spelt) for spelling in spellings if spelt in spelling)
                    near = next(spelling for spelling in spellings if spelt in spelling)
                    around = f"{near[max(0, at - 60) : at]}<<< HERE >>>{near[at + len(spelt) : at + len(spelt) + 30]}"
                    leaks.append(f"{name} leaked into {place}:\n    {around!r}")
                    break
    assert not leaks, f"{len(leaks)} leaks\n" + "\n".join(leaks[:12])
    return count
