"""`trihop demo`: the whole triangle against a job server of its own, and the trace it left."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from shutil import which

import click
import requests

from trihop import (
    Budget,
    DeadlineExceeded,
    JobFailed,
    JobPartiallyFailed,
    OperationError,
    PollBudgetExhausted,
    TrihopError,
    operation,
)
from trihop import _trace_url as trace_url
from trihop import show as show_event
from trihop.cli._paper import console, paper, show
from trihop.cli._telemetry import tracing
from trihop.cli._waterfall import draw
from trihop.cli.trace import read_file
from trihop.demo._provider import PROVIDER
from trihop.viewer import counted, plain, size

_LINES_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Ending:
    """How a demonstration is to end: what the server is asked to do, and what that raises here."""

    scenario: str
    error: type[TrihopError] | None = None
    deadline: float = 30.0
    budget: Budget = Budget()  # noqa: RUF009 - frozen, so it may be shared


GOOD = Ending("success")
ENDINGS = {
    "job": Ending("job", JobFailed),
    "deadline": Ending("endless", DeadlineExceeded, deadline=4.5),
    "budget": Ending("endless", PollBudgetExhausted, budget=Budget(polls=4)),
    "partial": Ending("partial", JobPartiallyFailed),
}


@click.command()
@click.option(
    "--fail",
    type=click.Choice(list(ENDINGS)),
    help="Show one of the bad endings: the job fails, the deadline passes, the poll budget runs out, or some of the "
    "records fail.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("trihop-trace.jsonl"),
    show_default=True,
    help="Where the trace goes; it is appended. The download lies beside it as trihop-demo.csv.",
)
def demo(fail: str | None, file: Path) -> None:
    """Run the triangle on this machine and draw it.

    The job server is a process of its own on 127.0.0.1: it takes a job, answers "in progress" with hints when to ask
    again, breaks down once on the way, and hands out a signed link. It ends with the demo. Takes about six seconds.

    Spans also go to a collector where OTEL_EXPORTER_OTLP_ENDPOINT names one (extra: otlp).

    The exit code is 0 if the demo ended as it was meant to, with --fail as well, and 1 if not.
    """
    ending = GOOD if fail is None else ENDINGS[fail]
    target = file.with_name("trihop-demo.csv")
    with tracing(file, service="trihop-demo") as export, _job_server() as server:
        click.echo(f"job server: {server['api']} (bearer token), files at {server['files']} (signed links)")
        trace_id, error = _run(server, ending, target)
    if error is None:
        _show_download(target)
    else:
        click.echo(f"\n{type(error).__name__}: {plain(str(error))}")
        click.echo(f"trace id: {error.trace_id if isinstance(error, OperationError) else trace_id}")
    click.echo()
    _show_trace(file, trace_id)
    if export is not None:
        click.echo(f"exported to {export.endpoint}" if export.arrived else f"the export to {export.endpoint} failed")
        url = trace_url.link(trace_url.named(), trace_id)
        if export.arrived and url is not None:
            click.echo(url)
    if type(error) is not (ending.error or type(None)):
        wanted = "a success" if ending.error is None else ending.error.__name__
        raise click.ClickException(f"this was to end with {wanted}.")


def _run(server: Mapping[str, str], ending: Ending, target: Path) -> tuple[str | None, TrihopError | None]:
    """Walk the triangle; what it raised comes back beside the trace id."""
    provider = replace(PROVIDER, budget=ending.budget)
    trace_id = None
    with requests.Session() as session:
        session.trust_env = False  # the server is on this machine: no proxy leads there
        session.headers["Authorization"] = f"Bearer {server['token']}"
        try:
            with operation(
                "export", deadline=ending.deadline, session=session, provider=provider, on_event=show_event
            ) as op:
                trace_id = op.trace_id
                request = {"operation": "query", "query": "SELECT Id, Name FROM Account", "scenario": ending.scenario}
                op.run("POST", f"{server['api']}/jobs/query", json=request, to=target)
        except TrihopError as error:
            return trace_id, error
    return trace_id, None


@contextmanager
def _job_server() -> Iterator[Mapping[str, str]]:
    """The job server in a process of its own, which ends when we close its standard input or cease to be."""
    command = [sys.executable, "-m", "trihop.demo"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise click.ClickException("the demo's job server did not start; what it said is above.")
        try:
            yield json.loads(ready)
        finally:
            process.stdin.close()


def _show_download(target: Path) -> None:
    with target.open(encoding="utf-8") as lines:
        first = list(islice(lines, _LINES_SHOWN))
        total = len(first) + sum(1 for _ in lines)
    click.echo(f"\n{target}: {counted(total, 'line')}, {size(target.stat().st_size)}")
    for line in first:
        click.echo(f"  {line.rstrip()}")
    click.echo("  …" if "utf" in (sys.stdout.encoding or "") else "  ...")


def _show_trace(file: Path, trace_id: str | None) -> None:
    found = next((trace for trace in read_file(file).traces if trace.id == trace_id), None)
    if found is None:
        raise click.ClickException(f"no trace was written to {file}: is OTEL_SDK_DISABLED set?")
    to = console()
    show(draw(found, paper(to)), to)
    again = (*typed(sys.argv[0]), "trace", str(file), found.id[:8])
    click.echo(f"\nin {file}; to see it again: {shlex.join(again)}")


def typed(program: str) -> tuple[str, ...]:
    """How the command line can be called again from here, where it may lie in no folder that the shell looks in.

    Args:
        program: What stands first on our own command line: the script, or the module that runs in its place.
    """
    if Path(program).name == "__main__.py":
        return ("python" if _is_found("python", sys.executable) else sys.executable, "-m", "trihop.cli")
    return ("trihop" if _is_found("trihop", program) or not Path(program).exists() else program,)


def _is_found(name: str, path: str) -> bool:
    """Whether the shell means this file by that name."""
    found = which(name)
    # Not resolved: the links in the folders of two virtual environments may lead to one Python.
    return found is not None and os.path.abspath(found) == os.path.abspath(path)
