"""Which operation a request belongs to: threads, nested blocks, generators, one session for many."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

import trihop
from trihop import DeadlineExceeded, operation
from trihop.testing import SpanLog, VirtualClock


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session without a socket: a job's URL is its id, and every poll says how often it was asked."""
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", Jobs())
        yield session


class Jobs(BaseAdapter):
    """A POST for the job named in `X-Job` is accepted; a GET is answered by the end of its path."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: dict[str, set[str]] = {}

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        url = str(request.url)
        job = request.headers.get("X-Job") or url.rpartition("/")[2]
        self.traces.setdefault(job, set()).add(request.headers.get("traceparent", "")[3:35])
        response = requests.Response()
        response.url, response.request, response.status_code = url, request, 202 if request.method == "POST" else 200
        response._content = b'{"state": "%s"}' % job.encode()
        if request.method == "POST":
            response.headers["Location"] = f"/jobs/{job}"
        return response

    def close(self) -> None:
        pass


def loop(session: requests.Session, job: str, polls: int = 2) -> None:
    location = session.post("http://api.example/jobs", headers={"X-Job": job}).headers["Location"]
    for _ in range(polls):
        assert session.get(f"http://api.example{location}").json()["state"] == job


def export(session: requests.Session, clock: VirtualClock, name: str = "export", **options: Any) -> Any:
    return operation(name, **{"deadline": 600, "session": session, "clock": clock, **options})


def mine(spans: SpanLog, trace_id: str | None) -> list[str]:
    """The names of the spans of a trace, in the order of their ends."""
    return [span.name for span in spans.all if format(span.context.trace_id, "032x") == trace_id]


# ---- threads


def test_a_thread_of_ones_own_knows_no_operation(session, clock, spans):
    """Threads begin with an empty context: what they send is untouched, unless it was bound."""
    with export(session, clock) as op:
        for target in (lambda: loop(session, "free-1"), op.bind(lambda: loop(session, "bound-1"))):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    adapter = session.get_adapter("http://api.example")
    assert adapter.traces == {"free-1": {""}, "bound-1": {op.trace_id}}
    assert mine(spans, op.trace_id) == ["submit export", "poll export", "export"]


def test_bound_in_a_pool(session, clock, spans):
    """Many workers at once, each call in a copy of the context; arguments and results go through."""
    with ThreadPoolExecutor(8) as pool, export(session, clock) as op:

        def fetch(number: int, *, step: int = 0) -> str:
            return session.get(f"http://api.example/items/{number}").json()["state"]

        assert [*pool.map(op.bind(fetch), range(40))] == [str(number) for number in range(40)]
        assert pool.submit(op.bind(fetch), 7, step=1).result() == "7"

    assert mine(spans, op.trace_id) == ["GET"] * 41 + ["export"]


def test_spans_of_a_bound_function_are_in_the_trace(session, clock, spans):
    """What it starts by OpenTelemetry is below the root."""
    tracer = trace.get_tracer("mine")

    def work() -> None:
        with tracer.start_as_current_span("step"):
            pass

    with ThreadPoolExecutor(1) as pool, export(session, clock):
        [root_id] = [trace.get_current_span().get_span_context().span_id]
        with export(session, clock, "inner") as inner:
            pool.submit(inner.bind(work)).result()

    assert spans.named("step").parent.span_id == spans.named("inner").context.span_id
    assert spans.named("inner").parent.span_id == root_id


def test_bound_from_elsewhere_it_is_still_that_operation(session, clock, spans):
    """`op.bind` called where another operation is the innermost, or in a thread that knows none."""
    with (
        export(session, clock, "outer") as outer,
        export(session, clock, "inner") as inner,
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(outer.bind(loop), session, "outer-1").result()
        bound_there = pool.submit(lambda: outer.bind(loop)).result()
        pool.submit(bound_there, session, "outer-2").result()

    assert mine(spans, inner.trace_id).count("poll outer") == 2
    assert "poll inner" not in mine(spans, inner.trace_id)


def test_a_bound_function_is_under_the_deadline(session, clock):
    """In whatever thread, the next request after the deadline is refused."""
    with ThreadPoolExecutor(1) as pool, export(session, clock, deadline=10) as op:
        bound = op.bind(lambda: loop(session, "job-1"))
        clock.advance(11)
        with pytest.raises(DeadlineExceeded):
            pool.submit(bound).result()


def test_a_bound_function_that_runs_after_the_block_is_free(session, clock, spans):
    """Its operation is over; it sends as if there had been none."""
    with export(session, clock, deadline=10) as op:
        bound = op.bind(loop)
    clock.advance(100)
    bound(session, "late-1")

    assert session.get_adapter("http://api.example").traces == {"late-1": {""}}
    assert mine(spans, op.trace_id) == ["export"]


def test_binding_needs_an_open_block(session, clock):
    """Before and after, it says so."""
    op = export(session, clock)
    with pytest.raises(RuntimeError, match="not open"):
        op.bind(loop)
    with op:
        pass
    with pytest.raises(RuntimeError, match="has ended"):
        op.bind(loop)


def test_two_operations_on_one_session_at_once(session, clock, spans):
    """Side by side in two threads, step by step, they never mix."""
    turns = [threading.Semaphore(1), threading.Semaphore(0)]
    ops: dict[int, Any] = {}

    def run(number: int) -> None:
        def turn(method: str, path: str) -> None:
            turns[number].acquire()
            session.request(method, f"http://api.example/{path}", headers={"X-Job": f"job-{number}"})
            turns[1 - number].release()

        with export(session, clock, f"export {number}") as op:
            ops[number] = op
            turn("POST", "jobs")
            for _ in range(3):
                turn("GET", f"jobs/job-{number}")

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for number, op in ops.items():
        assert mine(spans, op.trace_id) == [f"submit export {number}", f"poll export {number}", f"export {number}"]
        assert spans.named(f"poll export {number}").attributes["trihop.poll.attempts"] == 3


def test_sixty_four_threads_with_two_hundred_operations_each(session, clock, spans):
    """On one shared session: every span in its own trace, and no poll is counted in another's span."""
    problems: list[object] = []
    session.get_adapter("http://api.example").traces = traces = {}

    def send(method: str, url: str, **headers: str) -> None:
        request = requests.PreparedRequest()  # made by hand: `requests` itself takes longest of all
        request.method, request.url, request.headers = method, url, CaseInsensitiveDict(headers)
        request.hooks, request._cookies = {"response": []}, session.cookies
        session.send(request)

    def briefly(job: str, polls: int) -> None:
        send("POST", "http://api.example/jobs", **{"X-Job": job})
        for _ in range(polls):
            send("GET", f"http://api.example/jobs/{job}")

    def run(worker: int) -> None:
        for number in range(200):
            job = f"job-{worker}-{number}"
            with export(session, clock, "export") as op:
                op.bind(briefly)(job, 2 + number % 2)
                if op.job is None or op.job.id != job or op.job.state != job:
                    problems.append((job, op.job))

    workers = [threading.Thread(target=run, args=(worker,)) for worker in range(64)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert problems == []
    assert len(traces) == 64 * 200
    assert all(len(seen) == 1 for seen in traces.values())
    by_trace: dict[int, list[Any]] = {}
    for span in spans.all:
        by_trace.setdefault(span.context.trace_id, []).append(span)
    assert len(by_trace) == 64 * 200
    for of_one in by_trace.values():
        assert [span.name for span in of_one] == ["submit export", "poll export", "export"]
        jobs = {span.attributes["trihop.job.id"] for span in of_one}
        [job] = jobs
        assert of_one[1].attributes["trihop.poll.attempts"] == 2 + int(job.rpartition("-")[2]) % 2


def test_a_prepared_request_that_two_operations_send_at_once(session, clock, spans):
    """Each sends it with its own trace; the request itself, and what came of it, stay as they were."""
    prepared = session.prepare_request(requests.Request("GET", "http://api.example/shared"))
    headers, together, traces = dict(prepared.headers), threading.Barrier(2, timeout=30), []

    class Slow(Jobs):
        def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
            together.wait()
            traces.append((request.headers["traceparent"], threading.get_ident()))
            together.wait()
            return super().send(request, **options)

    def work(name: str) -> None:
        with export(session, clock, name) as op:
            ids.append((op.trace_id, threading.get_ident()))
            assert session.send(prepared).request is prepared

    ids: list[tuple[str, int]] = []
    session.mount("http://", Slow())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ["one", "two"]))

    assert sorted((trace[3:35], thread) for trace, thread in traces) == sorted(ids)
    assert (dict(prepared.headers), sorted(vars(prepared))) == (headers, sorted(vars(requests.PreparedRequest())))


