"""A visit: one process's hold on the record of an operation; what is written when, and what it goes on from.

Written are: the intent before the first byte, the job as soon as it is known,
each change of state, each pause worth the name, and each ending; on a write that
happens anyway the fold of the attempts rides along.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trihop._clock import Clock
from trihop._durable import heartbeat
from trihop._durable.left import Left, file_as_json
from trihop._errors import (
    JobCancelled,
    JobFailed,
    OperationTaken,
    OutcomeAmbiguous,
    SubmitRejected,
    SubmitUncertain,
    SurfaceError,
    TrihopError,
)
from trihop._progress.lines import command_line
from trihop._redact import redact_url
from trihop._results.download import Download
from trihop._saved import (
    BEGUN,
    READY,
    SUBMITTED,
    SUBMITTING,
    Saved,
    digest_of,
    error_as_json,
    job_as_json,
    needs_asking,
    payload_of,
    ready_as_json,
)
from trihop._values import JSON, Call, Job, Ready
from trihop.stores import Claim, Fenced, Store, StoreError

if TYPE_CHECKING:
    from trihop._hops.poll import Poller
    from trihop._hops.run import Run

PERSISTED_PAUSE_S = 5.0
"""A pause of that length is written down, so that lists show it and a wake can cut it short."""

RETRY_FINISH_S = 60.0


class Visit:
    """One hold on one record, from the claim to the release.

    Args:
        store: Where it lives.
        claim: Ours.
        saved: The record as it was found.
        clock: The operation's.
        store_payload: Whether the payload may be stored.
        step: Whether it is one step of an engine: it neither begins nor ends spans that go on.
    """

    def __init__(
        self,
        store: Store,
        claim: Claim,
        saved: Saved,
        *,
        clock: Clock,
        store_payload: bool = False,
        step: bool = False,
    ) -> None:
        self.store = store
        self.claim = claim
        self.saved = saved
        self.found = saved
        """As it was when the visit began."""
        self.lease_s = store.lease_s
        self.step = step
        self.fenced = False
        self.over = False
        """The ending is written: the spans may end."""
        self.left = Left(saved, fresh=claim.fresh)
        self._went_on = False
        self._poll_found = saved.poll
        self.clock = clock
        self._store_payload = store_payload
        self._written_s = clock.monotonic()
        self._held = True
        self._lock = threading.RLock()
        self.run: Run
        self.due_in_s: float | None = None

    @property
    def resumed(self) -> bool:
        """Whether an earlier visit began it."""
        return not self.claim.fresh

    @property
    def next_in_s(self) -> float | None:
        """Seconds until the next step, as the visit left it; None where there is none by itself."""
        return None if self.saved.ended or self.due_in_s is None or math.isinf(self.due_in_s) else self.due_in_s

    def open(self, run: Run) -> None:
        """Go on with a run of our own, under a lease that is kept alive."""
        self.run = run
        self.left.trace_url = run.trace_url
        heartbeat.watch(self)

    def renew(self) -> None:
        """A sign of life; from another thread."""
        if not self._lock.acquire(blocking=False):
            return  # what is being written extends the lease, or gives it back
        try:
            if self._held:
                self.store.renew(self.claim, lease_s=self.lease_s)
        except Fenced:
            self.fenced = True
            heartbeat.forget(self)
        except Exception as error:  # the next write will say so where somebody hears it
            self.run.warn_once("lease", f"its lease was not renewed ({type(error).__name__})")
        finally:
            self._lock.release()

    def in_the_child(self) -> None:
        """After a fork: a thread of the parent's may have held the lock, and is not here to let go of it."""
        self._lock = threading.RLock()

    # ---- writing

    def save(self, *, due_in_s: float | None = None, release: bool = False, **changes: Any) -> None:
        """Write the record as it stands, with these fields changed.

        Raises:
            OperationTaken: Somebody else has it now; nothing was written.
            StoreError: The store cannot be used.
        """
        run = self.run
        with self._lock:
            self.saved = replace(self.saved, **{**self._story(), **changes})
            try:
                self.store.save(
                    self.claim,
                    self.saved.as_json(),
                    due_in_s=due_in_s,
                    lease_s=self.lease_s,
                    ended=self.saved.ended,
                    release=release,
                )
            except Fenced:
                self.fenced = True
                raise self.taken() from None
            except StoreError as error:
                error.record = run.record()
                raise
            self._held = not release
            self._written_s = self.clock.monotonic()

    def taken(self) -> OperationTaken:
        """The error for a holder that was replaced."""
        return self.run.error(
            OperationTaken,
            "another holder took the operation over while this one gave no sign of life",
            "It goes on there; this one has stopped and changed nothing.",
        )

    def _story(self) -> dict[str, Any]:
        run = self.run
        job = run.job
        hop = run.hop
        story: dict[str, Any] = {
            "touched_ns": run.now_ns(),
            "trace": run.reserved,
            "job_id": None if job is None else job.id,
            "job": job_as_json(job),
            "state": None if job is None else job.state,
            "status_code": run.status_code,
            "polls": run.polls,
            "progress": run.progress,
        }
        if hop is not None and hop.name == "poll" and run.poller is not None:
            story["poll"] = {
                "span_id": hop.span.span_id,
                "started_ns": hop.started_ns,
                "fold": hop.fold.as_json(),
                **run.poller.as_json(),
            }
        return story

    # ---- submit

    def intend(self, call: Call, as_in_requests: Mapping[str, Any], digest: str, *, keyed: bool) -> None:
        """Before the first byte: what is about to be asked for."""
        run = self.run
        submit: dict[str, JSON] = {
            "method": call.method.upper(),
            "url": redact_url(call.url),
            "digest": digest,
            "at": run.now_ns() / 1e9,
            "keyed": keyed,
        }
        if self._store_payload:
            submit |= {"payload": payload_of(as_in_requests), "full_url": call.url}
        elif self.saved.submit is not None and "payload" in self.saved.submit:
            submit |= {name: self.saved.submit[name] for name in ("payload", "full_url")}
        self.save(phase=SUBMITTING, submit=submit, idempotency_key=run.idempotency_key, stopped=None)
        run.segment_began()

    def refuse_another(self, call: Call, as_in_requests: Mapping[str, Any]) -> str:
        """The payload's digest, unless another payload was begun with under this key.

        Raises:
            ValueError: It was.
        """
        digest = digest_of(call.method, call.url, as_in_requests)
        submit = self.saved.submit
        if submit is not None and submit["digest"] != digest and self.saved.phase != BEGUN:
            raise ValueError(
                f"operation {self.saved.name!r}: the key {self.saved.key!r} stands for another request "
                f"({submit['method']} {submit['url']}, or another payload); "
                f"use a new key, or {command_line('forget', self.saved.key)} first"
            )
        return digest

    def admitted(self, hint_s: float | None) -> None:
        """The job is known."""
        run = self.run
        now = run.now_ns() / 1e9
        job = run.job
        assert job is not None
        ready = None if job.ready is None else ready_as_json(job.ready, only_once=True)
        self.save(
            phase=SUBMITTED if ready is None else READY,
            submitted_at=now,
            ready=ready,
            next_check_at=None if hint_s is None else now + hint_s,
            due_in_s=hint_s if ready is None else 0.0,
        )

    def adopt(self, job: Job) -> None:
        """Take the caller's word for which job it is, where it was in doubt whether there is one."""
        if self.saved.phase not in (BEGUN, SUBMITTING):
            return
        self.run.job = job
        self.save(phase=SUBMITTED, submitted_at=self.run.now_ns() / 1e9, outcome=None, reconcile=False, due_in_s=0.0)

    def rejected(self) -> None:
        """There is no job, and asking anew is safe."""
        self.save(phase=BEGUN)

    def step_done(self, name: str, value: JSON) -> None:
        """A step of the submit was taken."""
        self.save(once={**self.saved.once, name: value})

    # ---- poll

    def asked(self, pause_s: float, *, changed: bool) -> None:
        """A poll brought no ending; written where it is worth it."""
        next_check_at = self.run.now_ns() / 1e9 + pause_s
        phase = self.saved.phase if self.saved.ended else SUBMITTED
        if self.step:  # its end writes all there is
            self.saved = replace(self.saved, next_check_at=next_check_at, phase=phase)
            return
        stale_s = self.clock.monotonic() - self._written_s
        if changed or pause_s > PERSISTED_PAUSE_S or stale_s > self.lease_s / 3:
            self.save(next_check_at=next_check_at, due_in_s=pause_s, phase=phase)
            self.due_in_s = pause_s

    def woken(self) -> bool:
        """Whether somebody has woken the operation since the last pause was written."""
        if self.due_in_s is None:
            return False
        try:
            stored = self.store.get(self.claim.key)
        except StoreError:  # the next write will say so; a pause is not the place to end at
            return False
        return stored is not None and stored.due_in_s is not None and stored.due_in_s <= 0

    def job_over(self, ready: Ready) -> None:
        """The job ended; written before the poll span ends, so that no other process ends it once more.

        A step whose results are known by their names alone leaves the poll to the next
        one, which has to ask for them again.
        """
        if self.saved.ended:
            return
        left = ready_as_json(ready)
        ends: dict[str, Any] = (
            {} if self.step and self.saved.phase == SUBMITTED and needs_asking(left) else {"poll": None}
        )
        self.save(phase=READY, ready=left, next_check_at=None, due_in_s=0.0, **ends)

    def poll_begun(self) -> dict[str, JSON] | None:
        """The poll hop that another process left unended, to be gone on with; once."""
        found, self._poll_found = self._poll_found, None
        return found

    def may_end(self, hop: str) -> bool:
        """Whether a hop's span may end; a poll's reserved id is struck off first, as no span may be ended twice."""
        if hop != "poll" or self.over:
            return True
        if not self.fenced and self.saved.poll is not None:
            try:
                self.save(poll=None)
            except OperationTaken:
                pass
            except StoreError as error:
                self.run.warn_once("store", f"its record could not be written: {error}")
                return False
        return not self.fenced

    def go_on(self, poller: Poller) -> None:
        """Let it ask from where an earlier visit stopped."""
        found, saved, clock = self._poll_found, self.saved, self.clock
        if not self.resumed or self._went_on:
            return
        self._went_on = True
        next_check_s = clock.monotonic()
        if saved.phase == SUBMITTED and saved.next_check_at is not None and self.found.stopped is None:
            next_check_s += max(0.0, saved.next_check_at - self.run.now_ns() / 1e9)
        poller.go_on_from({} if found is None else found, next_check_s)

    # ---- download

    def downloaded(self, *downloads: Download, into: Path | None = None) -> None:
        """Results have arrived whole: once the job is over, that is the operation's ending."""
        if self.saved.phase != READY:
            return
        folder = None if into is None else str(into.absolute())
        found = [file_as_json(download, folder) for download in downloads]
        places = [(one["path"], one["name"]) for one in found]
        others = [one for one in self.saved.files if (one["path"], one["name"]) not in places]
        self.saved = replace(self.saved, files=[*others, *found])
        self.end(self.run.ending)

    # ---- endings

    def end(self, error: BaseException | None, *, release: bool = False) -> None:
        """Write the ending, once; fenced like every write."""
        if self.saved.ended:
            self.save()
            return
        run = self.run
        outcome: dict[str, JSON] = {"result": run.result(error), "hop": run.last_hop}
        if isinstance(error, TrihopError):
            outcome |= {"hop": error.hop, "error": error_as_json(error)}
        self.save(
            outcome=outcome,
            stopped=None,
            poll=None,
            next_check_at=None,
            reconcile=isinstance(error, (OutcomeAmbiguous, SubmitUncertain, SurfaceError)),
            due_in_s=math.inf,
            release=release,
        )
        self.over = True

    def close(self, exception: BaseException | None) -> bool:
        """The block is left: whether the operation has its ending now."""
        heartbeat.forget(self)
        if self.fenced:
            return False
        try:
            return self._close(exception) and not self.found.ended  # a root that has ended is not ended again
        except OperationTaken:
            return False
        except StoreError as error:
            if exception is None:
                raise
            self.run.warn_once("store", f"what became of it could not be written: {error}")
            return False
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Give the lease back where the last write has not."""
        with self._lock:
            if self.fenced or not self._held:
                return
            self._held = False
            try:
                self.store.release(self.claim)
            except StoreError:
                self.run.warn_once("lease", "its lease could not be given back, and has to run out")

    def _close(self, exception: BaseException | None) -> bool:
        run, saved = self.run, self.saved
        if saved.ended:
            return True
        if run.cancelled and (exception is None or not isinstance(exception, Exception)):
            what = "the job was cancelled by its caller"
            self.end(run.error(JobCancelled, what, "Submit anew if it is still wanted.", error=None), release=True)
            return True
        if exception is None:
            if saved.phase != READY or (run.ready is None and run.ending is None):
                # The results are the next step's, and not lost on a block that never saw them.
                self._leave_open(None)
                return False
            # A failure that the caller got over is still how the job ended.
            self.end(run.ending, release=True)
            return True
        if _is_an_end(exception, saved):
            self.end(exception, release=True)
            return True
        self._leave_open(exception)
        return False

    def _leave_open(self, error: BaseException | None) -> None:
        saved, run = self.saved, self.run
        error = None if isinstance(error, StoreError) else error  # the store's trouble, not the operation's
        stopped = type(error).__name__ if isinstance(error, TrihopError) else None
        now = run.now_ns() / 1e9
        if isinstance(error, TrihopError):
            due_in_s: float = math.inf  # a person, or a new visit, gives it new time
        elif error is not None and self.step:
            due_in_s = RETRY_FINISH_S
        elif saved.phase in (BEGUN, SUBMITTING) and (saved.submit is None or "payload" not in saved.submit):
            due_in_s = math.inf  # only the block can submit
        else:
            due_in_s = max(0.0, (saved.next_check_at or now) - now)
        self.due_in_s = due_in_s
        self.save(due_in_s=due_in_s, release=True, stopped=stopped)


def _is_an_end(error: BaseException, saved: Saved) -> bool:
    """Whether the operation ends with this; what a later visit could mend leaves it open."""
    match error:
        case JobFailed() | OutcomeAmbiguous():
            return True
        case SubmitRejected():
            return error.status_code is not None
        case SubmitUncertain() | SurfaceError():
            return saved.phase == SUBMITTING and saved.submit is not None and not saved.submit["keyed"]
        case _:
            return False
