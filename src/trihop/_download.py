"""Where a result goes: a part file beside its target, an open file, or memory."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json as _json
import os
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import requests

from trihop._network import BodyTruncated, check_length
from trihop._values import JSON

CHUNK_BYTES = 256 * 1024
_GZIP = zlib.MAX_WBITS | 16


@dataclass(frozen=True, slots=True)
class Download:
    """A result that arrived whole.

    Args:
        name: Its name among several.
        path: The file; None for memory or a file object of the caller's.
        size_bytes: Bytes written.
        sha256: Their digest in hex, where one was asked for or announced.
        content_type: As the server said.
        parts: Pages it came in.
        resumes: How often a broken stream was taken up again.
    """

    name: str
    path: Path | None
    size_bytes: int
    sha256: str | None = None
    content_type: str | None = None
    parts: int = 1
    resumes: int = 0
    _memory: bytes | None = field(default=None, repr=False)

    @property
    def content(self) -> bytes:
        """The whole result as bytes.

        Raises:
            ValueError: It went to a file object of the caller's.
        """
        if self._memory is not None:
            return self._memory
        with self._open() as file:
            return file.read()

    @property
    def text(self) -> str:
        """The whole result as text, UTF-8."""
        return self.content.decode("utf-8", errors="replace")

    def json(self) -> JSON:
        """The whole result as JSON.

        Raises:
            ValueError: It is not JSON.
        """
        return _json.loads(self.content)

    def iter_lines(self) -> Iterator[str]:
        """Its lines without their ends, one at a time."""
        with self._open() as file, io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as lines:
            for line in lines:
                yield line.rstrip("\r\n")

    def iter_rows(self) -> Iterator[Any]:
        """Its rows: each line of JSON lines, each element of a JSON array, each CSV record as a dict.

        CSV is what says so by its content type, or does not begin like JSON.

        Raises:
            ValueError: A line is neither.
        """
        with self._open() as file:
            start = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        kind = self.content_type or ""
        are_lines = "ndjson" in kind or "jsonl" in kind
        if "csv" in kind or (start not in (b"{", b"[") and not are_lines):
            import csv

            with self._open() as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
                yield from csv.DictReader(lines)
        elif start == b"[" and not are_lines:
            yield from self.json()
        else:
            for line in self.iter_lines():
                if line.strip():
                    yield _json.loads(line)

    def _open(self) -> IO[bytes]:
        if self._memory is not None:
            return io.BytesIO(self._memory)
        if self.path is None:
            raise ValueError("this result went to a file object; read it there")
        return self.path.open("rb")


class Sink:
    """What a result is written to; nothing shows at the target before `commit`."""

    size_bytes = 0

    def write(self, data: bytes) -> None:
        """Append."""
        raise NotImplementedError

    def rewind(self, size_bytes: int) -> None:
        """Forget what was written after that many bytes.

        Raises:
            OSError: It cannot.
        """
        raise NotImplementedError

    def commit(self) -> tuple[Path | None, bytes | None]:
        """Make it visible; its path or its bytes."""
        raise NotImplementedError

    def abort(self) -> None:
        """Leave nothing behind."""


class PartFile(Sink):
    """A file of mode 0600 beside the target, renamed over it when whole.

    Raises:
        OSError: The place cannot be written to; raised before anything is fetched.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        # Beside the target, as a rename does not cross file systems; unpredictable, as the folder may be shared.
        self.path = target.with_name(f".{cut(target.name)}.{secrets.token_hex(4)}.part")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)

    def write(self, data: bytes) -> None:
        """Append."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self.size_bytes += len(data)

    def rewind(self, size_bytes: int) -> None:
        """Cut the file."""
        self._file.truncate(size_bytes)
        self._file.seek(size_bytes)
        self.size_bytes = size_bytes

    def commit(self) -> tuple[Path | None, bytes | None]:
        """Sync the file, rename it, sync the folder."""
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self.path, self.target)
        with contextlib.suppress(OSError):  # not every system lets a folder be synced
            folder = os.open(self.target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return self.target, None

    def abort(self) -> None:
        """Remove the part."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class OpenFile(Sink):
    """A binary file object of the caller's, written from where it stands."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._start = file.tell() if file.seekable() else None

    def write(self, data: bytes) -> None:
        """Append."""
        self._file.write(data)
        self.size_bytes += len(data)

    def rewind(self, size_bytes: int) -> None:
        """Seek back, where the file can."""
        if self.size_bytes == size_bytes:
            return
        if self._start is None:
            raise OSError("the file object cannot seek, so what it got cannot be taken back")
        self._file.seek(self._start + size_bytes)
        self._file.truncate()
        self.size_bytes = size_bytes

    def commit(self) -> tuple[Path | None, bytes | None]:
        """Leave it open: it is the caller's."""
        return None, None

    def abort(self) -> None:
        """Take back what can be taken back."""
        with contextlib.suppress(OSError):
            self.rewind(0)


