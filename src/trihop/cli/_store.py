"""What the commands on a store share: where it is, whose providers and sessions, and how a record is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from trihop import Store, StoreError, TrihopError, Worker
from trihop._durable.claims import read
from trihop._durable.holder import told as told_holder
from trihop._saved import SUBMITTED, SUBMITTING, Saved
from trihop.stores import Stored, Taken
from trihop.viewer import seconds

Command = TypeVar("Command", bound=Callable[..., Any])

_STORE_HELP = (
    "The store: sqlite:///operations.db or postgresql://host/database. Else what TRIHOP_STORE names; user and "
    "password are better there, or in a file that the database's own client reads, than among the arguments."
)
_APP_HELP = (
    "A Worker in a module of yours, such as exports.jobs:worker; its providers, sessions and finish() are used. "
    "The module is looked for in the current folder first. Else what TRIHOP_APP names."
)


def store_option(command: Command) -> Command:
    """`--store URL`."""
    return click.option("--store", "store_url", envvar="TRIHOP_STORE", metavar="URL", help=_STORE_HELP)(command)


def app_option(command: Command) -> Command:
    """`--app MODULE:WORKER`."""
    return click.option("--app", envvar="TRIHOP_APP", required=True, metavar="MODULE:WORKER", help=_APP_HELP)(command)


def worker_of(app: str) -> Worker:
    """The worker that an application made; nothing is ever imported by a name from a store."""
    module, colon, name = app.partition(":")
    if not colon or not module or not name:
        raise click.UsageError(f"--app takes MODULE:WORKER, such as exports.jobs:worker, got {app!r}")
    sys.path.insert(0, os.getcwd())
    try:
        worker = getattr(import_module(module), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not module.startswith(missing.name):
            raise
        raise click.ClickException(f"there is no module {module} here. Run this where it can be imported.") from None
    except AttributeError:
        raise click.ClickException(f"the module {module} has nothing named {name}.") from None
    if not isinstance(worker, Worker):
        raise click.ClickException(f"{app} is no trihop.Worker but a {type(worker).__name__}.")
    return worker


@contextmanager
def opened(store_url: str | None, worker: Worker | None = None, *, may_make: bool = False) -> Iterator[Store]:
    """The store, closed at the end; what goes wrong with it, or with the operation, is said in a line.

    Args:
        store_url: Where it is, unless it is a worker's.
        worker: Whose store it is, which stays open.
        may_make: Whether a file that is not there is made, rather than missed: it may be a mistyped one.
    """
    try:
        if worker is not None:
            if not may_make:
                _check_there(worker.store)
            yield worker.store
            return
        if store_url is None:
            raise click.UsageError("say where the store is: --store sqlite:///operations.db, or TRIHOP_STORE.")
        try:
            from trihop import SQLStore

            store = SQLStore(store_url)
        except ValueError as wrong:
            raise click.UsageError(str(wrong)) from None
        except ModuleNotFoundError as missing:
            extra = "sql" if missing.name == "sqlalchemy" else "postgresql"
            raise click.ClickException(f"this store needs {missing.name}: pip install 'trihop[{extra}]'") from None
        _check_there(store)
        try:
            yield store
        finally:
            store.close()
    except (TrihopError, StoreError) as error:
        raise click.ClickException(str(error)) from None
    except LookupError as missing:
        raise click.ClickException(str(missing.args[0])) from None
    except Taken as taken:
        raise click.ClickException(
            f"{told_holder(taken.holder)} works on it. Stop that first, or wait: should it have crashed, "
            f"its lease runs out in {max(0.0, taken.expires_in_s):.0f} s."
        ) from None


def _check_there(store: Store) -> None:
    file: Path | None = getattr(store, "file", None)  # of a store that is one
    if file is not None and not file.exists():
        raise click.ClickException(
            f"there is no file {file}. sqlite:///jobs.db is looked for in the current folder, sqlite:////srv/jobs.db "
            "from the root; the first operation with such a store makes it, and so does `trihop worker`."
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A record as it is listed."""

    key: str
    name: str
    status: str
    state: str = "-"
    age_s: float | None = None
    polls: int = 0
    next_check_s: float | None = None
    deadline_s: float | None = None
    trace_id: str | None = None
    operation_id: str | None = None
    job_id: str | None = None
    holder: str | None = None
    reconcile: bool = False
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For `--json`; durations in seconds, None where there is none."""
        return {name: getattr(self, name) for name in self.__slots__}


def row_of(stored: Stored, store: Store, *, now_s: float) -> Row:
    """What is told of a record; of one that cannot be read, that it cannot."""
    try:
        saved = read(stored.key, stored.record, store)
    except StoreError as unreadable:
        return Row(key=stored.key, name=str(stored.record.get("name", "?")), status="unreadable", error=unreadable.what)
    found = None if saved.outcome is None else saved.outcome.get("error")
    return Row(
        key=stored.key,
        name=saved.name,
        status=_status(saved, stored),
        state=saved.state or "-",
        age_s=max(0.0, now_s - saved.started_ns / 1e9),
        polls=saved.polls,
        next_check_s=None if stored.ended else stored.due_in_s,
        deadline_s=None if saved.deadline_at is None or stored.ended else saved.deadline_at - now_s,
        trace_id=None if saved.trace is None else saved.trace["trace_id"],
        operation_id=saved.operation_id,
        job_id=saved.job_id,
        holder=None if stored.holder is None else told_holder(stored.holder),
        reconcile=saved.reconcile,
        error=None if found is None else f"{found['kind']}: {found['what']}",
    )


def _status(saved: Saved, stored: Stored) -> str:
    """In one word: how it ended, or what it waits for."""
    if saved.reconcile:
        return "reconcile"
    if saved.outcome is not None:
        return str(saved.outcome["result"])
    if saved.phase == SUBMITTING and stored.holder is None:
        return "in doubt"
    if saved.stopped is not None:
        return "stopped"
    return {SUBMITTED: "polling"}.get(saved.phase, saved.phase)


def span_of(duration_s: float | None) -> str:
    """A duration for a column; what has passed is told with a minus."""
    if duration_s is None:
        return "-"
    return seconds(duration_s) if duration_s >= 0 else f"-{seconds(-duration_s)}"
