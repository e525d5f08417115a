"""What the hops of an operation take, checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping

import urllib3

from trihop._arguments import WrongType, WrongValue, expect, expect_callable, expect_sha256, expect_size, told
from trihop._pacing import Budget, Pacing, RetryPolicy
from trihop._values import Job
from trihop._wire.prepare import AsInRequests

_AS_IN_REQUESTS = frozenset(AsInRequests.__annotations__)
_POLICIES = {
    RetryPolicy: "a RetryPolicy, such as RetryPolicy(attempts=3)",
    Pacing: "a Pacing, such as Pacing(first=2, cap=60)",
    Budget: "a Budget, such as Budget(polls=100)",
}


def check_submit(
    hop: str,
    *,
    method: object,
    url: object,
    surface: object,
    retry: object,
    idempotency_key: object,
    timeout: object,
    as_in_requests: Mapping[str, object],
) -> None:
    """Refuse a submit that cannot be meant.

    Args:
        hop: Whose call it is, such as "operation 'export': submit".
        method, url, surface, retry, idempotency_key, timeout, as_in_requests: Its arguments.

    Raises:
        TypeError, ValueError: An argument is not what it should be; the message says what is.
    """
    if not expect(method, str, f"{hop}(method)", "an HTTP method, such as 'POST'").isalpha():
        raise WrongValue(f"{hop}(method) takes an HTTP method, such as 'POST'")
    expect(url, str, f"{hop}(url)", "an absolute http(s) URL")
    _check_surface(surface, hop, "a function of the reply, such as ReadJob(…)")
    _check_policy(retry, RetryPolicy, f"{hop}(retry=)")
    if idempotency_key is not None and not expect(idempotency_key, str, f"{hop}(idempotency_key=)", "a text"):
        raise WrongValue(f"{hop}(idempotency_key=) takes a text, got an empty one")
    check_timeout(timeout, f"{hop}(timeout=)")
    if unknown := sorted(set(as_in_requests) - _AS_IN_REQUESTS):
        raise WrongType(f"{hop}() takes the arguments of requests {sorted(_AS_IN_REQUESTS)}, got {unknown}")


def check_poll(
    hop: str,
    *,
    job_or_url: object,
    surface: object,
    pacing: object,
    budget: object,
    allow_partial: object,
    timeout: object,
) -> None:
    """Refuse a poll that cannot be meant; arguments and errors as in `check_submit`."""
    if job_or_url is not None:
        expect(job_or_url, (Job, str), f"{hop}()", "a Job, or the URL of its status monitor")
    _check_surface(surface, hop, "a function of the reply and the job, such as ReadState(…)")
    _check_policy(pacing, Pacing, f"{hop}(pacing=)")
    _check_policy(budget, Budget, f"{hop}(budget=)")
    expect(allow_partial, bool, f"{hop}(allow_partial=)", "True or False")
    check_timeout(timeout, f"{hop}(timeout=)")


def check_download(
    hop: str,
    *,
    into: object,
    surface: object,
    retry: object,
    sha256: object,
    max_size: object,
    parallel: object,
    decode: object,
    timeout: object,
) -> None:
    """Refuse a download that cannot be meant; arguments and errors as in `check_submit`."""
    if into is not None:
        expect(into, (str, os.PathLike), f"{hop}(into=)", "the path of a folder")
    _check_surface(surface, hop, "a function of the reply and the result")
    _check_policy(retry, RetryPolicy, f"{hop}(retry=)")
    if sha256 is not None:
        expect_sha256(sha256, f"{hop}(sha256=)")
    if max_size is not None:
        expect_size(max_size, f"{hop}(max_size=)", "a number of bytes, 0 or more")
    if expect(parallel, int, f"{hop}(parallel=)", "a number of ranges, 1 or more") < 1:
        raise WrongValue(f"{hop}(parallel=) takes a number of ranges, 1 or more, got {parallel!r}")
    expect(decode, bool, f"{hop}(decode=)", "True or False")
    check_timeout(timeout, f"{hop}(timeout=)")


def check_timeout(timeout: object, where: str) -> None:
    """Refuse a timeout that `requests` would refuse, in words that name the operation.

    Raises:
        TypeError, ValueError: It is none.
    """
    takes = "seconds above 0, a pair (connect, read) of these, or None, as in requests"
    if timeout is None or isinstance(timeout, urllib3.Timeout):
        return
    if isinstance(timeout, tuple) and len(timeout) != 2:
        raise WrongValue(f"{where} takes {takes}, got {len(timeout)} values")
    for seconds in timeout if isinstance(timeout, tuple) else (timeout,):
        if seconds is not None and not expect(seconds, (int, float), where, takes) > 0:
            raise WrongValue(f"{where} takes {takes}, got {told(seconds)}")


def _check_surface(surface: object, hop: str, takes: str) -> None:
    if surface is not None:
        expect_callable(surface, f"{hop}(surface=)", takes)


def _check_policy(policy: object, kind: type, where: str) -> None:
    if policy is not None:
        expect(policy, kind, where, _POLICIES[kind])
