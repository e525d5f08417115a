"""Entering an operation that has a record: the hold on it, and the deadline that counts."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trihop._clock import Clock, CorrectedClock
from trihop._deadline import Deadline
from trihop._durable.claims import begin, claim, no_record, read
from trihop._durable.visit import Visit
from trihop._errors import DeadlineExceeded, PollBudgetExhausted, PollErrorsExhausted
from trihop._saved import Saved
from trihop.stores import Claim, Store

if TYPE_CHECKING:
    from trihop._block import Block

_OUT_OF_TIME = tuple(kind.__name__ for kind in (DeadlineExceeded, PollBudgetExhausted, PollErrorsExhausted))

_IN_STEP_S = 2.0
"""A clock that differs from the store's by more has the wrong time; less may be the way there and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming:
    """How an operation is taken up by others than its own block.

    Args:
        deadline_given: Whether the caller gave a deadline, which then counts instead of the stored one.
        claim: Ours already, as an engine's; the operation's clock has been put right by it.
        step: Whether it is one step of an engine.
    """

    deadline_given: bool = False
    claim: Claim | None = None
    step: bool = False


def visit_of(
    operation: Block, store: Store, deadline: Deadline, resuming: Resuming | None, *, store_payload: bool
) -> tuple[Visit, Deadline]:
    """The hold on an operation's record, made if need be, and the deadline that counts.

    Raises:
        OperationTaken: Somebody else works on it.
        LookupError: There is no record to resume.
        StoreError: The store cannot be used, or the record not be read.
        ValueError: The key stands for an operation of another provider.
    """
    key = operation.key
    assert key is not None
    blank = _beginning(operation, key, deadline, operation._clock.time_ns())
    if resuming is None:
        found: Claim | None = begin(store, blank)
    else:
        found = resuming.claim if resuming.claim is not None else claim(store, key)
    if found is None:
        raise no_record(key, store)
    try:
        saved = read(key, found.record, store)
        if saved.provider != blank.provider:
            raise ValueError(
                f"operation {saved.name!r}: the key {key!r} stands for one of the provider {saved.provider!r}, "
                f"got {blank.provider!r}"
            )
    except BaseException:
        store.release(found)
        raise
    given = resuming is not None and resuming.claim is not None
    clock = operation._clock if given else by_the_store(operation._clock, found)
    now_ns = clock.time_ns()
    if clock is not operation._clock:
        blank = _beginning(operation, key, deadline, now_ns)
        saved = replace(blank, operation_id=saved.operation_id) if found.fresh else saved
    step = resuming is not None and resuming.step
    visit = Visit(store, found, saved, clock=clock, store_payload=store_payload, step=step)
    if found.fresh:
        return visit, replace(deadline, clock=clock)
    keeps = not saved.ended and not (resuming is not None and resuming.deadline_given)
    if keeps and (step or not _has_new_time(saved, now_ns / 1e9)):
        left_s = math.inf if saved.deadline_at is None else saved.deadline_at - now_ns / 1e9
        duration_s = math.inf if saved.deadline_s is None else saved.deadline_s
        deadline = Deadline(clock.monotonic() + left_s, duration_s, clock)
    else:
        visit.saved = replace(saved, deadline_at=blank.deadline_at, deadline_s=blank.deadline_s)
    if not step:
        visit.saved = replace(visit.saved, segments=saved.segments + 1, stopped=None)
    return visit, deadline


def _beginning(operation: Block, key: str, deadline: Deadline, now_ns: int) -> Saved:
    """The record of an operation that begins now."""
    endless = math.isinf(deadline.at_s)
    return Saved(
        name=operation.name,
        key=key,
        operation_id=uuid.uuid4().hex,
        provider=operation.provider.name,
        started_ns=now_ns,
        touched_ns=now_ns,
        deadline_at=None if endless else now_ns / 1e9 + deadline.remaining(),
        deadline_s=None if endless else deadline.duration_s,
    )


def by_the_store(clock: Clock, claim: Claim) -> Clock:
    """The clock as it stands just after a claim; where it is plainly wrong by the store's, put right.

    Deadlines and pauses go on from machine to machine.
    """
    behind_s = 0.0 if claim.at is None else claim.at - clock.time_ns() / 1e9
    return clock if abs(behind_s) <= _IN_STEP_S else CorrectedClock(clock, behind_s)


def _has_new_time(saved: Saved, now: float) -> bool:
    """Whether a new visit counts its own deadline: the last one stopped for lack of time or budget, or it is past."""
    if saved.stopped in _OUT_OF_TIME:
        return True
    return saved.deadline_at is not None and saved.deadline_at <= now
