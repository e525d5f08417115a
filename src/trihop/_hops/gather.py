"""Several jobs of one operation, waited for at once: each its own poll span, all in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from trihop._errors import DeadlineExceeded, TrihopError
from trihop._hops.hop import Hop
from trihop._hops.poll import Poller, settled
from trihop._hops.run import Run
from trihop._pacing import Pause
from trihop._values import Call, Job, Ready
from trihop._verdicts import Ending


@dataclass(slots=True)
class _Asked:
    """One of the jobs, and where it stands."""

    job: Job
    poller: Poller
    hop: Hop
    pause: Pause
    since_s: float


def gather(
    run: Run,
    jobs: Sequence[Job],
    begin: Callable[[Job], Ready | tuple[Poller, Call]],
    ended: Callable[[Ready], None],
) -> Iterator[Ready]:
    """What each job left, as they end.

    Args:
        run: The operation's.
        jobs: All that are waited for.
        begin: Who asks for one, and what first; or what is known to have become of it.
        ended: Told of each before it is handed over.

    Raises:
        DeadlineExceeded: The deadline struck.
        OperationError: Once all others have ended: of the first that did not end well.
    """
    run.close_hop()  # of the last submit, while it is known which job that was
    run.jobs += len(jobs)
    hint_s, failures = run.submit_hint_s, list[TrihopError]()
    due: list[tuple[float, int, _Asked]] = []
    at_once: list[Ready] = []
    for number, job in enumerate(jobs):
        try:
            found = begin(job)
        except TrihopError as error:
            failures.append(error)
            continue
        if isinstance(found, Ready):
            at_once.append(found)
            continue
        asked = _first(run, *found, hint_s, among=len(jobs))
        heappush(due, (asked.since_s + asked.pause.seconds, number, asked))
    for ready in at_once:
        yield _handed_over(run, ready)
    while due:
        due_s, number, asked = heappop(due)
        run.clock.sleep(max(0.0, due_s - run.clock.monotonic()))
        try:
            step = _ask(run, asked)
        except DeadlineExceeded:
            raise
        except TrihopError as error:
            failures.append(error)
            continue
        if isinstance(step, Ready):
            ended(step)
            yield _handed_over(run, step)
        else:
            heappush(due, (step, number, asked))
    if failures:
        run.ending = failures[0]
        raise failures[0]


def _first(run: Run, poller: Poller, call: Call, hint_s: float | None, *, among: int) -> _Asked:
    """Open the hop of a job, and plan its first poll."""
    job = run.job
    assert job is not None
    run.submitted_s = run.clock.monotonic()
    run.submit_hint_s = hint_s
    hop = Hop(run, "poll", call, run.last_span, job=job)
    run.last_hop, run.last_span = "poll", None
    run.beside += (hop,)
    pause = poller.first(among=among)
    asked = _Asked(job, poller, hop, pause, run.clock.monotonic())
    _take_up(run, asked)
    with run.inside(hop):
        run.plan(pause)
    run.hop = None
    return asked


def _take_up(run: Run, asked: _Asked) -> None:
    run.job, run.poller, run.hop, run.last_hop = asked.job, asked.poller, asked.hop, "poll"


def _ask(run: Run, asked: _Asked) -> Ready | float:
    """Ask for one job: what it left, or when to ask next."""
    _take_up(run, asked)
    hop, poller = asked.hop, asked.poller
    poller.waited(asked.pause, run.paused(asked.pause, asked.since_s))
    with run.inside(hop):
        step = poller.ask(hop)
        assert run.job is not None
        asked.job = hop.job = run.job
        if isinstance(step, Pause):
            run.plan(step)
            asked.pause, asked.since_s = step, run.clock.monotonic()
            run.hop = None
            return asked.since_s + step.seconds
        assert isinstance(step, Ending)
        ready = settled(hop, step, allow_partial=False)
    run.close_hop()
    return ready


def _handed_over(run: Run, ready: Ready) -> Ready:
    """The operation as the caller's next download wants it."""
    run.hop, run.job, run.ready = None, ready.job, ready
    return ready
