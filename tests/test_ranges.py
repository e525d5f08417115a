"""Resuming as a decision: what is asked for, and what an answer to it is."""

import pytest

from trihop._results.ranges import (
    Complete,
    Representation,
    Rest,
    Unusable,
    Whole,
    ask_for_rest,
    judge_rest,
    representation_of,
    stray,
)

MODIFIED, LATER = "Sun, 01 Mar 2026 11:00:00 GMT", "Sun, 01 Mar 2026 11:00:01 GMT"
V1 = Representation(etag='"v1"', total_bytes=12)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"ETag": '"v1"', "Content-Length": "12"}, V1),
        ({"ETag": 'W/"v1"', "Content-Length": "12"}, Representation(total_bytes=12)),
        ({"ETag": "v1"}, Representation()),
        ({"Last-Modified": MODIFIED, "Date": LATER}, Representation(modified=MODIFIED)),
        ({"Last-Modified": MODIFIED, "Date": MODIFIED}, Representation()),
        ({"Last-Modified": MODIFIED}, Representation()),
        ({"Last-Modified": "yesterday", "Date": LATER}, Representation()),
        ({"Content-Length": "12", "Transfer-Encoding": "chunked"}, Representation()),
        ({"Content-Length": "1" + "0" * 5000}, Representation(total_bytes=10**18)),
        ({"Content-Length": "\xb2"}, Representation()),
        ({"Content-Length": "-12"}, Representation()),
        ({"Last-Modified": MODIFIED, "Date": LATER.replace("GMT", "+9999999999999999999")}, Representation()),
        ({"Accept-Ranges": "none"}, Representation(ranged=False)),
        ({"Content-Encoding": "GZIP"}, Representation(coding="gzip")),
        ({"Content-Encoding": "identity"}, Representation()),
    ],
    ids=str,
)
def test_what_an_answer_says_of_its_bytes(headers, found):
    """Strong validators alone count, and a length only where it is that of the body."""
    assert representation_of(headers) == found


@pytest.mark.parametrize(
    ("of", "held", "checked", "asked"),
    [
        (V1, 5, False, {"Range": "bytes=5-", "If-Range": '"v1"'}),
        (Representation(etag='"v1"', modified=MODIFIED), 5, False, {"Range": "bytes=5-", "If-Range": '"v1"'}),
        (Representation(modified=MODIFIED), 5, False, {"Range": "bytes=5-", "If-Range": MODIFIED}),
        (Representation(), 5, False, None),
        (Representation(), 5, True, {"Range": "bytes=5-"}),
        (V1, 0, False, None),
        (Representation(etag='"v1"', ranged=False), 5, False, None),
    ],
)
def test_the_rest_is_asked_for_where_it_can_be_told_from_another_one(of, held, checked, asked):
    """By a validator, or where a digest will tell; never from a server that says it has no ranges."""
    assert ask_for_rest(of, held, checked=checked) == asked


def part(span, **headers):
    return {"Content-Range": span, "ETag": '"v1"', **headers}


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (206, part("bytes 5-11/12"), Rest(0, 7, V1)),
        (206, part("bytes 5-8/12"), Rest(0, 4, V1)),
        (206, part("bytes 2-11/12"), Rest(3, 10, V1)),
        (206, part("Bytes 5-11/*"), Rest(0, 7, V1)),
        (200, part("bytes 5-11/12"), Rest(0, 7, V1)),
        (200, part("bytes 0-11/12"), Whole()),
        (200, {}, Whole()),
        (206, {}, Unusable("no_content_range")),
        (206, {"Content-Type": "multipart/byteranges"}, Unusable("no_content_range")),
        (206, part(f"bytes 5-11/{'1' * 5000}"), Unusable("no_content_range")),
        (206, part("bytes 6-11/12"), Unusable("range_mismatch")),
        (206, part("bytes 0-4/12"), Unusable("range_mismatch")),
        (206, part("bytes 5-12/12"), Unusable("range_mismatch")),
        (206, part("bytes 5-11/13"), Unusable("representation_changed")),
        (206, part("bytes 5-11/12", ETag='"v2"'), Unusable("representation_changed")),
        (206, part("bytes 5-11/12", ETag='W/"v1"'), Unusable("representation_changed")),
        (206, {"Content-Range": "bytes 5-11/12"}, Unusable("representation_changed")),
        (206, part("bytes 5-11/12", **{"Content-Encoding": "gzip"}), Unusable("representation_changed")),
        (416, {"Content-Range": "bytes */5"}, Complete()),
        (416, {"Content-Range": "bytes */12"}, Unusable("range_not_satisfiable")),
        (416, {"Content-Range": f"bytes */{'1' * 5000}"}, Unusable("range_not_satisfiable")),
        (416, {}, Unusable("range_not_satisfiable")),
        (403, {}, None),
        (503, part("bytes 5-11/12"), None),
    ],
    ids=str,
)
def test_what_an_answer_to_a_range_is(status, headers, outcome):
    """Five of twelve bytes are held; each way to answer has its name."""
    assert judge_rest(status, headers, V1, 5, checked=False) == outcome


def test_416_without_a_size_is_complete_where_all_is_there():
    """A server may say no more than that nothing follows."""
    assert judge_rest(416, {}, Representation(etag='"v1"', total_bytes=5), 5, checked=False) == Complete()


def test_a_part_without_validators_will_do_where_a_digest_tells():
    """Else nobody would know."""
    of = Representation(total_bytes=12)

    assert judge_rest(206, {"Content-Range": "bytes 5-11/12"}, of, 5, checked=True) == Rest(0, 7, of)
    assert judge_rest(206, {"Content-Range": "bytes 5-11/12"}, V1, 5, checked=True) == Rest(0, 7, V1)


def test_a_date_is_compared_as_it_was_given():
    """It is a validator like another."""
    of = Representation(modified=MODIFIED)
    headers = {"Content-Range": "bytes 5-11/12"}

    assert isinstance(judge_rest(206, {**headers, "Last-Modified": MODIFIED}, of, 5, checked=False), Rest)
    assert isinstance(judge_rest(206, {**headers, "Last-Modified": LATER}, of, 5, checked=False), Unusable)


@pytest.mark.parametrize(
    ("status", "span", "why"),
    [
        (200, None, None),
        (200, "bytes 0-11/12", None),
        (206, "bytes 0-11/12", None),
        (206, None, "no_content_range"),
        (200, "bytes 0-4/12", "range_mismatch"),
        (206, "bytes 5-11/12", "range_mismatch"),
        (206, "bytes 0-11/*", "range_mismatch"),
    ],
)
def test_a_part_that_nobody_asked_for_is_no_result(status, span, why):
    """Unless it is all there is."""
    assert stray(status, {} if span is None else {"Content-Range": span}) == why
