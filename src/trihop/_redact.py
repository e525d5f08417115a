"""Takes credentials and signatures out of URLs, headers and texts, before anything is written down.

A name decides: what stands under a name that credentials go by is replaced, and
so is the whole query of a signed link. In doubt it is replaced. What no rule can
know is a secret without a name: a path that is itself the key (`/d/3f9c…`), a
bare password in prose. `known` is for those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

_Kind = Literal["plain", "credential", "signature", "no name"]

REDACTED = "REDACTED"
_USERINFO = f"{REDACTED}:{REDACTED}@"
_LONGEST_URL = 2048
_LONGEST_NAME = 64  # what is longer is no name, and may be the secret itself
SHORTEST_KNOWN = 6  # replacing shorter secrets would shred any text
_LONGEST_RESPELT = 1024
_LONGEST_CAUSE = 2048

# A link is signed when its query has one of these. Beyond OpenTelemetry's list of
# seven, each from its vendor's description of such links:
_SIGNATURE_NAMES = frozenset(
    {
        "sig",  # Azure SAS
        "signature",  # AWS SigV2, CloudFront, Google V2, Alibaba OSS, Huawei OBS
        "sign",  # Alibaba and Tencent CDNs
        "awsaccesskeyid",  # AWS SigV2
        "key-pair-id",  # CloudFront
        "googleaccessid",  # Google V2
        "ossaccesskeyid",  # Alibaba OSS
        "q-signature",  # Tencent COS
        "temp_url_sig",  # OpenStack Swift
        "tempauth",  # SharePoint and OneDrive
        "oauth_signature",  # OAuth 1.0
        "hmac",  # Shopify
        "hdnts",  # Akamai, as the two below
        "hdnea",
        "hdntl",
    }
)
_SIGNATURE_PREFIXES = ("x-amz-", "x-goog-", "x-oss-", "x-obs-", "x-tos-")

# `tokens` is a count of a language model's words, `pageToken` a cursor: the first
# is kept, the second is not, for some cursors let anybody read on.
_SECRET_NAME = re.compile(
    r"token(?!s)|secret|passw|passphrase|passcode|pwd|signature|credential|jwt|session|sessid|bearer|authorization"
    r"|assertion|cookie|verifier|key\]?$|^code$|auth_?code"
    r"|(?<![a-z])(?:auth|oauth|pass|pw|sig|sid|sas|otp|pin|mac|ticket)(?![a-z])"
)
_NESTED_URL = re.compile(r"(?::|%(?:25)*3a)(?:/|%(?:25)*2f){2}", re.IGNORECASE)
_HIDING = re.compile(r"[;:?\\]|%(?:25)*3[abdf]", re.IGNORECASE)  # ; : = ? and what may be an escape
_LONE_WORD = re.compile(r"[A-Za-z_.-]{0,32}[0-9]{0,4}|[0-9]{1,13}")  # ?acl, ?v2, ?1700000000000
_INNER_USERINFO = re.compile(r"(?<=//)[^/?#@:]*:[^/?#]*@")  # of a URL in the path of another
_PATH_PARAMETER = re.compile(r"(?<=[;/])([^;/=]{1,64})=[^;/]*")  # ;jsessionid=…
_JWT = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))eyJ[A-Za-z0-9_-]{10,}[A-Za-z0-9_.=-]*")


def redact_url(url: str, *, known: Iterable[str] = ()) -> str:
    """The URL as it may be written down, byte for byte but for what is secret.

    User and password become `REDACTED:REDACTED@`. A signed link keeps its query's
    names and loses all values; another URL loses the values of names that
    credentials go by, and values in which such a name or a further URL hides;
    parameters of the path are treated alike, and so are segments of it that are
    an encoded URL. A path that is itself the key cannot be told from any other.
    A fragment is replaced: it never travels, and browsers keep tokens there.
    Cut at 2,048 characters. No text makes this function raise.

    Args:
        url: Any URL, whole or relative.
        known: Secrets that are replaced wherever they stand behind the host, as in `redact_text`.

    Source: OpenTelemetry's rules for `url.full`, with a longer list of names.

    >>> redact_url("https://me:pw@bucket.example/k?X-Amz-Date=2026&X-Amz-Signature=ab%2Fc")
    'https://REDACTED:REDACTED@bucket.example/k?X-Amz-Date=REDACTED&X-Amz-Signature=REDACTED'
    >>> redact_url("https://api.example/jobs?state=%7eall&api_key=abc")
    'https://api.example/jobs?state=%7eall&api_key=REDACTED'
    """
    if "@" in url:
        url = _without_userinfo(url)
    if "?" in url or "#" in url or "=" in url or "%3" in url or "%25" in url:
        url, hash_, fragment = url.partition("#")
        path, mark, query = url.partition("?")
        if "=" in path:
            path = _PATH_PARAMETER.sub(_redact_path_parameter, path)
        if "%3" in path or "%25" in path:  # a whole URL, encoded, as proxies have it
            path = "/".join([REDACTED if _hides_a_secret(segment) else segment for segment in path.split("/")])
        url = f"{path}{mark}{_redact_query(query) if query else ''}{hash_}{REDACTED if fragment else ''}"
    if "eyJ" in url:
        url = _JWT.sub(REDACTED, url)
    if known:
        start = max(0, url.find("/", url.find("//") + 2))
        url = url[:start] + redact_known(url[start:], known)
    return url[:_LONGEST_URL]


def redact_known(text: str, known: Iterable[str]) -> str:
    """The text without these secrets, each of six characters or more, also where they are percent-encoded or escaped.

    >>> redact_known("/bots/b0t-t0ken/jobs", ["b0t-t0ken"])
    '/bots/REDACTED/jobs'
    """
    respelt = "%" in text or "\\" in text
    for secret in known:
        if secret in text or (respelt and not secret.isalnum()):
            text = _without_known(text, secret)
    return text


def is_signed(url: str) -> bool:
    """Whether the URL carries its own permission: whoever has the link has the thing."""
    return "?" in url and _is_signed_query(url.partition("#")[0].partition("?")[2])


def _without_userinfo(url: str) -> str:
    """Also where a password has a `/`, `?` or `#` that should have been encoded."""
    slashes = url.find("//")
    start = slashes + 2 if slashes == 0 or (slashes > 0 and url[slashes - 1] == ":") else 0
    end = min((at for at in (url.find(mark, start) for mark in "/?#") if at >= 0), default=len(url))
    host = url[start:end].rpartition("@")[2]
    _, colon, port = host.rpartition(":")
    whole = not colon or port.isdecimal() or host.startswith("[")
    at = url.rfind("@", start, end if whole else None)
    if at >= 0:
        url = f"{url[:start]}{_USERINFO}{url[at + 1 :]}"
    return _INNER_USERINFO.sub(_USERINFO, url) if url.count("//") > 1 else url


def _redact_path_parameter(match: re.Match[str]) -> str:
    return match[0] if _kind(match[1]) == "plain" else f"{match[1]}={REDACTED}"


def _redact_query(query: str) -> str:
    signed = _is_signed_query(query)
    return "&".join([_redact_item(item, signed) for item in query.split("&")])


def _is_signed_query(query: str) -> bool:
    return any(_kind(item.partition("=")[0]) == "signature" for item in query.split("&") if "=" in item)


def _redact_item(item: str, signed: bool) -> str:
    name, equals, value = item.partition("=")
    if not name or not equals:
        return item if _LONE_WORD.fullmatch(item) else REDACTED
    kind = _kind(name)
    if kind == "no name":
        return REDACTED
    return f"{name}={REDACTED}" if signed or kind != "plain" or _hides_a_secret(value) else item


def _kind(name: str) -> _Kind:
    return _kind_of_name(name) if len(name) <= _LONGEST_NAME else "no name"


@lru_cache(maxsize=1024)
def _kind_of_name(name: str) -> _Kind:
    name = _decoded(name).removeprefix("amp;")
    folded = name.lower()
    if "/" in name or "@" in name or "?" in name:  # a URL that was not encoded
        return "no name"
    if folded in _SIGNATURE_NAMES or folded.startswith(_SIGNATURE_PREFIXES) or name == "Policy":  # CloudFront's
        return "signature"
    return "credential" if _SECRET_NAME.search(folded) else "plain"


def _decoded(text: str) -> str:
    """Without percent-encoding, also where it was encoded up to three times."""
    return unquote(unquote(unquote(text)))


def _hides_a_secret(value: str) -> bool:
    if _NESTED_URL.search(value):
        return True
    if not _HIDING.search(value):
        return False
    value = _decoded(value)
    pieces = [piece.partition("=") for piece in re.split(r"[;?&]|\\u0026", value)]
    if any(equals and _kind(name) in ("credential", "signature") for name, equals, _ in pieces):
        return True
    return _text_rules().assigned.search(value.lower()) is not None


# ---- headers

_HARMLESS_HEADERS = frozenset(
    """accept accept-encoding accept-ranges age allow cache-control cf-ray connection content-disposition
    content-encoding content-language content-length content-md5 content-range content-type date digest etag expires
    host if-match if-none-match if-range last-modified prefer preference-applied range request-id retry-after
    retry-after-ms server server-timing sforce-numberofrecords traceparent tracestate transfer-encoding user-agent vary
    via x-amz-id-2 x-amz-request-id x-amzn-requestid x-cache x-correlation-id x-ms-client-request-id x-ms-request-id
    x-ms-retry-after-ms x-progress x-request-id x-trace-id""".split()  # noqa: SIM905 - a list takes a line a name
)
_HARMLESS_PREFIXES = ("ratelimit-", "x-ratelimit-")
_LINK_HEADERS = ("location", "content-location", "operation-location", "azure-asyncoperation")
_TEXT_HEADERS = ("link", "www-authenticate", "proxy-authenticate")


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The fields as they may be written down: only those known to be harmless keep their values.

    >>> redact_headers({"Retry-After": "5", "X-Api-Key": "abc", "Location": "/jobs/1?sig=abc"})
    {'Retry-After': '5', 'X-Api-Key': 'REDACTED', 'Location': '/jobs/1?sig=REDACTED'}
    """
    return {name: _redact_header(name.lower(), value) for name, value in headers.items()}


