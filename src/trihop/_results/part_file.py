"""A part file beside its target: found again by a later process, locked, and moved into place when whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trihop._results.moving import Mover, NotWritten
from trihop._results.ranges import Representation
from trihop._results.sinks import Kept, Sink

# Windows has no locks of this kind: no part is taken up by another process there.
_LOCKS = importlib.util.find_spec("fcntl") is not None
_VERSION = 1
_READ_BYTES = 1024 * 1024
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_OPEN_FILE = "/proc/self/fd/%d"


class PartFile(Sink):
    """A file of mode 0600 beside the target, renamed over it when whole.

    Its name follows from the target's, so that a later process finds it again; a
    note beside it says what the bytes are of. One process at a time holds it, by a
    lock that ends with the process. A second one, or one that finds something
    there that is not its own, works on a part that nobody goes on with: without a
    name until it is whole, where the system can. A link at the target is replaced
    and never followed.

    Args:
        target: The file that is to be.
        identity: What the bytes are of; a part of something else is emptied.

    Raises:
        OSError: The place cannot be written to; raised before anything is fetched.
    """

    def __init__(self, target: Path, identity: str | None = None) -> None:
        self.target = target
        self.identity = identity
        # Beside the target, as a rename does not cross file systems.
        name = f".{cut(target.name)}.{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}.part"
        with self._told():
            descriptor = _own(target.with_name(name))
            self.shared = descriptor is not None
            """A later process would find it."""
            self._nameless = False
            if descriptor is None:
                name = f".{cut(target.name)}.{secrets.token_hex(8)}.part"
                descriptor, self._nameless = _own_alone(target.with_name(name))
        self.path = target.with_name(name)
        self._note = target.with_name(name + ".json")
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self._noted = False
        self._mover: Mover | None = None
        size_bytes = os.fstat(descriptor).st_size
        kept = _noted(self._note) if self.shared and size_bytes else None
        if kept is not None and kept.identity == identity and size_bytes <= (kept.of.total_bytes or size_bytes):
            self.kept, self.size_bytes, self._noted = kept, size_bytes, True
            self._file.seek(size_bytes)
        else:
            self.rewind(0)

    def write(self, data: bytes | memoryview) -> None:
        """Append."""
        size, written = len(data), 0
        with self._told():
            written = self._file.write(data)
            while written < size:
                written += self._file.write(memoryview(data)[written:])
        self.size_bytes += size

    def write_at(self, data: bytes | memoryview, offset_bytes: int) -> None:
        """Write in the midst of it, from any thread; `size_bytes` is left alone."""
        with self._told():
            while data:
                written = os.pwrite(self._file.fileno(), data, offset_bytes)
                data, offset_bytes = memoryview(data)[written:], offset_bytes + written

    def move(self, socket_descriptor: int, most_bytes: int) -> int:
        """Append what has come at a socket without looking at it; how much that was, as `Mover.move` has it.

        Raises:
            NotWritten, OSError: As there.
        """
        if self._mover is None:
            self._mover = Mover(self._file)
        try:
            count = self._mover.move(socket_descriptor, most_bytes)
        except NotWritten as failed:
            raise NotWritten(self._naming(failed.error)) from None
        self.size_bytes += count
        return count

    def rewind(self, size_bytes: int) -> None:
        """Cut the file."""
        if size_bytes == 0:
            self.kept, self._noted = None, False
            if self.shared:
                self._note.unlink(missing_ok=True)
        self._file.truncate(size_bytes)
        self._file.seek(size_bytes)
        self.size_bytes = size_bytes

    def read(self) -> Iterator[bytes]:
        """What is in it; then it stands at its end again."""
        self._file.seek(0)
        while data := self._file.read(_READ_BYTES):
            yield data

    def keep(self, kept: Kept) -> None:
        """Write the note, once."""
        if self._noted or not self.shared:
            return
        self._noted = True
        with self._told():
            self._note.unlink(missing_ok=True)
            descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"version": _VERSION, **asdict(kept)}, file)

    def commit(self) -> tuple[Path | None, bytes | None]:
        """Sync the file, rename it, sync the folder."""
        with self._told():
            os.fsync(self._file.fileno())
            if self._nameless:  # a folder's descriptor is named, and not looked at, or the link would be one to a link
                os.link(_OPEN_FILE % self._file.fileno(), self.path, src_dir_fd=self._file.fileno())
            self._let_go_first()
            os.replace(self.path, self.target)
        self._close()
        if self._noted:
            self._note.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not every system lets a folder be synced
            folder = os.open(self.target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return self.target, None

    def abort(self, *, keep: bool = False) -> None:
        """Remove the part, or leave it with its note."""
        if not (keep and self._noted):
            self._let_go_first()
            self.path.unlink(missing_ok=True)
            if self._noted:
                self._note.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        self._file.close()
        if self._mover is not None:
            self._mover.close()
            self._mover = None

    def _let_go_first(self) -> None:
        """Close the file where it could not be moved else; where it can, the lock is held until it has been."""
        if not _LOCKS:
            self._file.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """An error of the system says which file it was that could not be written."""
        try:
            yield
        except OSError as error:
            raise self._naming(error) from None

    def _naming(self, error: OSError) -> OSError:
        return type(error)(error.errno, error.strerror, str(self.target))


def _own(path: Path) -> int | None:
    """The file at this path, made if need be and locked; None where it is another's, or is being written to."""
    if not _LOCKS:
        return None
    import fcntl

    for _ in range(8):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | _NO_FOLLOW, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO) or path.exists():
                return None
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_ours(os.fstat(descriptor)):
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                        return descriptor
                os.close(descriptor)
                continue  # whoever had it renamed or removed it meanwhile
        except OSError:  # it is locked, or this file system knows no locks
            pass
        os.close(descriptor)
        return None
    return None


def _is_ours(found: os.stat_result) -> bool:
    """Of our user alone: the folder may be shared, and the name can be guessed."""
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.geteuid()
        and found.st_nlink == 1
        and not found.st_mode & 0o077
    )


def _own_alone(path: Path) -> tuple[int, bool]:
    """A file that no other process goes on with; and whether it has no name yet, so that a kill leaves nothing."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir(os.path.dirname(_OPEN_FILE)):
        with contextlib.suppress(OSError):  # not every file system has them
            return os.open(path.parent, os.O_RDWR | os.O_TMPFILE, 0o600), True
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600), False


def _noted(path: Path) -> Kept | None:
    """What a note says; None where there is none that is ours and whole."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NO_FOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not _is_ours(os.fstat(descriptor)):
                return None
            note = json.loads(file.read(_READ_BYTES))
        if note.pop("version") != _VERSION:
            return None
        return Kept(**{**note, "of": Representation(**note["of"])})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def cut(name: str) -> str:
    """A file's name with room for some more: 200 of the 255 bytes that most systems allow."""
    return name.encode(errors="replace")[:200].decode(errors="ignore")


def identity_of(*names: Any) -> str:
    """A digest of what a result is known by.

    >>> identity_of("https://api.example/r") == identity_of("https://api.example/r")
    True
    """
    return hashlib.sha256("\n".join(map(repr, names)).encode()).hexdigest()
