"""What is particular to SQL: the file, its faults, its versions, and who may write when."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from durable.shelves import InFile
from durable.store_suite import at_once, record
from trihop.stores import Claim, Fenced, SQLStore, StoreError, Taken, _sql_engine, _sql_tables, _sql_url
from trihop.stores._sql_tables import OPERATIONS


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[InFile]:
    shelf = InFile(tmp_path)
    yield shelf
    shelf.close()


LISTED = "trihop_operations_updated_at"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a lock."""
    monkeypatch.setattr(_sql_engine, "BUSY_S", 0)


def direct(shelf: InFile) -> sqlite3.Connection:
    """The file as others write it."""
    return sqlite3.connect(shelf.path, isolation_level=None)


def changed(shelf: InFile, statement: str, *values: Any) -> None:
    """Change the file behind the store's back."""
    connection = direct(shelf)
    connection.execute(statement, values)
    connection.close()


# ---- URLs

IN_MEMORY = "a database in memory ends with its connection: name a file, or use MemoryStore()"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("operations.db", "'operations.db' is no URL of a database: write sqlite:///operations.db"),
        ("sqlite://", IN_MEMORY),
        ("sqlite:///file:x?mode=memory&uri=true", IN_MEMORY),
        ("sqlite:///:memory:", IN_MEMORY),
        ("mysql://me:hunter22@db/x", "a store is a SQLite file (sqlite:///…) or PostgreSQL (postgresql://…)"),
        ("nosql://me:hunter22@db/x", "a store is a SQLite file (sqlite:///…) or PostgreSQL (postgresql://…)"),
    ],
)
def test_what_is_no_url_of_a_store_is_refused_at_once(url: str, message: str) -> None:
    """The message says what to write, and shows no password."""
    with pytest.raises(ValueError, match=re.escape(message) + "$") as caught:
        SQLStore(url)

    assert "hunter22" not in str(caught.value)


def test_postgresql_goes_by_its_own_clock(clock: Any) -> None:
    """A clock that it would not look at is refused."""
    with pytest.raises(ValueError, match="PostgreSQL goes by its own clock"):
        SQLStore("postgresql://db/x", clock=clock)


@pytest.mark.parametrize(
    ("url", "missing"),
    [("postgresql://db/x", "psycopg"), ("postgresql+psycopg2://db/x", "psycopg2")],
    ids=["no driver named", "a driver named"],
)
def test_postgresql_without_a_driver_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str, missing: str
) -> None:
    """When the store is made, not in the middle of an operation."""
    monkeypatch.setattr(_sql_url, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=rf"^{missing} is not installed: pip install 'trihop\[postgresql\]'$"):
        SQLStore(url)


def test_postgresql_takes_the_driver_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the URL names none."""
    monkeypatch.setattr(_sql_url, "find_spec", lambda name: name if name == "psycopg2" else None)

    assert repr(SQLStore("postgresql+psycopg2://db/x")) == repr(SQLStore("postgresql://db/x"))


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///jobs.db", Path.cwd() / "jobs.db"),
        ("sqlite:////srv/jobs.db", Path("/srv/jobs.db")),
        ("sqlite:///file:/srv/my%20jobs.db?uri=true", Path("/srv/my jobs.db")),
        ("postgresql+psycopg://me@host/jobs", None),
    ],
)
def test_a_store_says_which_file_it_is(url: str, file: Path | None) -> None:
    """Whether or not it is there yet; a server is none."""
    assert SQLStore(url).file == file


def test_a_password_is_never_shown() -> None:
    """Neither by the store's repr nor by the error of a server that is not there."""
    store = SQLStore("postgresql://me:hunter22@127.0.0.1:1/x?password=hunter33")
    with pytest.raises(StoreError) as caught:
        store.get("nightly")

    told = f"{store!r} {caught.value} {caught.value!r} {caught.value.__context__!r}"
    assert "the store postgresql+psycopg://REDACTED:REDACTED@127.0.0.1:1/x cannot be used" in told
    assert "see that the database is up" in told
    assert "hunter" not in str(caught.value) + repr(store)


# ---- the file


def test_a_store_is_opened_when_it_is_needed(shelf: InFile) -> None:
    """A module may make one at its top: no file is made by that."""
    store = shelf.open()
    before = shelf.path.exists()
    store.list()

    assert (before, shelf.path.exists()) == (False, True)
    assert repr(store) == f"SQLStore('sqlite:///{shelf.path}')"