# ---- nested blocks


def test_a_request_belongs_to_the_innermost_block(session, clock, spans):
    """And after it again to the outer one."""
    with export(session, clock, "outer"):
        loop(session, "outer-1")
        with export(session, clock, "inner"):
            loop(session, "inner-1")
        session.get("http://api.example/afterwards")

    outer, inner = spans.named("outer"), spans.named("inner")
    assert [span.name for span in spans.children(inner)] == ["submit inner", "poll inner"]
    assert {span.name for span in spans.children(outer)} == {"submit outer", "poll outer", "inner", "GET"}


def test_a_block_with_another_session_leaves_the_outer_ones_alone(session, clock, spans):
    """A request on the outer block's session, inside the inner block, is the outer's."""
    with requests.Session() as other:
        other.mount("http://", Jobs())
        with export(session, clock, "outer"), export(other, clock, "inner"):
            session.get("http://api.example/x")
            other.get("http://api.example/y")

    urls = {span.attributes["url.full"][-1]: span.parent.span_id for span in spans.all if span.name == "GET"}
    assert urls == {"x": spans.named("outer").context.span_id, "y": spans.named("inner").context.span_id}


def test_an_inner_block_has_no_more_time_than_the_outer_one(session, clock):
    """Whatever it asks for."""
    with pytest.raises(DeadlineExceeded), export(session, clock, deadline=10), export(session, clock, deadline=1000):
        clock.advance(11)
        loop(session, "job-1")


