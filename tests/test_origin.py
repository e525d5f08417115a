"""Which URLs are the API's own."""

import pytest

from trihop._origin import Origin, Trusted, origin_of


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.example.com", Origin("https", "api.example.com", 443)),
        ("https://api.example.com:443/x?y#z", Origin("https", "api.example.com", 443)),
        ("HTTPS://API.Example.COM/x", Origin("https", "api.example.com", 443)),
        ("http://api.example.com", Origin("http", "api.example.com", 80)),
        ("http://api.example.com:8080", Origin("http", "api.example.com", 8080)),
        ("https://me:secret@api.example.com/", Origin("https", "api.example.com", 443)),
        ("http://[::1]:8000/x", Origin("http", "[::1]", 8000)),
        ("http://127.0.0.1:8000", Origin("http", "127.0.0.1", 8000)),
    ],
)
def test_an_origin_is_scheme_host_and_port(url, origin):
    """Without regard to case, with the default port filled in; user, path, query and fragment are of no account."""
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url", ["", "api.example.com", "/jobs", "//api.example.com", "ftp://x", "https://", "https:///x", "http://x:99999",
            "http://x:y", "mailto:a@b", "javascript:alert(1)", "https://a\\@b/", None, 7, b"https://x"],
)  # fmt: skip
def test_what_is_no_absolute_http_url_is_refused(url):
    """The message says what is expected and does not show what came, which may have a secret."""
    with pytest.raises(ValueError, match=r"^expected an absolute http\(s\) URL, such as 'https://api.example.com'$"):
        origin_of(url)


def test_the_callers_and_the_named_origins_are_trusted():
    """Where the caller submits to, and what was named; nothing beside it, above it or below it."""
    trusted = Trusted(["https://files.example.com/prefix"])
    assert not trusted
    trusted.adopt("https://api.example.com/v1/jobs")

    assert trusted
    for url in ("https://api.example.com/other", "https://API.example.com:443", "https://files.example.com/x?y"):
        assert url in trusted
    for url in (
        "http://api.example.com/v1/jobs",
        "https://api.example.com:8443/v1/jobs",
        "https://evil.api.example.com",
        "https://example.com",
        "https://api.example.com.evil.com",
        "https://api.example.com@evil.com/",
    ):
        assert url not in trusted


def test_a_named_origin_that_is_none_is_refused():
    """A host without a scheme is not an origin."""
    with pytest.raises(ValueError, match="expected an absolute"):
        Trusted(["files.example.com"])
