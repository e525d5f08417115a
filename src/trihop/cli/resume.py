"""`trihop resume`: wait for an operation here, and finish it."""

from __future__ import annotations

import click

from trihop import show as show_event
from trihop.cli._store import app_option, opened, worker_of


@click.command()
@click.argument("key")
@app_option
@click.option("--deadline", type=float, metavar="SECONDS", help="A deadline from now, instead of the stored one.")
def resume(key: str, app: str, deadline: float | None) -> None:
    """Wait for an operation here, and finish it.

    Goes on with the operation under KEY until its job is over, and calls the worker's finish().

    Nothing is submitted twice. Where the operation was never submitted, run the block again that has its payload.
    """
    worker = worker_of(app)
    with opened(None, worker), worker.resume(key, deadline=deadline, on_event=show_event) as op:
        worker.finish(op, op.poll())
