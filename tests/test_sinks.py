"""Where a result goes: what is left when something goes wrong, and that no file is touched but the target."""

import fcntl
import json
import os
import resource
import signal
import stat

import pytest
import requests

from trihop import Reply, Result, ResultCorrupt, ResultUnavailable, operation
from trihop._results.part_file import PartFile
from trihop._results.ranges import Representation
from trihop._results.sinks import Kept
from trihop._results.target import check_target
from trihop.testing import chunked

OF = Representation(etag='"v1"', total_bytes=10)
KEPT = Kept("one", OF, {"md5": "00"}, "text/csv")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def begun(tmp_path):
    """A part with four bytes and its note, as a process leaves it that was killed."""
    part = PartFile(tmp_path / "rows.csv", "one")
    part.write(b"1234")
    part.keep(KEPT)
    part.abort(keep=True)
    return part


def test_a_part_is_found_again_with_what_it_is_of(begun, tmp_path):
    """By its name; target, note and part are its owner's alone."""
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)] == [0o600, 0o600]

    again = PartFile(tmp_path / "rows.csv", "one")
    assert (again.path, again.kept, again.size_bytes, b"".join(again.read())) == (begun.path, KEPT, 4, b"1234")
    again.write(b"567890")
    again.commit()

    assert names(tmp_path) == ["rows.csv"]
    assert (tmp_path / "rows.csv").read_bytes() == b"1234567890"


def test_a_part_of_something_else_is_emptied(begun, tmp_path):
    """The target is to be another result now."""
    again = PartFile(tmp_path / "rows.csv", "two")

    assert (again.kept, again.size_bytes, again.path.stat().st_size) == (None, 0, 0)
    again.abort()
    assert names(tmp_path) == []


NOTES = {
    "none": None,
    "garbage": b"\xff{",
    "half": b'{"version": 1, "identity": "one"',
    "another version": b'{"version": 2}',
    "another shape": b'{"version": 1, "identity": "one", "of": 7}',
    "a list": b"[]",
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_a_part_whose_note_cannot_be_read_is_emptied(begun, tmp_path, note):
    """Nobody knows what the bytes are of."""
    path = tmp_path / (begun.path.name + ".json")
    path.unlink() if note is None else path.write_bytes(note)

    again = PartFile(tmp_path / "rows.csv", "one")
    assert (again.kept, again.size_bytes) == (None, 0)
    again.abort()
    assert names(tmp_path) == []


def test_a_part_longer_than_its_result_is_emptied(begun, tmp_path):
    """It cannot be of this."""
    with begun.path.open("ab") as file:
        file.write(b"567890+")

    again = PartFile(tmp_path / "rows.csv", "one")
    assert again.size_bytes == 0
    again.abort()


def test_two_at_a_time_have_a_part_each(tmp_path):
    """The second does not write into what the first has; each is its owner's alone, and the last to end shows."""
    first, second = (PartFile(tmp_path / "rows.csv", "one") for _ in range(2))

    first.write(b"first")
    second.write(b"second")
    assert first.path != second.path
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    second.commit()
    assert (tmp_path / "rows.csv").read_bytes() == b"second"
    assert stat.S_IMODE((tmp_path / "rows.csv").stat().st_mode) == 0o600
    first.commit()

    assert (names(tmp_path), (tmp_path / "rows.csv").read_bytes()) == (["rows.csv"], b"first")


def test_what_nobody_goes_on_with_is_in_no_folder(begun, tmp_path):
    """A process that is killed while it works on such a part leaves nothing."""
    taken = PartFile(tmp_path / "rows.csv", "one")
    before = names(tmp_path)
    part = PartFile(tmp_path / "rows.csv", "one")
    part.write(b"of no use to anybody else")

    assert names(tmp_path) == before
    part.abort()
    taken.abort()


@pytest.mark.parametrize("lacking", ["flag", "folder"])
def test_where_every_file_has_a_name_a_part_has_one(tmp_path, monkeypatch, lacking):
    """A system without files that have none, or without the folder that names them then."""
    if lacking == "flag":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    else:
        monkeypatch.setattr("trihop._results.part_file._OPEN_FILE", "/nowhere/%d")
    first, second = (PartFile(tmp_path / "rows.csv", "one") for _ in range(2))
    second.write(b"second")

    assert second.path.read_bytes() == b"second"
    second.commit()
    first.abort()
    assert (names(tmp_path), (tmp_path / "rows.csv").read_bytes()) == (["rows.csv"], b"second")


def test_a_part_that_was_renamed_while_it_was_waited_for_is_not_written_to(tmp_path, monkeypatch):
    """Whoever gets the lock last looks whether the file is still the part; it may be the target by now."""
    first = PartFile(tmp_path / "rows.csv", "one")
    first.write(b"whole")
    real, committed = fcntl.flock, []

    def flock(descriptor, how):
        if not committed:
            committed.append(first.commit())
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    second = PartFile(tmp_path / "rows.csv", "one")
    second.write(b"other")

    assert (tmp_path / "rows.csv").read_bytes() == b"whole"
    second.abort()
    assert names(tmp_path) == ["rows.csv"]


def plant_link(path, outside):
    path.symlink_to(outside)


def plant_hard_link(path, outside):
    path.hardlink_to(outside)


def plant_open_file(path, outside):
    path.write_bytes(b"planted")
    path.chmod(0o666)


def plant_fifo(path, outside):
    os.mkfifo(path)


def plant_folder(path, outside):
    path.mkdir()


@pytest.mark.parametrize("plant", [plant_link, plant_hard_link, plant_open_file, plant_fifo, plant_folder])
def test_what_others_put_in_its_place_is_left_alone(begun, tmp_path, plant):
    """In a shared folder the name can be guessed: a part of another name is used, and nothing is written through it."""
    outside = tmp_path / "precious"
    outside.write_bytes(b"precious")
    outside.chmod(0o600)
    begun.path.unlink()
    plant(begun.path, outside)

    part = PartFile(tmp_path / "rows.csv", "one")
    part.write(b"1234567890")
    part.commit()

    assert (tmp_path / "rows.csv").read_bytes() == b"1234567890"
    assert (outside.read_bytes(), os.path.lexists(begun.path)) == (b"precious", True)


def test_a_note_that_others_put_there_is_not_believed(begun, tmp_path):
    """It would let them choose what is spliced."""
    note = tmp_path / (begun.path.name + ".json")
    content = note.read_bytes()
    note.unlink()
    (tmp_path / "theirs").write_bytes(content)
    note.symlink_to(tmp_path / "theirs")

    part = PartFile(tmp_path / "rows.csv", "one")
    assert (part.kept, part.size_bytes) == (None, 0)
    part.abort()


def test_a_note_shows_no_link(begun, tmp_path):
    """What the bytes are of stands there as a digest."""
    note = json.loads((tmp_path / (begun.path.name + ".json")).read_bytes())

    assert note == {
        "version": 1,
        "identity": "one",
        "of": {"etag": '"v1"', "modified": None, "total_bytes": 10, "ranged": True, "coding": ""},
        "declared": {"md5": "00"},
        "content_type": "text/csv",
    }


# ---- places


@pytest.fixture
def fetch(server, clock, tmp_path):
    """Downloads /rows to a place."""

    def fetch(reply, to=tmp_path / "rows.csv", result=None, **options):
        server.script(reply)
        with requests.Session() as session, operation("export", deadline=600, session=session, clock=clock) as op:
            return op.download(result or f"{server.url}rows", to=to, **options)

    return fetch


def test_a_full_disk_names_the_target_and_leaves_nothing(fetch, tmp_path):
    """The system's own error, and whose file it was."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, old[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/rows.csv'"):
            fetch(b"x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, ignored)
    assert names(tmp_path) == []


def test_a_folder_that_is_closed_is_told_before_anything_is_asked(server, tmp_path, monkeypatch):
    """Not after a job of hours."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="'export': to= is in a folder that cannot be written to"):
        check_target(tmp_path / "rows.csv", "export")


def test_a_link_at_the_target_is_replaced(fetch, tmp_path):
    """What it led to stays as it was."""
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / "rows.csv").symlink_to(tmp_path / "elsewhere")

    fetch(b"rows")

    assert (tmp_path / "elsewhere").read_bytes() == b"precious"
    assert not (tmp_path / "rows.csv").is_symlink()
    assert (tmp_path / "rows.csv").read_bytes() == b"rows"