def is_harmless(name: str) -> bool:
    """Whether a header field, its name in lower case, is known to carry no secret."""
    return name in _HARMLESS_HEADERS or name.startswith(_HARMLESS_PREFIXES)


def _redact_header(name: str, value: str) -> str:
    if is_harmless(name):
        return value
    if name in _LINK_HEADERS:
        return redact_url(value)
    return redact_text(value) if name in _TEXT_HEADERS else REDACTED


# ---- texts

_SCHEMES = ("bearer", "basic", "negotiate", "ntlm", "hawk", "sharedkey", "sharedaccesssignature")
_WHOLE_LINES = ("authorization", "cookie", "header part")
_ERROR_CODE = re.compile(
    r"(?![\w-]*(?:pass|pwd|secret|cookie))"
    r"[\w-]*(?:invalid|expired|missing|mismatch|notmatch|not_?found|not_?supported|required|unknown|revoked|malformed"
    r"|denied|refused|fail|exception|error)[\w-]*\Z"
)
_WORD_BEFORE = re.compile(r"[\w-]{1,64}\Z")
_PROSE = re.compile(r"[A-Z]?[a-z]{0,9}\ [a-z]{1,20}\b(?![=:])")
_REST_OF_LINE = re.compile(r"[^\r\n]*")
_REST_OF_WORD = re.compile(r"(?:(?i:bearer|basic|token|apikey)(?:\s{1,4}|%20|\+))*[^\s\"<>&]*")  # token: Bearer …


