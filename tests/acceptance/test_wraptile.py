"""OGC processes on wraptile, which sends no Location and answers 403 where the standard says 404: eight cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests

from acceptance.servers.wraptile import wraptile
from trihop import JobCancelled, Operation, OperationError, Pacing, Ready, Result, operation
from trihop.providers import ogc, prefer

QUICKLY = replace(ogc.PROCESSES, pacing=Pacing(first=0.1, factor=1.2, cap=0.3, jitter=False))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with wraptile(tmp_path_factory.mktemp("wraptile")) as url:
        yield url


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def check(table):
    def check(case: str, *, expected: Any, got: Any) -> None:
        table.row(ogc.PROCESSES.name, case, expected=expected, got=got)

    return check


def open_operation(session: requests.Session, **options: Any) -> Operation:
    return operation("process", deadline=30, session=session, provider=QUICKLY, **options)


def submit(op: Operation, base: str, process: str, **inputs: Any) -> Any:
    url = f"{base}/processes/{process}/execution"
    return op.submit("POST", url, headers=prefer.respond_async(), json={"inputs": inputs})


def told(error: OperationError) -> str:
    return f"{type(error).__name__}, {error.state or f'HTTP {error.status_code}'}"


def test_a_process_of_a_second_and_a_half(base, session, check):
    """Progress rises, and the results are there when it is over."""
    progress: list[float] = []
    with open_operation(session, on_event=lambda event: progress.append(event.progress or 0)) as op:
        result = op.download(op.poll(submit(op, base, "sleep_a_while", duration=1.5))).json()

    seen = [percent for percent in progress if percent]
    check("sleep 1.5 s", expected=("about 1.5 s", "rising"), got=(_about(result, 1.5), _rising(seen)))


def test_results_that_are_asked_for_too_early_are_waited_for(base, session, check):
    """result-not-ready is not an end: it is polled again, and fetched once it is there."""
    with open_operation(session) as op:
        job = submit(op, base, "sleep_a_while", duration=0.5)
        early = Ready(job, "running", (Result(f"{job.status_url}/results"),))
        result = op.download(early).json()

    check("sleep 1.5 s: results too early", expected="about 0.5 s", got=_about(result, 0.5))


def test_a_process_that_fails_half_way(base, session, check):
    """The message is the error, and it was at half."""
    progress: list[float] = []
    with (
        open_operation(session, on_event=lambda event: progress.append(event.progress or 0)) as op,
        pytest.raises(OperationError) as caught,
    ):
        op.poll(submit(op, base, "sleep_a_while", duration=1, fail=True))

    got = (told(caught.value), "Woke up too early" in str(caught.value), max(progress) <= 50)
    check("fails half-way", expected=("JobFailed, failed", True, True), got=got)


def test_a_process_that_is_fast(base, session, check):
    """It may be over at the first poll."""
    with open_operation(session) as op:
        result = op.download(op.poll(submit(op, base, "primes_between", min_val=1, max_val=20))).json()

    check("fast job", expected={"return_value": [2, 3, 5, 7, 11, 13, 17, 19]}, got=result)


def test_a_value_that_the_process_refuses(base, session, check):
    """It is accepted and fails, with the reason."""
    with open_operation(session) as op, pytest.raises(OperationError) as caught:
        op.poll(submit(op, base, "primes_between", min_val=50, max_val=20))

    got = (told(caught.value), "max_val must be greater" in str(caught.value))
    check("bad input value", expected=("JobFailed, failed", True), got=got)


def test_an_input_of_the_wrong_type(base, session, check):
    """It is refused at the submit."""
    with open_operation(session) as op, pytest.raises(OperationError) as caught:
        submit(op, base, "primes_between", min_val="x")

    check("wrong input type", expected="SubmitRejected, HTTP 400", got=told(caught.value))


def test_a_running_job_that_is_dismissed(base, session, check):
    """DELETE is taken, the next poll says so, and the job is not deleted twice."""
    with open_operation(session) as op:
        job = submit(op, base, "sleep_a_while", duration=5)
        taken = op.cancel()
        with pytest.raises(JobCancelled) as caught:
            op.poll(job)
        with pytest.raises(ValueError, match="it is over"):
            op.cancel()

    check("dismiss a running job", expected=(True, "JobCancelled, dismissed"), got=(taken, told(caught.value)))


def test_what_nobody_knows(base, session, check):
    """A process that is not there is a refusal; so is a job."""
    with open_operation(session) as op:
        with pytest.raises(OperationError) as process:
            submit(op, base, "nope")
        with pytest.raises(OperationError) as job:
            op.poll(f"{base}/jobs/nope")

    expected = ("SubmitRejected, HTTP 404", "StatusUnavailable, HTTP 404")
    check("unknown process, unknown job", expected=expected, got=(told(process.value), told(job.value)))


def test_five_at_once(base, session, check):
    """Five jobs of one session, each with its own result."""
    durations = [0.5 + 0.05 * number for number in range(5)]
    jobs, slept = [], []
    for duration in durations:
        with open_operation(session) as op:
            jobs.append(submit(op, base, "sleep_a_while", duration=duration))
    for job in jobs:
        with open_operation(session) as op:
            slept.append(op.download(op.poll(job)).json()["return_value"])

    got = (len({job.id for job in jobs}), all(at >= wanted for at, wanted in zip(slept, durations, strict=True)))
    check("five at once", expected=(5, True), got=got)


def _about(result: Any, seconds: float) -> str:
    found = result["return_value"]
    return f"about {seconds} s" if seconds - 0.1 < found < seconds + 2.5 else f"{found} s"


def _rising(percents: list[float]) -> str:
    return "rising" if percents == sorted(percents) and len(set(percents)) > 2 else repr(percents)
