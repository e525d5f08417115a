"""Joining URLs without altering what they name."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trihop._template import join

BASE = "http://a/b/c/d;p?q"


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"),
        ("g;x?y#s", "http://a/b/c/g;x?y#s"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("../../../../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/../x", "http://a/b/c/g#s/../x"),
        ("g:h", "g:h"),
        ("http:g", "http:g"),
    ],
)
def test_a_reference_is_resolved_as_in_rfc_3986(reference: str, target: str) -> None:
    """The examples of section 5.4, with the strict reading of the last one."""
    assert join(BASE, reference) == target


@pytest.mark.parametrize(
    ("base", "reference", "target"),
    [
        ("https://h/x", "https://f/a/../b//c?x=%7e&y=%2e%2e#z", "https://f/a/../b//c?x=%7e&y=%2e%2e#z"),
        ("https://h/x", "/a/../b//./c?x=%7e;[1]|", "https://h/a/../b//./c?x=%7e;[1]|"),
        ("https://h:8443/x", "//f/a//../b?", "https://f/a//../b?"),
        ("https://h/a//b/c", "d//e?", "https://h/a//b/d//e?"),
        ("https://h/a/c", "d;?=&&", "https://h/a/d;?=&&"),
        ("https://h/a/c", "%2e%2e/d", "https://h/a/%2e%2e/d"),
        ("https://h/a//b/c", "../d//e", "https://h/a//d//e"),
        ("https://h?q=/x", "d", "https://h/d"),
        ("https://h/%7Ea/?q=1#f", "?p=%7e", "https://h/%7Ea/?p=%7e"),
        ("https://h/x", " /a\n", "https://h/a"),
    ],
)
def test_what_a_reference_names_keeps_its_bytes(base: str, reference: str, target: str) -> None:
    """Empty segments, escapes, and marks without anything behind them stay: a signature counts them."""
    assert join(base, reference) == target


@pytest.mark.parametrize(
    ("base", "reference", "target"),
    [
        ("https://h/x", "http://h/jobs", "https://h/jobs"),
        ("https://h/x", "http://H:80/jobs:80", "https://H/jobs:80"),
        ("https://h/x", "HTTP://h", "https://h"),
        ("HTTPS://h/x", "http://h/jobs", "https://h/jobs"),
        ("https://h:8443/x", "http://h:8443/jobs", "https://h:8443/jobs"),
        ("https://h/x", "http://u:80@h:80/jobs", "https://u:80@h/jobs"),
        ("https://[fe80::80]/x", "http://[fe80::80]:80/jobs", "https://[fe80::80]/jobs"),
        # another service, or another host, is not the same by TLS
        ("https://h/x", "http://h:8080/jobs", "http://h:8080/jobs"),
        ("https://h/x", "http://h.evil/jobs", "http://h.evil/jobs"),
        ("https://h/x", "http://h@evil/jobs", "http://h@evil/jobs"),
        ("http://h/x", "http://h/jobs", "http://h/jobs"),
    ],
)
def test_a_link_to_the_same_host_does_not_fall_from_https(base: str, reference: str, target: str) -> None:
    """A server behind a TLS proxy does not know its own scheme, so the scheme of the request goes on."""
    assert join(base, reference) == target


_SEGMENT = st.sampled_from(["a", "b.c", "..d", "%2e", ".", ".."])


@settings(deadline=None)
@given(segments=st.lists(_SEGMENT, min_size=1), depth=st.integers(0, 3))
def test_dot_segments_go_where_urljoin_takes_them(segments: list[str], depth: int) -> None:
    """Where nothing is empty, which `urljoin` drops, the standard library comes to the same."""
    base, reference = "https://h/" + "x/" * depth + "y", "/".join(segments)
    assert join(base, reference) == urljoin(base, reference)
