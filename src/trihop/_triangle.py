"""An operation: the three hops, offered within its block."""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from trihop._arguments import expect, expect_callable
from trihop._block import Block
from trihop._clock import utc
from trihop._durable.visit import Visit
from trihop._errors import (
    JobPartiallyFailed,
    ResultUnavailable,
    SubmitRejected,
    SubmitUncertain,
)
from trihop._hops.arguments import check_download, check_poll, check_submit
from trihop._hops.by_hand import HopByHand, Steps
from trihop._hops.gather import gather
from trihop._hops.hop import Hop
from trihop._hops.poll import Poller, poll
from trihop._hops.submit import adopted, submit
from trihop._pacing import Budget, Pacing, Pause, RetryPolicy
from trihop._progress.lines import command_line
from trihop._redact import is_signed
from trihop._results.download import Download
from trihop._results.fetch import Fetch, Terms
from trihop._results.folder import fetch_into, nothing
from trihop._results.target import Target, check_target
from trihop._saved import READY, SUBMITTED, SUBMITTING
from trihop._surface import DownloadSurface, PollSurface, SubmitSurface
from trihop._values import Call, Credentials, Job, Ready, Result, as_call, named
from trihop._wire.prepare import AsInRequests
from trihop._wire.session import Timeout

if TYPE_CHECKING:
    from typing_extensions import Unpack


T = TypeVar("T")
P = ParamSpec("P")


