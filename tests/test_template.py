"""Filling templates, and joining URLs without altering what they name."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trihop import Call, Job
from trihop._template import check_url, fill, join

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


# ---- fields

JOB = Job(
    id="a/b c",
    status_url="https://api.test/v1/jobs/7?v=1",
    submit_url="https://api.test/v1/jobs",
    state="running",
    memo={"region": "eu west", "url": "https://eu.api.test/x?y=1", "n": 3, "none": None},
)


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("{status_url}", "https://api.test/v1/jobs/7?v=1"),
        ("{status_url}/cancel", "https://api.test/v1/jobs/7/cancel?v=1"),
        ("{status_url}:cancel", "https://api.test/v1/jobs/7:cancel?v=1"),
        ("{status_url}/{state}?deep=1&at={id}", "https://api.test/v1/jobs/7/running?v=1&deep=1&at=a%2Fb%20c"),
        ("{status_url}?deep=1", "https://api.test/v1/jobs/7?v=1&deep=1"),
        ("{status_url}&deep=1", "https://api.test/v1/jobs/7?v=1&deep=1"),
        ("{submit_url}?deep=1", "https://api.test/v1/jobs?deep=1"),
        ("{submit_url}/{id}", "https://api.test/v1/jobs/a%2Fb%20c"),
        ("jobs/{id}/{state}", "https://api.test/v1/jobs/a%2Fb%20c/running"),
        ("/r/{memo.region}/{memo.n}", "https://api.test/r/eu%20west/3"),
        ("{memo.url}", "https://eu.api.test/x?y=1"),
        ("/fixed", "https://api.test/fixed"),
    ],
)
def test_a_url_template_is_filled_and_joined_to_the_submits_url(template: str, url: str) -> None:
    """An id is one piece of a path and is percent-encoded; URLs go in as they are, or with a longer path or query."""
    assert fill(Call("GET", template), JOB) == Call("GET", url)


def test_a_call_is_filled_everywhere() -> None:
    """In params, headers and bodies texts are replaced as they are, and other braces are left alone."""
    call = Call(
        "POST",
        "{submit_url}",
        params={"id": "{id}"},
        headers={"X-State": "{state}"},
        json={"query": "query($id: ID!) { node(id: $id) { {name} } }", "ids": ["{id}", 7, None, ("{memo.n}",)]},
    )

    assert fill(call, JOB) == Call(
        "POST",
        "https://api.test/v1/jobs",
        params={"id": "a/b c"},
        headers={"X-State": "running"},
        json={"query": "query($id: ID!) { node(id: $id) { {name} } }", "ids": ["a/b c", 7, None, ["3"]]},
    )
    assert fill(Call("POST", "/x", data="<id>{id}</id>"), JOB).data == "<id>a/b c</id>"
    assert fill(Call("POST", "/x", data={"PHASE": "{state}"}), JOB).data == {"PHASE": "running"}
    assert fill(Call("POST", "/x", data=b"{id}"), JOB).data == b"{id}"


def test_what_a_job_puts_into_a_template_is_no_template() -> None:
    """An id that looks like a field stays an id."""
    assert fill(Call("GET", "/j/{id}"), Job(id="{state}", submit_url="https://api.test/")).url == (
        "https://api.test/j/%7Bstate%7D"
    )


@pytest.mark.parametrize("field", ["id", "status_url", "submit_url", "state", "memo.x"])
def test_a_field_that_the_job_lacks_is_named(field: str) -> None:
    """A call that cannot be built says what is missing."""
    with pytest.raises(LookupError, match=rf"the job has no {field}, which \{{{field}\}} needs"):
        fill(Call("GET", f"/x/{{{field}}}"), Job())


def test_an_id_that_no_url_can_have_is_told() -> None:
    """JSON can have half of a surrogate pair, which no bytes stand for."""
    with pytest.raises(LookupError, match="the job's id has characters that no URL can have"):
        fill(Call("GET", "/x/{id}"), Job(id="\ud800"))


@pytest.mark.parametrize("word", ["{ID}", "{job_id}", "{memo}", "{}", "{id.x}", "{memo.}"])
def test_an_unknown_field_in_a_url_is_refused(word: str) -> None:
    """It would be sent as it is, and never answered."""
    with pytest.raises(
        ValueError, match=re.escape(f"somewhere: unknown field {word} in '/x/{word}'; there are {{id}}")
    ):
        check_url(f"/x/{word}", "somewhere")
