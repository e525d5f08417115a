"""`operation()`: one block, one deadline, one trace over submit, poll and download.

The engine behind it is imported by the first call, so that `import trihop` costs
little more than `import requests`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import requests

from trihop._arguments import expect, expect_callable, expect_key, expect_texts, told
from trihop._clock import Clock, SystemClock, utc
from trihop._deadline import DeadlineSpec, seconds_until
from trihop._events import Event
from trihop._origin import check_origins
from trihop._provider import Provider

if TYPE_CHECKING:
    from trihop._triangle import Operation
    from trihop.stores import Store

OnInterrupt = Literal["leave", "cancel"]

_SYSTEM_CLOCK = SystemClock()


def operation(
    name: str,
    *,
    deadline: DeadlineSpec,
    session: requests.Session | None = None,
    provider: Provider | None = None,
    key: str | None = None,
    on_event: Callable[[Event], None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    origins: Sequence[str] = (),
    propagate: bool | None = None,
    on_interrupt: OnInterrupt = "leave",
    store: Store | None = None,
    store_payload: bool = False,
    trace_url: str | None = None,
    clock: Clock | None = None,
) -> Operation:
    """One operation: a block with one deadline and one trace over all that happens in it.

    Args:
        name: What it is, in a few words; the root span's name, so of low cardinality.
        deadline: Seconds as in `requests`, a `timedelta`, an aware `datetime`, or
            None written out for none. It bounds each pause and each exchange.
        session: Whose requests; else one of its own, closed at the end.
        provider: How the API is read and asked; else `generic.ACCEPTED`.
        key: The operation's name for good, one line of at most 512 characters: no two with one key at a time.
        on_event: Called with each `Event`; `show` prints them.
        attributes: For the root span.
        origins: Further origins that get the session's credentials.
        propagate: Whether polls carry `traceparent`: None for the first 8, True, False.
        on_interrupt: What Ctrl-C does to the server's job: "leave" or "cancel".
        store: Where its record lives, so that whoever enters the key again goes on with
            the same job; needs `key`. The block is a visit then: it may end before the operation.
        store_payload: Whether the payload itself goes into the record, so that a worker can submit it.
        trace_url: What a link to a trace looks like, such as `http://localhost:16686/trace/{trace_id}`;
            errors show it then. Else what TRIHOP_TRACE_URL says.
        clock: Whose time; for tests.

    Raises:
        TypeError, ValueError: An argument is not what it should be; the message says what is.
        OperationTaken: On entry: an operation with this key is open, here or in another process.
        StoreError: On entry: the store cannot be used.
    """
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"operation() takes a name in a few words, such as 'export', got {name!r}")
    here = f"operation {name!r}:"
    clock = clock if clock is not None else _SYSTEM_CLOCK
    if not all(hasattr(clock, part) for part in ("monotonic", "time_ns", "sleep", "random")):
        raise TypeError(f"{here} clock= takes a Clock, such as trihop.testing.VirtualClock(), got {told(clock)}")
    seconds_until(deadline, now=utc(clock.time_ns()), operation=name)
    if session is not None:
        expect(session, requests.Session, f"{here} session=", "a requests.Session")
    if provider is None:
        from trihop.providers.generic import ACCEPTED

        provider = ACCEPTED
    expect(provider, Provider, f"{here} provider=", "a Provider")
    if key is not None:
        expect_key(key, f"{here} key=")
    if on_event is not None:
        expect_callable(on_event, f"{here} on_event=", "a function of an Event, such as show")
    if attributes is not None:
        expect_texts(attributes, f"{here} attributes=", "a mapping of names to values, such as {'tenant': 'acme'}")
    if propagate is not None:
        expect(propagate, bool, f"{here} propagate=", "True, False or None")
    if on_interrupt not in ("leave", "cancel"):
        raise ValueError(f"{here} on_interrupt= is 'leave' or 'cancel', got {on_interrupt!r}")
    check_origins(origins, f"{here} origins=")
    if store is not None:
        if not hasattr(store, "begin") or not hasattr(store, "lease_s"):
            raise TypeError(
                f"{here} store= takes a Store, such as SQLStore('sqlite:///operations.db'), got {told(store)}"
            )
        if key is None:
            raise ValueError(f"{here} store= needs a key=, under which the operation is found again")
    expect(store_payload, bool, f"{here} store_payload=", "True or False")
    if store_payload and store is None:
        raise ValueError(f"{here} store_payload= needs a store=")
    if trace_url is not None:
        from trihop._trace_url import checked

        checked(expect(trace_url, str, f"{here} trace_url=", "a text"), f"{here} trace_url=")
    from trihop._triangle import Operation

    return Operation(
        name,
        deadline=deadline,
        session=session,
        provider=provider,
        key=key,
        on_event=on_event,
        attributes=attributes,
        origins=origins,
        propagate=propagate,
        on_interrupt=on_interrupt,
        clock=clock,
        store=store,
        store_payload=store_payload,
        trace_url=trace_url,
    )
