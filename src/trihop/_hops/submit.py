"""The submit hop: hand the job in, once, and learn where it is."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

from trihop._clock import utc
from trihop._errors import SubmitRejected, SubmitUncertain, SurfaceError
from trihop._hops.hop import Hop
from trihop._hops.judge import Nonsense, judge_submit, said
from trihop._hops.poll import settle
from trihop._hops.run import Run
from trihop._pacing import Pause, RetryPolicy, backoff, read_hint
from trihop._surface import SubmitSurface
from trihop._template import join
from trihop._values import JSON, Call, Job, Reply, one_text
from trihop._verdicts import Accepted, Ending, Rejected, Transient
from trihop._wire.prepare import AsInRequests
from trihop._wire.session import Sent, Timeout

_STILL_RUNNING_UNDER_THIS_KEY = 409  # draft-ietf-httpapi-idempotency-key-header, section 2.7
_TOO_MANY = 429  # RFC 6585 section 4
_DEFAULT_KEY_HEADER = "Idempotency-Key"
_ONCE = RetryPolicy(attempts=1)

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
    digest: str = "",
    doubtful: bool = False,
    waits_out: bool = False,
) -> Generator[Pause, None, Job]:
    """Send the submit and read its answer; yields the pauses before it is sent again, to be slept by whoever asked.

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
    as_in_requests, keyed = _with_key(run, idempotency_key, as_in_requests)
    policy = retry if retry is not None else run.provider.retry if keyed else _ONCE
    files = _files_of(as_in_requests)
    asks_again = policy.attempts > 1
    if waits_out and not asks_again:
        # Whoever is told to come back later has not been refused: one of many, it comes back.
        policy = RetryPolicy(attempts=run.provider.budget.consecutive_errors, on={_TOO_MANY})
    attempts = 1 if files is None else policy.attempts
    # doubtful: whether an attempt without an answer, in an earlier process even, may have brought a job
    if run.visit is not None:
        run.visit.intend(call, as_in_requests, digest, keyed=keyed)
    put_off = False
    for attempt in range(1, attempts + 1):
        if put_off and run.visit is not None:
            run.visit.intend(call, as_in_requests, digest, keyed=keyed)
        if attempt > 1:
            for file, position in files or ():
                file.seek(position)
        sent = hop.send(call, body=as_in_requests, timeout=_DEFAULT_TIMEOUT if timeout is None else timeout)
        hop.raise_cut(sent)
        reply = sent.reply
        hint = read_hint(reply.headers, received_at=utc(run.now_ns())) if reply is not None else None
        outcome = judge_submit(reply, surface) if reply is not None else Transient(sent.error_type or "no_answer")
        still_running = keyed and reply is not None and reply.status_code == _STILL_RUNNING_UNDER_THIS_KEY
        if still_running or (isinstance(outcome, Rejected) and sent.status_code in policy.on):
            outcome = Transient(str(sent.status_code))
        hop.attempt(sent, error_type=_error_type(outcome, sent), verdict=_word(outcome))
        if not isinstance(outcome, Transient):
            assert reply is not None
            if isinstance(outcome, Rejected) and doubtful:
                raise _uncertain(run, sent, outcome.error, keyed=keyed)
            return _accepted(hop, call, reply, outcome, hint.seconds if hint is not None else None)
        refused = reply is not None and 400 <= reply.status_code < 500 and not still_running
        doubtful = doubtful or (sent.left and not refused)
        resendable = asks_again if reply is None else reply.status_code in policy.on or still_running
        if attempt == attempts or not resendable:
            break
        after = outcome.after if outcome.after is not None else hint.seconds if hint is not None else None
        put_off = refused and not doubtful
        if put_off and run.visit is not None:
            run.visit.rejected()  # who stops in the pause leaves no doubt behind
        yield backoff(run.provider.pacing, attempt, after, run.room_s(), run.clock.random)
    error = None if sent.reply is None else said(sent.reply)
    if doubtful:
        raise _uncertain(run, sent, error, keyed=keyed)
    if sent.reply is not None:
        raise _rejected(run, sent.reply, error, "There is no job; submit again later.")
    raise run.error(
        SubmitRejected,
        f"the server was never reached ({sent.error_type})",
        "There is no job; submitting again is safe.",
        cause=sent.cause,
    )


def adopted(hop: Hop, call: Call) -> Job | None:
    """The job of a submit that may have gone out, where the client itself chose where it is: PUT.

    None where it is not there, or cannot be asked for: a PUT may be sent again
    (RFC 9110 section 9.2.2).

    Raises:
        SubmitUncertain: The server does not say.
    """
    run = hop.run
    job = Job(submit_url=call.url, submit_method="PUT")
    try:
        asked = run.provider.status_call(job)
    except LookupError:
        return None
    sent = hop.send(asked)
    hop.raise_cut(sent)
    status = sent.status_code
    hop.attempt(sent, error_type=sent.error_type or (str(status) if status is not None and status >= 400 else None))
    if status in (404, 410):
        return None
    if sent.reply is None or status is None or status >= 300:
        raise _uncertain(run, sent, None, keyed=False)
    run.job, run.submitted_s = job, run.clock.monotonic()
    assert run.visit is not None
    run.visit.admitted(None)
    run.tell("submitted")
    return job