def test_a_link_to_a_folder_is_a_folder(fetch, tmp_path):
    """It is refused as one."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "rows.csv").symlink_to(tmp_path / "folder")

    with pytest.raises(IsADirectoryError, match="to= is a directory"):
        fetch(b"rows")


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    """Before a job of hours, too."""
    with pytest.raises(ValueError, match=r"operation 'export': to= has a null character in it"):
        check_target(f"{tmp_path}/rows\0.csv", "export")


@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file_is_not_replaced_by_one(fetch, server, tmp_path, linked):
    """A device, a pipe or a socket, nor a link to one: root would have a file for /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    target = tmp_path / "pipe"
    if linked:
        target = tmp_path / "link"
        target.symlink_to("pipe")

    with pytest.raises(FileExistsError, match=r"'export': to= is no regular file; open it for bytes"):
        fetch(b"rows", to=target)

    assert (stat.S_ISFIFO(target.stat().st_mode), server.calls) == (True, [])


def test_a_server_chooses_no_name(server, clock, tmp_path):
    """A name with separators from Content-Disposition is nobody's path."""
    headers = {"Content-Disposition": 'attachment; filename="../../evil.csv"'}
    server.script(Reply(200, content=b"rows", headers=headers))
    (tmp_path / "in").mkdir()

    with requests.Session() as session, operation("export", deadline=600, session=session, clock=clock) as op:
        op.download(f"{server.url}x/../evil", to=tmp_path / "in" / "rows.csv")

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "rows.csv"]


def test_a_body_larger_than_announced_ends_when_it_is(fetch, server, tmp_path):
    """It is not the result, however much more would come."""
    result = Result(f"{server.url}rows", size_bytes=1000)

    with pytest.raises(ResultCorrupt, match="it has more than the 1000 bytes that were announced"):
        fetch(chunked(b"x" * 5_000_000, 100_000), result=result)
    assert names(tmp_path) == []


def test_an_endless_body_ends_at_max_size(fetch, tmp_path):
    """Chunk after chunk, and no end."""

    def endless(connection, call):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:  # until the client has gone
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    with pytest.raises(ResultUnavailable, match="larger than max_size=1000000 bytes"):
        fetch(endless, max_size=1_000_000)
    assert names(tmp_path) == []


def test_a_body_too_large_by_its_own_account_is_not_begun(fetch, tmp_path):
    """Its length is enough to know."""

    def announces(connection, call):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n")

    with pytest.raises(ResultUnavailable, match="larger than max_size=1000 bytes"):
        fetch(announces, max_size=1000)
    assert names(tmp_path) == []
