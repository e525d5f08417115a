"""`trihop worker`: go on with operations that no block is waiting for."""

from __future__ import annotations

import signal

import click

from trihop.cli._store import app_option, opened, worker_of


@click.command()
@app_option
def worker(app: str) -> None:
    """Go on with operations that nobody waits for.

    Takes steps of the operations in the worker's store, until Ctrl-C or SIGTERM; steps under way are finished then.
    """
    found = worker_of(app)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: found.stop())
    with opened(None, found, may_make=True):
        click.echo(f"working on {found.store!r}; Ctrl-C stops it", err=True)
        found.run()
