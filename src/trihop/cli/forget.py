"""`trihop forget`: delete a record."""

from __future__ import annotations

import click

from trihop.cli._store import opened, store_option


@click.command()
@click.argument("key")
@store_option
@click.option("--yes", is_flag=True, help="Do not ask, even where the job may still run.")
def forget(key: str, store_url: str | None, yes: bool) -> None:
    """Delete the record of an operation.

    The block that has its KEY submits anew then.

    The job, if it still runs, goes on at the server: `trihop cancel` stops it.
    """
    with opened(store_url) as store:
        stored = store.get(key)
        if stored is None:
            raise LookupError(f"there is no operation with the key {key!r}; `trihop ls` lists those there are")
        if not stored.ended and not yes:
            click.confirm(f"{key} has no ending yet, and its job may still run. Forget it?", abort=True)
        store.forget(key)
    click.echo(f"forgot {key}")
