"""`trihop trace`: a trace file as a waterfall, as a page, or as what Jaeger reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from trihop.cli._paper import Line, Paper, Piece, console, paper, show
from trihop.cli._waterfall import draw
from trihop.viewer import Fault, Reading, Trace, instant, read, seconds, size, to_html, to_jaeger

_WIDE_ENOUGH_FOR_IDS = 100
_FEWEST_DIGITS = 8
_FAULTS_SHOWN = 5


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("trace_id", required=False)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PAGE",
    help="Write the trace to PAGE instead, as one HTML page that needs nothing else: no network, no server.",
)
@click.option(
    "--jaeger",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="JSON",
    help="Write the trace to JSON instead, as Jaeger's page reads it (Search, Upload).",
)
def trace(file: str, trace_id: str | None, html: Path | None, jaeger: Path | None) -> None:
    """Draw a trace from FILE as a waterfall.

    FILE holds OTLP JSON lines, as OpenTelemetry's FileSpanExporter and the collector's file exporter write them; a
    dash stands for standard input. With several traces in it and no TRACE_ID they are listed, and the latest is drawn.
    The first digits of a TRACE_ID are enough.
    """
    reading = _read(file)
    _report(reading.faults)
    chosen = _chosen(reading, file, trace_id)
    if html is not None:
        _write(html, to_html(chosen))
    if jaeger is not None:
        _write(jaeger, json.dumps(to_jaeger(chosen), ensure_ascii=False))
    if html is not None or jaeger is not None:
        return
    to = console()
    sheet = paper(to)
    if len(reading.traces) > 1 and trace_id is None:
        show(_listing(reading.traces, sheet), to)
    show(draw(chosen, sheet), to)


def read_file(path: Path) -> Reading:
    """What a trace file holds. Raises OSError where it cannot be opened."""
    with path.open("rb") as lines:
        return read(lines)


def _read(file: str) -> Reading:
    if file == "-":
        return read(sys.stdin.buffer)
    try:
        return read_file(Path(file))
    except FileNotFoundError:
        raise click.ClickException(f"there is no file {file}. `trihop demo` writes a first one.") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None


def _write(target: Path, text: str) -> None:
    """A file as private as the traces are; said on standard output."""
    try:
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.ClickException(f"{target} cannot be written: {error.strerror}.") from None
    click.echo(f"wrote {target}, {size(target.stat().st_size)}")


def _report(faults: Sequence[Fault]) -> None:
    """What could not be read, on standard error, so that a picture on a pipe stays a picture."""
    for fault in faults[:_FAULTS_SHOWN]:
        click.echo(f"line {fault.line}: {fault.reason}", err=True)
    if len(faults) > _FAULTS_SHOWN:
        click.echo(f"{len(faults) - _FAULTS_SHOWN:,} further lines could not be read either", err=True)


def _chosen(reading: Reading, file: str, trace_id: str | None) -> Trace:
    if not reading.traces:
        why = "it holds no OTLP JSON lines" if reading.faults else "no span has been exported to it"
        raise click.ClickException(f"there is no trace in {file}: {why}.")
    if trace_id is None:
        return reading.traces[-1]
    fitting = [found for found in reading.traces if found.id.startswith(trace_id.lower())]
    if len(fitting) == 1:
        return fitting[0]
    to = console(stderr=True)
    show(_listing(fitting or reading.traces, paper(to)), to)
    many = f"{len(fitting)} traces begin" if fitting else "no trace begins"
    raise click.ClickException(f"{many} with {paper(to).text(trace_id)}; those above can be had.")


def _listing(traces: Sequence[Trace], sheet: Paper) -> Iterator[Line]:
    """A line a trace: id, start, duration, result, name."""
    digits = 32 if sheet.width >= _WIDE_ENOUGH_FOR_IDS else _digits(traces)
    durations = [seconds(found.duration_s) for found in traces]
    results = [_result(found) for found in traces]
    longest, widest = max(map(len, durations)), max(map(len, results))
    for found, duration, result in zip(traces, durations, results, strict=True):
        when = f"  {instant(found.start_ns)}  {duration:>{longest}}  "
        left = max(_FEWEST_DIGITS, sheet.width - digits - len(when) - widest - 2)
        sort = {"success": "result", "no root": "dim"}.get(result, "error")
        yield (
            Piece(sheet.fit(found.id[:digits], digits) + when),
            Piece(sheet.fit(result, widest), sort),
            Piece(f"  {sheet.fit(found.name, left).rstrip()}"),
        )
    yield ()


def _result(found: Trace) -> str:
    results = {operation.result or "no root" for operation in found.operations}
    return ", ".join(sorted(results)) or "-"


def _digits(traces: Sequence[Trace]) -> int:
    """How many digits tell every id from its neighbours."""
    lengths = range(_FEWEST_DIGITS, 32)
    return next((length for length in lengths if len({found.id[:length] for found in traces}) == len(traces)), 32)
