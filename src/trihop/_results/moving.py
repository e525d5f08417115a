"""Bytes from a socket into a file without passing through this process, where the system can do that."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any

# The most that a pipe may have without privileges: room for so many pages. Those of a socket are larger ones,
# so several times as much goes through at once, and the system is asked less often.
_PIPE_BYTES = 1024 * 1024
_MOST_BYTES = 16 * _PIPE_BYTES

# The system or the file system does not do this with these two.
_NOT_HERE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
_SET_PIPE_SIZE = 1031  # fcntl.F_SETPIPE_SZ, which not every platform's module has

_splice: Any = getattr(os, "splice", None)


class NotWritten(Exception):
    """The file cannot be written to: no fault of the network's, though it turned up where that is read.

    Args:
        error: What the system said.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class Mover:
    """Moves what has come at a socket to where a file stands: splice(2), on Linux.

    Args:
        file: Unbuffered, open for writing.
    """

    def __init__(self, file: Any) -> None:
        import fcntl

        self._file = file
        self._out, self._in = os.pipe()
        with contextlib.suppress(OSError):  # then it is of the size that pipes have
            fcntl.fcntl(self._in, _SET_PIPE_SIZE, _PIPE_BYTES)

    def move(self, socket_descriptor: int, most_bytes: int) -> int:
        """Move at most so many of the bytes that are there; 0 where there are none to be had like this.

        Whoever gets 0 is to receive as usual, which waits, meets the end, or raises.

        Raises:
            NotWritten: The file cannot be written to.
            OSError: The connection broke off.
        """
        try:
            count: int = _splice(socket_descriptor, self._in, min(most_bytes, _MOST_BYTES))
        except OSError as error:
            if isinstance(error, BlockingIOError) or error.errno in _NOT_HERE:
                return 0
            raise
        try:
            self._write(count)
        except OSError as error:
            raise NotWritten(error) from None
        return count

    def _write(self, left: int) -> None:
        while left:
            try:
                left -= _splice(self._out, self._file.fileno(), left)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                data = memoryview(os.read(self._out, left))
                left -= len(data)
                while data:
                    data = data[self._file.write(data) :]

    def close(self) -> None:
        """Let the pipe go."""
        os.close(self._in)
        os.close(self._out)


def can_move() -> bool:
    """Whether this system has what it takes."""
    return _splice is not None