class _TextRules(NamedTuple):
    shape: re.Pattern[str]
    link: re.Pattern[str]
    assigned: re.Pattern[str]
    scheme: re.Pattern[str]
    userinfo: re.Pattern[str]


def _names_in_texts() -> Iterator[str]:
    """Patterns of the names that credentials go by; each begins with a letter, and `re` looks for that first."""
    yield from ("assertion", "bearer", "cookie", "credential", "jwt", "passcode", "passphrase", "passw", "pwd")
    yield from ("secret", "sessid", "session", "signature", "token(?!s)", "verifier", r"authorization(?![\w-])")
    for owner in ("access", "account", "api", "app", "auth", "client", "consumer", "encryption", "function"):
        yield f"{owner}[-_ ]?key"
    for owner in ("host", "master", "private", "service", "shared", "subscription"):
        yield f"{owner}[-_ ]?key"
    for word in ("auth", "hmac", "oauth", "otp", "pass", "pw", "sas", "sid", "sig"):
        yield f"{word}(?<![a-z]{word})(?![a-z])"
    yield "key(?<![a-z]key)(?==)"
    yield from (
        r"header\ value",
        r"header\ part\ \(",
        r"<cookie\ [^=>]{1,64}(?==)",
    )  # http.client, requests, cookie jars


