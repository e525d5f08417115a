"""What a caller may name as the place of a result."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import IO

from trihop._results.part_file import PartFile
from trihop._results.sinks import Memory, OpenFile, Sink

Target = str | os.PathLike[str] | IO[bytes] | None


def check_target(to: object, operation: str) -> None:
    """Refuse a `to=` at which nothing can be put, before anything is asked.

    Raises:
        TypeError: It is no path, binary file object or None.
        ValueError: It can be no path.
        FileNotFoundError, IsADirectoryError, PermissionError: There is no such folder, it is one, or closed to us.
        FileExistsError: It is a device, a pipe or a socket, and would be replaced by a file.
    """
    if isinstance(to, (str, os.PathLike)):
        target = Path(to)
        if "\0" in str(target):
            raise ValueError(f"operation {operation!r}: to= has a null character in it")
        if target.is_dir():
            raise IsADirectoryError(
                errno.EISDIR,
                f"operation {operation!r}: to= is a directory; name a file, or use into= for a folder of results",
                str(target),
            )
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"operation {operation!r}: to= is in no folder", str(target))
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(
                errno.EACCES, f"operation {operation!r}: to= is in a folder that cannot be written to", str(target)
            )
        if target.exists() and not target.is_file():
            raise FileExistsError(
                errno.EEXIST,
                f"operation {operation!r}: to= is no regular file; open it for bytes and pass it as a file object",
                str(target),
            )
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


def place_of(to: Target) -> str | int | None:
    """What is the same for two results that would get into each other's way; None where none would."""
    if to is None:
        return None
    return os.path.abspath(to) if isinstance(to, (str, os.PathLike)) else id(to)


def sink_for(to: Target, identity: str | None) -> Sink:
    """The sink for a `to=` that was checked.

    Args:
        to: As the caller gave it.
        identity: What its bytes will be of; None where no process could go on with them.

    Raises:
        OSError: The place cannot be written to.
    """
    if to is None:
        return Memory()
    return PartFile(Path(to), identity) if isinstance(to, (str, os.PathLike)) else OpenFile(to)
