"""Downloads that break off, and every way in which going on with them can go wrong."""

import hashlib
import io
import random

import pytest
import requests

from trihop import Call, Content, Reply, Result, ResultCorrupt, ResultUnavailable, RetryPolicy, operation
from trihop.testing import chunked, ranged, reset, short, silent

ROWS = b"".join(b"%06d,row\n" % n for n in range(4000))
OTHER = ROWS.replace(b"row", b"ROW")
SHA256 = hashlib.sha256(ROWS).hexdigest()
HALF = len(ROWS) // 2
V1 = {"ETag": '"v1"', "Content-Type": "text/csv"}
WHOLE = Reply(200, content=ROWS, headers=V1)
FIRST_HALF = reset(WHOLE, HALF)


@pytest.fixture
def fetch(server, clock, tmp_path):
    """Downloads /rows to a file, its replies scripted; leaves no other file behind."""

    def fetch(*replies, then_always=None, to=tmp_path / "rows.csv", result=None, **options):
        server.script(*replies, then_always=then_always)
        with (
            requests.Session() as session,
            operation("export", deadline=36_000, session=session, clock=clock) as op,
        ):
            return op.download(result if result is not None else f"{server.url}rows", to=to, **options)

    yield fetch
    assert {path.name for path in tmp_path.iterdir()} <= {"rows.csv"}


def part(first, content=ROWS, *, total=None, status=206, after=None, **headers):
    """A part of the body, as a good server sends it unless it is told otherwise."""
    body = content[first:after]
    span = f"bytes {first}-{first + len(body) - 1}/{len(content) if total is None else total}"
    return Reply(status, content=body, headers={**V1, "Content-Range": span, **headers})


def ranges(server):
    return [call.headers.get("Range") for call in server.calls]


REST, SPAN = f"bytes={HALF}-", f"bytes {HALF}-{len(ROWS) - 1}/{len(ROWS)}"


@pytest.mark.parametrize("broken", [FIRST_HALF, short(WHOLE, HALF), short(chunked(WHOLE, 999), HALF)], ids=repr)
def test_a_transfer_goes_on_where_it_broke_off(fetch, server, spans, broken):
    """By Range and If-Range, as the bytes are; the file is whole and the span says how often it went on."""
    download = fetch(broken, then_always=ranged(WHOLE), sha256=SHA256)

    assert (download.path.read_bytes(), download.resumes, download.sha256) == (ROWS, 1, SHA256)
    asked = server.calls[1].headers
    assert (asked["If-Range"], asked["Accept-Encoding"]) == ('"v1"', "identity")
    told = spans.named("download export").attributes
    assert (told["trihop.download.resumes"], told["trihop.download.size"]) == (1, len(ROWS))


def test_a_hundred_breaks_at_random_offsets(fetch, server, spans):
    """The file is byte for byte what it should be, and no byte was sent twice."""
    offsets, full, sent = random.Random(20260301), ranged(WHOLE), []

    def breaks_off(call):
        reply = full(call)
        sent.append(offsets.randrange(1, 600))
        return reset(reply, min(sent[-1], len(reply.content) - 1))

    download = fetch(*[breaks_off] * 100, then_always=full, sha256=SHA256)

    assert download.path.read_bytes() == ROWS
    assert (download.resumes, spans.named("download export").attributes["trihop.download.resumes"]) == (100, 100)
    begins = [int(each.removeprefix("bytes=").removesuffix("-")) for each in ranges(server)[1:]]
    assert begins == [sum(sent[: n + 1]) for n in range(100)]


def test_memory_and_files_of_the_callers_go_on_too(fetch):
    """Also one that cannot seek: what it got is not taken back."""

    class Pipe(io.RawIOBase):
        got = b""

        def write(self, data):
            self.got += bytes(data)
            return len(data)

    file, pipe = io.BytesIO(), Pipe()
    assert fetch(FIRST_HALF, ranged(WHOLE), to=None).content == ROWS
    fetch(FIRST_HALF, ranged(WHOLE), to=file)
    fetch(FIRST_HALF, ranged(WHOLE), to=pipe)
    assert file.getvalue() == pipe.got == ROWS


