"""The list of operations: on any width, and kept up to date on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys

import pytest
from processes import ENVIRONMENT

from trihop import SQLStore, operation
from trihop.cli._paper import Paper
from trihop.cli._store import Row
from trihop.cli.ls import listed
from trihop.testing import accepted, running

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROWS = [
    Row(
        "nightly-2026-11-29",
        "accounts of all tenants",
        "polling",
        "InProgress",
        75.0,
        12,
        -0.4,
        3525.0,
        TRACE,
        holder="host:1",
    ),
    Row("weekly größe", "export", "stopped", "Queued", 7300.0, 400, None, -100.0, None),
    Row("lost", "export", "polling", "Queued", 600.0, 3, -540.0, 60.0, TRACE),
]


def text(rows: list[Row], width: int, *, encoding: str = "utf-8", fitted: bool = True) -> list[str]:
    found = listed(rows, Paper(width, encoding), fitted=fitted)
    return ["".join(piece.text for piece in line).rstrip() for line in found]


def test_on_a_pipe_nothing_is_cut():
    """So that a trace id can be copied whole."""
    assert text(ROWS, 80, fitted=False) == [
        "KEY                 OPERATION                STATUS   STATE       AGE       POLLS  NEXT  DEADLINE   TRACE",
        "nightly-2026-11-29  accounts of all tenants  polling  InProgress  1 m 15 s  12     now   58 m 45 s  " + TRACE,
        "weekly größe        export                   stopped  Queued      2 h 02 m  400    -     -1 m 40 s  -",
        "lost                export                   polling  Queued      10 m      3      -9 m  1 m        " + TRACE,
    ]


@pytest.mark.parametrize("width", [60, 80, 90, 100, 110, 140])
def test_on_a_terminal_a_line_is_a_line(width: int):
    """Ids of traces are told by their first digits, names and states are cut; keys never."""
    lines = text(ROWS, width)

    assert len(lines) == 4
    assert [line.split()[0] for line in lines] == ["KEY", "nightly-2026-11-29", "weekly", "lost"]
    assert max(map(len, lines)) <= max(width, 85)  # what is left where all is cut that may be
    assert (f"  {TRACE}" in lines[1], f"  {TRACE[:8]}" in lines[1]) == (width >= 140, width >= 100)


def test_what_is_late_stands_out():
    """Whoever holds it is at it; what is due and held by nobody has a minus, and a deadline that passed is red."""
    lines = [*listed(ROWS, Paper(140))]
    nexts = [line[6].text.strip() for line in lines[1:]]
    red = [[piece.text.strip() for piece in line if piece.style == "error"] for line in lines]

    assert nexts == ["now", "-", "-9 m"]
    assert red == [[], [], ["-1 m 40 s"], []]


def test_a_list_is_kept_up_to_date_on_a_terminal(tmp_path, server):
    """In place, as much as there are lines for; Ctrl-C ends it well."""
    store = SQLStore(f"sqlite:///{tmp_path}/operations.db")
    server.script(*[accepted() for _ in range(20)], then_always=running())
    for number in range(20):
        with operation("export", deadline=600, key=f"nightly-{number}", store=store) as op:
            op.submit("POST", server.url + "jobs")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "trihop.cli", "ls", "--store", "sqlite:///operations.db", "--watch"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "COLUMNS": "100", "LINES": "12", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while seen.count(b"Ctrl-C ends it") < 2:  # the second time in the same place
            assert select.select([ours], [], [], 20)[0], seen
            seen += os.read(ours, 65536)
            if b"8 of 20" in seen:
                store.forget("nightly-0")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        store.close()
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).replace("\r", "")

    assert "8 of 20 operations · " in said
    assert "8 of 19 operations · " in said
    assert "Traceback" not in said
    assert b"\x1b[1A" in seen  # drawn over


def test_a_list_is_repeated_on_a_pipe(tmp_path, server):
    """Until it is interrupted, which is no failure."""
    store = SQLStore(f"sqlite:///{tmp_path}/operations.db")
    store.list()  # which makes the file
    store.close()
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "trihop.cli", "ls", "--store", "sqlite:///operations.db", "--watch"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"no operations\n"] * 2
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()

    assert (process.returncode, complaints) == (0, b"")
