"""Which URLs are the API's own, however they are written."""

from __future__ import annotations

import pytest
import requests
from hypothesis import example, given, settings
from hypothesis import strategies as st
from urllib3.util import parse_url

from trihop import operation
from trihop._origin import Origin, Trusted, origin_of

HOME = "https://api.test/jobs"


@pytest.mark.parametrize(
    "url",
    [
        "https://api.test",
        "https://api.test/",
        "https://api.test?x=https://evil.test/",
        "https://api.test#@evil.test/",
        "https://api.test?@evil.test/",
        "https://api.test/\\@evil.test/",
        "https://api.test/@evil.test:444/",
        "https://api.test:443/elsewhere/../x",
        "https://api.test:0443/",
        "https://api.test:/",
        "HTTPS://API.test/",
        "https://me:p%40w@api.test/",
        "https://evil.test;@api.test/",
    ],
)
def test_the_apis_own_origin_is_known_in_every_spelling(url: str) -> None:
    """Case, the default port, user and password, path, query and fragment do not part an origin from itself."""
    trusted = Trusted()
    trusted.adopt(HOME)
    assert url in trusted


@pytest.mark.parametrize(
    "url",
    [
        "http://api.test/",
        "https://api.test:444/",
        "https://api.test:80/",
        "https://www.api.test/",
        "https://test/",
        "https://api.test.evil.test/",
        "https://evilapi.test/",
        "https://api.test@evil.test/",
        "https://api.test:443@evil.test/",
        "https://api.test%2F@evil.test/",
        "https://evil.test/api.test/",
        "https://evil.test?https://api.test/",
        "https://evil.test#api.test",
        "https://api.test./",
        "https://xn--pi-7sb.test/",
        "https://\u0430pi.test/",  # the first letter is Cyrillic
        "https://[::1]/",
    ],
)
def test_another_origin_is_foreign_however_alike(url: str) -> None:
    """Scheme, host and port must be equal: no wildcards, no parents, no look-alikes, and a trailing dot is a name."""
    trusted = Trusted()
    trusted.adopt(HOME)
    assert url not in trusted


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.test/jobs",
        "/jobs",
        "//api.test/jobs",
        "https:api.test",
        "https:/api.test/",
        "https:\\\\api.test\\",
        "https:///api.test/",
        "https://",
        "https://:443/",
        "https://me@/",
        "ftp://api.test/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://api.test:99999/",
        "https://api.test:x/",
        "https://[::1/",
        # read in one way by one parser and in another by the next
        "https://evil.test\\@api.test/",
        "https://api.test\\@evil.test/",
        "https://api.test\\.evil.test/",
        "https://api\t.test/",
        "https://evil.test\t@api.test/",
        "https://evil.test\r\n@api.test/",
        "https://api.test\x00/",
        "https://api.test%2eevil.test/",
        "https://api%2Etest/",
        "https://evil.test%2F.api.test/",
        " https://api.test/",
        "https://api.test /",
        "https://\uff41pi.test/",  # full width, as are the next two
        "https://api\u3002test/",
        "https://api.test:\uff1443/",
        None,
    ],
)
def test_a_url_whose_host_could_be_read_in_two_ways_has_no_origin(url: str) -> None:
    """It is refused, in words that do not show it."""
    with pytest.raises(ValueError, match="expected an absolute http") as refused:
        origin_of(url)
    assert "test" not in str(refused.value).replace("api.example.com", "")
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_ports_and_addresses_are_told_apart() -> None:
    """An origin is a value: scheme, host and port as they are connected to."""
    assert origin_of("http://[::1]:8080/x") == Origin("http", "[::1]", 8080)
    assert origin_of("https://127.0.0.1/x") == Origin("https", "127.0.0.1", 443)
    assert str(origin_of("http://API.test")) == "http://api.test:80"


def test_a_name_beyond_ascii_is_its_idna_form() -> None:
    """What the server's own links say and what the caller wrote are one origin."""
    trusted = Trusted(["https://bücher.test"])
    assert "https://xn--bcher-kva.test/jobs/1" in trusted
    assert "https://BÜCHER.test/jobs/1" in trusted
    assert "https://bucher.test/jobs/1" not in trusted


def test_a_named_origin_that_is_none_is_refused_at_once() -> None:
    """A wildcard or a bare host in `origins=` would silently trust nothing."""
    for wrong in ("files.example.com", "*.example.com", "https://evil.test\\@api.test"):
        with pytest.raises(ValueError, match=r"operation 'export': origins= expected an absolute"):
            operation("export", deadline=1, origins=[wrong])


_PIECES = st.sampled_from(
    [
        *("http", "https", ":", "/", "//", "\\", "@", "?", "#", ";", "&", "[", "]", ".", "%", "%2e", "%2F", "%40"),
        *("api.test", "evil.test", "::1", ":443", ":80", "a", "\t", "\r", "\n", " ", "\x00"),
        *("ä", "ß", "\u3002", "\uff41", "\u2044", "\u200d"),
    ]
)


@settings(deadline=None, max_examples=500)
@given(url=st.lists(_PIECES, max_size=9).map(lambda pieces: "https://" + "".join(pieces)))
@example(url="https://evil.test\\@api.test/")
@example(url="https://api.test%2e/")
def test_what_is_trusted_is_what_is_connected_to(url: str) -> None:
    """No text has one origin here and another host, scheme or port once requests has prepared it."""
    try:
        origin = origin_of(url)
        prepared = requests.Request("GET", url).prepare().url
    except ValueError:
        return
    assert prepared is not None
    parts = parse_url(prepared)
    assert origin == (parts.scheme, parts.host, parts.port or 443)