WRONG = {
    "200 to a range": [WHOLE],
    "200 to a range, of another version": [Reply(200, content=ROWS, headers={"ETag": '"v2"'})],
    "200 that is a part": [part(HALF, status=200)],
    "200 that is all by its range": [part(0, status=200)],
    "206 that begins earlier": [part(HALF - 512)],
    "206 that begins with the first byte": [part(0)],
    "206 that begins later": [part(HALF + 1), WHOLE],
    "206 that ends before it brings anything": [part(0, after=100), WHOLE],
    "206 that is shorter than asked": [part(HALF, after=HALF + 7), ranged(WHOLE)],
    "206 without Content-Range": [Reply(206, content=ROWS[HALF:], headers=V1), WHOLE],
    "206 of several ranges": [
        Reply(206, content=b"--x", headers={**V1, "Content-Type": "multipart/byteranges; boundary=x"}),
        WHOLE,
    ],
    "206 with garbage for a range": [Reply(206, content=b"x", headers={**V1, "Content-Range": "bytes ?"}), WHOLE],
    "206 of another version": [part(HALF, OTHER, ETag='"v2"'), WHOLE],
    "206 without its validator": [Reply(206, content=OTHER[HALF:], headers={"Content-Range": SPAN}), WHOLE],
    "206 of another size": [part(HALF, total=len(ROWS) + 1), WHOLE],
    "206 with a coding": [part(HALF, OTHER, **{"Content-Encoding": "gzip"}), WHOLE],
    "206 that is longer than its range": [
        chunked(Reply(206, content=OTHER[HALF:] + b"more", headers=part(HALF).headers)),
        WHOLE,
    ],
    "416 with another size": [Reply(416, headers={"Content-Range": "bytes */7"}), WHOLE],
    "416 without a size": [416, WHOLE],
    "503 and then a part": [503, ranged(WHOLE)],
    "another break, then a part": [reset(part(HALF), 100), ranged(WHOLE)],
}


@pytest.mark.parametrize("replies", WRONG.values(), ids=WRONG)
def test_every_way_to_answer_a_range_ends_with_the_right_bytes(fetch, server, replies):
    """What does not fit is fetched anew, and nothing is put together of two versions."""
    download = fetch(FIRST_HALF, *replies)

    assert download.path.read_bytes() == ROWS
    assert ranges(server)[:2] == [None, REST]
    server.assert_done()


def test_416_with_the_size_that_is_there_is_the_end(fetch, server):
    """A body of unknown length had come whole when the connection broke off."""
    download = fetch(_all_but_the_end, Reply(416, headers={"Content-Range": f"bytes */{len(ROWS)}"}))

    assert download.path.read_bytes() == ROWS
    assert ranges(server) == [None, f"bytes={len(ROWS)}-"]


def _all_but_the_end(connection, call):
    """A chunked body without its last, empty chunk."""
    connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nTransfer-Encoding: chunked\r\n\r\n')
    connection.sendall(b"%x\r\n%b\r\n" % (len(ROWS), ROWS))
    connection.close()


VALIDATORS = {
    "weak ETag": ({"ETag": 'W/"v1"'}, None),
    "no validator": ({}, None),
    "no ranges": ({"ETag": '"v1"', "Accept-Ranges": "none"}, None),
    "a date": ({"Last-Modified": "Sun, 01 Mar 2026 09:00:00 GMT"}, "Sun, 01 Mar 2026 09:00:00 GMT"),
    "weak ETag and a date": (
        {"ETag": 'W/"v1"', "Last-Modified": "Sun, 01 Mar 2026 09:00:00 GMT"},
        "Sun, 01 Mar 2026 09:00:00 GMT",
    ),
    "a date too near": ({"Last-Modified": "Sun, 01 Mar 2026 12:00:00 GMT"}, None),
}


@pytest.mark.parametrize(("headers", "if_range"), VALIDATORS.values(), ids=VALIDATORS)
def test_only_strong_validators_are_gone_on_with(fetch, server, headers, if_range):
    """Else all of it is fetched again: nobody could tell another version from this one."""
    reply = Reply(200, content=ROWS, headers=headers)

    assert fetch(reset(reply, HALF), ranged(reply)).path.read_bytes() == ROWS
    assert ranges(server) == [None, None if if_range is None else REST]
    assert server.calls[1].headers.get("If-Range") == if_range


def test_a_digest_makes_up_for_a_validator(fetch, server):
    """Where the bytes are checked in the end, a splice of two versions would be found out."""
    reply = Reply(200, content=ROWS)

    assert fetch(reset(reply, HALF), ranged(reply), sha256=SHA256).path.read_bytes() == ROWS
    assert ranges(server) == [None, REST]


