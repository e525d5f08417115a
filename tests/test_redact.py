"""What is taken out of URLs, headers, texts and exceptions before they are written down."""

from __future__ import annotations

import base64
import http.client
import json
import pickle
import ssl
import string
import traceback
from collections.abc import Callable
from time import process_time
from urllib.parse import quote, quote_plus

import pytest
import requests
import urllib3
from hypothesis import given, settings
from hypothesis import strategies as st

from trihop._redact import is_signed, redact_headers, redact_text, redact_url, redacted_cause

C = "s3cr3tCANARY"
patient = settings(deadline=None)

# ---- URLs


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/",
        "https://api.example/jobs/1",
        "https://api.example:8443/jobs/1",
        "https://[::1]:8443/a@b",
        "https://api.example/users/a@b.example",
        "https://api.example/Jobs//./../%7e%7E/x",
        "https://api.example/jobs?state=%7eall&state=&&b=+&acl",
        "https://api.example/jobs?query=SELECT%20Id%20FROM%20Account&since=2026-03-01T12%3A00%3A00Z&t=12:30",
        "https://api.example/jobs?locator=MTAwMDA&max_tokens=5&cursor=abc%3D%3D",
        "https://api.example/jobs?_=1700000000000",
        "https://api.example/jobs?1700000000000",
        "https://api.example/surveyJobsAndOthers/x",
        "https://api.example/jobs:batch;v=2/year=2024/month=01",
        "https://api.example/jobs/urn%3Auuid%3A1",
        "?",
        "#",
        "\ud800",
    ],
)
def test_a_url_without_a_secret_stays_byte_for_byte(url: str) -> None:
    """Nothing is decoded, encoded again, reordered or dropped."""
    assert redact_url(url) == url
    assert not is_signed(url)


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        # user and password, also with what should have been encoded
        (f"https://me:{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"//me:{C}@h/x", "//REDACTED:REDACTED@h/x"),
        (f"me:{C}@h/x", "REDACTED:REDACTED@h/x"),
        (f"https://me:p@{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://me:p/{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://me:p?{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://me:p#{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://m@e:p/{C}@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://me:{C}" + "x" * 5000 + "@h/x", "https://REDACTED:REDACTED@h/x"),
        (f"https://proxy/https://me:{C}@h/x", "https://proxy/https://REDACTED:REDACTED@h/x"),
        # names that credentials go by
        (f"https://h/x?a=%7e&access_token={C}&b=1", "https://h/x?a=%7e&access_token=REDACTED&b=1"),
        (f"https://h/x?TOKEN={C}", "https://h/x?TOKEN=REDACTED"),
        (f"https://h/x?%74oken={C}", "https://h/x?%74oken=REDACTED"),
        (f"https://h/x?auth[apiKey]={C}", "https://h/x?auth[apiKey]=REDACTED"),
        (f"https://h/x?a=1&amp;password={C}", "https://h/x?a=1&amp;password=REDACTED"),
        (f"https://h/x?token={C};{C}", "https://h/x?token=REDACTED"),
        # secrets without a name of their own, or behind another's
        (f"https://h/x?{C * 4}", "https://h/x?REDACTED"),
        (f"https://h/x?={C}", "https://h/x?REDACTED"),
        (f"https://h/x?{C * 6}=1", "https://h/x?REDACTED"),
        (f"https://h/x?a=1;token={C}", "https://h/x?a=REDACTED"),
        (f"https://h/x?a=1?token={C}", "https://h/x?a=REDACTED"),
        (f"https://h/x?a=1\\u0026sig={C}", "https://h/x?a=REDACTED"),
        (f"https://h/x?https://me:{C}@b/k?a=1", "https://h/x?REDACTED"),
        (f"https://h/x?https%3A%2F%2Fme%3A{C}%40b%2Fk=1", "https://h/x?REDACTED"),
        (f"https://h/x?next=https://b/k/{C}", "https://h/x?next=REDACTED"),
        (f"https://h/x?next=%2Fk%3Fsig%3D{C}", "https://h/x?next=REDACTED"),
        (f"https://h/x?next=%252Fk%253Fsig%253D{C}", "https://h/x?next=REDACTED"),
        (f"https://h/x?where=%7B%22token%22%3A%22{C}%22%7D", "https://h/x?where=REDACTED"),
        # the path and the fragment
        (f"https://h/x;jsessionid={C}?a=1", "https://h/x;jsessionid=REDACTED?a=1"),
        (f"https://h/token={C}/f", "https://h/token=REDACTED/f"),
        (f"https://h/get/https%3A%2F%2Fb%2Fk%3Fsig%3D{C}/f", "https://h/get/REDACTED/f"),
        (f"https://h/x?a=1#access_token={C}", "https://h/x?a=1#REDACTED"),
        ("https://h/d/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln/f", "https://h/d/REDACTED/f"),
    ],
)
def test_what_is_secret_in_a_url_is_replaced(url: str, redacted: str) -> None:
    """Each secret is replaced where it stands, and nothing else is."""
    assert redact_url(url) == redacted


