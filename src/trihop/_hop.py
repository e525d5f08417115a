"""A hop named by hand, around requests that the caller's own loop sends."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import requests

from trihop._arguments import expect
from trihop._poll import Poller, settle
from trihop._run import Hop, Run
from trihop._session import Sent
from trihop._values import Job, Ready, Reply
from trihop._verdicts import Ending


class HopByHand:
    """`with op.hop("poll", surface=…) as hop:` and in it `hop.wait(response)`."""

    def __init__(self, run: Run, name: str, surface: Any) -> None:
        self._run = run
        self.name = name
        self._poller = Poller(run, surface=surface) if name == "poll" else None
        self._hop: Hop | None = None

    def __enter__(self) -> HopByHand:
        self._run.check_deadline()
        self._block = self._run.in_hop(self.name, None)
        self._hop = self._block.__enter__()
        self._hop.takes_requests = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, exception, trace)

    def wait(self, response: requests.Response) -> Ready | None:
        """Judge the answer to a poll of your own, and wait until the next one is due.

        Returns:
            What the job left once it is over; None to ask again.

        Raises:
            As `Operation.poll`.
            RuntimeError: The hop is not a poll, or not open.
            TypeError: It is no response.
        """
        run, hop, poller = self._run, self._hop, self._poller
        if poller is None or hop is None:
            raise RuntimeError("hop.wait() is for an open poll hop: with op.hop('poll') as hop: … hop.wait(response)")
        expect(response, requests.Response, f"operation {run.name!r}: hop.wait()", "a requests.Response")
        preparing = run.courier.preparing
        url = preparing.as_written(response.url or "")
        preparing.secrets.last = response.request
        if run.job is None or (run.job.id is None and run.job.status_url != url):
            run.job = Job(
                status_url=url,
                submit_url=preparing.as_written(run.last_request_url or url),
                state=None if run.job is None else run.job.state,
            )
        reply = Reply(response.status_code, headers=response.headers, url=url, content=response.content)
        elapsed_s = response.elapsed.total_seconds()
        sent = Sent(
            reply=reply,
            response=response,
            left=True,
            started_s=run.clock.monotonic() - elapsed_s,
            duration_s=elapsed_s,
            url=url,
        )
        run.status_code = reply.status_code
        hop.last_sent = sent
        hop.asked((response.request.method if response.request is not None else None) or "GET", url)
        step = poller.take(hop, sent, poller.judge(reply))
        if isinstance(step, Ending):
            return settle(run, step, reply, allow_partial=False)
        poller.wait(step)
        return None
