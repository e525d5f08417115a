"""The group of commands; each module is imported when its command is asked for."""

from __future__ import annotations

from importlib import import_module

import click
import rich  # noqa: F401 - every command draws with it: whoever lacks it is told so at once

from trihop._version import __version__

COMMANDS = ("demo", "trace", "ls", "show", "resume", "cancel", "forget", "worker")


class _Lazy(click.Group):
    """Commands by name: `trihop.cli.<name>` holds a command of that name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"trihop.cli.{cmd_name}"), cmd_name)
        return command


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="trihop %(version)s")
def app() -> None:
    """Submit, poll, download as one operation: one trace, one deadline, typed endings.

    Try `trihop demo` first: it runs the whole triangle against a job server of its own and draws the trace.
    """
