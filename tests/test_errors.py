"""The endings told apart: by class, by message, on the spans, and in another process."""

import copy
import inspect
import io
import pickle
import re
from dataclasses import replace

import pytest
import requests

import trihop
from trihop import (
    Budget,
    DeadlineExceeded,
    Event,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    OperationError,
    OperationTaken,
    OutcomeAmbiguous,
    PollBudgetExhausted,
    PollErrorsExhausted,
    ReadState,
    Reply,
    ResultCorrupt,
    ResultUnavailable,
    RetryPolicy,
    StatusUnavailable,
    SubmitRejected,
    SubmitUncertain,
    SurfaceError,
    TrihopError,
    operation,
    show,
)
from trihop.providers import generic
from trihop.testing import reset, running, short

ACME = replace(
    generic.ACCEPTED,
    poll=ReadState(
        "status", pending={"running"}, succeeded={"done"}, failed={"failed"}, cancelled={"cancelled"},
        expired={"expired"}, ambiguous={"held"}, results="url", bad_items="bad", error="error",
    ),
    budget=Budget(polls=4, consecutive_errors=3),
    retry=RetryPolicy(attempts=1),
)  # fmt: skip
JOB = Reply(202, {"id": "j-7"}, headers={"Location": "/jobs/j-7"})
DONE = {"status": "done", "url": "/files/1"}

# Each ending with the replies that lead to it, its hop, its result, and words of what it says.
ENDINGS = {
    DeadlineExceeded: (
        [JOB, running(hint_s=3600)], "poll", "timeout",
        "no result in time: the server asked for 3600 s and 59 s are left, last state 'running' after 1 poll "
        "(deadline 60 s)",
    ),
    PollBudgetExhausted: (
        [JOB, *[running()] * 4], "poll", "timeout",
        "the job was not over after 4 polls, last state 'running'",
    ),
    PollErrorsExhausted: (
        [JOB, running(), 503, 502, reset(), reset()], "poll", "timeout",
        "the status endpoint failed 3 times in a row, last with connection_reset",
    ),
    StatusUnavailable: (
        [JOB, running(), Reply(403, {"message": "not yours"})], "poll", "error",
        "the status endpoint refused with HTTP 403: not yours",
    ),
    JobFailed: (
        [JOB, running(), {"status": "failed", "error": "INVALID_FIELD: no such column"}], "poll", "failure",
        "the job failed, state 'failed': INVALID_FIELD: no such column",
    ),
    JobCancelled: (
        [JOB, {"status": "cancelled", "error": {"by": "operator"}}], "poll", "cancellation",
        "the job was cancelled, state 'cancelled'",
    ),
    JobExpired: (
        [JOB, running(), 410], "poll", "failure",
        "the server knows the job no more (HTTP 410)",
    ),
    JobPartiallyFailed: (
        [JOB, {**DONE, "bad": 3}], "poll", "partial",
        "the job ended with failed items, state 'done' (3 failed)",
    ),
    OutcomeAmbiguous: (
        [JOB, {"status": "held", "error": "nobody closed it"}], "poll", "error",
        "the server says 'held': nobody knows what became of the job: nobody closed it",
    ),
    SubmitRejected: (
        [Reply(422, {"code": "E7", "message": "no such table"})], "submit", "failure",
        "the server refused the job with HTTP 422: E7: no such table",
    ),
    SubmitUncertain: (
        [reset()], "submit", "error",
        "the submit was sent and the server never answered (connection_reset)",
    ),
    ResultUnavailable: (
        [JOB, DONE, 410, DONE], "download", "error",
        "the result 'result' cannot be fetched: the server says 410, and a fresh poll gave the same link",
    ),
    ResultCorrupt: (
        [JOB, DONE, short("rows", 1)], "download", "error",
        "the transfer broke off (body_truncated); the length did not add up",
    ),
    SurfaceError: (
        [Reply(202, {"id": "j-7"})], "submit", "error",
        "the submit's answer (HTTP 202) names no job to ask for: the job has no status_url, which {status_url} needs",
    ),
}  # fmt: skip
BY_NAME = {kind.__name__: kind for kind in ENDINGS}


@pytest.fixture(params=BY_NAME)
def kind(request):
    return BY_NAME[request.param]


@pytest.fixture
def raised(kind, server, clock, spans):
    """An error of that kind, as an operation raises it."""
    server.script(*ENDINGS[kind][0])
    with (
        pytest.raises(TrihopError) as caught,
        operation("export", deadline=60, clock=clock, provider=ACME, key="nightly") as op,
    ):
        op.run("POST", f"{server.url}jobs")
    server.assert_done()
    assert op.id == caught.value.operation_id
    return caught.value


def test_every_ending_has_a_class_of_its_own(kind, raised):
    """Not a parent of it and not a child."""
    assert type(raised) is kind


