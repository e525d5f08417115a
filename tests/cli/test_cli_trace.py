"""`trihop trace` as a process: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ENVIRONMENT, Run
from scenes import Pen, good, many_polls, polled, success, trace_id

ESCAPE = b"\x1b"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.jsonl"


def test_a_trace_is_drawn_as_plain_text_on_a_pipe(run: Run, file: Path):
    """No escape code reaches a pipe; the picture is as wide as COLUMNS says."""
    file.write_bytes(success())
    done = run("trace", str(file))

    assert done.returncode == 0
    assert ESCAPE not in done.stdout
    assert "export succeeded in 6.42 s" in done.stdout.decode()
    assert max(len(line) for line in done.stdout.decode().splitlines()) == 100
    assert done.stderr == b""


def test_standard_input_is_read_for_a_dash(run: Run):
    """A collector's output can be piped in."""
    done = run("trace", "-", stdin=success())

    assert done.returncode == 0
    assert trace_id(1) in done.stdout.decode()


def test_several_traces_are_listed_and_the_latest_is_drawn(run: Run, file: Path):
    """A line a trace with id, start, duration and result, then one picture."""
    pen = Pen("unfinished", 3)
    pen.hop("poll", None, 0, 60, polled(4, waited=4, state="InProgress"), attempts=[(1.0, good(1))])
    file.write_bytes(success(1, name="first") + success(2, name="second") + pen.lines)
    out = run("trace", str(file)).stdout.decode().splitlines()

    assert [line.split() for line in out[:2]] == [
        [trace_id(number), "2026-03-01", "12:00:00Z", "6.42", "s", "success", name]
        for number, name in ((1, "first"), (2, "second"))
    ]
    assert out[2].split() == [trace_id(3), "2026-03-01", "12:00:00Z", "1", "m", "no", "root", "unfinished"]
    assert "".join(out).count("◆ state changed") == 0
    assert out[-1] == f"trace {trace_id(3)}"


def test_the_listing_fits_sixty_columns(run: Run, file: Path):
    """Where ids do not fit, as many digits are shown as tell them apart."""
    file.write_bytes(success(1) + success(2).replace(trace_id(2).encode(), b"aaaa0000bb" + b"0" * 22))
    out = run("trace", str(file), env={"COLUMNS": "60"}).stdout.decode().splitlines()

    assert max(map(len, out)) <= 60
    assert [line.split()[0] for line in out[:2]] == ["aaaa00000", "aaaa0000b"]


def test_the_first_digits_of_an_id_choose_a_trace(run: Run, file: Path):
    """A prefix that fits one trace draws it, without the listing."""
    lone = success(2, name="other").replace(trace_id(2).encode(), b"bbbb" + b"0" * 28)
    file.write_bytes(lone + success(1))
    done = run("trace", str(file), "BBBB")

    assert done.returncode == 0
    assert done.stdout.decode().startswith("other · success")


@pytest.mark.parametrize(
    ("prefix", "message"), [("aaaa", "2 traces begin with aaaa"), ("ffff", "no trace begins with ffff")]
)
def test_a_prefix_that_does_not_decide_lists_what_there_is(run: Run, file: Path, prefix: str, message: str):
    """Ambiguous and unknown ids draw nothing, and say what could be asked for."""
    file.write_bytes(success(1) + success(2))
    done = run("trace", str(file), prefix)

    assert (done.returncode, done.stdout) == (1, b"")
    assert message in done.stderr.decode()
    assert trace_id(1) in done.stderr.decode()


def test_broken_lines_are_named_and_the_rest_is_drawn(run: Run, file: Path):
    """A half-written last line costs the span on it; the picture says that the root is missing."""
    text = success()
    file.write_bytes(text[: text.rindex(b'"traceId"')])
    done = run("trace", str(file))

    assert done.returncode == 0
    assert b"line 4: cut off" in done.stderr
    assert "The root span of export is not in the file" in done.stdout.decode()


def test_many_broken_lines_are_not_all_named(run: Run, file: Path):
    """A file of something else does not flood the terminal."""
    file.write_bytes(b"{\n" * 500 + success())
    done = run("trace", str(file))

    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 6
    assert b"495 further lines" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no span has been exported to it"),
        (b'{"resourceMetrics":[]}\n', "no span has been exported to it"),
        (b"\x00\xff\n", "it holds no OTLP JSON lines"),
        (b'{\n  "resourceSpans": []\n}\n', "it holds no OTLP JSON lines"),
    ],
)
def test_a_file_without_a_trace_says_so(run: Run, file: Path, content: bytes, message: str):
    """Nothing to show is an exit code of 1 and a reason."""
    file.write_bytes(content)
    done = run("trace", str(file))

    assert (done.returncode, done.stdout) == (1, b"")
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_missing_file_and_a_folder_are_told_apart(run: Run, tmp_path: Path):
    """What cannot be opened is named with its reason, without a traceback."""
    missing, folder = run("trace", "gone.jsonl"), run("trace", str(tmp_path))

    assert (missing.returncode, folder.returncode) == (1, 1)
    assert "there is no file gone.jsonl" in missing.stderr.decode()
    assert "directory" in folder.stderr.decode()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_an_encoding_without_line_drawing_gets_ascii(run: Run, file: Path, encoding: str):
    """Foreign text is spelt out rather than lost or raised over."""
    file.write_bytes(success(name="Übung 名"))
    done = run("trace", str(file), env={"PYTHONIOENCODING": encoding})

    assert done.returncode == 0
    assert "|-poll" in done.stdout.decode(encoding)
    assert "\\u540d" in done.stdout.decode(encoding)


def test_markup_in_a_message_is_text(run: Run, file: Path):
    """A message with a closing tag in it is printed as it came."""
    pen = Pen()
    with pen.root(1.0, {"error.type": "JobFailed"}, error="a [/bold] b [red]c"):
        pass
    file.write_bytes(pen.lines)
    done = run("trace", str(file))

    assert done.returncode == 0
    assert "a [/bold] b [red]c" in done.stdout.decode()


def in_a_terminal(file: Path, **env: str) -> bytes:
    """What `trihop trace` writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "trihop.cli", "trace", str(file)]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**ENVIRONMENT, "TERM": "xterm-256color", **env},
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux says EIO once the other side is closed
                break
            if not chunk:
                break
            written += chunk
        process.wait(30)
    os.close(ours)
    return written


def test_a_terminal_gets_colour_unless_no_color_is_set(file: Path):
    """NO_COLOR and a dumb terminal get no escape code at all."""
    file.write_bytes(success())

    assert ESCAPE in in_a_terminal(file)
    assert ESCAPE not in in_a_terminal(file, NO_COLOR="1")
    assert ESCAPE not in in_a_terminal(file, TERM="dumb")


def test_ten_thousand_polls_come_out_at_once(run: Run, file: Path):
    """The whole command, its start included, stays a matter of moments."""
    file.write_bytes(many_polls(10_000))

    assert "10,000 polls" in run("trace", str(file)).stdout.decode()


def test_a_trace_id_that_is_no_hex_is_text_too(run: Run, file: Path):
    """Ids come from the file as well."""
    export = json.loads(success().splitlines()[0])
    export["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "\x1b[31m"
    file.write_text(json.dumps(export) + "\n")
    done = run("trace", str(file))

    assert done.returncode == 0
    assert ESCAPE not in done.stdout