class Operation(Block):
    """An operation; made by `operation()`, used as a `with` block, once."""

    # ---- the hops

    def submit(
        self,
        method: str,
        url: str,
        *,
        surface: SubmitSurface | None = None,
        retry: RetryPolicy | None = None,
        idempotency_key: str | None = None,
        timeout: Timeout = None,
        **as_in_requests: Unpack[AsInRequests],
    ) -> Job:
        """Hand the job in.

        Args:
            method, url: As in `requests.request`; so are the arguments not named here.
            surface: Reads the answer, instead of the provider's.
            retry: Permits sending it again although the server may have got it.
            idempotency_key: Sent under the provider's `idempotency` header, else
                `Idempotency-Key`; makes sending again safe.
            timeout: Of one request, as in `requests`; the deadline bounds it as well.

        Raises:
            SubmitRejected: The server refused, or was never reached; there is no job.
            SubmitUncertain: Sent and never answered; perhaps there is a job.
            SurfaceError: The answer made no sense.
            DeadlineExceeded: The deadline struck.
            JobFailed: The job ended badly at once.
            OperationTaken: With a store: another holder took the operation over.
            StoreError: With a store: it cannot be written to. Nothing was sent, or `error.job` says what was.
            ValueError, TypeError: The request cannot be built, or with a store, is not what the key stands for.
        """
        submission = self._submission(
            method,
            url,
            surface=surface,
            retry=retry,
            idempotency_key=idempotency_key,
            timeout=timeout,
            as_in_requests=as_in_requests,
        )
        return self._at_once(submission)

    def _submission(
        self,
        method: str,
        url: str,
        *,
        surface: SubmitSurface | None = None,
        retry: RetryPolicy | None = None,
        idempotency_key: str | None = None,
        timeout: Timeout = None,
        as_in_requests: AsInRequests,
        credentials: Credentials = "origin",
        waits_out: bool = False,
    ) -> Generator[Pause, None, Job]:
        """What `submit` does, as a generator of the pauses between its attempts.

        Args:
            credentials: As of a `Call`.
            waits_out: Whether a 429 is one of many jobs' own making, and waited out.
            The rest: As of `submit`.
        """
        run = self._open_run
        check_submit(
            f"operation {self.name!r}: submit",
            method=method,
            url=url,
            surface=surface,
            retry=retry,
            idempotency_key=idempotency_key,
            timeout=timeout,
            as_in_requests=as_in_requests,
        )
        written = Call(method, self._absolute(url))
        url, as_in_requests = run.courier.preparing.apart(url, as_in_requests)
        call = Call(method, url, credentials=credentials)
        run.courier.trusted.adopt(url)
        run.courier.preparing.adopt(as_in_requests)
        return self._submitting(written, call, surface, retry, idempotency_key, timeout, as_in_requests, waits_out)

    def _at_once(self, steps: Generator[Pause, None, T]) -> T:
        """Take the steps, and sleep the pauses between them."""
        while True:
            try:
                pause = next(steps)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            try:
                self._run.pause(pause)
            except BaseException as error:
                steps.throw(error)

    def _submitting(
        self,
        written: Call,
        call: Call,
        surface: SubmitSurface | None,
        retry: RetryPolicy | None,
        idempotency_key: str | None,
        timeout: Timeout,
        as_in_requests: AsInRequests,
        waits_out: bool,
    ) -> Generator[Pause, None, Job]:
        run = self._run
        visit, digest, doubtful = run.visit, "", False
        if visit is not None:
            digest = visit.refuse_another(call, as_in_requests)
            if (error := visit.left.error("submit")) is not None:
                run.ending = error
                raise error
            if run.job is not None and visit.saved.phase in (SUBMITTED, READY):
                self._know(run.job)
                return run.job
            doubtful = visit.saved.phase == SUBMITTING
            run.idempotency_key = visit.saved.idempotency_key if doubtful else None
        run.close_hop()  # while it is known which job that was
        run.job, run.submitted_s, run.submit_hint_s = None, None, None
        with run.in_hop("submit", written, leave_open=True) as hop:
            if visit is not None and doubtful:
                found = self._in_doubt(hop, call, visit, retry)
                if found is not None:
                    self._know(found)
                    return found
            try:
                job = yield from submit(
                    hop,
                    call,
                    surface=surface,
                    retry=retry,
                    idempotency_key=idempotency_key,
                    timeout=timeout,
                    as_in_requests=as_in_requests,
                    digest=digest,
                    doubtful=doubtful,
                    waits_out=waits_out,
                )
            except SubmitRejected:
                if visit is not None:
                    visit.rejected()
                raise
        self._know(job)
        return job

    def _know(self, job: Job) -> None:
        if self._watch is not None:
            self._watch.know(job)

    def _in_doubt(self, hop: Hop, call: Call, visit: Visit, retry: RetryPolicy | None) -> Job | None:
        """An earlier visit stopped in mid-submit: the job, if it can be found; None to send it again.

        Raises:
            SubmitUncertain: Perhaps there is a job, and sending it again might make a second one.
        """
        submit = visit.saved.submit
        assert submit is not None
        assert self.key is not None
        if submit["keyed"] or retry is not None:
            return None
        if call.method.upper() == "PUT":
            return adopted(hop, call)
        at = f"{utc(int(submit['at'] * 1e9)):%Y-%m-%dT%H:%M:%SZ}"
        raise self._run.error(
            SubmitUncertain,
            f"an earlier process stopped while it submitted ({submit['method']} {submit['url']} at {at})",
            "Perhaps there is a job: look for one that was made at that time. If there is one, go on with "
            f"op.poll(Job(id=…)); if not, {command_line('forget', self.key)} lets the block submit anew. "
            "An idempotency key (Provider(idempotency=…)) or an explicit retry= would permit sending it again.",
        )

    def poll(
        self,
        job_or_url: Job | str | None = None,
        *,
        surface: PollSurface | None = None,
        pacing: Pacing | None = None,
        budget: Budget | None = None,
        allow_partial: bool = False,
        timeout: Timeout = None,
    ) -> Ready:
        """Wait until the job is over.

        Args:
            job_or_url: The job, or the URL of its status monitor; else what was submitted.
            surface, pacing, budget: Instead of the provider's.
            allow_partial: Return a job with failed items instead of raising.
            timeout: Of one poll, as in `requests`.

        Raises:
            JobFailed: Or its kind: cancelled, expired, partially failed.
            PollBudgetExhausted, PollErrorsExhausted, StatusUnavailable, OutcomeAmbiguous: As named.
            DeadlineExceeded: The deadline struck, or a pause would overrun it.
            ValueError: There is no job to ask for.
        """
        run = self._open_run
        check_poll(
            f"operation {self.name!r}: poll",
            job_or_url=job_or_url,
            surface=surface,
            pacing=pacing,
            budget=budget,
            allow_partial=allow_partial,
            timeout=timeout,
        )
        begun = self._to_poll(job_or_url, surface, pacing, budget, allow_partial, timeout)
        if isinstance(begun, Ready):
            return begun
        poller, call = begun
        with run.in_hop("poll", call) as hop:
            ready = poll(hop, poller, allow_partial=allow_partial)
        self._know_results(ready)
        return ready

    def _to_poll(
        self,
        job_or_url: Job | str | None,
        surface: PollSurface | None = None,
        pacing: Pacing | None = None,
        budget: Budget | None = None,
        allow_partial: bool = False,
        timeout: Timeout = None,
    ) -> Ready | tuple[Poller, Call]:
        """Who asks for a job, and what first; or what is known to have become of it.

        Raises:
            As `poll`.
        """
        run = self._run
        if isinstance(job_or_url, str):
            url, given = run.courier.preparing.apart(self._absolute(job_or_url), {})
            if given:
                run.courier.preparing.adopt(given)
            run.courier.trusted.allow(url)
            job_or_url = Job(status_url=url, submit_url=url, submit_method="GET")
        if job_or_url is not None and job_or_url is not run.job:
            run.job, run.submitted_s, run.submit_hint_s = job_or_url, None, None
        if run.visit is not None and run.job is not None:
            run.visit.adopt(run.job)
        elif run.visit is not None and run.visit.resumed:
            self._submit_from_record(run.visit)
        job = run.job
        if job is None:
            raise ValueError(
                f"operation {self.name!r}: there is no job to poll; submit one, or pass a Job or a status URL"
            )
        self._adopt_from(job)
        if run.visit is not None and run.visit.resumed:
            error = run.visit.left.error("poll")
            if error is not None and not (allow_partial and isinstance(error, JobPartiallyFailed)):
                run.ending = error
                run.ready = getattr(error, "ready", None)
                raise error
            found = run.visit.left.ready(job)
            if found is not None and (found.complete or allow_partial):
                run.ready = found
                return found
        if job.ready is not None:
            return self._finished_at_once(job.ready, allow_partial)
        poller = Poller(run, surface=surface, pacing=pacing, budget=budget, timeout=timeout)
        call = poller.call(job)
        objection = run.courier.trusted.objection(call.url)
        if objection is not None:
            raise ValueError(f"operation {self.name!r}: cannot ask for the job's state: {objection}")
        if run.visit is not None:
            run.visit.go_on(poller)
        return poller, call

    def _submit_from_record(self, visit: Visit) -> None:
        """Submit what an earlier visit stored; only that, or the block, can.

        Raises:
            SubmitUncertain: It was sent, perhaps, and its payload is not known here.
            ValueError: Nothing was sent.
        """
        saved = visit.saved
        submit = saved.submit
        if submit is not None and "payload" in submit:
            self.submit(submit["method"], submit["full_url"], **submit["payload"])
        elif saved.phase == SUBMITTING and submit is not None:
            raise self._run.error(
                SubmitUncertain,
                f"an earlier process stopped while it submitted ({submit['method']} {submit['url']})",
                "Perhaps there is a job. Run the block again, which has the payload; "
                "or look for a job at the server, and go on with op.poll(Job(id=…)).",
            )
        elif (error := visit.left.error("submit")) is not None:
            raise error
        else:
            raise ValueError(
                f"operation {self.name!r}: nothing was submitted under the key {self.key!r} yet; run the block again, "
                "which has the payload"
            )

    def _finished_at_once(self, ready: Ready, allow_partial: bool) -> Ready:
        run = self._open_run
        if ready.complete or allow_partial:
            run.ready = ready
            return ready
        error = run.error(
            JobPartiallyFailed,
            f"the job ended with failed items, state {ready.state!r}",
            "Pass allow_partial=True to take what there is.",
            error=run.job_error,
            ready=ready,
        )
        run.ending = error
        if run.hop is not None:
            run.hop.fail(error)
            run.close_hop()
        raise error

    @overload
    def download(
        self,
        what: Ready | Result | Call | str,
        *,
        to: Target = None,
        surface: DownloadSurface | None = None,
        retry: RetryPolicy | None = None,
        sha256: str | None = None,
        max_size: int | None = None,
        parallel: int = 1,
        decode: bool = True,
        timeout: Timeout = None,
    ) -> Download: ...

    @overload
    def download(
        self,
        what: Ready,
        *,
        into: str | Path,
        surface: DownloadSurface | None = None,
        retry: RetryPolicy | None = None,
        timeout: Timeout = None,
    ) -> dict[str, Download]: ...

    def download(
        self,
        what: Ready | Result | Call | str,
        *,
        to: Target = None,
        into: str | Path | None = None,
        surface: DownloadSurface | None = None,
        retry: RetryPolicy | None = None,
        sha256: str | None = None,
        max_size: int | None = None,
        parallel: int = 1,
        decode: bool = True,
        timeout: Timeout = None,
    ) -> Download | dict[str, Download]:
        """Fetch a result, or with `into=` all of them.

        Args:
            what: What the poll returned, one of its results, or a URL.
            to: A path, a file object opened for bytes, or None for memory. A path
                shows the whole result or nothing.
            into: A folder, made if need be; each result goes in under its name.
            surface, retry: Instead of the provider's.
            sha256: The digest in hex that the result must have.
            max_size: Bytes it may have at the most.
            parallel: Ranges of it that may be fetched at a time, into a path, from a
                server that offers ranges.
            decode: Whether to undo the content encoding.
            timeout: Of one request, as in `requests`.

        Raises:
            ResultUnavailable: The link ran out, is used up, or the result is gone.
            ResultCorrupt: Length or digest do not add up; nothing is left at the target.
            SurfaceError: The reply made no sense.
            DeadlineExceeded: The deadline struck.
            OSError: The place cannot be written to.
        """
        run = self._open_run
        check_target(to, self.name)
        check_download(
            f"operation {self.name!r}: download",
            into=into,
            surface=surface,
            retry=retry,
            sha256=sha256,
            max_size=max_size,
            parallel=parallel,
            decode=decode,
            timeout=timeout,
        )
        terms = Terms(
            surface=surface if surface is not None else self.provider.download,
            retry=retry if retry is not None else self.provider.retry,
            sha256=sha256,
            max_size=max_size,
            parallel=parallel,
            decode=decode,
            timeout=timeout,
        )
        if to is not None and into is not None:
            raise ValueError(f"operation {self.name!r}: download() takes to= or into=, not both")
        visit = run.visit
        if visit is not None and visit.resumed and isinstance(what, Ready):
            there = self._fetched_before(visit, what, to, into)
            if there is not None:
                return there
            if visit.left.is_stale(what):
                what = self._asked_anew(what)
        results = self._results(what)
        if isinstance(what, Ready) and run.jobs:
            run.job = what.job
        if isinstance(what, Ready):
            self._adopt_from(what.job)
        poller = None if run.job is None or not isinstance(what, Ready) else Poller(run)
        first = next((as_call(result.at) for _, result in results if result.at is not None), None)
        if into is not None:
            with run.in_hop("download", first) as hop:
                downloads = fetch_into(hop, poller, results, Path(into), terms)
                if visit is not None:
                    visit.downloaded(*downloads.values(), into=Path(into))
                return downloads
        if len(results) > 1:
            names = ", ".join(name for name, _ in results)
            raise ValueError(
                f"operation {self.name!r}: {len(results)} results ({names}); pass into= for all, or ready[name] for one"
            )
        if not results and to is None:
            return nothing()
        with run.in_hop("download", first) as hop:
            if not results:
                raise run.error(
                    ResultUnavailable,
                    "the job left no result to download",
                    "Look at ready.state and ready.counts for what it did.",
                )
            name, result = results[0]
            download = Fetch(hop, poller, name, result, terms).to(to)
            if visit is not None:
                visit.downloaded(download)
            return download

    def _fetched_before(
        self, visit: Visit, ready: Ready, to: Target, into: str | Path | None
    ) -> Download | dict[str, Download] | None:
        """What an earlier visit fetched to the same place, if it is there and unchanged."""
        if into is not None:
            return visit.left.intact_folder(Path(into), [name for name, _ in named(ready.results)])
        return visit.left.intact(Path(to)) if isinstance(to, (str, Path)) else None

    def _asked_anew(self, ready: Ready) -> Ready:
        """The same results with links that are good: records keep none that are signed."""
        names = {result.name for result in ready.results}
        fresh = self.poll(ready.job, allow_partial=True)
        return replace(fresh, results=tuple(result for result in fresh.results if result.name in names))

    def run(
        self,
        method: str,
        url: str,
        *,
        to: Target = None,
        allow_partial: bool = False,
        **as_in_requests: Unpack[AsInRequests],
    ) -> Download:
        """Submit, poll and download in one line.

        Raises:
            As the three hops.
        """
        check_target(to, self.name)
        expect(allow_partial, bool, f"operation {self.name!r}: run(allow_partial=)", "True or False")
        job = self.submit(method, url, **as_in_requests)
        return self.download(self.poll(job, allow_partial=allow_partial), to=to)

    def gather(self, jobs: Iterable[Job]) -> Iterator[Ready]:
        """Wait for several jobs at once, and hand over what each left as it ends.

            jobs = [op.submit("POST", url, json=part) for part in parts]
            for ready in op.gather(jobs):
                op.download(ready, to=f"{ready.job.id}.csv")

        All of them share the operation's deadline; each has its own budget and its
        own poll span. For jobs that shall live and fail by themselves there is `Fleet`.

        Args:
            jobs: What `submit` returned.

        Raises:
            TypeError: One of them is no Job.
            ValueError: The operation has a record, which has room for one job.
            DeadlineExceeded: While it is iterated: the deadline struck.
            OperationError: Once all others have ended: of the first that did not end well.
            RuntimeError: The block was left while it was iterated.
        """
        run = self._open_run
        taken = [
            expect(job, Job, f"operation {self.name!r}: gather()", "Jobs, as op.submit(…) returns them") for job in jobs
        ]
        if run.visit is not None:
            raise ValueError(f"operation {self.name!r}: a record has room for one job; use Fleet(store=) for many")
        return self._within_the_block(gather(run, taken, self._to_poll, self._know_results))

    def _within_the_block(self, found: Iterator[Ready]) -> Iterator[Ready]:
        """The same, as long as the operation is open: after its end nothing is asked for it any more."""
        while self._open_run is not None and (ready := next(found, None)) is not None:
            yield ready

    def _know_results(self, ready: Ready) -> None:
        if self._watch is not None:
            self._watch.know_results(ready)

    def once(self, name: str, do: Callable[[], T]) -> T:
        """Do a step of a submit that takes several, and not twice under this name.

        Args:
            name: The step's name within the operation.
            do: What to do; its value must be JSON-able.

        Returns:
            What `do` returned, now or the first time.

        Raises:
            TypeError: The value is not JSON-able.
            DeadlineExceeded: The deadline had passed; it was not begun.
        """
        run = self._open_run
        expect(name, str, f"operation {self.name!r}: once(name)", "the step's name")
        expect_callable(do, f"operation {self.name!r}: once(do)", "a function without arguments")
        if name in self._once:
            return self._once[name]  # type: ignore[no-any-return]
        run.check_deadline()
        with self._steps():
            value = do()
        try:
            _json.dumps(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"operation {self.name!r}: once({name!r}) returned {type(value).__name__}, which is not JSON-able; "
                "return what a later run needs, such as an id or a status code"
            ) from None
        self._once = {**self._once, name: value}
        if run.visit is not None:
            run.visit.step_done(name, value)
        return value

    @contextmanager
    def _steps(self) -> Iterator[None]:
        """What the caller's own code sends meanwhile is a step of the submit, as long as that is open."""
        hop = self._run.hop
        if hop is None or hop.taker is not None:
            yield
            return
        hop.taker = Steps()
        try:
            yield
        except Exception as error:
            self._step_failed = error
            raise
        finally:
            hop.taker = None

    def hop(self, name: Literal["submit", "poll", "download"], *, surface: Any = None) -> HopByHand:
        """Name a hop by hand, around requests of your own; a block.

        Args:
            name: "submit", "poll" or "download".
            surface: For `hop.wait(response)`; else the provider's.

        Raises:
            RuntimeError: The operation has ended; also where the block is entered after it has.
        """
        if name not in ("submit", "poll", "download"):
            raise ValueError(f"operation {self.name!r}: a hop is 'submit', 'poll' or 'download', got {name!r}")
        if surface is not None:
            expect_callable(surface, f"operation {self.name!r}: hop(surface=)", "a function, such as ReadState(…)")
        return HopByHand(lambda: self._open_run, name, surface)

    def _results(self, what: Ready | Result | Call | str) -> list[tuple[str, Result]]:
        match what:
            case Ready():
                return list(named(what.results))
            case Result():
                return [(what.name, what)]
            case str() | Call():
                url = self._absolute(as_call(what).url)
                trusted = self._run.courier.trusted
                trusted.allow(url)
                if not trusted and not is_signed(url):
                    trusted.adopt(url)  # as in requests: for whom else could the credentials be meant?
                return [("result", Result(what))]
            case _:
                raise TypeError(
                    f"operation {self.name!r}: download() takes a Ready, a Result or a URL, got {type(what).__name__}"
                )
