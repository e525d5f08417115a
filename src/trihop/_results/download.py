"""A result that arrived whole, and the shapes in which it can be read."""

from __future__ import annotations

import contextlib
import io
import json as _json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from trihop._values import JSON

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Download:
    """A result that arrived whole, within the deadline; reading it waits for nobody any more.

    A result that is packed with gzip itself is unpacked for `text`, `json()`,
    `iter_lines()` and `iter_rows()`; `content` and the file have it as it came. What
    begins like gzip and cannot be unpacked is a `ValueError` there.

    Args:
        name: Its name among several.
        path: The file; None for memory or a file object of the caller's.
        size_bytes: Bytes written.
        sha256: Their digest in hex, where one was asked for or announced.
        content_type: As the server said.
        parts: Pages it came in.
        resumes: How often a broken stream was taken up again.
        content_encoding: The content coding that the bytes still have, such as gzip
            with `decode=False`; None for none, and where it was undone.
    """

    name: str
    path: Path | None
    size_bytes: int
    sha256: str | None = None
    content_type: str | None = None
    parts: int = 1
    resumes: int = 0
    content_encoding: str | None = None
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
        with self._unpacked() as file:
            return file.read().decode("utf-8", errors="replace")

    def json(self) -> JSON:
        """The whole result as JSON.

        Raises:
            ValueError: It is not JSON.
        """
        with self._unpacked() as file:
            return _parsed(file.read())

    def iter_lines(self) -> Iterator[str]:
        """Its lines without their ends, one at a time."""
        with (
            self._unpacked() as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as lines,
        ):
            for line in lines:
                yield line.rstrip("\r\n")

    def iter_rows(self) -> Iterator[Any]:
        """Its rows: each line of JSON lines, each element of a JSON array, each CSV record as a dict.

        CSV is what says so by its content type, or does not begin like JSON.

        Raises:
            ValueError: A line is neither, or has a field beyond `csv.field_size_limit()`.
        """
        with self._unpacked() as file:
            start = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        kind = self.content_type or ""
        are_lines = "ndjson" in kind or "jsonl" in kind
        if "csv" in kind or (start not in (b"{", b"[") and not are_lines):
            import csv

            with self._unpacked() as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
                try:
                    yield from csv.DictReader(lines)
                except csv.Error as error:
                    raise ValueError(f"{error}; csv.field_size_limit(BYTES) sets another limit") from None
        elif start == b"[" and not are_lines:
            yield from self.json()
        else:
            for line in self.iter_lines():
                if line.strip():
                    yield _parsed(line)

    @contextlib.contextmanager
    def _unpacked(self) -> Iterator[IO[bytes]]:
        """The bytes that somebody wants to read, who cannot read gzip."""
        with self._open() as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            if not packed:
                yield file
                return
            import gzip
            import zlib

            try:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(f"it begins like gzip and cannot be unpacked: {error}") from None

    def _open(self) -> IO[bytes]:
        if self._memory is not None:
            return io.BytesIO(self._memory)
        if self.path is None:
            raise ValueError("this result went to a file object; read it there")
        return self.path.open("rb")


def _parsed(text: str | bytes) -> JSON:
    try:
        return cast(JSON, _json.loads(text))
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