# ---- generators


def rows(session: requests.Session, clock: VirtualClock, name: str) -> Iterator[str]:
    with export(session, clock, name):
        loop(session, f"{name}-1")
        yield "one"
        session.get(f"http://api.example/{name}-2")
        yield "two"


def test_a_block_in_a_generator(session, clock, spans):
    """Read to its end, it is one trace; afterwards nothing is covered."""
    assert [*rows(session, clock, "gen")] == ["one", "two"]
    session.get("http://api.example/outside")

    assert [span.name for span in spans.all] == ["submit gen", "GET", "poll gen", "gen"]
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_generators_closed_out_of_turn(session, clock, spans):
    """Two at once, the first closed first: each keeps what is its own, and nothing is left behind."""
    first, second = rows(session, clock, "one"), rows(session, clock, "two")
    assert (next(first), next(second)) == ("one", "one")
    first.close()
    assert next(second) == "two"
    second.close()
    session.get("http://api.example/outside")

    names = {name: [span.name for span in spans.children(spans.named(name))] for name in ("one", "two")}
    assert names == {"one": ["submit one", "poll one", "two"], "two": ["submit two", "GET", "poll two"]}
    assert session.get_adapter("http://api.example").traces["outside"] == {""}
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_generator_closed_in_a_thread_of_another_operation(session, clock, spans):
    """The thread's own operation stays covered."""
    stream = rows(session, clock, "stream")
    next(stream)

    def close() -> None:
        with export(session, clock, "closing"):
            stream.close()
            loop(session, "closing-1")

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()

    assert [span.name for span in spans.children(spans.named("closing"))] == ["submit closing", "poll closing"]
    session.get("http://api.example/outside")
    assert session.get_adapter("http://api.example").traces["outside"] == {""}


def test_a_block_entered_in_a_copied_context(session, clock, spans):
    """As frameworks run handlers: what happens in the copy stays there."""

    def handler() -> None:
        with export(session, clock):
            loop(session, "job-1")

    contextvars.copy_context().run(handler)
    session.get("http://api.example/outside")

    assert [span.name for span in spans.all] == ["submit export", "poll export", "export"]
    assert session.get_adapter("http://api.example").traces["outside"] == {""}


# ---- spans of others


def test_a_span_of_the_callers_own_stays_the_current_one(session, clock, spans):
    """While a request is sent, hooks and what they start see the caller's span, not the root."""
    tracer = trace.get_tracer("mine")

    def note(response: requests.Response, **_: Any) -> None:
        seen.append(trace.get_current_span())

    seen: list[Any] = []
    with export(session, clock), tracer.start_as_current_span("step") as step:
        session.get("http://api.example/x", hooks={"response": note})

    assert seen == [step]


def test_an_exporter_inside_a_block_is_not_told(session, clock, spans):
    """Who asks for silence, as exporters do while they send, gets it; and is not under the deadline."""
    trihop.instrument()
    try:
        with requests.Session() as exporter, export(session, clock, deadline=10):
            exporter.mount("http://", Jobs())
            clock.advance(11)
            with suppress_instrumentation():
                exporter.post("http://collector.example/v1/traces")
                with pytest.raises(DeadlineExceeded):
                    session.get("http://api.example/mine")
    finally:
        trihop.uninstrument()

    assert [span.name for span in spans.all] == ["export"]


def test_silence_is_kept(session, clock, spans):
    """A caller that asks for no spans of what it sends gets none, and the server learns no trace."""
    with export(session, clock), suppress_instrumentation():
        loop(session, "quiet-1")

    assert session.get_adapter("http://api.example").traces == {"quiet-1": {""}}
    assert [span.name for span in spans.all] == ["export"]
