"""`trihop ls`: the operations in a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import click
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from trihop._clock import SystemClock
from trihop.cli._paper import Line, Paper, Piece, console, paper, show, text_of
from trihop.cli._store import Row, opened, row_of, span_of, store_option
from trihop.viewer import counted, instant

_HEAD = ("KEY", "OPERATION", "STATUS", "STATE", "AGE", "POLLS", "NEXT", "DEADLINE", "TRACE")
_OPERATION, _STATUS, _STATE, _DEADLINE, _TRACE = (
    _HEAD.index(name) for name in ("OPERATION", "STATUS", "STATE", "DEADLINE", "TRACE")
)
_WIDEST = 28
_NARROWEST = 9
_FEWEST_DIGITS = 8
_STYLES = {"reconcile": "error", "in doubt": "error", "unreadable": "error", "stopped": "changed", "success": "result"}
_WATCHED_S = 2.0
_LINES_BESIDE = 4  # the head, an empty line, the last line, and the cursor's


@click.command()
@store_option
@click.option("--open", "open_only", is_flag=True, help="Only those without an ending.")
@click.option(
    "--limit", default=100, show_default=True, metavar="N", help="No more than so many, the latest saved first."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; durations are in seconds.")
@click.option("--watch", is_flag=True, help="List again every two seconds, until Ctrl-C.")
def ls(store_url: str | None, open_only: bool, limit: int, as_json: bool, watch: bool) -> None:
    """List the operations in a store.

    Told of each are state, age, polls, next check, deadline and trace.

    STATUS is how an operation ended, or: begun, polling, ready (over, not fetched), stopped (timed out or out of
    budget: resume it), in doubt (killed in mid-submit), reconcile (a person must look; it is never submitted again).

    NEXT is "now" where somebody is at it; with a minus, the next check is due for so long and nobody has come to it.
    All is as the record has it, which is written at each change of state, before longer pauses, and every third of a
    lease.
    """
    clock = SystemClock()
    with opened(store_url) as store:

        def rows() -> list[Row]:
            now_s = clock.time_ns() / 1e9
            return [row_of(stored, store, now_s=now_s) for stored in store.list(open_only=open_only, limit=limit)]

        to = console()
        if watch and to.is_terminal and not as_json:
            _watch(rows, to, clock)
            return
        with suppress(KeyboardInterrupt):
            while True:
                if as_json:
                    for row in rows():
                        click.echo(json.dumps(row.as_json()))
                else:
                    show(listed(rows(), paper(to), fitted=to.is_terminal), to)
                if not watch:
                    return
                clock.sleep(_WATCHED_S)


def _watch(rows: Callable[[], list[Row]], to: Console, clock: SystemClock) -> None:
    """The list in place on a terminal, as much of it as fits, until Ctrl-C."""
    with suppress(KeyboardInterrupt), Live(console=to, auto_refresh=False) as live:
        while True:
            found, sheet = rows(), paper(to)
            shown = found[: max(1, to.height - _LINES_BESIDE)]
            all_ = counted(len(found), "operation")
            many = all_ if len(shown) == len(found) else f"{len(shown)} of {all_}"
            last = sheet.text(f"{many} · {instant(clock.time_ns())} · Ctrl-C ends it")
            lines = [*listed(shown, sheet, fitted=True), (), (Piece(last, "dim"),)]
            text = Text("\n", no_wrap=True, overflow="crop").join(text_of(line) for line in lines)
            live.update(text, refresh=True)
            clock.sleep(_WATCHED_S)


def listed(rows: Sequence[Row], sheet: Paper, *, fitted: bool = False) -> Iterator[Line]:
    """A line an operation, under a head; `fitted` to the width of the paper, as far as whole keys allow."""
    if not rows:
        yield (Piece("no operations", "dim"),)
        return
    cells = [tuple(map(sheet.text, _cells(row))) for row in rows]
    widths = _widths(cells, sheet.width if fitted else None)
    yield (Piece("  ".join(sheet.fit(name, width) for name, width in zip(_HEAD, widths, strict=False)), "title"),)
    for row, texts in zip(rows, cells, strict=True):
        late = row.deadline_s is not None and row.deadline_s < 0
        styles = {_STATUS: _STYLES.get(row.status, ""), _DEADLINE: "error" if late else ""}
        yield tuple(
            Piece(text[:width] if column == _TRACE else sheet.fit(text, width) + "  ", styles.get(column, ""))
            for column, (text, width) in enumerate(zip(texts, widths, strict=False))
        )


def _widths(cells: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """How wide each column is; one that is missing has no room.

    A key is there to be copied, and stays whole. Eight digits of a trace id are enough for `trihop show`.
    """
    widths = [max(cell_len(row[column]) for row in [_HEAD, *cells]) for column in range(len(_HEAD))]
    widths[1:_TRACE] = [min(_WIDEST, width) for width in widths[1:_TRACE]]
    if room is None:
        return widths
    over = sum(widths) + 2 * (len(widths) - 1) - room
    if over > 0:
        over -= widths[_TRACE] - _FEWEST_DIGITS
        widths[_TRACE] = _FEWEST_DIGITS
    for column in (_OPERATION, _STATE):
        cut = max(0, min(over, widths[column] - _NARROWEST))
        widths[column] -= cut
        over -= cut
    return widths[:_TRACE] if over > 0 else widths


def _cells(row: Row) -> tuple[str, ...]:
    at_it = row.holder is not None and row.next_check_s is not None and row.next_check_s <= 0
    return (
        row.key,
        row.name,
        row.status,
        row.state,
        span_of(row.age_s),
        str(row.polls),
        "now" if at_it else span_of(row.next_check_s),
        span_of(row.deadline_s),
        row.trace_id or "-",
    )