@cache
def _text_rules() -> _TextRules:
    """Compiled when the first text comes: most programs never see one.

    Each repeat is bounded, or ends where the search goes on: no text takes more than linear time.
    """
    return _TextRules(
        shape=re.compile(
            r"""(?<![A-Za-z0-9])(?:
                  (?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}                 # AWS
                | AIza[\w-]{30,} | ya29\.[\w.-]{16,}                             # Google
                | sk-[\w-]{16,} | [prs]k_(?:live|test)_\w{8,}                    # OpenAI, Anthropic; Stripe
                | gh[a-z]_\w{16,} | github_pat_\w{16,} | glpat-[\w-]{16,}        # GitHub, GitLab
                | xox[a-z]-[\w-]{8,} | shp[a-z]{2}_\w{16,}                       # Slack, Shopify
                | 00D\w{9,15}![\w.]{16,}                                         # Salesforce
                )""",
            re.VERBOSE | re.ASCII,
        ),
        # urllib3 prints a target after "url: "; what is left over are queries without their URL.
        link=re.compile(r"""url:\ \S+ | //[^\s"<>]+ | \?[^\s"<>=?]*=[^\s"<>]*""", re.VERBOSE),
        # Asked of a text in lower case: plain words are what `re` finds 40 times faster than words in any case.
        assigned=re.compile(
            rf"""(?: {"|".join(_names_in_texts())} ) [\w-]{{0,64}}
                (?: (?:\\*["'])?\s{{0,4}}(?:=>|[=:]|%3[ad])\s{{0,4}}             # token=…   "token": …
                  | \\*["'],\s{{0,4}}(?=[rbu]{{0,2}}\\*["'])                     # ('token', …)
                  | \ (?=[rbu]{{0,2}}\\*["']) | (?<=header\ part\ \()            # token '…'
                )
                (?! line\ [0-9] )                                               # expat: "unclosed token: line 1"
                (?: [rbu]{{0,2}}(?P<quote>\\*["']) | (?P<bracket>[\[({{]) )?""",
            re.VERBOSE,
        ),
        scheme=re.compile(
            rf"""( (?:(?i:bearer|(?<![a-z])(?:{"|".join(_SCHEMES[2:])}))(?:\s{{1,4}}|%20|\+))+
                  | (?<![A-Za-z])(?i:basic)(?:\s{{1,4}}|%20|\+)(?=[a-z+/_-]{{0,400}}[A-Z0-9=]) )
                (?!(?:access|auth[a-z]*|charset|credentials?|error\w*|headers?|realm|schemes?|scope|tokens?)\b)
                [^\s"'<>,]+""",
            re.VERBOSE,
        ),
        userinfo=re.compile(r"""(?<![^\s"'(=<])[^\s"'(=<>/:@]{1,64}:[^\s"'/@]{1,256}@(?=[\w\[])"""),
    )