def test_a_relative_file_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon changes its folder after its modules were loaded."""
    monkeypatch.chdir(tmp_path)
    store = SQLStore("sqlite:///operations.db")
    monkeypatch.chdir("/")
    store.list()
    store.close()

    assert [path.name for path in tmp_path.iterdir()] == ["operations.db"]


def test_the_file_and_what_lies_beside_it_are_for_the_owner_alone(shelf: InFile) -> None:
    """All three, however open the umask is."""
    before = os.umask(0)
    try:
        shelf.open().begin(record(), key="nightly", holder="one", lease_s=60)
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shelf.path.parent.iterdir()}
    assert modes == {"operations.db": 0o600, "operations.db-shm": 0o600, "operations.db-wal": 0o600}


def test_a_store_opens_again_after_it_was_closed(shelf: InFile) -> None:
    """What was saved is there; once all are closed, all is in the one file."""
    store = shelf.open()
    store.begin(record(), key="nightly", holder="one", lease_s=60)
    store.close()
    store.close()
    files = [path.name for path in shelf.path.parent.iterdir()]

    assert files == ["operations.db"]
    assert [stored.key for stored in store.list()] == ["nightly"]


def test_a_store_that_nobody_closed_closes_itself(shelf: InFile) -> None:
    """Without a warning of an unclosed database."""
    store = SQLStore(shelf.url)
    store.list()
    beside = len([*shelf.path.parent.iterdir()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del store
        gc.collect()

    assert (beside, [path.name for path in shelf.path.parent.iterdir()]) == (3, ["operations.db"])
    assert [str(warning.message) for warning in caught] == []


PROCESS = """
import json, os, sys
from trihop.stores import SQLStore
store = SQLStore(sys.argv[1])
{code}
"""


def process(shelf: InFile, code: str) -> subprocess.Popen[str]:
    """A process of its own that has the store."""
    command = [sys.executable, "-W", "error", "-c", PROCESS.format(code=code), shelf.url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_process_that_is_killed_loses_nothing_that_was_saved(shelf: InFile) -> None:
    """SIGKILL right after `save` has returned."""
    killed = process(
        shelf,
        """
record = {"version": 1, "name": "export"}
claim = store.begin(record, key="nightly", holder="one", lease_s=0)
store.save(claim, {**record, "polls": 3})
os.kill(os.getpid(), 9)
""",
    )
    killed.communicate(timeout=60)
    stored = shelf.open().get("nightly")

    assert killed.returncode == -9
    assert stored is not None
    assert stored.record == {"version": 1, "name": "export", "polls": 3}


def test_processes_that_open_a_new_file_at_once_share_it(shelf: InFile) -> None:
    """One makes the tables, the others find them."""
    code = """
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    store.begin({"version": 1, "name": "export"}, key=f"{os.getpid()} {number}", holder="one", lease_s=60)
"""
    processes = [process(shelf, code) for _ in range(4)]
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    ends = [(one.communicate(timeout=60)[1], one.returncode) for one in processes]

    assert ends == [("", 0)] * 4
    assert len(shelf.open().list(limit=1000)) == 80


def test_a_file_that_others_are_just_opening_is_waited_for() -> None:
    """SQLite refuses a second switch to a write-ahead log at once, however long it was told to wait."""
    answers: list[Any] = ["delete", "locked", "delete", "wal"]

    class Connection:
        def exec_driver_sql(self, statement: str) -> Any:
            answer = answers.pop(0)
            if answer == "locked":
                raise sa.exc.OperationalError(statement, None, sqlite3.OperationalError("database is locked"))
            return SimpleNamespace(scalar=lambda: answer)

    _sql_engine._write_ahead(cast(sa.Connection, Connection()))

    assert answers == []


def test_a_store_goes_on_in_both_processes_after_a_fork(shelf: InFile) -> None:
    """The child has connections of its own, even where another thread was writing at that moment."""
    forked = process(
        shelf,
        """
claim = store.begin({"version": 1, "name": "export"}, key="nightly", holder="one", lease_s=60)
locks = store._database._open._turn, store._database._opening
for lock in locks:
    lock.acquire()
