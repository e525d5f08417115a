"""Digests of what goes by: the one that was asked for, and those that a server declares."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

# RFC 9530 section 5 and the registry it makes; x-amz-checksum-* and x-goog-hash say the same without a hyphen.
_HASHES = {"sha-256": "sha256", "sha-512": "sha512", "sha": "sha1", "sha1": "sha1", "md5": "md5"}
_HASHES |= {"sha256": "sha256", "sha512": "sha512"}
_SIZES = {"sha256": 32, "sha512": 64, "sha1": 20, "md5": 16, "crc32": 4, "crc32c": 4}
_AMAZON = ("sha256", "sha1", "crc32", "crc32c")

# In pure Python crc32c takes 80 ms a MiB; no library is asked for because of it.
_LARGEST_CRC32C = 4 * 2**20


class Digest:
    """sha256 of what goes by, where somebody wants it."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self._sha256 = hashlib.sha256() if wanted else None

    def update(self, data: bytes | memoryview) -> None:
        """Take in what was written."""
        if self._sha256 is not None:
            self._sha256.update(data)

    def saved(self) -> Any:
        """What was taken in so far, to come `back` to."""
        return None if self._sha256 is None else self._sha256.copy()

    def back(self, saved: Any) -> None:
        """Forget what was taken in since."""
        self._sha256 = None if saved is None else saved.copy()

    def hexdigest(self) -> str | None:
        """The digest in hex, if one was wanted."""
        return None if self._sha256 is None else self._sha256.hexdigest()


class Checks:
    """A body on the wire against the digests declared of it.

    Args:
        declared: Digests in hex by algorithm, as `declared_of_whole` finds them.
    """

    def __init__(self, declared: Mapping[str, str]) -> None:
        self.declared = dict(declared)
        self._hashes = {name: _new(name) for name in declared}

    def update(self, data: bytes | memoryview) -> None:
        """Take in what came."""
        for each in self._hashes.values():
            each.update(data)

    def wrong(self) -> str | None:
        """The algorithm by which the body is not what was declared, if there is one."""
        return next((name for name, each in self._hashes.items() if each.digest().hex() != self.declared[name]), None)

    def sha256(self) -> str | None:
        """The sha256 in hex, where one was declared."""
        return self.declared.get("sha256")


def declared_of_whole(headers: Mapping[str, str], size_bytes: int | None) -> dict[str, str]:
    """Digests in hex, by algorithm, that an answer declares of the whole representation, coded as on the wire.

    What cannot be read is passed over, and so are checksums of a sum of parts, and
    those of what a server packs or unpacks on the way.

    Source: RFC 9530 section 3 (`Repr-Digest`); Amazon, "Checking object integrity";
    Google, "x-goog-hash".
    """
    found = _structured(headers.get("Repr-Digest", ""))
    if headers.get("x-amz-checksum-type", "FULL_OBJECT").upper() == "FULL_OBJECT":
        for name in _AMAZON:
            _put(found, name, headers.get(f"x-amz-checksum-{name}", ""))
    stored = headers.get("x-goog-stored-content-encoding", "identity")
    if stored == "identity" or stored == headers.get("Content-Encoding", "identity"):
        for item in headers.get("x-goog-hash", "").split(","):
            name, _, value = item.strip().partition("=")
            _put(found, name.lower(), value)
    return _checkable(found, size_bytes)


def declared_of_message(headers: Mapping[str, str], size_bytes: int | None) -> dict[str, str]:
    """The same, of the bytes of this one answer, a part perhaps.

    Source: RFC 9530 section 2 (`Content-Digest`); RFC 1864 (`Content-MD5`).
    """
    found = _structured(headers.get("Content-Digest", ""))
    _put(found, "md5", headers.get("Content-MD5", ""))
    return _checkable(found, size_bytes)


def _structured(value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for member in value.split(","):  # which no digest has in it
        name, _, item = member.partition("=")
        before, colon, rest = item.partition(":")
        encoded, end, _ = rest.partition(":")
        if colon and end and not before.strip():
            _put(found, name.strip().lower(), encoded)
    return found


def _put(found: dict[str, str], name: str, value: str) -> None:
    if not value:
        return
    name = _HASHES.get(name, name)
    try:
        digest = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return
    if len(digest) == _SIZES.get(name):
        found[name] = digest.hex()


def _checkable(found: dict[str, str], size_bytes: int | None) -> dict[str, str]:
    if size_bytes is None or size_bytes > _LARGEST_CRC32C:
        found.pop("crc32c", None)
    return found


def _new(name: str) -> Any:
    match name:
        case "crc32":
            return _Crc32()
        case "crc32c":
            return _Crc32c()
        case _:
            return hashlib.new(name, usedforsecurity=False)


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


class _Crc32c:
    """Castagnoli's polynomial, reflected (RFC 3720 section 12.1), a byte at a time."""

    _table: tuple[int, ...] = ()

    def __init__(self) -> None:
        self._value = 0xFFFFFFFF
        if not _Crc32c._table:
            _Crc32c._table = tuple(map(self._entry, range(256)))

    @staticmethod
    def _entry(index: int) -> int:
        for _ in range(8):
            index = (index >> 1) ^ (0x82F63B78 if index & 1 else 0)
        return index

    def update(self, data: bytes | memoryview) -> None:
        value, table = self._value, self._table
        for byte in bytes(data):
            value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
        self._value = value

    def digest(self) -> bytes:
        return (self._value ^ 0xFFFFFFFF).to_bytes(4, "big")
