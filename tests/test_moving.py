"""Bytes that go from a socket to a file by themselves, and what is done where they cannot."""

import errno
import os
import socket

import pytest

from trihop._results import moving as _moving
from trihop._results.moving import Mover, NotWritten, can_move


@pytest.fixture
def line():
    """Two ends of a connection; the one that receives does not wait."""
    sender, receiver = socket.socketpair()
    receiver.setblocking(False)
    with sender, receiver:
        yield sender, receiver


@pytest.fixture
def file(tmp_path):
    with (tmp_path / "rows").open("w+b", buffering=0) as file:
        yield file


@pytest.fixture
def mover(file):
    mover = Mover(file)
    yield mover
    mover.close()


def written(file):
    return os.pread(file.fileno(), 1_000_000, 0)


def test_what_has_come_is_moved_to_where_the_file_stands(line, file, mover):
    """Not more than is wanted, and behind what is there."""
    sender, receiver = line
    file.write(b"head ")
    sender.sendall(b"rows and more")

    assert mover.move(receiver.fileno(), 4) == 4
    assert written(file) == b"head rows"
    file.write(b", ")
    assert mover.move(receiver.fileno(), 100) == 9
    assert written(file) == b"head rows,  and more"


def test_where_nothing_has_come_nothing_is_moved(line, file, mover):
    """Neither before it comes nor after the end: whoever receives waits and sees the end."""
    sender, receiver = line

    assert mover.move(receiver.fileno(), 100) == 0
    sender.close()
    assert mover.move(receiver.fileno(), 100) == 0


@pytest.fixture
def refuse(line, monkeypatch):
    """Let the system refuse one side of it with an error."""
    _, receiver = line

    def refuse(code, *, reading):
        real = _moving._splice

        def splice(source, target, count):
            if (source == receiver.fileno()) is reading:
                raise OSError(code, os.strerror(code))
            return real(source, target, count)

        monkeypatch.setattr(_moving, "_splice", splice)

    return refuse


def test_a_file_system_that_cannot_gets_the_bytes_all_the_same(line, file, mover, refuse):
    """They are in the pipe already, and are written from there."""
    sender, receiver = line
    sender.sendall(b"rows")
    refuse(errno.EINVAL, reading=False)

    assert (mover.move(receiver.fileno(), 100), written(file)) == (4, b"rows")


def test_a_socket_that_cannot_is_received_from_as_usual(line, file, mover, refuse):
    """Nothing is lost by having tried."""
    sender, receiver = line
    sender.sendall(b"rows")
    refuse(errno.EINVAL, reading=True)

    assert (mover.move(receiver.fileno(), 100), receiver.recv(100)) == (0, b"rows")


def test_a_connection_that_broke_off_is_told_as_such(line, file, mover, refuse):
    """It is the network's error."""
    refuse(errno.ECONNRESET, reading=True)

    with pytest.raises(ConnectionResetError):
        mover.move(line[1].fileno(), 100)


def test_a_full_disk_is_told_as_such(line, file, mover, refuse):
    """It is not the network's, though it turned up where that was read."""
    sender, receiver = line
    sender.sendall(b"rows")
    refuse(errno.ENOSPC, reading=False)

    with pytest.raises(NotWritten) as caught:
        mover.move(receiver.fileno(), 100)
    assert caught.value.error.errno == errno.ENOSPC


def test_linux_can():
    """Elsewhere bytes pass through the process."""
    assert can_move() is hasattr(os, "splice")