child = os.fork()
if child == 0:
    store.save(claim, {"version": 1, "name": "by the child"})
    os._exit(0)
for lock in locks:
    lock.release()
status = os.waitpid(child, 0)[1]
seen = store.get("nightly").record["name"]
store.save(claim, {"version": 1, "name": "by the parent"})
print(json.dumps([status, seen, store.get("nightly").record["name"]]))
""",
    )
    out, error = forked.communicate(timeout=60)

    assert (json.loads(out), error) == ([0, "by the child", "by the parent"], "")


# ---- faults


def told(caught: pytest.ExceptionInfo[StoreError], shelf: InFile) -> str:
    """The message; it names the store, and nothing is chained to it, which would quote the statement."""
    assert str(shelf.path) in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def test_a_full_disk_is_said_and_nothing_is_lost(shelf: InFile) -> None:
    """The record is as it was saved last; once there is room, the same claim goes on."""
    store = shelf.open()
    claim = store.begin(record(polls=1), key="nightly", holder="one", lease_s=60)
    limited(store, pages=1)
    with pytest.raises(StoreError) as caught:
        store.save(claim, record(polls=2, large="x" * 100_000))
    kept = store.get("nightly")
    limited(store, pages=1000)
    store.save(claim, record(polls=3, large="x" * 100_000))

    assert "has no room left (database or disk is full). What was written is still there" in told(caught, shelf)
    assert kept is not None
    assert kept.record == record(polls=1)
    assert store.get("nightly").record["polls"] == 3  # type: ignore[union-attr]


def limited(store: SQLStore, *, pages: int) -> None:
    """Let the file grow by that many pages and no more; SQLite calls that a full disk."""
    connection = store._database._open._connection  # type: ignore[union-attr]
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")  # at least what it has


def test_a_locked_file_is_said_and_the_claim_goes_on(shelf: InFile, impatient: None) -> None:
    """Reading goes on meanwhile."""
    store = shelf.open()
    claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
    other = direct(shelf)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as caught:
        store.save(claim, record(polls=1))
    read = store.get("nightly")
    other.execute("ROLLBACK")
    other.close()
    store.save(claim, record(polls=2))

    assert "was kept locked by others" in told(caught, shelf)
    assert "find who holds a transaction open" in str(caught.value)
    assert read is not None
    assert (read.record, store.get("nightly").record) == (record(), record(polls=2))  # type: ignore[union-attr]


def test_a_store_that_cannot_be_written_can_be_read(shelf: InFile) -> None:
    """What would write says so."""
    shelf.open().begin(record(), key="nightly", holder="one", lease_s=0)
    store = SQLStore(f"sqlite:///file:{shelf.path}?mode=ro&uri=true", clock=shelf.clock)
    with pytest.raises(StoreError) as caught:
        store.claim("nightly", holder="two", lease_s=60)
    listed = store.list()
    store.close()

    assert "cannot be written (attempt to write a readonly database)" in told(caught, shelf)
    assert [stored.record for stored in listed] == [record()]


def test_a_file_in_no_folder_is_said(tmp_path: Path) -> None:
    """No folder is made by guess."""
    with pytest.raises(StoreError, match=r"none/operations.db cannot be opened .* Its folder has to exist"):
        SQLStore(f"sqlite:///{tmp_path}/none/operations.db").list()


def test_a_file_that_is_no_database_is_said_and_left_as_it_is(shelf: InFile) -> None:
    """It may be anything."""
    shelf.path.write_text("not what you think\n" * 1000)
    with pytest.raises(StoreError) as caught:
        shelf.open().list()

    assert "is damaged or no database at all (file is not a database). Keep a copy" in told(caught, shelf)
    assert shelf.path.read_text() == "not what you think\n" * 1000


def test_a_damaged_file_is_said(shelf: InFile) -> None:
    """Its first page is good, the others are not."""
    store = shelf.open()
    store.begin(record(), key="nightly", holder="one", lease_s=60)
    store.close()
    pages = bytearray(shelf.path.read_bytes())
    pages[4096:] = b"\xa5" * (len(pages) - 4096)
    shelf.path.write_bytes(pages)
    with pytest.raises(StoreError) as caught:
        store.get("nightly")

    assert "is damaged or no database at all (database disk image is malformed)" in told(caught, shelf)


BROKEN = ["", "{", "[1]", '{"version": 1,']


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_record_is_said_and_not_held(shelf: InFile, text: str) -> None:
    """Whoever asks for it is told which it is, of which job, and what to do; it is not claimed by that."""
    store = shelf.open()
    store.release(store.begin(record(job_id="b41f"), key="nightly", holder="one", lease_s=60))
    changed(shelf, "UPDATE trihop_operations SET record = ?", text)
    for ask in (
        lambda: store.begin(record(), key="nightly", holder="two", lease_s=60),
        lambda: store.claim("nightly", holder="two", lease_s=60),
        lambda: store.get("nightly"),
    ):
        with pytest.raises(StoreError) as caught:
            ask()
        assert f"the record of 'nightly' (export, job b41f) in sqlite:///{shelf.path} cannot be read" in str(
            caught.value
        )
        assert "`trihop forget nightly` drops it" in str(caught.value)
    connection = direct(shelf)
    kept = connection.execute("SELECT record, holder FROM trihop_operations").fetchall()
    connection.close()

    assert kept == [(text, None)]
    assert store.forget("nightly") is True


def test_a_broken_record_stops_no_other(shelf: InFile, caplog: pytest.LogCaptureFixture) -> None:
    """It is shown in lists and logged where it was due, once; the others are claimed."""
    store = shelf.open()
    for key in ("broken", "good"):
        store.release(store.begin(record(key, job_id=f"job of {key}"), key=key, holder="one", lease_s=60))
    changed(shelf, "UPDATE trihop_operations SET record = '{' WHERE key = 'broken'")
    with caplog.at_level(logging.ERROR, logger="trihop"):
        claims = store.claim_due(holder="two", lease_s=60, limit=10)
        shelf.advance(1000)
        later = store.claim_due(holder="two", lease_s=60, limit=10)
    listed = {stored.key: stored for stored in store.list()}

    assert [claim.key for claim in claims] == ["good"]
    assert [(claim.key, claim.expired) for claim in later] == [("good", True)]
    assert len(caplog.records) == 1
    assert "the record of 'broken' (broken, job job of broken)" in caplog.text
    shown = listed["broken"].record
    assert {name: shown[name] for name in ("version", "name", "job_id")} == {
        "version": 1,
        "name": "broken",
        "job_id": "job of broken",
    }
    assert "cannot be read" in str(shown["unreadable"])
    assert (listed["broken"].holder, listed["broken"].due_in_s) == (None, None)


# ---- versions


def test_a_record_of_a_newer_release_is_left_to_it(shelf: InFile) -> None:
    """While machines are upgraded one by one, an old worker takes what it can read."""
    store = shelf.open()
    for key, version in (("new", 999), ("old", 1)):
        store.release(store.begin({**record(), "version": version}, key=key, holder="one", lease_s=60))
    keys = [claim.key for claim in store.claim_due(holder="two", lease_s=60, limit=10)]

    assert keys == ["old"]
    assert store.get("new").record["version"] == 999  # type: ignore[union-attr]


def test_tables_of_a_newer_release_are_refused(shelf: InFile) -> None:
    """Nothing is changed in them."""
    shelf.open().begin(record(), key="nightly", holder="one", lease_s=60)
    changed(shelf, "UPDATE trihop_store SET version = 999")
    with pytest.raises(StoreError) as caught:
        shelf.open().list()

    assert "has tables of version 999, and this release of trihop knows version 2. Upgrade trihop" in told(
        caught, shelf
    )


def test_tables_of_an_older_release_are_taken_on(shelf: InFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, by whoever opens the store first; the records stay, and claims that are held go on."""
    old = shelf.open()
    claim = old.begin(record(), key="nightly", holder="one", lease_s=60)
    taken: list[str] = []

    def step(connection: sa.Connection) -> None:
        taken.append("step")
        connection.exec_driver_sql("ALTER TABLE trihop_operations ADD COLUMN priority INTEGER DEFAULT 5")

    monkeypatch.setattr(_sql_engine, "STEPS", (*_sql_tables.STEPS, step))
    shelf.open().list()
    listed = shelf.open().list()
    old.save(claim, record(polls=1))
    connection = direct(shelf)
    columns = connection.execute("SELECT key, priority FROM trihop_operations").fetchall()
    versions = connection.execute("SELECT version FROM trihop_store").fetchall()
    connection.close()

    assert taken == ["step"]
    assert ([stored.record for stored in listed], columns, versions) == ([record()], [("nightly", 5)], [(3,)])


