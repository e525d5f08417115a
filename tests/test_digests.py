"""Digests that servers declare: which are read, and that each finds a wrong byte."""

import base64
import hashlib
import zlib

import pytest

from trihop._clock import SystemClock
from trihop._results.digests import Checks, Digest, declared_of_message, declared_of_whole

BODY = b"a,b\n1,2\n"
monotonic = SystemClock().monotonic


def b64(digest):
    return base64.b64encode(digest).decode()


def crc32c(data):
    """By the definition: bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return (value ^ 0xFFFFFFFF).to_bytes(4, "big")


SHA256, SHA512, SHA1, MD5 = (hashlib.new(name, BODY).digest() for name in ("sha256", "sha512", "sha1", "md5"))
CRC32 = zlib.crc32(BODY).to_bytes(4, "big")
CRC32C = crc32c(BODY)

WHOLE = {
    "spaces": ({"Repr-Digest": f" sha-256 = :{b64(SHA256)}: , md5=1"}, {"sha256": SHA256}),
    "Repr-Digest sha-256": ({"Repr-Digest": f"sha-256=:{b64(SHA256)}:"}, {"sha256": SHA256}),
    "two algorithms": (
        {"Repr-Digest": f"sha-512=:{b64(SHA512)}:, sha-256=:{b64(SHA256)}:;q=1, unixsum=:AAA=:"},
        {"sha512": SHA512, "sha256": SHA256},
    ),
    "amz sha256": ({"x-amz-checksum-sha256": b64(SHA256)}, {"sha256": SHA256}),
    "amz sha1": ({"x-amz-checksum-sha1": b64(SHA1)}, {"sha1": SHA1}),
    "amz crc32": ({"x-amz-checksum-crc32": b64(CRC32)}, {"crc32": CRC32}),
    "amz crc32c": ({"x-amz-checksum-crc32c": b64(CRC32C)}, {"crc32c": CRC32C}),
    "goog": ({"x-goog-hash": f"crc32c={b64(CRC32C)}, md5={b64(MD5)}"}, {"crc32c": CRC32C, "md5": MD5}),
}
MESSAGE = {
    "Content-Digest": ({"Content-Digest": f"sha-512=:{b64(SHA512)}:"}, {"sha512": SHA512}),
    "Content-MD5": ({"Content-MD5": b64(MD5)}, {"md5": MD5}),
}


def as_hex(digests):
    return {name: digest.hex() for name, digest in digests.items()}


@pytest.mark.parametrize(("headers", "digests"), WHOLE.values(), ids=WHOLE)
def test_digests_of_the_whole_are_read(headers, digests):
    """Of the representation as it is on the wire, whichever part of it comes."""
    assert declared_of_whole(headers, len(BODY)) == as_hex(digests)
    assert declared_of_message(headers, len(BODY)) == {}


@pytest.mark.parametrize(("headers", "digests"), MESSAGE.values(), ids=MESSAGE)
def test_digests_of_the_message_are_read(headers, digests):
    """Of this one answer, which may be a part."""
    assert declared_of_message(headers, len(BODY)) == as_hex(digests)
    assert declared_of_whole(headers, len(BODY)) == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Repr-Digest": "sha-256=abc"},
        {"Repr-Digest": "sha-256=:!!:"},
        {"Repr-Digest": f"sha-256=:{b64(MD5)}:"},
        {"x-amz-checksum-sha256": b64(SHA256) + "-3"},
        {"x-amz-checksum-sha256": b64(SHA256), "x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="},
        {"x-goog-hash": f"md5={b64(MD5)}", "x-goog-stored-content-encoding": "gzip"},
        {"x-goog-hash": "md5"},
    ],
    ids=str,
)
def test_what_is_no_digest_of_these_bytes_is_passed_over(headers):
    """A sum of sums, a stored form that was unpacked on the way, and garbage."""
    assert declared_of_whole(headers, len(BODY)) == {}


def test_a_long_field_is_read_at_once():
    """However long a server makes it, and whatever of."""
    began_s = monotonic()
    for piece in ("a", "a=", "=:", ":", ",", " "):
        assert declared_of_whole({"Repr-Digest": piece * 60_000}, len(BODY)) == {}

    assert monotonic() - began_s < 5  # the better part of a minute, were it read as often as it is long


def test_crc32c_is_left_out_where_it_would_take_too_long():
    """In pure Python; beyond 4 MiB, or of unknown length."""
    headers = {"x-amz-checksum-crc32c": b64(CRC32C)}

    assert declared_of_whole(headers, None) == declared_of_whole(headers, 5 * 2**20) == {}


@pytest.mark.parametrize("name", ["sha256", "sha512", "sha1", "md5", "crc32", "crc32c"])
def test_each_digest_finds_a_wrong_byte(name):
    """However the body is cut, and says nothing where all bytes are right."""
    digests = {"sha256": SHA256, "sha512": SHA512, "sha1": SHA1, "md5": MD5, "crc32": CRC32, "crc32c": CRC32C}
    right, wrong = (Checks(as_hex({name: digests[name]})) for _ in range(2))

    for byte in BODY:
        right.update(bytes([byte]))
    wrong.update(memoryview(BODY[:-1] + b"\r"))

    assert (right.wrong(), wrong.wrong()) == (None, name)


def test_a_digest_comes_back_to_where_it_was():
    """What a transfer that broke off had brought is forgotten."""
    digest = Digest(True)
    digest.update(b"a")
    saved = digest.saved()
    digest.update(b"x")
    digest.back(saved)
    digest.update(b"b")
    digest.back(saved)
    digest.update(b"b")

    assert digest.hexdigest() == hashlib.sha256(b"ab").hexdigest()
    assert Digest(False).hexdigest() is None
