"""`trihop show`: all that is known of one operation."""

from __future__ import annotations

import json

import click

from trihop import _trace_url as trace_url
from trihop._clock import SystemClock
from trihop.cli._paper import Piece, console, paper
from trihop.cli._paper import show as put
from trihop.cli._store import opened, row_of, span_of, store_option
from trihop.stores import Store, Stored

_LOOKED_THROUGH = 100_000
_FEWEST_DIGITS = 8


@click.command()
@click.argument("which", metavar="KEY|ID")
@store_option
@click.option("--json", "as_json", is_flag=True, help="The record itself, as JSON.")
def show(which: str, store_url: str | None, as_json: bool) -> None:
    """Show all that is known of one operation.

    It is named by its key, or by the first eight digits or more of its operation id or trace id.
    """
    with opened(store_url) as store:
        stored = found(store, which)
        if as_json:
            click.echo(json.dumps(stored.record, indent=2, ensure_ascii=False))
            return
        row = row_of(stored, store, now_s=SystemClock().time_ns() / 1e9)
        told = {
            **{name: value for name, value in row.as_json().items() if not name.endswith("_s")},
            "age": span_of(row.age_s),
            "next check": span_of(row.next_check_s),
            "deadline": span_of(row.deadline_s),
            "trace": trace_url.link(trace_url.named(), row.trace_id),
        }
        to = console()
        sheet = paper(to)
        lines = [(name.replace("_", " "), str(value)) for name, value in told.items() if value not in (None, False)]
        widest = max(len(name) for name, _ in lines)
        put(((Piece(f"{name:<{widest}}  ", "dim"), Piece(sheet.text(value))) for name, value in lines), to)


def found(store: Store, which: str) -> Stored:
    """The record that a key or the beginning of an id names.

    Raises:
        LookupError: None does, or several.
    """
    stored = store.get(which)
    if stored is not None:
        return stored
    fitting = []
    if len(which) >= _FEWEST_DIGITS:
        for one in store.list(limit=_LOOKED_THROUGH):
            trace_id = (one.record.get("trace") or {}).get("trace_id") or ""
            if str(one.record.get("operation_id", "")).startswith(which.lower()) or trace_id.startswith(which.lower()):
                fitting.append(one)
    if len(fitting) == 1:
        return fitting[0]
    many = f"{len(fitting)} operations fit" if fitting else "there is no operation that fits"
    raise LookupError(f"{many} {which!r}; `trihop ls` lists those there are")
