"""A paid-inference job that has to settle before it may be believed.

Known from one published description only, without header names or a schema: these are arguments here.

- A job is over when its state is an ending *and* its bill is settled; before that, `succeeded` is still pending.
- `ready` is a success whose result must not be used before a separate activation check: `needs_activation(ready)`
  says so, and `op.once` is the place for the check.
- `reconciliation_required` says that nobody knows what became of the job, settled or not: it ends as
  `OutcomeAmbiguous`, to be reconciled by hand, and is never submitted again.
- The submit carries an idempotency key, minted once for the operation, and is repeated under it with the same
  body when its answer is lost. A payload is never changed under a key.
- Polls begin within a second and go from 1 to 15 seconds. There is no `Retry-After`, no callback and no cancel: to stop
  is only to stop looking.

Read November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import Field, ReadJob, ReadState, folded, reader
from trihop._values import Job, Ready, Reply
from trihop._verdicts import Ambiguous, Ending, Pending, PollVerdict

_READY = "ready"


def jobs(
    name: str,
    *,
    idempotency: str = "Idempotency-Key",
    id: Field = "job_id",
    status_url: Field = "status_url",
    state: Field = "status",
    settled: Field = "billing.settled",
    data: Field = "result",
    error: Field = "error",
    pending: Iterable[str] = ("queued", "running"),
    succeeded: Iterable[str] = ("succeeded", _READY),
    failed: Iterable[str] = ("failed", "rejected"),
    ambiguous: Iterable[str] = ("reconciliation_required",),
) -> Provider:
    """A provider for such an API.

    Args:
        name: Its name on spans, such as "acme.inference".
        idempotency: The header field for the key.
        id, status_url: Fields of the submit's answer.
        state, data, error: Fields of a poll's answer.
        settled: The field that is true once the outcome may be believed; anything but true is not.
        pending, succeeded, failed, ambiguous: The words of the state.

    States: queued, running; succeeded, ready; failed, rejected; reconciliation_required; each only once settled
    Result: in the answer
    Deadline: minutes
    Checked: exchanges as described
    Source: one published description
    """
    read = ReadState(
        state, pending=pending, succeeded=succeeded, failed=failed, ambiguous=ambiguous, data=data, error=error
    )
    read_settled = reader(settled, "settle.jobs(settled=)")

    def poll(reply: Reply, job: Job) -> PollVerdict:
        """An ending once it is settled; that nobody knows is one at any time."""
        verdict = read(reply, job)
        if not isinstance(verdict, Ending) or isinstance(verdict, Ambiguous) or read_settled(reply) is True:
            return verdict
        return Pending(f"{verdict.state}, not settled", message=verdict.message)

    return Provider(
        name,
        submit=ReadJob(id=id, status_url=status_url),
        poll=poll,
        idempotency=idempotency,
        pacing=Pacing(first=1.0, factor=2.0, cap=15.0),
    )


def needs_activation(ready: Ready) -> bool:
    """Whether a separate check must pass before this result is used."""
    return folded(ready.state) == _READY
