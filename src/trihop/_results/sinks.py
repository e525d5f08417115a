"""What a result is written to: an open file of the caller's, or memory; `_part_file` has the third."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trihop._results.ranges import Representation


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of the bytes in a part file.

    Args:
        identity: What they are of, as a digest: a link may be a secret.
        of: The representation that they belong to.
        declared: Digests in hex of the whole of it, by algorithm.
        content_type: As the server said.
    """

    identity: str
    of: Representation
    declared: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None


class Sink:
    """What a result is written to; nothing shows at the target before `commit`."""

    size_bytes = 0
    kept: Kept | None = None
    """What an earlier process left here, to be gone on with."""

    def write(self, data: bytes | memoryview) -> None:
        """Append."""
        raise NotImplementedError

    def rewind(self, size_bytes: int) -> None:
        """Forget what was written after that many bytes.

        Raises:
            OSError: It cannot.
        """
        raise NotImplementedError

    def read(self) -> Iterator[bytes]:
        """What an earlier process left here."""
        return iter(())

    def keep(self, kept: Kept) -> None:
        """Note what the bytes are of, where a later process may go on with them."""

    def commit(self) -> tuple[Path | None, bytes | None]:
        """Make it visible; its path or its bytes."""
        raise NotImplementedError

    def abort(self, *, keep: bool = False) -> None:
        """Leave nothing behind; or, to `keep` it, what a later process can go on with."""


class OpenFile(Sink):
    """A binary file object of the caller's, written from where it stands."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._start = file.tell() if file.seekable() else None

    def write(self, data: bytes | memoryview) -> None:
        """Append."""
        self._file.write(bytes(data))
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

    def abort(self, *, keep: bool = False) -> None:
        """Take back what can be taken back."""
        with contextlib.suppress(OSError):
            self.rewind(0)


class Memory(Sink):
    """Bytes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes | memoryview) -> None:
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
