"""A hop named by hand, around requests that the caller's own loop sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple
from weakref import ref

import requests

from trihop._arguments import expect
from trihop._hops.hop import Hop
from trihop._hops.poll import Poller, settle
from trihop._hops.run import Run
from trihop._telemetry import semconv
from trihop._values import Job, Ready, Reply
from trihop._verdicts import Ending
from trihop._wire.session import Sent

_MOST_UNJUDGED = 8


class _Unjudged(NamedTuple):
    """A poll of the caller's that may be handed to `wait` yet."""

    sent: Sent
    error_type: str | None
    state: str | None
    response: ref[requests.Response] | None


class Steps:
    """Makes an attempt of a hop of each request that the caller's own code sends while it is open."""

    def take(self, hop: Hop, sent: Sent, error_type: str | None, *_: object) -> None:
        """Fold it in."""
        hop.came(sent)
        hop.attempt(sent, error_type=error_type, measured=False)

    def settle(self, hop: Hop) -> None:
        """There is nothing left to fold in."""


class HopByHand:
    """`with op.hop("poll", surface=…) as hop:` and in it `hop.wait(response)`."""

    def __init__(self, open_run: Callable[[], Run], name: str, surface: Any) -> None:
        self._open_run = open_run
        self._run = open_run()
        self.name = name
        self._poller = Poller(self._run, surface=surface) if name == "poll" else None
        self._hop: Hop | None = None
        self._before: Sent | None = None
        self._unjudged: list[_Unjudged] = []

    def __enter__(self) -> HopByHand:
        self._open_run().check_deadline()
        self._block = self._run.in_hop(self.name, None, taker=self)
        self._hop = self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hop = None
        self._block.__exit__(kind, exception, trace)

    def wait(self, response: requests.Response) -> Ready | None:
        """Judge the answer to a poll of your own, and wait until the next one is due.

        Returns:
            What the job left once it is over; None to ask again.

        Raises:
            As `Operation.poll`.
            RuntimeError: The hop is not a poll, or not open, or its operation has ended.
            TypeError: It is no response.
        """
        run, hop, poller = self._open_run(), self._hop, self._poller
        if poller is None or hop is None:
            raise RuntimeError("hop.wait() is for an open poll hop: with op.hop('poll') as hop: … hop.wait(response)")
        expect(response, requests.Response, "hop.wait(response)", "the requests.Response of a poll of yours")
        preparing = run.courier.preparing
        url = preparing.as_written(response.url or "")
        preparing.secrets.last = response.request
        self._know_job(url)
        reply = Reply(response.status_code, headers=response.headers, url=url, content=response.content)
        seen = self._sent_of(response)
        self.settle(hop)
        self._tell_pause(hop, seen)
        run.status_code = reply.status_code
        hop.asked((response.request.method if response.request is not None else None) or "GET", url)
        sent = replace(seen, reply=reply, method="", earlier=[])  # its duration was measured when it came
        hop.came(sent)
        step = poller.take(hop, sent, poller.judge(reply))
        if isinstance(step, Ending):
            return settle(run, step, reply, allow_partial=False)
        poller.wait(step)
        return None

    # ---- what the caller's own code sends meanwhile

    def take(
        self,
        hop: Hop,
        sent: Sent,
        error_type: str | None,
        state: str | None,
        response: ref[requests.Response] | None,
    ) -> None:
        """An attempt of the hop; a poll's may be judged yet."""
        hop.came(sent)
        if self._poller is not None:
            self._unjudged.append(_Unjudged(sent, error_type, state, response))
            if len(self._unjudged) > _MOST_UNJUDGED:
                self._fold(hop, self._unjudged.pop(0))
            return
        if self._before is None:
            hop.asked(sent.method, sent.url)
        self._before = sent
        self._run.last_request = (sent.method, sent.url)
        hop.attempt(sent, error_type=error_type, measured=False)

    def settle(self, hop: Hop) -> None:
        """Fold in the polls that were never handed to `wait`: lost ones, and those of a loop that judges by itself."""
        while self._unjudged:
            self._fold(hop, self._unjudged.pop(0))

    def _fold(self, hop: Hop, unjudged: _Unjudged) -> None:
        run, (sent, error_type, state, _) = self._run, unjudged
        self._tell_pause(hop, sent)
        status = sent.status_code
        if status is None or not 300 <= status < 400:
            url = run.courier.preparing.as_written(sent.url)
            self._know_job(url)
            hop.asked(sent.method, url)
            run.polls += 1
            run.measure(semconv.POLL_ATTEMPTS, 1, {semconv.ERROR_TYPE: error_type})
        if state is not None and run.job is not None and run.job.state != state:
            run.job = replace(run.job, state=run.shown(state, limit=256))
        hop.attempt(sent, error_type=error_type, state=state, measured=False)

    def _sent_of(self, response: requests.Response) -> Sent:
        """The exchange that brought a response, as the middleware saw it."""
        for unjudged in self._unjudged:
            if unjudged.response is not None and unjudged.response() is response:
                self._unjudged.remove(unjudged)
                return unjudged.sent
        took_s = response.elapsed.total_seconds()  # of a session that is not covered
        return Sent(
            response=response,
            left=True,
            started_s=self._run.clock.monotonic() - took_s,
            duration_s=took_s,
            url=response.url or "",
        )

    def _tell_pause(self, hop: Hop, sent: Sent) -> None:
        """What the caller slept by other means than ours."""
        before, latest = self._before, hop.fold.latest
        if before is not None and latest is not None and latest.wait_s is None:
            hop.fold.wait(max(0.0, sent.started_s - before.started_s - before.duration_s), "caller")
        self._before = sent

    def _know_job(self, url: str) -> None:
        run = self._run
        job = run.job
        if job is not None and (job.status_url == url or run.submitted_s is not None):
            return
        method, submit_url = run.last_request if run.last_request is not None else ("GET", url)
        run.job = Job(
            status_url=url,
            submit_url=run.courier.preparing.as_written(submit_url),
            submit_method=method,
            state=None if job is None else job.state,
        )