def test_the_error_names_the_trace_and_the_failing_hop(kind, raised, spans_of):
    """The trace id is that of the exported root; root and failing hop have the class as error.type, the others none."""
    _, hop, result, told = ENDINGS[kind]
    [root], hops = spans_of
    assert raised.trace_id == format(root.context.trace_id, "032x")
    assert {span.context.trace_id for span in (root, *hops)} == {root.context.trace_id}
    marked = {
        span.name: (span.attributes.get("error.type"), span.status.description)
        for span in (root, *hops)
        if span.status.status_code.name == "ERROR"
    }
    assert marked == dict.fromkeys(("export", f"{hop} export"), (kind.__name__, told[:256]))
    assert {span.status.status_code.name for span in hops if span.name != f"{hop} export"} <= {"UNSET"}
    assert not [span.name for span in hops if span.name != f"{hop} export" and "error.type" in span.attributes]
    assert (root.attributes["trihop.operation.result"], root.attributes["trihop.operation.ended_in"]) == (result, hop)
    assert raised.hop == hop


@pytest.fixture
def spans_of(spans, raised):
    return spans.roots, spans.children(spans.named("export"))


def test_the_message_says_what_happened_to_which_operation_and_what_next(kind, raised):
    """Three parts: the first is the same on the spans, the second finds the job, the third is advice."""
    _, hop, _, told = ENDINGS[kind]
    what, bracket, rest = str(raised).partition(" [")
    about, _, then = rest.partition("]. ")

    assert (what, bracket) == (told, " [")
    known = dict(item.split("=", 1) for item in about.split(" "))
    assert (known["operation"], known["key"], known["trace"][:4]) == (
        "export",
        "nightly",
        (raised.trace_id or "none")[:4],
    )
    assert known.get("job") == (None if hop == "submit" else "j-7")
    assert known.get("polls") == (str(raised.polls) if raised.polls else None)
    assert known.get("state") == raised.state
    assert re.fullmatch(r"[A-Z].{20,300}[.]", then, re.DOTALL)
    assert f"{told} " in str(raised)


def test_the_error_has_what_it_takes_to_go_on(kind, raised, server):
    """Names, ids, the job as last seen, counts and times."""
    _, hop, _, _ = ENDINGS[kind]
    assert (raised.operation, raised.key, len(raised.operation_id)) == ("export", "nightly", 32)
    assert (raised.job_id, raised.job and raised.job.status_url) == (
        (None, None) if hop == "submit" else ("j-7", f"{server.url}jobs/j-7")
    )
    assert raised.polls == len([call for call in server.calls if call.path == "/jobs/j-7"]) - (
        1 if kind is PollErrorsExhausted else 0  # a connection that had gone stale was tried anew for one poll
    )
    assert raised.elapsed == pytest.approx(0 if hop == "submit" else raised.elapsed)


def attributes(error):
    """All that an error knows, its cause as what it shows."""
    known = {**vars(error), "args": error.args, "str": str(error), "repr": repr(error), "record": error.record}
    cause = known.pop("cause")
    return {**known, "cause": (type(cause).__name__, str(cause))}


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],
                         ids=["pickle", "copy", "deepcopy"])  # fmt: skip
def test_an_error_survives_another_process(raised, again):
    """Pickled in a pool or copied by a framework, it is the same error with all it knows."""
    twin = again(raised)

    assert type(twin) is type(raised)
    assert attributes(twin) == attributes(raised)


def test_nothing_is_chained(raised):
    """What was raised below is on `.cause`, redacted; a chained exception would print its whole text."""
    assert raised.__cause__ is None
    assert raised.__context__ is None or raised.__suppress_context__


def test_a_cause_is_kept_where_there_was_one(kind, raised):
    """Where requests or urllib3 raised something, a copy without request and response is at hand."""
    if kind in (PollErrorsExhausted, SubmitUncertain):
        assert isinstance(raised.cause, requests.ConnectionError)
        assert not getattr(raised.cause, "request", None)
    elif kind is ResultCorrupt:
        assert re.search("1 bytes read, 3 more expected|broke off after 1 of 4 bytes", str(raised.cause))
    else:
        assert raised.cause is None


def test_each_class_has_its_own_facts(kind, raised):
    """What the server said, what the job left, where the deadline struck."""
    match kind.__name__:
        case "DeadlineExceeded":
            assert (raised.phase, raised.asked, raised.remaining) == ("wait", 3600, 59)
        case "JobFailed":
            assert (raised.error, raised.ready.results) == ("INVALID_FIELD: no such column", ())
        case "JobCancelled":
            assert raised.error == {"by": "operator"}
        case "JobExpired":
            assert (raised.status_code, raised.ready.state) == (410, "running")
        case "JobPartiallyFailed":
            assert ([result.at[-8:] for result in raised.ready.results], raised.ready.complete) == (["/files/1"], False)
        case "OutcomeAmbiguous":
            assert (raised.error, raised.ready.state) == ("nobody closed it", "held")
        case "SubmitRejected":
            assert (raised.error, raised.status_code) == ({"code": "E7", "message": "no such table"}, 422)
        case "SurfaceError":
            assert (raised.reply.status_code, raised.reply.json()) == (202, {"id": "j-7"})
        case _:
            assert isinstance(raised, OperationError)


# ---- the tree