class Memory(Sink):
    """Bytes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        """Append."""
        self._data += data
        self.size_bytes = len(self._data)

    def rewind(self, size_bytes: int) -> None:
        """Cut."""
        del self._data[size_bytes:]
        self.size_bytes = size_bytes

    def commit(self) -> tuple[Path | None, bytes | None]:
        """Hand them over."""
        return None, bytes(self._data)


Target = str | os.PathLike[str] | IO[bytes] | None


def check_target(to: object, operation: str) -> None:
    """Refuse a `to=` at which nothing can be put, before anything is asked.

    Raises:
        TypeError: It is no path, binary file object or None.
        FileNotFoundError, IsADirectoryError: There is no such folder, or it is one.
    """
    if isinstance(to, (str, os.PathLike)):
        target = Path(to)
        if target.is_dir():
            raise IsADirectoryError(
                errno.EISDIR,
                f"operation {operation!r}: to= is a directory; name a file, or use into= for a folder of results",
                str(target),
            )
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"operation {operation!r}: to= is in no folder", str(target))
    elif to is not None:
        mode = getattr(to, "mode", "b")  # of gzip files, a number
        is_text = isinstance(to, io.TextIOBase) or (isinstance(mode, str) and "b" not in mode)
        if not hasattr(to, "write"):
            raise TypeError(
                f"operation {operation!r}: to= takes a path, a file object opened for bytes, or None for memory, "
                f"got {to!r}"
            )
        if is_text:
            raise TypeError(f"operation {operation!r}: to= takes a file opened for bytes, such as open(path, 'wb')")


def sink_for(to: Target) -> Sink:
    """The sink for a `to=` that was checked.

    Raises:
        OSError: The place cannot be written to.
    """
    if to is None:
        return Memory()
    return PartFile(Path(to)) if isinstance(to, (str, os.PathLike)) else OpenFile(to)


def cut(name: str) -> str:
    """A file's name with room for some more: 200 of the 255 bytes that most systems allow."""
    return name.encode(errors="replace")[:200].decode(errors="ignore")


class Digest:
    """sha256 of what goes by, where somebody wants it."""

    def __init__(self, wanted: bool) -> None:
        self._sha256 = hashlib.sha256() if wanted else None

    def update(self, data: bytes) -> None:
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


def chunks(response: requests.Response, *, decode: bool) -> Iterator[bytes]:
    """The body in large pieces as it comes, its length on the wire checked at the end.

    Args:
        response: Its body unread.
        decode: Whether to undo the content encoding.

    Raises:
        requests.RequestException, OSError, urllib3 errors: It broke off.
        BodyTruncated: It is shorter than announced.
    """
    raw = response.raw
    encoding = response.headers.get("Content-Encoding", "").strip().lower() if decode else ""
    if hasattr(raw, "_fp_bytes_read") and encoding in ("", "identity", "gzip", "x-gzip"):
        packed = _as_sent(raw)
        yield from _unpacked(packed) if encoding.endswith("gzip") else packed
    elif decode:
        yield from response.iter_content(CHUNK_BYTES)
    else:
        yield from raw.stream(CHUNK_BYTES, decode_content=False)
    check_length(response)


def _as_sent(raw: Any) -> Iterator[bytes]:
    if getattr(raw, "chunked", False):
        yield from raw.stream(CHUNK_BYTES, decode_content=False)
        return
    # The quickest way there is: no decoder, no generator of urllib3's in between. `read1` hands over
    # what has come: of a body that drips until the deadline, `read` would lose up to a whole chunk.
    read = getattr(raw, "read1", raw.read)  # urllib3 1.26 has no read1
    while data := read(CHUNK_BYTES, decode_content=False):
        yield data


def _unpacked(parts: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip packed, in pieces that stay small; urllib3 would take half a stream for a whole one.

    Source: RFC 1952; what follows the last member is passed over, as everybody does.
    """
    decoder, members, within = zlib.decompressobj(_GZIP), 0, False
    for part in parts:
        more = False
        while part or more:
            within = within or bool(part)
            try:
                data = decoder.decompress(part, CHUNK_BYTES)
            except zlib.error as error:
                if members:
                    return
                raise requests.exceptions.ContentDecodingError(f"not what gzip makes: {error}") from None
            if data:
                yield data
            part, more = decoder.unconsumed_tail, len(data) == CHUNK_BYTES
            if decoder.eof:
                part, more, within = decoder.unused_data, False, False
                decoder, members = zlib.decompressobj(_GZIP), members + 1
    if within:
        raise BodyTruncated("the body ended within what gzip packed")


def without_first_lines(parts: Iterator[bytes], lines: int) -> Iterator[bytes]:
    """The same bytes without the first lines, wherever they are cut into parts."""
    for part in parts:
        while lines and part:
            _, newline, rest = part.partition(b"\n")
            lines -= 1 if newline else 0
            part = rest
        if part:
            yield part
