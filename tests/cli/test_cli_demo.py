"""`trihop demo` as a process, for each of its endings; all five run side by side, as each waits for some seconds."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from processes import ENVIRONMENT, Run

from trihop.cli._app import COMMANDS
from trihop.cli.demo import typed
from trihop.viewer import Trace, attempts, read

ENDINGS = {
    "": None,
    "job": "JobFailed",
    "deadline": "DeadlineExceeded",
    "budget": "PollBudgetExhausted",
    "partial": "JobPartiallyFailed",
}


@dataclass(frozen=True)
class Shown:
    """What a demo printed, and the folder it left behind."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def trace(self) -> Trace:
        with (self.folder / "trihop-trace.jsonl").open("rb") as lines:
            (trace,) = read(lines).traces
        return trace


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Shown]:
    """Each ending's demo, in an empty folder of its own."""
    running = {}
    for fail in ENDINGS:
        folder = tmp_path_factory.mktemp(f"demo-{fail}")
        command = [sys.executable, "-W", "error", "-m", "trihop.cli", "demo", *(["--fail", fail] if fail else [])]
        running[fail] = (
            folder,
            subprocess.Popen(
                command,
                cwd=folder,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ),
        )
    done = {}
    for fail, (folder, process) in running.items():
        out, err = process.communicate(timeout=90)
        done[fail] = Shown(process.returncode, out.decode(), err.decode(), folder)
    return done


@pytest.mark.parametrize("fail", ENDINGS)
def test_the_demo_ends_as_it_was_meant_to(shown: Mapping[str, Shown], fail: str):
    """Also with --fail the exit code is 0: the bad ending was the expected one. No traceback, no warning."""
    demo = shown[fail]

    assert (demo.code, "Traceback" in demo.err + demo.out, "Warning" in demo.err) == (0, False, False)


@pytest.mark.parametrize("fail", ENDINGS)
def test_the_whole_operation_is_one_trace(shown: Mapping[str, Shown], fail: str):
    """One root, whose result is the ending; submit and poll are spans under it, the polls are attempts."""
    trace = shown[fail].trace
    (told,) = trace.operations
    poll = told.hop("poll")

    assert told.root is not None
    assert told.root.attributes.text("error.type") == ENDINGS[fail]
    assert poll is not None
    assert poll.parent_id == told.root.span_id
    assert any(attempt.error == "503" for attempt in attempts(poll))
    assert (told.hop("download") is not None) == (fail == "")


@pytest.mark.parametrize("fail", ENDINGS)
def test_the_picture_and_where_it_lies_are_printed(shown: Mapping[str, Shown], fail: str):
    """The waterfall, its trace id, and the command that draws it again."""
    demo = shown[fail]

    assert f"trace {demo.trace.id}" in demo.out
    assert f" -m trihop.cli trace trihop-trace.jsonl {demo.trace.id[:8]}" in demo.out
    assert "poll export" in demo.out


@pytest.mark.parametrize(("fail", "error"), [(fail, error) for fail, error in ENDINGS.items() if error is not None])
def test_an_ending_is_printed_as_the_caller_sees_it(shown: Mapping[str, Shown], fail: str, error: str):
    """Class, message and trace id."""
    demo = shown[fail]

    assert f"\n{error}: " in demo.out
    assert f"trace id: {demo.trace.id}" in demo.out


def test_progress_is_told_while_it_runs(shown: Mapping[str, Shown]):
    """Lines on standard error: submitted, in progress, finished."""
    for word in ("submitted", "InProgress", "JobComplete", "finished"):
        assert word in shown[""].err


def test_the_download_is_there_and_its_first_lines_are_shown(shown: Mapping[str, Shown]):
    """The file came through the signed link, whole."""
    demo = shown[""]

    assert len((demo.folder / "trihop-demo.csv").read_bytes().splitlines()) == 20_001
    assert "trihop-demo.csv: 20,001 lines" in demo.out
    assert "Id,Name,AnnualRevenue" in demo.out


def test_the_trace_file_is_its_owners_alone_and_holds_no_secret(shown: Mapping[str, Shown]):
    """Mode 0600; neither the token nor a signature is in it or on the screen."""
    for demo in shown.values():
        file = demo.folder / "trihop-trace.jsonl"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for text in (file.read_text(), demo.out, demo.err):
            assert "Bearer " not in text
            assert "Signature=" not in text.replace("Signature=REDACTED", "")