SIGNED = [
    "X-Amz-Algorithm=a&X-Amz-Credential={c}&X-Amz-Security-Token={c}&X-Amz-SignedHeaders=host;range&X-Amz-Signature={c}",
    "AWSAccessKeyId={c}&Expires=1&Signature={c}",
    "Policy={c}&Signature={c}&Key-Pair-Id={c}",
    "Policy={c}",
    "Key-Pair-Id={c}",
    "X-Goog-Credential={c}&X-Goog-Signature={c}",
    "GoogleAccessId={c}&Signature={c}",
    "sv=2022-11-02&se=2026-03-01T12%3A00%3A00Z&skoid={c}&sig={c}",
    "x-oss-signature={c}&x-oss-credential={c}",
    "q-sign-algorithm=sha1&q-ak={c}&q-signature={c}",
    "temp_url_sig={c}&temp_url_expires=1",
    "UniqueId={c}&tempauth={c}",
    "X-AMZ-SIGNATURE={c}&other={c}",
    "X%2DAmz%2DSignature={c}&other={c}",
    "a={c}&amp;sig={c}",
]


@pytest.mark.parametrize("query", SIGNED)
def test_a_signed_link_loses_every_value_and_keeps_every_name(query: str) -> None:
    """Of a signed link no value is trusted to be harmless."""
    url = "https://bucket.example/k?" + query.format(c=C)
    redacted = redact_url(url)
    assert is_signed(url)
    assert C not in redacted
    pairs = [item.split("=") for item in redacted.partition("?")[2].split("&")]
    assert [name for name, _ in pairs] == [item.partition("=")[0] for item in query.split("&")]
    assert {value for _, value in pairs} == {"REDACTED"}


@pytest.mark.parametrize(
    "url",
    [
        "https://h/x?token=1",
        "https://h/x?policy=strict",
        "https://h/x#sig=1",
        "https://h/sig=1",
        "https://h/x?a&sig",
        "",
    ],
)
def test_a_link_without_a_signature_is_not_signed(url: str) -> None:
    """A credential in a URL, a fragment or a name without a value makes no signed link."""
    assert not is_signed(url)


def test_a_url_is_cut_at_2048_characters_after_redaction() -> None:
    """A secret behind the cut is found all the same, for its name may stand before it."""
    url = f"https://h/{'x' * 2100}?sig={C}"
    assert redact_url(url) == url[:2048]
    assert redact_url(f"https://h/?a={C * 400}&sig=1") == "https://h/?a=REDACTED&sig=REDACTED"


canaries = st.text(string.ascii_letters + string.digits, min_size=1, max_size=20).map("c4n4ry".__add__)
NAMES = """token access_token refresh-token api_key apikey key Ocp-Apim-Subscription-Key code auth secret client_secret
    password jwt session sessionid sid signature sig hmac X-Amz-Signature X-Amz-Credential AWSAccessKeyId"""
names = st.sampled_from(NAMES.split())
cased = st.builds(lambda name, case: case(name), names, st.sampled_from([str, str.lower, str.upper, str.title]))
plain_items = st.lists(st.sampled_from(["a=1", "b=%7e", "acl", "", "c=", "=", "limit=50", "t=12%3A30"]), max_size=4)