def redact_text(text: str, *, limit: int | None = None, known: Iterable[str] = ()) -> str:
    """The text as it may be written down, in a message, a log line or a record.

    Replaced are: what is secret in its URLs and in the targets that urllib3
    prints; what follows a name that credentials go by (`token=…`, `api-key: …`,
    `Authorization: …`, cookies); what follows `Bearer` and its like; strings in
    the shape of a JWT or of a well-known vendor's key. No text makes this
    function raise, and the time it takes is linear.

    Args:
        text: Any text.
        limit: Characters to cut the result to; None for no cut.
        known: The session's own secrets, replaced wherever they stand, percent-encoded
            or escaped, too; those of fewer than 6 characters are passed over.

    >>> redact_text("Max retries exceeded with url: /k?X-Amz-Signature=ab (Caused by ...)")
    'Max retries exceeded with url: /k?X-Amz-Signature=REDACTED (Caused by ...)'
    """
    for secret in sorted({known} if isinstance(known, str) else set(known), key=len, reverse=True):
        if len(secret) >= SHORTEST_KNOWN:
            text = _without_known(text, secret)
    rules = _text_rules()
    # What has a name goes first, for a link or a key runs on to the next space, over names that are glued to it.
    lowered = text.replace("\u0130", "i").lower()  # the one letter that is longer in lower case
    text = _without_assigned(text, lowered, rules.assigned)
    if any(scheme in lowered for scheme in _SCHEMES):
        text = rules.scheme.sub(rf"\1{REDACTED}", text)
    text = rules.shape.sub(REDACTED, text)
    text = rules.link.sub(lambda match: redact_url(match[0]), text)
    if "eyJ" in text:
        text = _JWT.sub(REDACTED, text)
    if "@" in text:
        text = rules.userinfo.sub(_USERINFO, text)
    return text if limit is None else text[:limit]


def _without_assigned(text: str, lowered: str, assigned: re.Pattern[str]) -> str:
    kept: list[str] = []
    done = line_end = word_end = 0
    for match in assigned.finditer(lowered):
        # A value may hold the next name, so each begins where its name ends and may end behind the last.
        start = match.end()
        if _PROSE.match(text, start) and _is_error_code(lowered, match):
            continue  # INVALID_SESSION_ID: Session expired
        if (quote := match["quote"]) and "header part" not in match[0]:
            end = _closing(text, quote, start)
        elif match["bracket"] or any(name in match[0] for name in _WHOLE_LINES):
            end = line_end = line_end if start < line_end else _end_of(_REST_OF_LINE, text, start)
        else:
            end = word_end = word_end if start < word_end else _end_of(_REST_OF_WORD, text, start)
        if start > done:
            kept += text[done:start], REDACTED if end > start else ""
        done = max(done, end)
    return "".join(kept) + text[done:]


def _is_error_code(lowered: str, match: re.Match[str]) -> bool:
    """Whether the name says what was wrong with a credential, and what stands behind it is no credential."""
    name, colon, _ = match[0].partition(":")
    before = _WORD_BEFORE.search(lowered, max(0, match.start() - 64), match.start())
    return bool(colon) and match[0][-1] == " " and _ERROR_CODE.match((before[0] if before else "") + name) is not None


def _end_of(rest: re.Pattern[str], text: str, start: int) -> int:
    match = rest.match(text, start)
    return start if match is None else match.end()


