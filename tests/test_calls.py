"""Wrong calls: each raises where it is made, says what is expected, and sends nothing."""

import datetime as dt
import io
import math
import re
import time

import pytest
import requests

from trihop import (
    Accepted,
    Call,
    Content,
    Gone,
    Job,
    LinkExpired,
    Partial,
    Pending,
    Provider,
    Ready,
    Reply,
    Result,
    Succeeded,
    SurfaceError,
    Transient,
    operation,
)
from trihop.testing import accepted, done, running

URL = "https://api.example.com/jobs"


@pytest.fixture
def op(clock):
    with operation("export", deadline=60, clock=clock) as op:
        yield op


# ---- operation()


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"deadline": "soon"}, TypeError, "deadline= takes seconds, a timedelta, an aware datetime, or None for no"),
        ({"deadline": dt.datetime(2026, 3, 1)}, ValueError, "got a datetime without a time zone (2026-03-01T00:00:00)"),
        ({"deadline": -1}, ValueError, "got -1, which is not a time to come"),
        ({"session": "s"}, TypeError, "session= takes a requests.Session, got str"),
        ({"session": requests}, TypeError, "session= takes a requests.Session, got module"),
        ({"provider": "generic"}, TypeError, "provider= takes a Provider, got str"),
        ({"key": 7}, TypeError, "key= takes a text in one line, of at most 512 characters, got 7"),
        ({"key": ""}, ValueError, "of at most 512 characters, got an empty one"),
        ({"key": "k" * 513}, ValueError, "of at most 512 characters, got 513; a digest of it would do"),
        *(
            ({"key": key}, ValueError, "of at most 512 characters, got one with characters that cannot be shown")
            for key in ("a\nb", "a\0b", "\x1b[31mred", "\ud800")
        ),
        ({"on_event": "show"}, TypeError, "on_event= takes a function of an Event, such as show, got str"),
        ({"attributes": 7}, TypeError, "attributes= takes a mapping of names to values, such as {'tenant': 'acme'}"),
        ({"attributes": {7: 1}}, TypeError, "attributes= takes a mapping of names to values"),
        ({"origins": URL}, TypeError, "origins= takes a list of origins, such as ['https://files.example.com']"),
        ({"origins": 7}, TypeError, "origins= takes a list of origins"),
        (
            {"origins": ["files.example.com"]},
            ValueError,
            "origins= expected an absolute http(s) URL, such as 'https://",
        ),
        ({"origins": [7]}, ValueError, "origins= expected an absolute http(s) URL"),
        ({"propagate": "yes"}, TypeError, "propagate= takes True, False or None, got str"),
        ({"on_interrupt": "stop"}, ValueError, "on_interrupt= is 'leave' or 'cancel', got 'stop'"),
        ({"clock": 7}, TypeError, "clock= takes a Clock, such as trihop.testing.VirtualClock(), got 7"),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_an_operation_that_cannot_be_meant_is_refused(options, error, told):
    """At the call, not on entry, and with the operation's name."""
    with pytest.raises(error, match="operation 'export': .*" + re.escape(told)):
        operation("export", **{"deadline": 60, **options})


@pytest.mark.parametrize("name", ["", "  ", 7, None, b"export"])
def test_a_name_is_a_few_words(name):
    """It is the root span's."""
    with pytest.raises(TypeError, match=r"operation\(\) takes a name in a few words, such as 'export', got"):
        operation(name, deadline=60)


def test_a_deadline_is_required_and_written_out():
    """Nobody waits for ever by oversight."""
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'deadline'"):
        operation("export")