TREE = {
    "TrihopError": ["Exception"],
    "OperationError": ["TrihopError"],
    "DeadlineExceeded": ["OperationError", "TimeoutError"],
    "PollBudgetExhausted": ["OperationError"],
    "PollErrorsExhausted": ["PollBudgetExhausted"],
    "StatusUnavailable": ["OperationError"],
    "JobFailed": ["OperationError"],
    "JobCancelled": ["JobFailed"],
    "JobExpired": ["JobFailed"],
    "JobPartiallyFailed": ["JobFailed"],
    "SubmitRejected": ["OperationError"],
    "SubmitUncertain": ["OperationError"],
    "OutcomeAmbiguous": ["OperationError"],
    "OperationTaken": ["OperationError"],
    "ResultUnavailable": ["OperationError"],
    "ResultCorrupt": ["OperationError"],
    "SurfaceError": ["TrihopError"],
    "StoreError": ["TrihopError"],
}


def test_the_tree_is_as_it_is_drawn():
    """Each public error, with its bases; and the module's docstring draws the same tree."""
    found = {
        name: [base.__name__ for base in value.__bases__]
        for name, value in ((name, getattr(trihop, name)) for name in trihop.__all__)
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    assert found == TREE
    drawn = re.findall(r"^ {4}[│├└─ ]*(\w+)", inspect.getdoc(trihop._errors).replace("\n", "\n    "), re.MULTILINE)
    assert [name for name in drawn if name in TREE] == list(TREE)


def test_every_ending_is_shown_here():
    """A new error gets a scene of its own; OperationTaken is met on entry, and StoreError is no ending."""
    raised_by_hops = set(TREE) - {"TrihopError", "OperationError", "OperationTaken", "StoreError"}
    assert set(BY_NAME) == raised_by_hops


def test_a_deadline_is_a_timeout_and_no_error_of_requests():
    """`except TimeoutError` catches it; `except RequestException: continue` does not swallow it."""
    assert issubclass(DeadlineExceeded, TimeoutError)
    assert not issubclass(DeadlineExceeded, requests.RequestException)
    error = DeadlineExceeded("late", None, "Wait longer.")
    assert (error.errno, error.filename, error.args) == (None, None, ("late", None, "Wait longer."))


def test_a_taken_key_survives_another_process_too(clock):
    """The error that is raised on entry is like the others."""
    with operation("first", deadline=60, clock=clock, key="k"), pytest.raises(OperationTaken) as caught:
        operation("second", deadline=60, clock=clock, key="k").__enter__()

    twin = pickle.loads(pickle.dumps(caught.value))
    assert attributes(twin) == attributes(caught.value)
    assert (twin.operation, twin.key, twin.trace_id) == ("second", "k", None)


def test_an_error_of_another_operation_passes_through_an_outer_one(server, clock, spans):
    """The inner operation's error names the inner one; both roots have it as their error."""
    server.script(400)
    with (
        pytest.raises(SubmitRejected) as caught,
        operation("outer", deadline=60, clock=clock),
        operation("inner", deadline=60, clock=clock) as inner,
    ):
        inner.submit("POST", f"{server.url}jobs")

    assert caught.value.operation == "inner"
    assert [spans.named(name).attributes["error.type"] for name in ("inner", "outer")] == ["SubmitRejected"] * 2


def test_errors_without_tracing_say_so(server, clock, monkeypatch):
    """The trace id is None, never zeros, and the message says that there is none."""
    from opentelemetry import trace

    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    server.script(400)
    with pytest.raises(SubmitRejected) as caught, operation("export", deadline=60, clock=clock) as op:
        op.submit("POST", f"{server.url}jobs")

    assert caught.value.trace_id is None
    assert "trace=none (no tracing configured)" in str(caught.value)


def test_a_download_that_was_not_read_can_be_pickled(server, clock):
    """A reply whose body nobody looked at goes along without it."""
    server.script(b"rows")
    with pytest.raises(SurfaceError) as caught, operation("export", deadline=60, clock=clock) as op:
        op.download(f"{server.url}f", surface=lambda reply, result: None)

    twin = pickle.loads(pickle.dumps(caught.value))
    assert (twin.reply.status_code, twin.reply.url) == (200, f"{server.url}f")


def test_a_message_is_one_line_that_a_terminal_does_not_obey(server, clock):
    """What a server put into a state, an id or its error is shown with its control characters escaped."""
    odd = "no\nsuch \x1b[31m\ud800"
    server.script(Reply(202, {"id": odd}, headers={"Location": "/jobs/1"}), {"status": "failed", "error": odd})

    with pytest.raises(JobFailed) as caught, operation("export", deadline=60, clock=clock, provider=ACME) as op:
        op.run("POST", f"{server.url}jobs")

    assert str(caught.value).isprintable()
    assert str(caught.value).count(r"no such \x1b[31m\ud800") == 2
    assert caught.value.error == odd


def test_a_line_of_progress_is_one_line_too():
    """`show` prints what a server calls its state as a text, whatever is in it."""
    told = io.StringIO()
    show(Event("state_changed", "export", "0" * 32, state="a\nb\x1b[2J", polls=1, elapsed=1.0), to=told)

    assert told.getvalue() == "export: a b\\x1b[2J, poll 1, 1.0 s elapsed\n"
