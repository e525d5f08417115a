"""Digests that servers declare, and bodies that are packed: counted and checked as they are on the wire."""

import base64
import gzip
import hashlib
import zlib

import pytest
import requests

from trihop import Reply, ResultCorrupt, operation
from trihop.testing import chunked, close_delimited, ranged, reset

ROWS = b"a,b\n" + b"1,2\n" * 5000
PACKED = gzip.compress(ROWS, mtime=0)


def b64(name, data):
    digest = zlib.crc32(data).to_bytes(4, "big") if name == "crc32" else hashlib.new(name, data).digest()
    return base64.b64encode(digest).decode()


@pytest.fixture
def fetch(server, clock):
    """Downloads /rows, the replies scripted."""

    def fetch(*replies, **options):
        server.script(*replies)
        with requests.Session() as session, operation("export", deadline=600, session=session, clock=clock) as op:
            return op.download(f"{server.url}rows.csv", **options)

    return fetch


DECLARED = {
    "Repr-Digest": lambda data: {"Repr-Digest": f"sha-256=:{b64('sha256', data)}:"},
    "Content-Digest": lambda data: {"Content-Digest": f"sha-512=:{b64('sha512', data)}:"},
    "Content-MD5": lambda data: {"Content-MD5": b64("md5", data)},
    "x-amz-checksum-sha256": lambda data: {"x-amz-checksum-sha256": b64("sha256", data)},
    "x-amz-checksum-crc32": lambda data: {"x-amz-checksum-crc32": b64("crc32", data)},
    "x-goog-hash": lambda data: {"x-goog-hash": f"md5={b64('md5', data)}"},
}


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_what_a_server_declares_is_checked(fetch, tmp_path, declared):
    """Right bytes pass, wrong ones leave nothing at the target."""
    assert fetch(Reply(200, content=ROWS, headers=declared(ROWS))).content == ROWS
    with pytest.raises(ResultCorrupt, match=r"its \w+ is not the one that the server declares"):
        fetch(Reply(200, content=ROWS[:-1] + b"\r", headers=declared(ROWS)), to=tmp_path / "rows.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_digests_are_of_what_is_on_the_wire(fetch, declared):
    """Of packed bytes where they are packed, whether they are unpacked here or not."""
    reply = Reply(200, content=PACKED, headers={"Content-Encoding": "gzip", **declared(PACKED)})

    assert fetch(reply).content == ROWS
    assert fetch(reply, decode=False).content == PACKED
    assert fetch(chunked(reply, 999)).content == ROWS


def test_a_declared_sha256_is_told(fetch):
    """What was checked may be shown: on the download, where it is of the bytes written."""
    sha256 = hashlib.sha256(ROWS).hexdigest()

    assert fetch(Reply(200, content=ROWS, headers=DECLARED["Repr-Digest"](ROWS))).sha256 == sha256
    packed = Reply(200, content=PACKED, headers={"Content-Encoding": "gzip", **DECLARED["Repr-Digest"](PACKED)})
    assert fetch(packed).sha256 is None


def test_a_digest_is_over_all_pieces(fetch, server):
    """The bytes before a break and those after it, together."""
    reply = Reply(200, content=ROWS, headers={"ETag": '"v1"', **DECLARED["Repr-Digest"](ROWS)})

    assert (fetch(reset(reply, 999), ranged(reply)).content, len(server.calls)) == (ROWS, 2)


def test_a_splice_that_a_declared_digest_finds_is_fetched_anew(fetch, server):
    """The rest was of another version under the same marks."""
    reply = Reply(200, content=ROWS, headers={"ETag": '"v1"', **DECLARED["Repr-Digest"](ROWS)})
    other = Reply(200, content=ROWS.replace(b"2", b"3"), headers=reply.headers)

    assert fetch(reset(reply, 999), ranged(other), reply).content == ROWS
    with pytest.raises(ResultCorrupt, match="its sha256 is not the one"):
        fetch(reset(reply, 999), ranged(other), other)


def test_a_part_is_held_against_its_own_digest(fetch, server):
    """`Content-Digest` of a 206 is of the part; a wrong one means that all is fetched anew."""
    whole = Reply(200, content=ROWS, headers={"ETag": '"v1"'})
    span = {"ETag": '"v1"', "Content-Range": f"bytes 999-{len(ROWS) - 1}/{len(ROWS)}"}
    good = Reply(206, content=ROWS[999:], headers={**span, **DECLARED["Content-Digest"](ROWS[999:])})
    bad = Reply(206, content=ROWS[999:], headers={**span, **DECLARED["Content-Digest"](b"other")})

    assert (fetch(reset(whole, 999), good).content, len(server.calls)) == (ROWS, 2)
    assert (fetch(reset(whole, 999), bad, whole).content, len(server.calls)) == (ROWS, 5)


def test_lengths_are_of_what_is_on_the_wire(fetch, spans):
    """A packed body is as long as it was announced, and the span and the progress say so."""
    download = fetch(Reply(200, content=PACKED, headers={"Content-Encoding": "gzip"}))

    told = spans.named("download export").attributes
    assert download.size_bytes == len(ROWS)
    assert told["trihop.download.size"] == told["trihop.download.expected_size"] == len(PACKED)


def test_a_packed_result_can_be_kept_as_it_is(fetch):
    """`decode=False` keeps the bytes, and says what they are; rows can be read all the same."""
    reply = Reply(200, content=PACKED, headers={"Content-Encoding": "gzip", "Content-Type": "text/csv"})

    kept, undone = fetch(reply, decode=False), fetch(reply)

    assert (kept.content, kept.content_encoding, kept.size_bytes) == (PACKED, "gzip", len(PACKED))
    assert (undone.content, undone.content_encoding) == (ROWS, None)
    assert next(kept.iter_rows()) == {"a": "1", "b": "2"}


def test_a_result_that_is_a_gzip_file_stays_one(fetch, tmp_path):
    """Without a content coding it is what it is; text, lines and rows see through it."""
    download = fetch(Reply(200, content=PACKED, headers={"Content-Type": "text/csv"}), to=tmp_path / "rows.csv.gz")

    assert download.path.read_bytes() == PACKED
    assert download.text == ROWS.decode()
    assert list(download.iter_lines())[:2] == ["a,b", "1,2"]
    assert next(download.iter_rows()) == {"a": "1", "b": "2"}


def test_a_gzip_file_that_was_packed_once_more_loses_the_coding_alone(fetch):
    """One layer is the transfer's, the other the result's own."""
    double = gzip.compress(PACKED, mtime=0)

    assert fetch(Reply(200, content=double, headers={"Content-Encoding": "gzip"})).content == PACKED
    assert fetch(Reply(200, content=double, headers={"Content-Encoding": "gzip, gzip"})).content == ROWS


@pytest.mark.parametrize("coding", ["deflate", "GZIP", "x-gzip", "identity"])
def test_other_codings_are_undone_too(fetch, coding):
    """Under each name that they go by."""
    body = {"deflate": zlib.compress(ROWS), "identity": ROWS}.get(coding, PACKED)

    assert fetch(Reply(200, content=body, headers={"Content-Encoding": coding})).content == ROWS


@pytest.mark.parametrize("coding", ["aes128gcm", "gzip, aes128gcm"])
def test_a_coding_that_nobody_here_knows_is_told(fetch, coding):
    """The bytes stay as they came, their length checked, and `content_encoding` says what they are."""
    reply = Reply(200, content=b"sealed", headers={"Content-Encoding": coding})
    kept = fetch(reply)

    assert (kept.content, kept.content_encoding) == (b"sealed", coding)


def test_what_follows_a_packed_body_is_counted(fetch):
    """Padding after the last member is passed over, and the digest of all of it is right."""
    padded = PACKED + b"\0" * 70_000
    reply = Reply(200, content=padded, headers={"Content-Encoding": "gzip", **DECLARED["Content-MD5"](padded)})

    assert fetch(reply).content == ROWS


def test_a_packed_body_without_a_length_must_be_whole(fetch):
    """Its own end says whether it is."""
    reply = Reply(200, content=PACKED, headers={"Content-Encoding": "gzip"})
    assert fetch(close_delimited(reply)).content == ROWS

    broken = close_delimited(Reply(200, content=PACKED[:-9], headers={"Content-Encoding": "gzip"}))
    with pytest.raises(ResultCorrupt, match="body_truncated"):
        fetch(*[broken] * 3)