def test_a_mistyped_option_is_refused():
    """As everywhere in Python."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'timeout'"):
        operation("export", deadline=60, timeout=5)


# ---- the hops

NOT_A_URL = "expected an absolute http(s) URL, such as 'https://api.example.com'"
TIMEOUT = "(timeout=) takes seconds above 0, a pair (connect, read) of these, or None, as in requests"
HOPS = [
    (lambda op: op.submit(7, URL), TypeError, "submit(method) takes an HTTP method, such as 'POST', got 7"),
    (lambda op: op.submit("", URL), ValueError, "submit(method) takes an HTTP method, such as 'POST'"),
    (lambda op: op.submit("POST /x", URL), ValueError, "submit(method) takes an HTTP method"),
    (lambda op: op.submit("POST", 7), TypeError, "submit(url) takes an absolute http(s) URL, got 7"),
    (lambda op: op.submit("POST", "/jobs"), ValueError, NOT_A_URL),
    (lambda op: op.submit("POST", "ftp://x/jobs"), ValueError, NOT_A_URL),
    (lambda op: op.submit("POST", URL, surface=7), TypeError, "submit(surface=) takes a function of the reply, such a"),
    (lambda op: op.submit("POST", URL, retry=3), TypeError, "submit(retry=) takes a RetryPolicy, such as RetryPolicy("),
    (lambda op: op.submit("POST", URL, idempotency_key=7), TypeError, "submit(idempotency_key=) takes a text, got 7"),
    (lambda op: op.submit("POST", URL, idempotency_key=""), ValueError, "submit(idempotency_key=) takes a text"),
    (lambda op: op.submit("POST", URL, timeout="5"), TypeError, f"submit{TIMEOUT}, got str"),
    (lambda op: op.submit("POST", URL, timeout=0), ValueError, f"submit{TIMEOUT}, got 0"),
    (lambda op: op.submit("POST", URL, timeout=(1, 2, 3)), ValueError, f"submit{TIMEOUT}, got 3 values"),
    (lambda op: op.submit("POST", URL, timeout=(1, "2")), TypeError, f"submit{TIMEOUT}, got str"),
    (lambda op: op.submit("POST", URL, stream=True), TypeError, "submit() takes the arguments of requests ["),
    (lambda op: op.poll(7), TypeError, "poll() takes a Job, or the URL of its status monitor, got 7"),
    (lambda op: op.poll("/jobs/1"), ValueError, NOT_A_URL),
    (lambda op: op.poll(Job()), ValueError, "cannot ask for the job's state: the job has no status_url"),
    (lambda op: op.poll(Job(status_url="/jobs/1")), ValueError, NOT_A_URL),
    (lambda op: op.poll(URL, surface="x"), TypeError, "poll(surface=) takes a function of the reply and the job, such"),
    (lambda op: op.poll(URL, pacing=5), TypeError, "poll(pacing=) takes a Pacing, such as Pacing(first=2, cap=60), go"),
    (lambda op: op.poll(URL, budget=5), TypeError, "poll(budget=) takes a Budget, such as Budget(polls=100), got 5"),
    (lambda op: op.poll(URL, allow_partial="yes"), TypeError, "poll(allow_partial=) takes True or False, got str"),
    (lambda op: op.poll(URL, timeout=-1), ValueError, f"poll{TIMEOUT}, got -1"),
    (lambda op: op.download(7), TypeError, "download() takes a Ready, a Result or a URL, got int"),
    (lambda op: op.download(None), TypeError, "download() takes a Ready, a Result or a URL, got NoneType"),
    (lambda op: op.download(Job()), TypeError, "download() takes a Ready, a Result or a URL, got Job"),
    (lambda op: op.download("/files/1"), ValueError, NOT_A_URL),
    (lambda op: op.download(URL, to=7), TypeError, "to= takes a path, a file object opened for bytes, or None for"),
    (lambda op: op.download(URL, into=7), TypeError, "download(into=) takes the path of a folder, got 7"),
    (lambda op: op.download(URL, surface=7), TypeError, "download(surface=) takes a function of the reply and the res"),
    (lambda op: op.download(URL, retry=7), TypeError, "download(retry=) takes a RetryPolicy"),
    (lambda op: op.download(URL, sha256="abc"), ValueError, "download(sha256=) takes a SHA-256 digest as 64 hex digit"),
    (lambda op: op.download(URL, sha256=b"0" * 64), TypeError, "download(sha256=) takes a SHA-256 digest as 64 hex"),
    (lambda op: op.download(URL, max_size="1"), TypeError, "download(max_size=) takes a number of bytes, 0 or more, g"),
    (lambda op: op.download(URL, max_size=-1), ValueError, "download(max_size=) takes a number of bytes, 0 or more"),
    (lambda op: op.download(URL, decode="no"), TypeError, "download(decode=) takes True or False, got str"),
    (lambda op: op.download(URL, timeout="5"), TypeError, f"download{TIMEOUT}, got str"),
    (lambda op: op.run("POST", URL, to=io.StringIO()), TypeError, "to= takes a file opened for bytes, such as open("),
    (lambda op: op.run("POST", URL, allow_partial=1), TypeError, "run(allow_partial=) takes True or False, got 1"),
    (lambda op: op.run("POST", URL, stream=True), TypeError, "submit() takes the arguments of requests ["),
    (lambda op: op.once(7, lambda: 1), TypeError, "once(name) takes the step's name, got 7"),
    (lambda op: op.once("x", 5), TypeError, "once(do) takes a function without arguments, got 5"),
    (lambda op: op.hop("pol"), ValueError, "a hop is 'submit', 'poll' or 'download', got 'pol'"),
    (lambda op: op.hop("poll", surface=7), TypeError, "hop(surface=) takes a function, such as ReadState(…), got 7"),
    (lambda op: op.cancel("job-7"), TypeError, "cancel() takes a Job, got str"),
    (lambda op: op.sleep("5"), TypeError, "sleep() takes seconds, 0 or more, got str"),
    (lambda op: op.sleep(-1), ValueError, "sleep() takes seconds, 0 or more, got -1"),
    (lambda op: op.sleep(math.nan), ValueError, "sleep() takes seconds, 0 or more, got nan"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "error", "told"), HOPS, ids=[told[:40] for _, _, told in HOPS])
def test_a_hop_that_cannot_be_meant_is_refused(op, spans, use, error, told):
    """Before anything is sent: there is no hop of it in the trace, and the message names the operation."""
    with pytest.raises(error, match="operation 'export': " + re.escape(told)):
        use(op)

    assert spans.all == []


def test_a_response_is_what_a_hop_by_hand_waits_with(op):
    """A response, in a poll hop that is open."""
    with (
        op.hop("poll") as hop,
        pytest.raises(TypeError, match=r"hop\.wait\(.*requests\.Response.*got str"),
    ):
        hop.wait("200")
    with op.hop("submit") as hop, pytest.raises(RuntimeError, match=r"hop\.wait\(\) is for an open poll hop"):
        hop.wait(requests.Response())
    with pytest.raises(RuntimeError, match=r"hop\.wait\(\) is for an open poll hop"):
        op.hop("poll").wait(requests.Response())


# ---- values and providers

SHA = "takes a SHA-256 digest as 64 hex digits"
VALUES = [
    (lambda: Provider(""), TypeError, "Provider needs a name, such as 'acme.exports', got ''"),
    (lambda: Provider(7), TypeError, "Provider needs a name"),
    (lambda: Provider("p", submit=7), TypeError, "Provider p: submit= takes a surface, such as ReadState(…) or a"),
    (lambda: Provider("p", poll=None), TypeError, "Provider p: poll= takes a surface"),
    (lambda: Provider("p", download="x"), TypeError, "Provider p: download= takes a surface"),
    (lambda: Provider("p", status=None), TypeError, "Provider p: status= takes a URL template or a Call, got None"),
    (lambda: Provider("p", status="/{word}"), ValueError, "Provider p, status=: unknown field {word} in '/{word}'; "
     "there are {id} {status_url} {submit_url} {state} {memo.x}"),
    (lambda: Provider("p", cancel=Call("DELETE", "/{job}")), ValueError, "Provider p, cancel=: unknown field {job}"),
    (lambda: Provider("p", cancel=7), TypeError, "Provider p: cancel= takes a URL template or a Call"),
    (lambda: Provider("p", long_poll=30), TypeError, "Provider p: long_poll= takes a LongPoll, such as LongPoll(secon"),
    (lambda: Provider("p", idempotency=True), TypeError, "Provider p: idempotency= takes the name of a header field"),
    (lambda: Provider("p", idempotency=""), ValueError, "Provider p: idempotency= takes the name of a header field"),
    (lambda: Provider("p", origins=URL), TypeError, "Provider p: origins= takes a list of origins"),
    (lambda: Provider("p", origins=["x"]), ValueError, "Provider p: origins= expected an absolute http(s) URL"),
    (lambda: Provider("p", grace="10"), TypeError, "Provider p: grace= takes seconds, 0 or more, got str"),
    (lambda: Provider("p", grace=-1), ValueError, "Provider p: grace= takes seconds, 0 or more, got -1"),
    (lambda: Provider("p", grace=math.nan), ValueError, "Provider p: grace= takes seconds, 0 or more, got nan"),
    (lambda: Provider("p", pacing=5), TypeError, "Provider p: pacing= takes a Pacing, such as Pacing(first=2, cap=60)"),
    (lambda: Provider("p", budget=5), TypeError, "Provider p: budget= takes a Budget, such as Budget(polls=100), got"),
    (lambda: Provider("p", retry=5), TypeError, "Provider p: retry= takes a RetryPolicy, such as RetryPolicy(attempts"),
    (lambda: Call(7, "/x"), TypeError, "Call needs a method and a URL, such as Call('GET', '/jobs/1'), got method 7"),
    (lambda: Call("", "/x"), TypeError, "Call needs a method and a URL"),
    (lambda: Call("GET", 7), TypeError, "Call needs its URL as a str, got int"),
    (lambda: Call("GET", "/x", credentials="no"), ValueError, "credentials is 'origin', 'always' or 'never', got 'no'"),
    (lambda: Call("GET", "/x", headers=[("a", "b")]), TypeError, "Call(headers=) takes a mapping, such as {'Accept': "),
    (lambda: Call("GET", "/x", params="a=b"), TypeError, "Call(params=) takes a mapping"),
    (lambda: Call("POST", "/x", data=7), TypeError, "Call(data=) takes a form as a mapping, a str or bytes, got 7"),
    (lambda: Call("POST", "/x", data="a", json={}), ValueError, "Call takes json= or data=, not both"),
    (lambda: Result(7), TypeError, "Result needs a URL, a Call or data=, got 7"),
    (lambda: Result("/f", data=1), ValueError, "Result takes a place or data=, not both"),
    (lambda: Result("/f", name=7), TypeError, "Result(name=) takes a text, got 7"),
    (lambda: Result("/f", size_bytes="7"), TypeError, "Result(size_bytes=) takes a number of bytes, 0 or more, got st"),
    (lambda: Result("/f", size_bytes=-7), ValueError, "Result(size_bytes=) takes a number of bytes, 0 or more, got -7"),
    (lambda: Result("/f", sha256="xyz"), ValueError, f"Result(sha256=) {SHA}, got 3 characters"),
    (lambda: Result("/f", expires_at="2026"), TypeError, "Result(expires_at=) takes an aware datetime, got str"),
    (lambda: Result("/f", single_use="yes"), TypeError, "Result(single_use=) takes True or False, got str"),
    (lambda: Job(id=[7]), TypeError, "Job(id=) takes a text, got list"),
    (lambda: Job(status_url=b"/x"), TypeError, "Job(status_url=) takes a text, got bytes"),
    (lambda: Job(memo=7), TypeError, "Job(memo=) takes a mapping of names to JSON values, got 7"),
    (lambda: Job(submit_method=7), TypeError, "Job(submit_method=) takes an HTTP method, got 7"),
    (lambda: Job(ready="done"), TypeError, "Job(ready=) takes a Ready, got str"),
    (lambda: Ready("job-7", "done"), TypeError, "Ready(job) takes a Job, got str"),
    (lambda: Ready(Job(), None), TypeError, "Ready(state) takes a text, got None"),
    (lambda: Ready(Job(), "done", ["/f"]), TypeError, "Ready(results=) takes Results, such as [Result('/files/1')], g"),
    (lambda: Reply("200"), TypeError, "Reply(status_code) takes an HTTP status, got str"),
    (lambda: Reply(200, headers=7), TypeError, "Reply(headers=) takes a mapping, such as {'Retry-After': '5'}, got 7"),
    (lambda: Reply(200, content="text"), TypeError, "Reply(content=) takes bytes, got str"),
    (lambda: Accepted({"id": 7}), TypeError, "Accepted(id) takes a text, got dict"),
    (lambda: Accepted("7", 8), TypeError, "Accepted(status_url) takes a URL as a text, got 8"),
    (lambda: Accepted("7", memo=8), TypeError, "Accepted(memo=) takes a mapping of names to JSON values, got 8"),
    (lambda: Pending(None), ValueError, "Pending(state) takes a text, got None"),
    (lambda: Pending({"state": "x"}), TypeError, "Pending(state) takes a text, got dict"),
    (lambda: Pending("x", memo=[]), TypeError, "Pending(memo=) takes a mapping of names to JSON values, got list"),
    (lambda: Transient(503), TypeError, "Transient(reason) takes a short word, such as 'throttled', got 503"),
    (lambda: Succeeded(None), ValueError, "Succeeded(state) takes a text, got None"),
    (lambda: Succeeded("x", results=Result("/f")), TypeError, "Succeeded(results=) takes Results, such as [Result('/"),
    (lambda: Partial("x", results=["/f"]), TypeError, "Partial(results=) takes Results, such as [Result('/files/1')]"),
    (lambda: Succeeded("x", results="/f"), TypeError, "Succeeded(results=) takes Results"),
    (lambda: Content(items={"a": 1}), TypeError, "Content(items=) takes a list of JSON values, got dict"),
    (lambda: Content(items="abc"), TypeError, "Content(items=) takes a list of JSON values, got str"),
    (lambda: Content(next=2), TypeError, "Content(next=) takes a URL or a Call, got 2"),
    (lambda: Content(header_lines=-1), ValueError, "Content(header_lines=) takes a number of lines, 0 or more, got -1"),
    (lambda: Content(header_lines=True), TypeError, "Content(header_lines=) takes a number of lines, 0 or more, got T"),
    (lambda: Gone(404), TypeError, "Gone(reason) takes what the server says, as a text, got 404"),
    (lambda: LinkExpired(None), TypeError, "LinkExpired(reason) takes what the server says, as a text, got None"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "error", "told"), VALUES, ids=[f"{n}-{told[:30]}" for n, (*_, told) in enumerate(VALUES)]
)
def test_a_value_that_cannot_be_is_refused_when_built(make, error, told):
    """It says whose argument it is and what it takes; a text that came is not shown, as it may be a secret."""
    with pytest.raises(error, match="^" + re.escape(told)):
        make()


def test_numbers_are_taken_where_apis_have_them_for_texts():
    """Ids and states come as numbers from some APIs; hints and progress as texts from others."""
    assert Accepted(7) == Accepted("7")
    assert Job(id=7) == Job(id="7")
    assert Pending(3, after="5", progress="40 %") == Pending("3", after=5.0, progress=40.0)
    assert Pending("x", after="soon", progress=math.nan) == Pending("x")
    assert Succeeded(0) == Succeeded("0")


def test_results_may_come_in_any_sequence():
    """They are kept as a tuple of their own."""
    given = [Result("/f")]
    ending = Succeeded("done", results=given)
    given.clear()

    assert ending == Succeeded("done", results=iter([Result("/f")])) == Succeeded("done", results=(Result("/f"),))


def test_a_wrong_verdict_is_told_from_an_unreadable_body(server, clock):
    """A surface at fault ends the operation at once with what it did wrong; a body without a word is asked again."""
    server.script(accepted(), running(), accepted(), {}, done())
    with operation("export", deadline=60, clock=clock) as op:
        job = op.submit("POST", f"{server.url}jobs")
        with pytest.raises(
            SurfaceError, match=r"a verdict that cannot be: Succeeded\(results=\) takes Results, .*got str"
        ):
            op.poll(job, surface=lambda reply, job: Succeeded("done", results=["/f"]))
        job = op.submit("POST", f"{server.url}jobs")
        states = {"succeeded": Succeeded}
        ready = op.poll(
            job, surface=lambda reply, job: states.get(reply.json().get("status"), Pending)(reply.json().get("status"))
        )

    assert ready.state == "succeeded"


def test_a_module_can_be_no_clock():
    """`time` has a sleep and a monotonic, and no random: the message says what to pass."""
    with pytest.raises(TypeError, match=r"clock= takes a Clock, .*got module"):
        operation("export", deadline=60, clock=time)
