"""Several jobs of one operation at once: one root, a poll span each."""

import pytest

from trihop import (
    Budget,
    DeadlineExceeded,
    Job,
    JobFailed,
    MemoryStore,
    PollErrorsExhausted,
    Provider,
    ReadJob,
    ReadState,
    Reply,
    operation,
)

JOBS = Provider(
    "jobs",
    submit=ReadJob(id="id", status_url=None),
    status="/jobs/{id}",
    poll=ReadState("state", pending={"running"}, succeeded={"done"}, failed={"failed"}, results="file", error="error"),
    budget=Budget(consecutive_errors=2),
)
RUNS, FAILED = {"state": "running"}, {"state": "failed", "error": "no such table"}


def done(name):
    return {"state": "done", "file": f"/files/{name}"}


@pytest.fixture
def begun(server, clock):
    """An operation whose submits make the jobs of these names."""

    def begin(*names, deadline=600, **options):
        server.on("POST", "/jobs", *({"id": name} for name in names))
        for name in names:
            server.on("GET", f"/files/{name}", then_always=name.encode())
        return operation("export", deadline=deadline, provider=JOBS, clock=clock, **options)

    return begin


def submitted(op, server, number):
    return [op.submit("POST", f"{server.url}jobs") for _ in range(number)]


def test_results_come_as_the_jobs_end(begun, server, spans):
    """Not in the order in which they were submitted; the trace has one root, without a job's id."""
    server.on("GET", "/jobs/slow", RUNS, RUNS, RUNS, done("slow"))
    server.on("GET", "/jobs/fast", RUNS, done("fast"))
    with begun("slow", "fast") as op:
        jobs = submitted(op, server, 2)
        found = [(ready.job.id, op.download(ready).text) for ready in op.gather(jobs)]

    assert found == [("fast", "fast"), ("slow", "slow")]
    root = spans.named("export")
    assert root.attributes["trihop.operation.jobs"] == 2
    assert root.attributes["trihop.operation.polls"] == 6
    assert root.attributes["trihop.operation.result"] == "success"
    assert "trihop.job.id" not in root.attributes
    hops = [(span.name, span.attributes.get("trihop.job.id")) for span in spans.children(root)]
    assert sorted(hops) == [
        ("download export", "fast"),
        ("download export", "slow"),
        ("poll export", "fast"),
        ("poll export", "slow"),
        ("submit export", "fast"),
        ("submit export", "slow"),
    ]
    polls = {span.attributes["trihop.job.id"]: span for span in spans.all if span.name == "poll export"}
    assert polls["slow"].attributes["trihop.poll.attempts"] == 4
    assert polls["slow"].attributes["trihop.job.state"] == "done"


def test_results_may_be_fetched_after_all_have_ended(begun, server, spans):
    """Each download is known by its own job."""
    for name in "ab":
        server.on("GET", f"/jobs/{name}", done(name))
    with begun("a", "b") as op:
        ready = list(op.gather(submitted(op, server, 2)))
        texts = [op.download(one).text for one in ready]

    assert texts == ["a", "b"]
    downloads = [span for span in spans.all if span.name == "download export"]
    assert [span.attributes["trihop.job.id"] for span in downloads] == ["a", "b"]


def test_a_job_that_failed_is_raised_after_the_others(begun, server, spans):
    """Nothing that went well is lost to it."""
    server.on("GET", "/jobs/bad", FAILED)
    server.on("GET", "/jobs/worse", 500, 500)
    server.on("GET", "/jobs/good", RUNS, RUNS, RUNS, done("good"))
    found = []
    with pytest.raises(JobFailed, match="no such table") as raised, begun("bad", "worse", "good") as op:
        found.extend(ready.job.id for ready in op.gather(submitted(op, server, 3)))

    assert (found, raised.value.job_id) == (["good"], "bad")
    polls = {span.attributes["trihop.job.id"]: span.attributes for span in spans.all if span.name == "poll export"}
    assert polls["bad"]["error.type"] == "JobFailed"
    assert polls["worse"]["error.type"] == PollErrorsExhausted.__name__
    assert "error.type" not in polls["good"]
    assert spans.named("export").attributes["trihop.operation.result"] == "failure"


def test_the_deadline_is_that_of_all(begun, server, spans):
    """It strikes at once, and every poll span ends."""
    for name in "ab":
        server.on("GET", f"/jobs/{name}", then_always=Reply(200, RUNS, headers={"Retry-After": "10"}))
    with pytest.raises(DeadlineExceeded), begun("a", "b", deadline=35) as op:
        list(op.gather(submitted(op, server, 2)))

    assert len([span for span in spans.all if span.name == "poll export"]) == 2


def test_leaving_in_the_middle_ends_every_span(begun, server, spans):
    """Whoever has seen enough breaks off."""
    server.on("GET", "/jobs/a", done("a"))
    server.on("GET", "/jobs/b", then_always=RUNS)
    with begun("a", "b") as op:
        for ready in op.gather(submitted(op, server, 2)):
            assert ready.job.id == "a"
            break

    assert sorted(span.attributes["trihop.job.id"] for span in spans.all if span.name == "poll export") == ["a", "b"]


def test_a_job_that_was_over_at_once_needs_no_poll(begun, server):
    """Its ready is handed over first."""
    from dataclasses import replace

    server.on("GET", "/jobs/a", done("a"))
    with begun("a") as op:
        (job,) = submitted(op, server, 1)
        quick = replace(job, id="quick", ready=None)
        server.on("GET", "/jobs/quick", done("quick"))
        (before,) = op.gather([quick])
        there = replace(quick, ready=before)
        assert [ready.job.id for ready in op.gather([job, there])] == ["quick", "a"]


def test_what_cannot_be_gathered_is_refused(begun, server, clock):
    """When it is called, not when it is iterated."""
    with begun("a") as op, pytest.raises(TypeError, match="takes Jobs, as"):
        op.gather(["http://api.example/jobs/1"])
    one_job = pytest.raises(ValueError, match="a record has room for one job; use Fleet")
    with begun("a", key="k", store=MemoryStore(clock=clock)) as op, one_job:
        op.gather([Job(id="a")])


def test_nothing_is_asked_once_the_block_was_left(begun, server):
    """An iterator that outlives the operation says so; its spans would have no root any more."""
    server.on("GET", "/jobs/one", done("one"))
    server.on("GET", "/jobs/two", RUNS, done("two"))
    with begun("one", "two") as op:
        gathered = op.gather(submitted(op, server, 2))
        assert next(gathered).job.id == "one"
    before = len(server.calls)
    with pytest.raises(RuntimeError, match="operation 'export' has ended"):
        next(gathered)
    assert len(server.calls) == before
