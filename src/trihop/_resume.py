"""Going on without the original block: `resume()`, and `wake()`, which makes the next poll due now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import requests

from trihop._arguments import expect, expect_callable, told
from trihop._clock import Clock
from trihop._deadline import DeadlineSpec
from trihop._durable.claims import no_record, read
from trihop._durable.enter import Resuming
from trihop._events import Event
from trihop._operation import _SYSTEM_CLOCK
from trihop._provider import Provider
from trihop._saved import Saved

if TYPE_CHECKING:
    from trihop._triangle import Operation
    from trihop.stores import Store


def resume(
    key: str,
    *,
    store: Store,
    session: requests.Session | None = None,
    provider: Provider | None = None,
    deadline: DeadlineSpec = None,
    on_event: Callable[[Event], None] | None = None,
    clock: Clock | None = None,
) -> Operation:
    """An operation from its record, without the block that began it.

        with resume("nightly-0301", store=store, session=session, provider=QUERY) as op:
            op.download(op.poll(), to="accounts.csv")

    Args:
        key: The operation's.
        store: Where its record is.
        session, on_event: As in `operation()`.
        provider: The one it was begun with: a record has its name alone.
        deadline: As in `operation()`. None for the stored one; if that has passed,
            the original duration again.
        clock: Whose time; for tests.

    Raises:
        LookupError: There is no such record; nothing is ever submitted for the lack of one.
        ValueError: It is of another provider.
        StoreError: The store cannot be used, or the record not be read.
        OperationTaken: On entry: another holder has it now.
    """
    expect(key, str, "resume(key)", "the key of the operation")
    if not hasattr(store, "claim"):
        raise TypeError(f"resume() store= takes a Store, such as SQLStore('sqlite:///jobs.db'), got {told(store)}")
    if on_event is not None:
        expect_callable(on_event, "resume() on_event=", "a function of an Event, such as show")
    stored = store.get(key)
    if stored is None:
        raise no_record(key, store)
    saved = read(key, stored.record, store)
    return resumed(
        saved,
        store=store,
        session=session,
        provider=fitting(saved, provider),
        deadline=deadline if deadline is not None else saved.deadline_s,
        on_event=on_event,
        clock=clock,
        how=Resuming(deadline_given=deadline is not None),
    )


def fitting(saved: Saved, provider: Provider | None) -> Provider:
    """The provider that a record names.

    Raises:
        ValueError: It is not the one given.
    """
    if provider is None:
        from trihop.providers.generic import ACCEPTED

        provider = ACCEPTED
    expect(provider, Provider, "resume() provider=", "a Provider")
    if provider.name != saved.provider:
        raise ValueError(
            f"operation {saved.name!r} under the key {saved.key!r} was begun with the provider {saved.provider!r}; "
            f"pass it as provider=, got {provider.name!r}"
        )
    return provider


def resumed(
    saved: Saved,
    *,
    store: Store,
    session: requests.Session | None,
    provider: Provider,
    deadline: DeadlineSpec,
    on_event: Callable[[Event], None] | None,
    clock: Clock | None,
    how: Resuming,
) -> Operation:
    """The block that goes on from a record."""
    from trihop._triangle import Operation

    return Operation(
        saved.name,
        deadline=deadline,
        session=session,
        provider=provider,
        key=saved.key,
        on_event=on_event,
        attributes=None,
        origins=(),
        propagate=None,
        on_interrupt="leave",
        clock=clock if clock is not None else _SYSTEM_CLOCK,
        store=store,
        resuming=how,
    )


def wake(store: Store, *, job_id: str | None = None, key: str | None = None) -> bool:
    """Make the next poll of an operation due now; the poll stays the judge.

    For a webhook, once its signature has been verified. A worker asks at its next
    look, and a block that waits, within five seconds.

    Args:
        store: Where the record is.
        job_id: The server's id of the job.
        key: The operation's key.

    Returns:
        Whether there was an open operation.

    Raises:
        ValueError: Neither is given, or both.
        StoreError: The store cannot be used.
    """
    if (job_id is None) == (key is None):
        raise ValueError("wake() takes job_id= or key=")
    return store.wake(key=key, job_id=job_id)