@patient
@given(plain_items, cased, canaries, plain_items)
def test_no_credential_in_a_query_survives(before: list[str], name: str, canary: str, after: list[str]) -> None:
    """Whatever stands around it, a credential under its name is replaced, also in a text, however it is quoted."""
    url = "https://h/p?" + "&".join([*before, f"{name}={canary}", *after])
    assert canary not in redact_url(url)
    for text in (url, f"'{url}'", f'{{"url":"{url}"}}', f"<{url}>", f"failed: {url}, twice", url[9:], f"({url[10:]})"):
        assert canary not in redact_text(text)
    for encoded in (quote(url), quote(url, safe=""), quote(quote(url, safe=""), safe="")):
        assert canary not in redact_url(f"https://proxy/get?u={encoded}&x=1")
        assert canary not in redact_url(f"https://proxy/{encoded}/get")


@patient
@given(st.text(max_size=80), canaries, st.text(max_size=80))
def test_no_password_in_the_authority_survives(user: str, canary: str, path: str) -> None:
    """A password is replaced, whatever the user's name and the path hold."""
    user = user.translate(dict.fromkeys(map(ord, "/?#"), "x"))
    assert canary not in redact_url(f"https://{user}:{canary}@host/{path}")


@patient
@given(st.text() | st.text("/?#@:;=&%[]eyJ.25abc3\\'\" ") | st.text(st.characters()))
def test_no_text_makes_the_redaction_raise(text: str) -> None:
    """The functions take any text at all."""
    assert len(redact_url(text)) <= 2048
    assert isinstance(redact_text(text, known=[text]), str)
    assert isinstance(is_signed(text), bool)


# ---- headers


def test_only_harmless_headers_keep_their_values() -> None:
    """An unknown header may carry a credential; only a known one is written down."""
    headers = {
        "X-Request-Id": "1",
        "Retry-After": "5",
        "content-type": "text/csv",
        "X-RateLimit-Remaining": "3",
        "ETag": '"abc"',
        "Location": f"https://me:{C}@h/jobs/1?sig={C}",
        "Operation-Location": f"/jobs/1?token={C}",
        "Link": f'<https://h/jobs?token={C}>; rel="next"',
        "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
        "Authorization": f"Bearer {C}",
        "Set-Cookie": f"sid={C}",
        "X-Api-Key": C,
        "X-Unheard-Of": C,
    }
    assert redact_headers(headers) == {
        "X-Request-Id": "1",
        "Retry-After": "5",
        "content-type": "text/csv",
        "X-RateLimit-Remaining": "3",
        "ETag": '"abc"',
        "Location": "https://REDACTED:REDACTED@h/jobs/1?sig=REDACTED",
        "Operation-Location": "/jobs/1?token=REDACTED",
        "Link": '<https://h/jobs?token=REDACTED>; rel="next"',
        "WWW-Authenticate": 'Bearer realm="api", error="invalid_token"',
        "Authorization": "REDACTED",
        "Set-Cookie": "REDACTED",
        "X-Api-Key": "REDACTED",
        "X-Unheard-Of": "REDACTED",
    }


