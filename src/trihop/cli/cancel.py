"""`trihop cancel`: stop a job at its server."""

from __future__ import annotations

import click

from trihop.cli._store import app_option, opened, worker_of


@click.command()
@click.argument("key")
@app_option
def cancel(key: str, app: str) -> None:
    """Ask the server to cancel an operation's job.

    The operation is the one under KEY. It is best effort at every server: a job may be over before, or go on.
    """
    worker = worker_of(app)
    with opened(None, worker):
        try:
            with worker.resume(key, deadline=None) as op:
                taken = op.cancel()
        except ValueError as error:
            raise click.ClickException(str(error)) from None
    if not taken:
        raise click.ClickException("the server did not take it; the job may still run.")
    click.echo(f"cancelled {key}")
