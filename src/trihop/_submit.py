"""The submit hop: hand the job in, once, and learn where it is."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from trihop._clock import utc
from trihop._errors import SubmitRejected, SubmitUncertain, SurfaceError
from trihop._hops import Nonsense, judge_submit
from trihop._pacing import RetryPolicy, backoff, read_hint
from trihop._poll import settle
from trihop._prepare import AsInRequests
from trihop._run import Hop, Run
from trihop._session import Sent, Timeout
from trihop._surface import SubmitSurface
from trihop._template import join
from trihop._values import Call, Job, Reply
from trihop._verdicts import Accepted, Ending, Rejected, Transient

_STILL_RUNNING_UNDER_THIS_KEY = 409  # draft-ietf-httpapi-idempotency-key-header, section 2.7
_DEFAULT_KEY_HEADER = "Idempotency-Key"

# The server may do all its work before it answers: only the deadline bounds that.
_DEFAULT_TIMEOUT: Timeout = (10.0, None)


def submit(
    hop: Hop,
    call: Call,
    *,
    surface: SubmitSurface | None,
    retry: RetryPolicy | None,
    idempotency_key: str | None,
    timeout: Timeout,
    as_in_requests: AsInRequests,
) -> Job:
    """Send the submit and read its answer.

    Without a key it goes out once: who never got an answer cannot know whether
    there is a job. With one, or where `retry` permits it, it is sent again.

    Raises:
        SubmitRejected: The server refused, or was never reached.
        SubmitUncertain: It was sent and never answered.
        SurfaceError: The answer made no sense.
        DeadlineExceeded: The deadline struck.
        JobFailed: The job ended badly at once.
    """
    run = hop.run
    surface = surface if surface is not None else run.provider.submit
    header = run.provider.idempotency or (_DEFAULT_KEY_HEADER if idempotency_key is not None else None)
    if header is not None:
        if run.idempotency_key is None:
            run.idempotency_key = idempotency_key or str(uuid.uuid4())
        headers: dict[str, Any] = dict(as_in_requests.get("headers") or {})
        headers[header] = idempotency_key or run.idempotency_key
        as_in_requests = {**as_in_requests, "headers": headers}
    policy = retry if retry is not None else run.provider.retry if header is not None else RetryPolicy(attempts=1)
    for attempt in range(1, policy.attempts + 1):
        sent = hop.send(call, body=as_in_requests, timeout=_DEFAULT_TIMEOUT if timeout is None else timeout)
        hop.raise_cut(sent)
        reply = sent.reply
        hint = read_hint(reply.headers, received_at=utc(run.now_ns())) if reply is not None else None
        outcome = judge_submit(reply, surface) if reply is not None else Transient(sent.error_type or "no_answer")
        if header is not None and reply is not None and reply.status_code == _STILL_RUNNING_UNDER_THIS_KEY:
            outcome = Transient("409")
        if isinstance(outcome, Rejected) and reply is not None and reply.status_code == 429 and policy.attempts > 1:
            outcome = Transient("429")
        hop.attempt(sent, error_type=outcome.reason if isinstance(outcome, Transient) else None, verdict=_word(outcome))
        if not isinstance(outcome, Transient):
            assert reply is not None
            return _accepted(hop, call, reply, outcome, hint.seconds if hint is not None else None)
        resendable = (
            reply is None or reply.status_code in policy.on or reply.status_code == _STILL_RUNNING_UNDER_THIS_KEY
        )
        if attempt == policy.attempts or not resendable:
            break
        after = outcome.after if outcome.after is not None else hint.seconds if hint is not None else None
        run.pause(backoff(run.provider.pacing, attempt, after, run.room_s(), run.clock.random))
    raise _unanswered(run, sent, keyed=header is not None)


def _word(outcome: object) -> str | None:
    return None if isinstance(outcome, (Transient, Nonsense)) else type(outcome).__name__.lower()


def _accepted(hop: Hop, call: Call, reply: Reply, outcome: object, hint_s: float | None) -> Job:
    run = hop.run
    job = Job(submit_url=reply.url or call.url, submit_method=call.method.upper())
    match outcome:
        case Rejected():
            run.error_said(outcome.error)
            raise run.error(
                SubmitRejected,
                f"the server refused the job with HTTP {reply.status_code}{run.quoted(outcome.error)}",
                "There is no job; mend the request and submit again.",
                error=outcome.error,
            )
        case Nonsense():
            raise _surface_error(
                run, reply, f"the submit's answer (HTTP {reply.status_code}) made no sense: {outcome.what}"
            )
        case Ending():
            run.job = replace(job, state=outcome.state)
            ready = settle(run, outcome, reply, allow_partial=True)
            run.job = replace(run.job, ready=ready)
            run.tell("submitted")
            return run.job
        case Accepted():
            job = replace(
                job,
                id=outcome.id,
                status_url=None if outcome.status_url is None else join(job.submit_url or "", outcome.status_url),
                memo=outcome.memo,
            )
    try:
        run.provider.status_call(job)
    except LookupError as missing:
        raise _surface_error(
            run, reply, f"the submit's answer (HTTP {reply.status_code}) names no job to ask for: {missing.args[0]}"
        ) from None
    run.job = job
    run.submitted_s = run.clock.monotonic()
    run.submit_hint_s = outcome.after if isinstance(outcome, Accepted) and outcome.after is not None else hint_s
    run.tell("submitted")
    return job


def _surface_error(run: Run, reply: Reply, what: str) -> SurfaceError:
    return run.error(
        SurfaceError,
        what,
        "The server may have started a job; look there, then mend the submit surface of the provider.",
        reply=reply,
    )


def _unanswered(run: Run, sent: Sent, *, keyed: bool) -> SubmitRejected | SubmitUncertain:
    if sent.reply is None and not sent.left:
        return run.error(
            SubmitRejected,
            f"the server was never reached ({sent.error_type})",
            "There is no job; submitting again is safe.",
            cause=sent.cause,
        )
    answer = (
        f"answered HTTP {sent.reply.status_code}" if sent.reply is not None else f"never answered ({sent.error_type})"
    )
    then = (
        "Perhaps there is a job; submit again with the same idempotency key and body."
        if keyed
        else "Perhaps there is a job; look for it at the server before submitting again. "
        "An idempotency key (Provider(idempotency=…)) or an explicit retry= would permit sending it again."
    )
    return run.error(SubmitUncertain, f"the submit was sent and the server {answer}", then, cause=sent.cause)