def test_tables_of_the_first_release_are_given_the_index_of_lists(shelf: InFile) -> None:
    """They had none, and are otherwise the same."""
    old = shelf.open()
    old.begin(record(), key="nightly", holder="one", lease_s=60)
    old.close()
    changed(shelf, f"DROP INDEX {LISTED}")
    changed(shelf, "UPDATE trihop_store SET version = 1")
    listed = [stored.key for stored in shelf.open().list()]
    connection = direct(shelf)
    indexes = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    versions = connection.execute("SELECT version FROM trihop_store").fetchall()
    connection.close()

    assert (listed, (LISTED,) in indexes, versions) == (["nightly"], True, [(2,)])


# ---- lists


@pytest.mark.parametrize("which", ["list", "list_open"])
def test_a_list_reads_as_many_rows_as_it_shows(shelf: InFile, which: str) -> None:
    """The latest of those that have ended, and of those that have not, by an index and in its order."""
    store = shelf.open()
    store.list()
    statement = getattr(store._statements, which).compile(dialect=sqlite.dialect())
    given = [100 if name == "most" else statement.params[name] for name in statement.positiontup]
    connection = direct(shelf)
    plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
    connection.close()
    reads = [line for line in plan if "trihop_operations" in line]

    assert reads == [f"SEARCH trihop_operations USING INDEX {LISTED} (ended=?)"] * (2 if which == "list" else 1)
    if which == "list_open":  # the other one puts two of these into one
        assert [line for line in plan if "B-TREE" in line] == []


