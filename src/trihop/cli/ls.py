"""`trihop ls`: the operations in a store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click
from rich.live import Live
from rich.text import Text

from trihop._clock import SystemClock
from trihop.cli._paper import Line, Paper, Piece, console, paper, show, text_of
from trihop.cli._store import Row, opened, row_of, span_of, store_option

_HEAD = ("KEY", "OPERATION", "STATUS", "STATE", "AGE", "POLLS", "NEXT", "DEADLINE", "TRACE")
_WIDEST = 28
_STYLES = {"reconcile": "error", "in doubt": "error", "unreadable": "error", "stopped": "changed", "success": "result"}
_WATCHED_S = 2.0


@click.command()
@store_option
@click.option("--open", "open_only", is_flag=True, help="Only those without an ending.")
@click.option("--limit", default=100, show_default=True, help="So many, the latest saved first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; durations in seconds.")
@click.option("--watch", is_flag=True, help="Again every two seconds, until Ctrl-C.")
def ls(store_url: str | None, open_only: bool, limit: int, as_json: bool, watch: bool) -> None:
    """List operations: state, age, polls, next check, deadline and trace.

    STATUS is how an operation ended, or: begun, polling, ready (over, not fetched), stopped (timed out or out of
    budget: resume it), in doubt (killed in mid-submit), reconcile (a person must look; it is never submitted again).
    """
    clock = SystemClock()
    with opened(store_url) as store:

        def rows() -> list[Row]:
            now_s = clock.time_ns() / 1e9
            return [row_of(stored, store, now_s=now_s) for stored in store.list(open_only=open_only, limit=limit)]

        to = console()
        if as_json:
            while True:
                for row in rows():
                    click.echo(json.dumps(row.as_json()))
                if not watch:
                    return
                clock.sleep(_WATCHED_S)
        if not watch:
            show(listed(rows(), paper(to)), to)
            return
        try:
            with Live(console=to, auto_refresh=False) as live:
                while True:
                    lines = [text_of(line) for line in listed(rows(), paper(to))]
                    live.update(Text("\n").join(lines), refresh=True)
                    clock.sleep(_WATCHED_S)
        except KeyboardInterrupt:
            return


def listed(rows: Sequence[Row], sheet: Paper) -> Iterator[Line]:
    """A line an operation, under a head."""
    if not rows:
        yield (Piece("no operations", "dim"),)
        return
    cells = [_cells(row) for row in rows]
    widths = [max(len(row[column]) for row in [_HEAD, *cells]) for column in range(len(_HEAD))]
    widths[1:] = [min(_WIDEST, width) for width in widths[1:]]  # a key is there to be copied
    yield (Piece("  ".join(sheet.fit(name, width) for name, width in zip(_HEAD, widths, strict=True)), "title"),)
    for row, texts in zip(rows, cells, strict=True):
        fitted = [sheet.fit(text, width) for text, width in zip(texts, widths, strict=True)]
        yield (
            Piece("  ".join(fitted[:2]) + "  "),
            Piece(fitted[2], _STYLES.get(row.status, "")),
            Piece("  " + "  ".join(fitted[3:-1]) + "  " + sheet.text(texts[-1])),
        )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.key,
        row.name,
        row.status,
        row.state,
        span_of(row.age_s),
        str(row.polls),
        span_of(row.next_check_s),
        span_of(row.deadline_s),
        row.trace_id or "-",
    )