class Collector(BaseHTTPRequestHandler):
    """Takes what is exported, and remembers the bodies on its server; refuses what comes under /full."""

    def do_POST(self) -> None:
        self.server.received.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self.send_response(400 if self.path.startswith("/full") else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_spans_also_go_where_the_environment_says(run: Run):
    """A collector gets the spans that the file gets; if it refuses them, that is said and changes nothing else."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector, ThreadPoolExecutor() as pool:
        collector.received = []  # type: ignore[attr-defined]
        pool.submit(collector.serve_forever, 0.05)
        endpoint = f"http://127.0.0.1:{collector.server_port}"

        def demo(path: str, file: str) -> subprocess.CompletedProcess[bytes]:
            env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{endpoint}{path}"}
            return run("demo", "--fail", "job", "--file", file, env=env)

        taken, refused = pool.map(demo, ("", "/full"), ("a.jsonl", "b.jsonl"))
        collector.shutdown()
        received = b"".join(collector.received)  # type: ignore[attr-defined]

    assert (taken.returncode, refused.returncode) == (0, 0)
    assert f"exported to {endpoint}\n" in taken.stdout.decode()
    assert f"the export to {endpoint}/full failed\n" in refused.stdout.decode()
    assert b"poll export" in received
    assert b"JobFailed" in received


def test_a_file_cut_off_in_mid_line_is_gone_on_with_on_a_new_line(run: Run, tmp_path: Path):
    """What an earlier writer left broken does not take our first span with it; a file that is there becomes 0600."""
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"resourceSpans": [{"cut')
    file.chmod(0o644)
    done = run("demo", "--fail", "job", "--file", "t.jsonl")
    with file.open("rb") as lines:
        reading = read(lines)

    assert done.returncode == 0
    assert [fault.line for fault in reading.faults] == [1]
    assert [span.hop for span in reading.traces[0].spans] == [None, "submit", "poll"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(run: Run):
    """One line, no traceback, no job."""
    done = run("demo", "--file", "no/such/folder/t.jsonl")

    assert done.returncode == 1
    assert b"cannot be written: No such file or directory" in done.stderr
    assert b"job server" not in done.stdout


def without(module: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command line on a machine where one module is not installed."""
    lines = f"import sys; sys.modules[{module!r}] = None; sys.argv[1:] = {list(arguments)!r}"
    program = f"{lines}; import trihop.cli; trihop.cli.main()"
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**ENVIRONMENT, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "arguments", "env", "extra"),
    [
        ("click", ("--help",), {}, "trihop[cli]"),
        ("rich", ("--help",), {}, "trihop[cli]"),
        ("opentelemetry.sdk.trace", ("demo", "--file", os.devnull), {}, "trihop[cli]"),
        ("opentelemetry.exporter.otlp.json.file", ("demo", "--file", os.devnull), {}, "trihop[cli]"),
        (
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
            ("demo", "--file", os.devnull),
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
            "trihop[otlp]",
        ),
        (
            "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
            ("demo", "--file", os.devnull),
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "trihop[otlp]",
        ),
    ],
)
def test_a_missing_extra_is_one_line_that_says_how_to_install_it(
    module: str, arguments: tuple[str, ...], env: Mapping[str, str], extra: str
):
    """No traceback; the line names the extra."""
    done = without(module, *arguments, **env)

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"pip install '{extra}'" in done.stderr


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `trihop` and a `python`, which the shell looks in."""
    for name in ("trihop", "python"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_command_is_printed_as_it_can_be_typed(programs: Path, monkeypatch: pytest.MonkeyPatch):
    """By its name where the shell finds it; else by its path, or as the module that was run."""
    module = str(programs / "trihop" / "cli" / "__main__.py")

    assert typed(str(programs / "trihop")) == ("trihop",)
    assert typed(str(programs / "python")) == (str(programs / "python"),)
    assert typed("-c") == ("trihop",)
    assert typed(module) == (sys.executable, "-m", "trihop.cli")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    assert typed(module) == ("python", "-m", "trihop.cli")
    monkeypatch.setenv("PATH", "")
    assert typed(str(programs / "trihop")) == (str(programs / "trihop"),)


@pytest.mark.parametrize("command", [(), *((command,) for command in COMMANDS)])
def test_no_help_is_cut_at_eighty_columns(run: Run, command: tuple[str, ...]):
    """Each command has a line of its own in the list, a whole sentence, and no line is wider."""
    lines = run(*command, "--help", env={"COLUMNS": "80"}).stdout.decode().splitlines()

    assert lines[0].startswith("Usage: trihop")
    assert max(map(len, lines)) <= 80
    listed = lines[lines.index("Commands:") + 1 :] if not command else []
    assert [line.split()[0] for line in listed] == ([] if command else list(COMMANDS))
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_version_and_help_read_well(run: Run):
    """The version is one line; the help names every command with a word on it."""
    assert run("--version").stdout.decode().startswith("trihop ")
    text = run("--help").stdout.decode()
    assert "Submit, poll, download as one operation" in text
    for command in ("demo", "trace"):
        assert f"\n  {command} " in text
        assert run(command, "--help").returncode == 0
    assert run("nonsense").returncode == 2
