"""Which credentials an operation knows of, and where it finds them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import requests
from requests.auth import HTTPBasicAuth

from trihop._secrets import Secrets, in_body, in_headers, in_proxy, in_url, quotable


@pytest.fixture
def session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.headers.clear()
    return session


def known(session: requests.Session, **options: Any) -> set[str]:
    return set(Secrets(session).known(options))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://h/jobs?page=2", []),
        ("https://h/jobs?api_key=s3cr3t&page=2", ["s3cr3t"]),
        ("https://h/jobs?access%5Ftoken=s3%2Bcr3t", ["s3%2Bcr3t", "s3+cr3t"]),
        ("https://me:s3cr3t@h/jobs", ["s3cr3t"]),
        ("https://someone:s3%40cr3t@h/a@b", ["someone", "s3%40cr3t", "s3@cr3t"]),
        # whatever is in a signed link
        ("https://h/k?se=2026-03-01&sp=r&sig=abcdef", ["2026-03-01", "abcdef"]),
        ("https://h/k#access_token=s3cr3t", []),
        ("https://h/k?token=short", []),
        ("", []),
    ],
)
def test_a_url_gives_away_what_credentials_go_by(url: str, found: list[str]) -> None:
    """User and password, the values of telling names, and all values of a signed link; as written and decoded."""
    assert in_url(url) == found


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"Accept": "text/csv", "X-Tenant": "seventeen"}, []),
        ({"Authorization": "Bearer t0k3n-1"}, ["Bearer t0k3n-1", "t0k3n-1"]),
        ({"X-Api-Key": b"k3y-of-bytes"}, ["k3y-of-bytes"]),
        ({"Cookie": "a=first1; b=second"}, ["a=first1; b=second", "a=first1", "first1", "b=second", "second"]),
        (
            {"Authorization": 'Digest username="someone", response="d1g3st"'},
            [
                'Digest username="someone", response="d1g3st"',
                'username="someone"',
                "someone",
                'response="d1g3st"',
                "d1g3st",
            ],
        ),
        (
            {"Authorization": "Basic " + base64.b64encode(b"someone:p4ssword").decode()},
            ["Basic c29tZW9uZTpwNHNzd29yZA==", "c29tZW9uZTpwNHNzd29yZA==", "someone:p4ssword", "someone", "p4ssword"],
        ),
        ({"Authorization": "Basic not base64 at all"}, ["Basic not base64 at all", "base64"]),
        ({"X-Amz-Security-Token": "s3ss10n"}, ["s3ss10n"]),
    ],
)
def test_a_header_gives_away_its_parts(headers: dict[str, Any], found: list[str]) -> None:
    """A server may quote the token without `Bearer`, a password out of base64, one cookie of several."""
    assert in_headers(headers) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"query": "all", "clientSecret": "s3cr3t-7"}', ["s3cr3t-7"]),
        ('[{"auth": {"api_key": "k3y-is-long"}}, {"password": 12345678}]', ["k3y-is-long"]),
        ("grant_type=x&password=s3cr3t%2B7&page=2", ["s3cr3t+7"]),
        (b'{"query": "select token from sessions", "max_tokens": 9000}', []),
        (b'{"token": ', []),
        (b"\x89PNG token \xff", []),
        ('{"token":' + "[" * 20_000, []),
        ("", []),
    ],
)
def test_a_body_gives_away_fields_that_credentials_go_by(body: str | bytes, found: list[str]) -> None:
    """Of JSON however deep, and of a form; what is neither has none."""
    assert in_body(body) == found


def test_the_body_of_a_submit_counts(session) -> None:
    """A server may quote it; one that is too long to look through is passed over, and so is a file."""
    secrets = Secrets(session)
    for secret, more in (("s3cr3t-1", ""), ("s3cr3t-2", ""), ("s3cr3t-3", "x" * 70_000)):
        secrets.learn(requests.Request("POST", "https://h/j", json={"password": secret, "more": more}).prepare())
    secrets.learn(requests.Request("POST", "https://h/j", data=iter([b"password=s3cr3t-4"])).prepare())

    assert secrets.known({}) == ["s3cr3t-1", "s3cr3t-2"]


def test_a_proxy_is_told_user_and_password() -> None:
    """As they are, and as `Proxy-Authorization` has them."""
    assert in_proxy("http://proxy:3128") == []
    assert in_proxy("http://someone:p4ssword@proxy:3128") == ["someone", "p4ssword", "c29tZW9uZTpwNHNzd29yZA=="]


def test_the_sessions_fields_are_read_as_they_are_now(session) -> None:
    """Whatever has a value of six characters or more, but for headers that only say who asks and for what."""
    session.headers.update({"User-Agent": "reporting/1.0", "Accept": "text/csv", "X-Tenant": "t3nant-7"})
    session.headers["Authorization"] = "Bearer t0k3n-1"
    session.auth = ("someone", b"p4ssword")  # type: ignore[assignment]
    session.cookies.set("sid", "c00kie")
    session.cookies.set("empty", None)
    session.params = {"key": "p4r4ms", "list": ["first1", "second"], "n": 7}
    session.cert = ("/etc/client.pem", "/etc/client.key")
    session.proxies = {"https": "http://me:pr0xypw@proxy"}
    assert known(session) == {
        *("t3nant-7", "Bearer t0k3n-1", "t0k3n-1", "someone", "p4ssword", "c00kie", "p4r4ms", "first1", "second"),
        *("/etc/client.pem", "/etc/client.key", "pr0xypw", "bWU6cHIweHlwdw=="),
    }


@pytest.mark.parametrize("params", ["key=p4r4ms&x=1", b"key=p4r4ms", [("key", "p4r4ms")], {"key": b"p4r4ms"}])
def test_params_come_in_many_forms(session, params: Any) -> None:
    """As requests takes them."""
    session.params = params
    assert known(session) == {"p4r4ms"}


def test_the_submits_own_options_count(session) -> None:
    """`auth=`, in a class of requests or another of its kind, `cert=` and `proxies=`."""
    found = known(
        session,
        auth=HTTPBasicAuth("someone", "p4ssword"),
        cert="/etc/client.pem",
        proxies={"http": "http://me:pr0xypw@proxy"},
    )
    assert found == {"someone", "p4ssword", "/etc/client.pem", "pr0xypw", "bWU6cHIweHlwdw=="}


def test_the_environments_proxies_count_where_they_are_used(session, monkeypatch) -> None:
    """With `trust_env` only."""
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pr0xypw@proxy")
    assert "pr0xypw" not in known(session)
    session.trust_env = True
    assert "pr0xypw" in known(session)


def test_what_went_out_is_remembered_and_the_oldest_forgotten(session) -> None:
    """A job of many hours signs ten thousand requests: the latest 128 secrets are kept."""
    secrets = Secrets(session)
    for number in range(1000):
        headers = {"Authorization": f"Bearer t0k3n-{number}"}
        secrets.learn(requests.Request("GET", "https://h/", headers=headers).prepare())
    found = secrets.known({})
    assert len(found) == 128
    assert ("t0k3n-999" in found, "t0k3n-0" in found) == (True, False)


def credentials(session, **options) -> set[str]:
    return set(Secrets(session).credentials(options))


def test_names_and_versions_are_known_and_no_credentials(session) -> None:
    """A path has a user, a tenant and a version by right; what they are beside is the secret."""
    carried = {"X-Tenant": "acme-corp", "X-Api-Key": "4pi-key", "Authorization": "Basic c29tZW9uZTpwNHNz"}
    session.headers.update(carried)
    session.params = {"api-version": "2026-01-01"}
    assert known(session) >= {"acme-corp", "2026-01-01", "someone", "4pi-key"}
    assert credentials(session) == {"4pi-key", "Basic c29tZW9uZTpwNHNz", "c29tZW9uZTpwNHNz", "someone:p4ss"}
    session.headers.clear()
    assert credentials(session, auth=("someone", "p4ssword")) == {"p4ssword"}


def test_a_header_that_an_auth_handler_set_is_known_by_whatever_name(session) -> None:
    """Without a handler, a request's header by such a name is the caller's business."""
    request = requests.Request("GET", "https://h/", headers={"X-Magic": "w4nd-of-elder", "Accept": "text/plain"})
    for auth, expected in ((None, []), (lambda request: request, ["w4nd-of-elder"])):
        secrets = Secrets(session)
        secrets.learn(request.prepare())
        assert secrets.known({"auth": auth}) == expected
        assert secrets.credentials({"auth": auth}) == []


def test_of_what_auth_handlers_set_the_oldest_is_forgotten(session) -> None:
    """A handler may mint a value for each of ten thousand requests."""
    session.auth = lambda request: request
    secrets = Secrets(session)
    for number in range(200):
        secrets.learn(requests.Request("GET", "https://h/", headers={"X-Magic": f"m4gic-{number}"}).prepare())
        found = secrets.known({})
    assert len(found) == 128
    assert ("m4gic-199" in found, "m4gic-0" in found) == (True, False)


def test_what_an_adapter_added_is_looked_for_when_it_matters(session) -> None:
    """The last request is looked into as it stood when it was sent."""
    secrets = Secrets(session)
    assert secrets.known({}) == []
    secrets.last = requests.Request("GET", "https://h/", headers={"X-Api-Key": "4dd3d-later"}).prepare()
    assert secrets.known({}) == ["4dd3d-later"]
    session.headers["X-Api-Key"] = "n3w-and-unsent"
    secrets.look_again()
    assert set(secrets.known({})) == {"4dd3d-later", "n3w-and-unsent"}


def test_what_a_server_said_is_quotable_in_every_text() -> None:
    """Keys too; numbers and the shape stay, and depth has an end."""
    said = {"message": "no t0k3n-1 here", "t0k3n-1": [1, None, True, {"code": "E7", "key": "id", "api_key": "abc"}]}
    assert quotable(said, ["t0k3n-1"]) == {
        "message": "no REDACTED here",
        "REDACTED": [1, None, True, {"code": "E7", "key": "id", "api_key": "REDACTED"}],
    }
    deep: Any = "t0k3n-1"
    for _ in range(100):
        deep = [deep]
    assert "t0k3n-1" not in str(quotable(deep, ["t0k3n-1"]))