def _with_key(run: Run, given: str | None, as_in_requests: AsInRequests) -> tuple[AsInRequests, bool]:
    """The arguments with the idempotency key among their headers, and whether there is one."""
    header = run.provider.idempotency or (_DEFAULT_KEY_HEADER if given is not None else None)
    if header is None:
        return as_in_requests, False
    headers: dict[str, Any] = dict(as_in_requests.get("headers") or {})
    written = next((name for name in headers if name.lower() == header.lower()), header)
    if given is None:
        given = headers.get(written) or run.idempotency_key or str(uuid.uuid4())
    run.idempotency_key = headers[written] = given
    return {**as_in_requests, "headers": headers}, True


def _files_of(as_in_requests: AsInRequests) -> list[tuple[Any, int]] | None:
    """The files in the body and where they stand; None where a part of it cannot be read twice."""
    files = as_in_requests.get("files") or {}
    pairs = files.items() if isinstance(files, Mapping) else files
    parts = [part[1] if isinstance(part, (tuple, list)) else part for _, part in pairs]
    found: list[tuple[Any, int]] = []
    for part in (as_in_requests.get("data"), *parts):
        if part is None or isinstance(part, (str, bytes, bytearray, Mapping, list, tuple)):
            continue
        try:
            found.append((part, part.tell()))
        except (AttributeError, OSError):
            return None
    return found


def _word(outcome: object) -> str | None:
    return None if isinstance(outcome, Nonsense) else type(outcome).__name__.lower()


def _error_type(outcome: object, sent: Sent) -> str | None:
    match outcome:
        case Transient():
            return outcome.reason
        case Nonsense():
            return "surface"
        case _:
            return str(sent.status_code) if sent.status_code is not None and sent.status_code >= 400 else None


def _accepted(hop: Hop, call: Call, reply: Reply, outcome: object, hint_s: float | None) -> Job:
    run = hop.run
    answered_at, trusted = reply.url or call.url, run.courier.trusted
    # Whoever goes on with the job takes this for the API's own, credentials and all: never where a redirect merely led.
    submit_url = answered_at if answered_at in trusted else call.url
    job = Job(submit_url=one_text(submit_url), submit_method=one_text(call.method.upper()))
    match outcome:
        case Rejected():
            run.idempotency_key = None  # what is mended and sent again is another job
            raise _rejected(run, reply, outcome.error, "There is no job; mend the request and submit again.")
        case Nonsense():
            raise _surface_error(
                run, reply, f"the submit's answer (HTTP {reply.status_code}) made no sense: {outcome.what}"
            )
        case Ending():
            outcome = run.quotable(outcome)
            run.job = replace(job, state=outcome.state)
            ready = settle(run, outcome, reply, allow_partial=True)
            run.job, run.idempotency_key = replace(run.job, ready=ready), None
            if run.visit is not None:
                run.visit.admitted(None)
                run.ready = None  # a block that is left after its submit has not seen them
            run.tell("submitted")
            return run.job
        case Accepted():
            job = replace(
                job,
                id=outcome.id,
                status_url=None if outcome.status_url is None else join(answered_at, outcome.status_url),
                memo=outcome.memo,
            )
    try:
        objection = trusted.objection(run.provider.status_call(job).url)
    except LookupError as missing:
        objection = str(missing.args[0])
    if objection is not None:
        raise _surface_error(
            run, reply, f"the submit's answer (HTTP {reply.status_code}) names no job to ask for: {objection}"
        )
    run.job, run.idempotency_key = job, None
    run.submitted_s = run.clock.monotonic()
    run.submit_hint_s = outcome.after if isinstance(outcome, Accepted) and outcome.after is not None else hint_s
    if run.visit is not None:
        run.visit.admitted(run.submit_hint_s)
    run.tell("submitted")
    return job


def _surface_error(run: Run, reply: Reply, what: str) -> SurfaceError:
    return run.error(
        SurfaceError,
        what,
        "The server may have started a job; look there, then mend the submit surface of the provider.",
        reply=reply,
    )


def _rejected(run: Run, reply: Reply, error: JSON, then: str) -> SubmitRejected:
    run.error_said(error)
    what = f"the server refused the job with HTTP {reply.status_code}{run.quoted(error)}"
    return run.error(SubmitRejected, what, then, error=error)


def _uncertain(run: Run, sent: Sent, error: JSON, *, keyed: bool) -> SubmitUncertain:
    run.error_said(error)
    answer = (
        f"answered HTTP {sent.reply.status_code}{run.quoted(error)}"
        if sent.reply is not None
        else f"never answered ({sent.error_type})"
    )
    then = (
        "Perhaps there is a job; submit again with the same idempotency key and body."
        if keyed
        else "Perhaps there is a job; look for it at the server before submitting again. "
        "An idempotency key (Provider(idempotency=…)) or an explicit retry= would permit sending it again."
    )
    return run.error(SubmitUncertain, f"the submit was sent and the server {answer}", then, cause=sent.cause)