def test_a_splice_of_the_right_size_is_found_by_its_digest(fetch, server):
    """A server that changed the object under the same marks: it is fetched once more, whole."""
    download = fetch(FIRST_HALF, part(HALF, OTHER), WHOLE, sha256=SHA256)

    assert (download.path.read_bytes(), ranges(server)) == (ROWS, [None, REST, None])


def test_a_splice_that_stays_wrong_is_told(fetch, server):
    """Once more, and no oftener."""
    with pytest.raises(ResultCorrupt, match="its sha256 is"):
        fetch(FIRST_HALF, part(HALF, OTHER), Reply(200, content=OTHER, headers=V1), sha256=SHA256)
    server.assert_done()


def test_validators_hold_for_every_further_range(fetch, server):
    """The second break is asked for with If-Range as the first one was."""
    fetch(FIRST_HALF, reset(part(HALF), 100), 503, ranged(WHOLE))

    assert [call.headers.get("If-Range") for call in server.calls] == [None, '"v1"', '"v1"', '"v1"']
    assert ranges(server)[-1] == f"bytes={HALF + 100}-"


def test_no_progress_is_counted_and_progress_is_not(fetch, server):
    """Three breaks at the same byte are the end; breaks that each bring some are not."""
    nothing_more = reset(part(HALF), 0)
    with pytest.raises(ResultUnavailable, match="fetching it failed 3 times, last with connection_reset"):
        fetch(FIRST_HALF, nothing_more, nothing_more)
    server.assert_done()


def test_a_policy_of_one_attempt_is_kept(fetch, server):
    """Whoever asks for one attempt gets one."""
    with pytest.raises(ResultUnavailable, match="fetching it failed with connection_reset"):
        fetch(FIRST_HALF, retry=RetryPolicy(attempts=1))
    assert ranges(server) == [None]


def test_a_part_that_nobody_asked_for_is_no_result(fetch, server):
    """A cache that answers a plain question with a part of the file is asked again."""
    assert fetch(part(0, after=100), WHOLE).path.read_bytes() == ROWS
    with pytest.raises(ResultCorrupt, match=r"broke off 3 times, last \(range_mismatch\)"):
        fetch(*[part(0, after=100)] * 3)


def test_the_callers_own_range_is_answered_as_it_was_asked(fetch, server):
    """A part is the result then; it is not gone on with by another range."""
    mine = Call("GET", f"{server.url}rows", headers={"Range": "bytes=0-99"})
    assert fetch(ranged(WHOLE), result=mine).path.read_bytes() == ROWS[:100]
    assert fetch(reset(part(0, after=100), 10), ranged(WHOLE), result=mine).path.read_bytes() == ROWS[:100]
    assert ranges(server) == ["bytes=0-99"] * 3


def test_a_single_use_link_is_not_gone_on_with(fetch, server):
    """Once bytes came it is used up, whatever the server would say to a range."""
    once = Result(f"{server.url}rows", single_use=True)
    with pytest.raises(ResultUnavailable, match="the link works once only"):
        fetch(FIRST_HALF, result=once)
    assert ranges(server) == [None]


def test_a_page_is_gone_on_with_like_a_file(fetch, server):
    """The first page has all its lines; a later one, less its header, is fetched anew."""

    def pages(reply, result):
        return Content(next="?page=2" if reply.url.endswith("rows") else None, header_lines=1)

    download = fetch(FIRST_HALF, ranged(WHOLE), FIRST_HALF, ranged(WHOLE), surface=pages)

    assert download.path.read_bytes() == ROWS + ROWS.split(b"\n", 1)[1]
    assert ranges(server) == [None, REST, None, None]
    assert download.parts == 2


def test_a_slow_peer_is_gone_on_with(fetch, server):
    """A read that times out is a break like another."""
    assert fetch(silent(WHOLE, HALF), then_always=ranged(WHOLE), timeout=0.2).path.read_bytes() == ROWS
    assert ranges(server) == [None, REST]


def test_ranges_follow_redirects(fetch, server):
    """The place that a link leads to is asked for the rest, by way of the link."""
    moved = Reply(302, headers={"Location": "/elsewhere?v=1"})

    assert fetch(moved, FIRST_HALF, moved, ranged(WHOLE)).path.read_bytes() == ROWS
    assert [(call.path, call.headers.get("Range")) for call in server.calls] == [
        ("/rows", None),
        ("/elsewhere?v=1", None),
        ("/rows", REST),
        ("/elsewhere?v=1", REST),
    ]