# ---- texts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no terminal state by 12:30:00Z, last status 'Running' after 47 polls",
        "error code: INVALID_FIELD, code=404, author: Joe, passed: 5, monkey=3",
        'maximum is 8192 tokens: you asked for {"max_tokens": 9000}',
        "HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=5)",
        "Expecting value: line 1 column 1 (char 0)",
        "unclosed token: line 1, column 0",
        "not well-formed (invalid token): line 1, column 0",
        'Bearer realm="x", error="invalid_token", error_description="The access token expired"',
        "Bearer token missing; the basic plan has no such feature",
        "INVALID_SESSION_ID: Session expired or invalid",
        "ExpiredToken: The provided token has expired",
        "SignatureDoesNotMatch: The request signature we calculated",
        "invalid_token: the access token expired",
        "see http://localhost:8080, or https://h/users/a@b.example?x=1.",
        "what?! is this a question?yes",
        "with session=<requests.sessions.Session object at 0x7f>",
        "surveyJobs and task-list-of-many-words and disk-0123456789abcdef",
    ],
)
def test_a_text_without_a_secret_stays_as_it_is(text: str) -> None:
    """What people need to read is left alone."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "https://me:{c}@h/x",
        "Invalid URL 'me:{c}@h/x': No scheme supplied",
        "HTTPSConnectionPool(host='h', port=443): Max retries exceeded with url: /k?X-Amz-Date={c}&X-Amz-Signature={c}",
        "Max retries exceeded with url: /k;jsessionid={c} (Caused by X)",
        "Max retries exceeded with url: /k?{c}{c}{c} (Caused by X)",
        "URL can't contain control characters. '/k?token={c}\\n' (found at least '\\n')",
        "GET /k?a=1&sig={c} HTTP/1.1",
        "?a=1\\u0026sig={c}",
        "Authorization: Bearer {c}",
        "authorization={c}",
        'Authorization: Digest username="me", response="{c}"',
        "{{'Authorization': 'Bearer {c}', 'Accept': '*/*'}}",
        "{{'Authorization': b'Bearer {c}'}}",
        "('Authorization', 'Bearer {c}')",
        "('X-Api-Key', b'{c}')",
        "Proxy-Authorization: Basic {c}",
        "bearer {c}",
        "Bearer Bearer {c}",
        "X-Auth-Token: Bearer {c}",
        "token: Authorization: Basic {c} {c}",
        "?a=1&Set-Cookie: a={c}; b={c}",
        "sk-0123456789abcdefapi-key: {c}",
        "BEARER%20{c}",
        "the server said Basic {c}== is wrong",
        "Negotiate {c}",
        "token={c}",
        "access_token : {c}",
        "token%3D{c}",
        "Token: {c}",
        "INVALID_SESSION_ID: {c} is no session",
        "invalid_token:{c}",
        "invalid_api_key: qwertyuiopasdfgh{c} is not known",
        "ExpiredToken: Bearer {c}",
        "Incorrect password '{c}'",
        '{{"access_token":"{c}","state":"Running"}}',
        '{{\\"access_token\\":\\"{c}\\"}}',
        '{{"password": "a\\"{c}"}}',
        "password='a b {c}'",
        "password=a,b;{c}",
        "api-key: {c}",
        "apikey={c}",
        "X-API-KEY: {c}",
        "api key: {c}",
        "Ocp-Apim-Subscription-Key: {c}",
        "AccountName=x;AccountKey={c};EndpointSuffix=y",
        "key={c}",
        "client_secret => {c}",
        "credentials={{'user': 'me', 'pass': '{c}'}}",
        "Cookie: a={c}; b={c}",
        "Set-Cookie: sid={c}; Path=/",
        "cookies={{'a': '{c}'}}",
        "<RequestsCookieJar[<Cookie a.b={c} for h/>]>",
        "Invalid header value b'{c}\\n'",
        "return character(s) in header value: '{c}\\n'",
        "Header part (b'{c}') from ('X-Own', b'{c}') must be of type str or bytes",
        "AWS4-HMAC-SHA256 Credential={c}/2026, SignedHeaders=host, Signature={c}",
        "SharedAccessSignature=sv=1&sig={c}",
        "jwt eyJhbGciOiJIUzI1NiJ9.{c}.{c}",
        "the key AKIA{aws} is unknown",
        "Incorrect API key provided: sk-proj-{c}{c}.",
        "\u0130\u0130 token={c}",
    ],
)
def test_no_secret_in_a_text_survives(text: str) -> None:
    """Wherever a text may hold a credential, it is gone, and to redact again changes nothing."""
    redacted = redact_text(text.format(c=C, aws="S3CR3TCANARY"))
    assert "CANARY" not in redacted
    assert "REDACTED" in redacted
    assert redact_text(redacted) == redacted


def test_what_stands_beside_a_secret_is_kept() -> None:
    """A redacted message still says what happened."""
    said = f"Max retries exceeded with url: /k?X-Amz-Signature={C} (Caused by NewConnectionError('refused'))"
    assert redact_text(said) == said.replace(C, "REDACTED")
    assert redact_text(f'{{"token":"{C}","state":"Failed"}}') == '{"token":"REDACTED","state":"Failed"}'


def test_a_text_is_cut_after_redaction() -> None:
    """A secret that the cut would have shortened is no longer there to be cut."""
    assert redact_text(f"token={C}", limit=10) == "token=REDA"
    assert redact_text("plenty", limit=100) == "plenty"
    assert redact_text("none of it", limit=0) == ""


SPELT: list[Callable[[str], str]] = [
    str,
    quote,
    quote_plus,
    lambda secret: quote(secret, safe=""),
    lambda secret: quote(quote(secret, safe=""), safe=""),
    lambda secret: quote(secret, safe="").replace("%2F", "%2f").replace("%3D", "%3d"),
    lambda secret: repr(secret)[1:-1],
    lambda secret: ascii(secret)[1:-1],
    lambda secret: json.dumps(secret)[1:-1],
    lambda secret: repr(repr(secret)),
    lambda secret: json.dumps(json.dumps(secret)),
]


@pytest.mark.parametrize("spell", SPELT)
@pytest.mark.parametrize(
    "secret", ["plain0", "a b/c=d+e", 'it\'s "so"', "back\\\\slash", "n\u00e4her \u2713", "tab\tnew\nline"]
)
def test_a_known_secret_is_found_in_every_spelling(secret: str, spell: Callable[[str], str]) -> None:
    """A secret of the session's own is replaced as it is, percent-encoded, and escaped."""
    assert redact_text(f"<{spell(secret)}>", known=[secret]).strip("<>\\'\"") == "REDACTED"