def test_a_list_of_all_is_of_both_kinds(shelf: InFile) -> None:
    """As many as asked for, whether those have ended or not: the latest of either may be all that there is."""
    store = shelf.open()
    for number in range(12):
        claim = store.begin(record(), key=f"{number:02}", holder="one", lease_s=60)
        shelf.advance(1)
        store.save(claim, record(), ended=number < 4 or number == 8, release=True)

    assert [[stored.key for stored in store.list(limit=limit)] for limit in (3, 5, 99)] == [
        ["11", "10", "09"],
        ["11", "10", "09", "08", "07"],
        [f"{number:02}" for number in range(11, -1, -1)],
    ]
    assert [stored.key for stored in store.list(open_only=True, limit=4)] == ["11", "10", "09", "07"]


def test_a_step_that_fails_changes_nothing(shelf: InFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old release can still open the store."""
    shelf.open().begin(record(), key="nightly", holder="one", lease_s=60)

    def step(connection: sa.Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE trihop_operations ADD COLUMN priority INTEGER DEFAULT 5")
        connection.exec_driver_sql("SELECT * FROM not_there")

    with monkeypatch.context() as patch:
        patch.setattr(_sql_engine, "STEPS", (*_sql_tables.STEPS, step))
        with pytest.raises(StoreError, match="not_there"):
            shelf.open().list()
    connection = direct(shelf)
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(trihop_operations)")]
    connection.close()

    assert columns == [column.name for column in OPERATIONS.columns]
    assert [stored.key for stored in shelf.open().list()] == ["nightly"]


# ---- together


class Commits:
    """Counts the transactions of a store, can hold the first one up until others wait behind it, and interrupt one."""

    def __init__(self, store: SQLStore, *, waiting: int = 0) -> None:
        self.count = 0
        self.interrupted = 0
        self.file: Any = store._database._open
        self._waiting = waiting
        self._transaction = self.file._transaction
        self.file._transaction = self

    def __call__(self, turns: Any) -> Any:
        self.count += 1
        tries = 0
        while self.count == 1 and len(self.file._waiting) < self._waiting:
            tries += 1
            assert tries < 30_000, "the others did not come"
            threading.Event().wait(0.001)
        if self.count == self.interrupted:
            raise KeyboardInterrupt
        return self._transaction(turns)


def test_those_who_wait_for_a_commit_are_written_together(shelf: InFile) -> None:
    """Eight save at once: the first is written, and all others in one transaction after it."""
    store = shelf.open()
    claims = [store.begin(record(), key=f"{number}", holder="one", lease_s=60) for number in range(8)]
    commits = Commits(store, waiting=7)
    at_once(8, lambda number: store.save(claims[number], record(polls=number)))

    assert commits.count == 2
    assert {stored.key: stored.record["polls"] for stored in store.list()} == {f"{n}": n for n in range(8)}


def test_those_who_wait_are_written_though_one_is_interrupted(shelf: InFile) -> None:
    """Ctrl-C in the thread that had their turns in hand."""
    store = shelf.open()
    claims = [store.begin(record(), key=f"{number}", holder="one", lease_s=60) for number in range(6)]
    commits = Commits(store, waiting=5)
    commits.interrupted = 2

    def save(number: int) -> bool:
        try:
            store.save(claims[number], record(polls=number))
        except KeyboardInterrupt:
            return False
        return True

    done = at_once(6, save)
    polls = {stored.key: stored.record.get("polls") for stored in store.list()}

    assert done.count(False) == 1
    assert polls == {f"{number}": number if saved else None for number, saved in enumerate(done)}


def test_ended_operations_are_in_no_index_of_the_schedulers(shelf: InFile) -> None:
    """However many there are, the scheduler's indexes are as large as what is open."""
    store = shelf.open()
    claim = store.begin(record(job_id="b41f", deadline_at=9e9), key="nightly", holder="one", lease_s=60)
    store.save(claim, record(job_id="b41f", deadline_at=9e9), ended=True, due_in_s=5, release=True)
    connection = direct(shelf)
    columns = connection.execute("SELECT claimable_at, job_id, deadline_at FROM trihop_operations").fetchall()
    connection.close()

    assert columns == [(None, None, None)]


def test_one_that_fails_spoils_no_other(shelf: InFile) -> None:
    """Each is told its own: who is fenced off, who is refused by the database, who is too late, and who is saved."""
    store = shelf.open()
    claims = [store.begin(record(), key=f"{number}", holder="one", lease_s=60) for number in range(4)]
    bad = Claim("1", claims[1].token - 1, record())
    refused: Any = {**record(), "name": ["no", "text"]}
    commits = Commits(store, waiting=4)

    def act(number: int) -> Any:
        try:
            match number:
                case 1:
                    return store.save(bad, record(polls=1))
                case 2:
                    return store.save(claims[2], refused)
                case 4:
                    return store.begin(record(), key="3", holder="two", lease_s=60)
                case _:
                    return store.save(claims[number], record(polls=number))
        except (Fenced, StoreError, Taken) as error:
            return type(error)

    results = at_once(5, act)

    assert results == [None, Fenced, StoreError, None, Taken]
    assert {stored.key: stored.record.get("polls") for stored in store.list()} == {"0": 0, "1": None, "2": None, "3": 3}
    assert commits.count >= 5  # each by itself, after those together had failed


@pytest.mark.parametrize("moment", ["BEGIN IMMEDIATE", "COMMIT"])
def test_an_interrupt_leaves_no_transaction_open(shelf: InFile, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Ctrl-C as the transaction begins, or just after its end: who tidies up after it can save."""
    store = shelf.open()
    claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
    send = sa.Connection.exec_driver_sql

    def interrupted(self: sa.Connection, statement: str, *given: Any, **options: Any) -> Any:
        send(self, statement, *given, **options)
        if statement == moment:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "exec_driver_sql", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.save(claim, record(polls=1))
    after = shelf.open().get("nightly")
    store.save(claim, record(polls=2))

    assert after is not None
    assert after.record == (record(polls=1) if moment == "COMMIT" else record())
    assert store.get("nightly").record == record(polls=2)  # type: ignore[union-attr]


def test_the_claim_of_what_is_due_reads_an_index(shelf: InFile) -> None:
    """It touches what it claims, however much else there is."""
    store = shelf.open()
    store.list()
    statement = store._statements.claim_due.compile(dialect=sa.create_engine("sqlite://").dialect)
    connection = direct(shelf)
    plan = [
        row[-1]
        for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1,) * len(statement.positiontup or ()))
    ]
    connection.close()

    assert any("USING INDEX trihop_operations_claimable_at (claimable_at<?)" in line for line in plan)
    assert not any(line.startswith("SCAN trihop_operations") or "TEMP B-TREE" in line for line in plan)