def _closing(text: str, quote: str, start: int) -> int:
    """Where the quoted value ends; a quote behind a backslash belongs to it."""
    end = text.find(quote, start)
    while end > start and text[end - 1] == "\\":
        end = text.find(quote, end + 1)
    return end if end >= 0 else len(text)


def _without_known(text: str, secret: str) -> str:
    text = text.replace(secret, REDACTED)
    if (secret.isalnum() and secret.isascii()) or len(secret) > _LONGEST_RESPELT:
        return text
    return _respelt(secret).sub(REDACTED, text)


@lru_cache(maxsize=64)
def _respelt(secret: str) -> re.Pattern[str]:
    """The secret percent-encoded, once or more, or escaped as in a repr or in JSON, in any mixture."""
    return re.compile("".join(map(_spellings, re.findall(r"\\+|[^\\]", secret))))


def _spellings(part: str) -> str:
    if part.isascii() and part.isalnum():
        return part
    if part[0] == "\\":
        return rf"(?:\\{{{len(part)},{8 * len(part)}}}|(?:%(?:25)*5[cC]){{{len(part)}}})"
    percent = "".join(f"%(?:25)*(?i:{octet:02x})" for octet in part.encode("utf-8", "surrogatepass"))
    escapes = {text[1:-1].lstrip("\\") for text in (repr(part), ascii(part), json.dumps(part))} - {part}
    spellings = [rf"\\{{0,4}}{re.escape(part)}", percent, *(rf"\\{{1,4}}{re.escape(text)}" for text in escapes)]
    return f"(?:{'|'.join([*spellings, *(['[+]'] if part == ' ' else [])])})"


# ---- exceptions


def redacted_cause(exc: BaseException, known: Iterable[str] = ()) -> BaseException:
    """A copy of an exception that can be kept, chained, printed and pickled.

    It is of the same class, and of all that the original held only its text is
    left, redacted: no request, no response, no cause, no traceback. Where the
    class cannot be built from a text, the copy is of a subclass by the same
    name whose attributes are None; where not even that can be built, it is an
    `Exception` that names the class.

    Args:
        exc: What was raised, by `requests`, urllib3, ssl, json or anybody.
        known: As in `redact_text`.
    """
    import pickle

    try:
        text = redact_text(str(exc), limit=_LONGEST_CAUSE, known=known)
    except Exception:  # a `__str__` that fails
        text = ""
    cls = type(exc)
    for build in (_rebuilt, _retold):
        with suppress(Exception):  # a class that asks for more than a text, or that cannot be imported
            copy = build(cls, text, tuple(vars(exc)))
            if _is_just(copy, text) and _is_just(pickle.loads(pickle.dumps(copy)), text):  # noqa: S301 - our own bytes
                return copy
    return Exception(f"{cls.__module__}.{cls.__qualname__}: {text}")


def _is_just(exc: BaseException, text: str) -> bool:
    told = str(exc) == text and repr(exc) == f"{type(exc).__name__}({text!r})"
    return told and exc.args == (text,) and all(value is None or value == text for value in vars(exc).values())


def _rebuilt(cls: type[BaseException], text: str, _: tuple[str, ...]) -> BaseException:
    return cls(text)


def _retold(cls: Any, text: str, names: tuple[str, ...]) -> BaseException:
    subclass = _retelling(cls)
    copy: BaseException = cls.__new__(subclass, text)  # and not `__init__`, which wants what we do not keep
    copy.args = (text,)
    vars(copy).update({name: None for name in names if not name.startswith("__")})
    return copy


@lru_cache(maxsize=64)
def _retelling(cls: type[BaseException]) -> type[BaseException]:
    """A subclass by the same name, so that `except` and tracebacks see no difference."""
    return type(cls.__name__, (_Retold, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


class _Retold(BaseException):
    def __str__(self) -> str:
        return str(self.args[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.args[0]!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _retold, (type(self).__bases__[1], self.args[0], tuple(vars(self)))