def test_short_known_secrets_are_passed_over() -> None:
    """To replace a word of five letters would shred the text."""
    assert redact_text("state: state", known=["state", ""]) == "state: state"


def test_the_longest_known_secret_goes_first() -> None:
    """A secret that contains another one leaves no rest behind."""
    assert redact_text("abcdefghi", known=["abcdef", "abcdefghi"]) == "REDACTED"


def test_one_known_secret_need_not_be_wrapped_in_a_list() -> None:
    """A bare string is one secret, not its letters."""
    assert redact_text("<abcdef>", known="abcdef") == "<REDACTED>"


@patient
@given(st.text(max_size=30), st.text(min_size=6, max_size=30), st.text(max_size=30))
def test_no_known_secret_survives(before: str, secret: str, after: str) -> None:
    """Any text of six characters or more is gone, whatever it is made of and stands in."""
    assert secret not in redact_text(f"{before}{secret}{after}", known=[secret]) or secret in "REDACTED:REDACTED@"


M = 1_000_000
SLOW = r"""a / @ & = %25 \ ' " ;a= ?a= :// a: eyJ -eyJaaaaaaaaaa. token= token=" token=\' 'token', api- auth:"""


@pytest.mark.parametrize("piece", [*SLOW.split(), "?", " ", " a:b@", "bearer ", "basic aaaa", "<cookie ", "token   "])
def test_a_long_text_takes_linear_time(piece: str) -> None:
    """A text of a megabyte, made to be slow, is done within seconds."""
    text = piece * (M // len(piece))
    began = process_time()
    redact_text(text, known=["back\\slash", "a b c d"])
    redact_url(text)
    redact_url("?x=" + text)
    assert process_time() - began < 10


# ---- exceptions


class Two(Exception):
    """Cannot be built from one text."""

    def __init__(self, first: str, second: object) -> None:
        super().__init__(first, second)
        self.first = first


class Strict(Exception):
    """Cannot be built at all, but by its own rules."""

    def __new__(cls, *, secret: str) -> Strict:
        return super().__new__(cls, f"password={secret}")

    def __init__(self, *, secret: str) -> None:
        self.secret = secret


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError(C)


LINK = f"https://127.0.0.1:1/k?X-Amz-Date={C}&X-Amz-Signature={C}"


def answered() -> requests.Response:
    response = requests.Response()
    response.url, response.status_code, response.reason, response._content = LINK, 500, "Oops", C.encode()
    return response


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def refused() -> BaseException:
    with requests.Session() as session:
        session.trust_env = False
        return raised(lambda: session.get(LINK))


CAUSES: list[Callable[[], BaseException]] = [
    refused,
    lambda: refused().args[0],
    lambda: refused().args[0].reason,
    lambda: raised(lambda: requests.get(f"me:{C}@h/x")),
    lambda: raised(lambda: requests.get(f"http://h/?token={C}", headers={"X-Own": f"{C}\n"})),
    lambda: raised(answered().json),
    lambda: raised(answered().raise_for_status),
    lambda: raised(lambda: json.loads(f"{C}")),
    lambda: raised(lambda: f"{C}\xff".encode("latin-1").decode()),
    lambda: requests.ReadTimeout(f"token={C}", response=answered()),
    lambda: urllib3.exceptions.ReadTimeoutError(None, LINK, "Read timed out."),  # type: ignore[arg-type]
    lambda: urllib3.exceptions.IncompleteRead(3, 5),
    lambda: urllib3.exceptions.LocationParseError(f"me:{C}@h"),
    lambda: http.client.IncompleteRead(C.encode(), 5),
    lambda: ssl.SSLCertVerificationError(1, f"password={C}"),
    lambda: ConnectionResetError(104, "Connection reset by peer"),
    lambda: FileNotFoundError(2, "No such file", f"/tmp/token={C}"),
    lambda: TimeoutError(),
    lambda: KeyError(f"token={C}"),
    lambda: KeyboardInterrupt(),
    lambda: Two(f"password={C}", C),
    lambda: Mute(C),
]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_redacted_cause_is_of_the_same_class_and_holds_nothing_but_its_text(
    cause: Callable[[], BaseException],
) -> None:
    """It can be caught, printed, chained and pickled like the original, and tells no secret in any of that."""
    original = cause()
    copy = redacted_cause(original, known=[C])
    twin = pickle.loads(pickle.dumps(copy))
    for told in (copy, twin):
        assert isinstance(told, type(original))
        assert type(told).__name__ == type(original).__name__
        assert (told.__cause__, told.__context__, told.__traceback__) == (None, None, None)
        assert told.args == (str(told),)
        assert set(vars(told).values()) <= {None}
        shown = "".join(traceback.format_exception(type(told), told, None)) + repr(told) + repr(vars(told))
        assert "CANARY" not in shown
        assert type(original).__name__ in shown


def test_a_class_that_takes_a_text_is_kept_as_it_is() -> None:
    """Most exceptions come back as the very same class, with the text they had."""
    copy = redacted_cause(ConnectionResetError(104, "Connection reset by peer"))
    assert type(copy) is ConnectionResetError
    assert str(copy) == "[Errno 104] Connection reset by peer"
    assert copy.errno is None


def test_an_attribute_that_held_something_is_there_and_empty() -> None:
    """Code that looks at `response` or `doc` of a redacted cause finds None instead of an error."""
    copy = redacted_cause(raised(answered().json))
    assert isinstance(copy, requests.exceptions.JSONDecodeError)
    assert vars(copy) == dict.fromkeys(["response", "request", "msg", "doc", "pos", "lineno", "colno"])
    assert str(copy) == "Expecting value: line 1 column 1 (char 0)"


def test_a_class_that_cannot_be_built_is_named() -> None:
    """Where no copy of the class can be had, an Exception says which it was."""
    copy = redacted_cause(Strict(secret=C))
    assert type(copy) is Exception
    assert str(copy) == f"{__name__}.Strict: password=REDACTED"


def test_a_class_that_cannot_be_pickled_is_named() -> None:
    """A class made inside a function could not be found again by another process."""

    class Local(Exception):
        pass

    assert str(redacted_cause(Local("gone"))).endswith("Local: gone")


def test_known_secrets_are_taken_out_of_a_cause() -> None:
    """A secret that only the session knows does not survive in what was raised."""
    text = f"refused {C} and {base64.b64encode(C.encode()).decode()}"
    assert str(redacted_cause(ValueError(text), known=[C, base64.b64encode(C.encode()).decode()])) == (
        "refused REDACTED and REDACTED"
    )
