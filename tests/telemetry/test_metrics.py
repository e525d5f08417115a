"""What is measured, under which names, labels and buckets, and what it costs where nobody collects it."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests
from opentelemetry import metrics
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv.metrics import http_metrics
from telling import (
    ACCEPTED,
    API,
    CONTENT,
    Answer,
    Meter,
    done,
    export,
    in_turn,
    run,
    running,
    told,
    tracing,
)

import trihop
from trihop import Call, JobFailed, PollErrorsExhausted, ReadState, operation
from trihop._telemetry import semconv
from trihop._wire.exchange import DeadlineCut
from trihop.providers import generic
from trihop.testing import ScriptedServer, VirtualClock, accepted, delayed, short
from trihop.testing import done as done_reply
from trihop.testing import running as running_reply

TRIANGLE = (ACCEPTED, running(), done(), CONTENT)
ONE = {"trihop.operation.name": "export", "trihop.provider": "generic.accepted"}


def counted(meter: Meter, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
    """The points of a metric: its labels with its sum, or with count and sum where it is a histogram."""
    return {
        tuple(sorted(point.attributes.items())): (
            (point.count, round(point.sum, 6)) if hasattr(point, "bucket_counts") else point.value
        )
        for point in meter.points(name)
    }


def labels(**more: Any) -> tuple[tuple[str, Any], ...]:
    """Labels as `counted` has them; dots are written as two underscores."""
    return tuple(sorted({**ONE, **{name.replace("__", "."): value for name, value in more.items()}}.items()))


# ---- the table


NOT_BY_A_BLOCK = {semconv.OPERATION_OVERDUE: "read from a store of operations"}


def test_a_triangle_is_measured_as_the_table_has_it(clock: VirtualClock, meter: Meter):
    """Every metric of the table, with its unit, its kind, its buckets and no label but its own."""
    run(in_turn(ACCEPTED, running(), told(503), done(), CONTENT), clock)
    found = meter.metrics()
    assert set(semconv.METRICS) - set(found) == set(NOT_BY_A_BLOCK)
    for name, metric in found.items():
        row = semconv.METRICS[name]
        kind = type(metric.data).__name__
        monotonic = getattr(metric.data, "is_monotonic", None)
        assert (metric.unit, metric.description) == (row.unit, row.meaning)
        assert (kind, monotonic) == {
            "histogram": ("Histogram", None),
            "counter": ("Sum", True),
            "updowncounter": ("Sum", False),
        }[row.type]
        for point in metric.data.data_points:
            assert set(point.attributes) <= set(row.attributes), name
            if row.buckets:
                assert tuple(point.explicit_bounds) == row.buckets, name


def test_the_scope_says_who_measured(clock: VirtualClock):
    """Metrics come from the same scope as spans: the library, its version and the schema of its names."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics._internal, "_METER_PROVIDER", provider)
        run(in_turn(*TRIANGLE), clock)
    data = reader.get_metrics_data()
    provider.shutdown()
    assert data is not None
    (scope,) = [scope.scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    assert (scope.name, scope.version, scope.schema_url) == ("trihop", trihop.__version__, semconv.SCHEMA_URL)


# ---- operations


def test_an_operation_is_counted_by_its_result(clock: VirtualClock, meter: Meter):
    """Duration and use of the deadline, by result; a failure by the word of its traceback as well."""
    run(in_turn(*TRIANGLE), clock)
    with pytest.raises(JobFailed):
        run(in_turn(ACCEPTED, running(), told(200, {"status": "failed"})), clock, deadline=4)
    assert counted(meter, "trihop.operation.duration") == {
        labels(trihop__operation__result="success"): (1, 2.0),
        labels(trihop__operation__result="failure", error__type="JobFailed"): (1, 2.0),
    }
    assert counted(meter, "trihop.operation.deadline.utilization") == {
        labels(trihop__operation__result="success"): (1, round(2 / 60, 6)),
        labels(trihop__operation__result="failure"): (1, 0.5),
    }


def test_no_deadline_has_no_utilization(clock: VirtualClock, meter: Meter):
    """What has no end cannot be used up."""
    run(in_turn(*TRIANGLE), clock, deadline=None)
    assert counted(meter, "trihop.operation.deadline.utilization") == {}
    assert len(counted(meter, "trihop.operation.duration")) == 1


def test_open_blocks_are_counted_while_they_are_open(clock: VirtualClock, meter: Meter):
    """One more on entry, one less at the end, however it comes."""
    with pytest.raises(RuntimeError), export(in_turn(*TRIANGLE), clock):
        with export(in_turn(*TRIANGLE), clock):
            assert counted(meter, "trihop.operation.active") == {labels(): 2}
        assert counted(meter, "trihop.operation.active") == {labels(): 1}
        raise RuntimeError
    assert counted(meter, "trihop.operation.active") == {labels(): 0}


def test_a_result_is_measured_by_its_size(clock: VirtualClock, meter: Meter):
    """One measurement for each result that arrived whole."""
    with export(in_turn(ACCEPTED, done(), CONTENT, told(404), told(404)), clock) as op:
        op.run("POST", f"{API}jobs")
        with pytest.raises(trihop.ResultUnavailable):
            op.download(f"{API}files/2")
    assert counted(meter, "trihop.download.size") == {labels(): (1, 8)}


# ---- polls


def test_polls_are_counted_by_how_they_failed(clock: VirtualClock, meter: Meter):
    """Good polls without an error type, failed ones under a word."""
    page: Answer = (200, {"Content-Type": "text/html"}, b"<html>")
    session = in_turn(ACCEPTED, running(), told(503), running(), page, requests.ReadTimeout(), done(), CONTENT)
    run(session, clock)
    assert counted(meter, "trihop.poll.attempts") == {
        labels(): 3,
        labels(error__type="503"): 1,
        labels(error__type="not_json"): 1,
        labels(error__type="read_timeout"): 1,
    }


def test_the_servers_sentences_are_no_labels(clock: VirtualClock, meter: Meter):
    """A reason in the server's own words would be a new time series each; it is told on the attempt."""
    surface = ReadState("status", transient="oops", succeeded={"succeeded"})
    answers = [ACCEPTED, *(told(200, {"oops": f"shard {n} is busy"}) for n in range(4)), done()]
    with export(in_turn(*answers), clock, provider=replace(generic.ACCEPTED, poll=surface)) as op:
        op.submit("POST", f"{API}jobs")
        op.poll()
    assert counted(meter, "trihop.poll.attempts") == {labels(): 1, labels(error__type="transient"): 4}


def test_polls_for_a_fresh_link_are_polls(clock: VirtualClock, meter: Meter):
    """A question asked again during the download counts as the others do."""
    link, fresh = (done(f"https://files.example.com/1?X-Amz-Signature={n}") for n in (1, 2))
    op = run(in_turn(ACCEPTED, link, told(403), fresh, CONTENT), clock)
    assert counted(meter, "trihop.poll.attempts") == {labels(): op._run.polls}
    assert op._run.polls == 2


def test_pauses_between_polls_are_measured_by_their_reason(clock: VirtualClock, meter: Meter):
    """As long as they took, by what set them; a pause of the caller's own, or before a resend, is none of these."""
    sleep, naps = clock.sleep, iter([0.0, 100.0, 0.0, 0.0, 0.0])
    clock.sleep = lambda seconds: sleep(seconds + next(naps))  # type: ignore[method-assign]
    answers = [ACCEPTED, running(), told(503), running(Retry_After="7"), done(), told(503), CONTENT]
    run(in_turn(*answers), clock, deadline=600)
    one = {"trihop.operation.name": "export"}
    assert counted(meter, "trihop.poll.wait.duration") == {
        tuple({**one, "trihop.wait.reason": "pacing"}.items()): (2, 1.0 + 101.0),
        tuple({**one, "trihop.wait.reason": "backoff"}.items()): (1, 1.0),
        tuple({**one, "trihop.wait.reason": "hint"}.items()): (1, 7.0),
    }
    clock.sleep = sleep  # type: ignore[method-assign]
    with export(in_turn(*TRIANGLE), clock, "other") as op:
        op.sleep(5)
    assert {point.attributes["trihop.operation.name"] for point in meter.points("trihop.poll.wait.duration")} == {
        "export"
    }


# ---- exchanges


def exchanges(meter: Meter) -> dict[tuple[Any, ...], tuple[int, float]]:
    """How many exchanges and how long, by method, host, port, status and error, where there is one."""
    names = ("http.request.method", "server.address", "server.port", "http.response.status_code", "error.type")
    return {
        tuple(point.attributes[name] for name in names if name in point.attributes): (point.count, point.sum)
        for point in meter.points("http.client.request.duration")
    }


def test_the_http_metric_is_the_conventions_own(meter: Meter, clock: VirtualClock):
    """Name, unit and buckets are those of the semantic conventions, so that one dashboard serves all clients."""
    run(in_turn(*TRIANGLE), clock)
    metric = meter.metrics()[http_metrics.HTTP_CLIENT_REQUEST_DURATION]
    assert metric.unit == "s"
    assert list(metric.data.data_points[0].explicit_bounds) == [
        *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
    ]


def test_each_exchange_is_measured_once(clock: VirtualClock, meter: Meter, session: requests.Session):
    """With what was asked and answered, its body included, on the wire as it was."""
    with ScriptedServer(clock=clock) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        server.script(
            delayed(1, accepted()),
            delayed(2, running_reply()),
            delayed(4, 503),
            delayed(8, done_reply(result_url="{url}files/1")),
            delayed(16, short("a,b\n", 2)),
            delayed(32, "a,b\n"),
        )
        with operation("export", deadline=120, session=session, clock=clock) as op:
            op.run("POST", f"{server.url}jobs")
    assert exchanges(meter) == {
        ("POST", "127.0.0.1", port, 202): (1, 1.0),
        ("GET", "127.0.0.1", port, 200): (3, 2.0 + 8.0 + 32.0),
        ("GET", "127.0.0.1", port, 503, "503"): (1, 4.0),
        ("GET", "127.0.0.1", port, 200, "body_truncated"): (1, 16.0),
    }


def test_a_redirect_is_an_exchange_of_its_own(clock: VirtualClock, meter: Meter, session: requests.Session):
    """Each server that answered is measured, not only the last."""
    with ScriptedServer(clock=clock) as one, ScriptedServer(clock=clock) as other:
        ports = [int(server.url.rstrip("/").rpartition(":")[2]) for server in (one, other)]
        one.script(delayed(1, trihop.Reply(302, headers={"Location": f"{other.url}files/1"})))
        other.script(delayed(2, "a,b\n"))
        with operation("export", deadline=120, session=session, clock=clock) as op:
            op.download(f"{one.url}files/1")
    assert exchanges(meter) == {
        ("GET", "127.0.0.1", ports[0], 302): (1, 1.0),
        ("GET", "127.0.0.1", ports[1], 200): (1, 2.0),
    }


def test_a_connection_gone_stale_is_an_exchange_of_its_own(
    clock: VirtualClock, meter: Meter, session: requests.Session
):
    """A request that went out again on a fresh connection was on the wire twice."""

    def hang_up(connection: Any, call: Any) -> None:
        connection.close()

    with ScriptedServer(clock=clock) as server:
        server.script(running_reply(), hang_up, done_reply())
        with operation("export", deadline=120, session=session, clock=clock) as op:
            op.poll(f"{server.url}jobs/1")
        port = int(server.url.rstrip("/").rpartition(":")[2])
    assert {labels: count for labels, (count, _) in exchanges(meter).items()} == {
        ("GET", "127.0.0.1", port, 200): 2,
        ("GET", "127.0.0.1", port, "connection_reset"): 1,
    }


def test_an_exchange_without_a_reply_goes_by_its_reason(clock: VirtualClock, meter: Meter):
    """Never a made-up status, and the same word as on the attempt."""
    with pytest.raises(PollErrorsExhausted):
        run(in_turn(ACCEPTED, requests.ConnectTimeout(), requests.ConnectionError()), clock)
    with pytest.raises(trihop.DeadlineExceeded):
        run(in_turn(ACCEPTED, DeadlineCut("headers")), clock)
    assert exchanges(meter) == {
        ("POST", "api.example.com", 443, 202): (2, 0.0),
        ("GET", "api.example.com", 443, "connect_timeout"): (1, 0.0),
        ("GET", "api.example.com", 443, "connection_error"): (4, 0.0),
        ("GET", "api.example.com", 443, "deadline"): (1, 0.0),
    }


def test_a_page_that_is_not_json_is_an_error_of_the_exchange(clock: VirtualClock, meter: Meter):
    """A captive proxy's 200 is told apart from an answer."""
    page: Answer = (200, {"Content-Type": "text/html"}, b"<html>")
    run(in_turn(ACCEPTED, page, done(), CONTENT), clock)
    assert exchanges(meter) == {
        ("POST", "api.example.com", 443, 202): (1, 0.0),
        ("GET", "api.example.com", 443, 200): (2, 0.0),
        ("GET", "api.example.com", 443, 200, "not_json"): (1, 0.0),
    }


def test_a_cancel_is_an_exchange_like_any_other(clock: VirtualClock, meter: Meter):
    """Whatever we send is measured, as the HTTP libraries' own instrumentation is kept silent meanwhile."""
    provider = replace(generic.ACCEPTED, cancel=Call("DELETE", "{status_url}"))
    with export(in_turn(ACCEPTED, told(204)), clock, provider=provider) as op:
        op.submit("POST", f"{API}jobs")
        op.cancel()
    assert exchanges(meter) == {
        ("POST", "api.example.com", 443, 202): (1, 0.0),
        ("DELETE", "api.example.com", 443, 204): (1, 0.0),
    }


def test_requests_of_a_hop_by_hand_are_measured_once(clock: VirtualClock, meter: Meter):
    """Whoever sent it, each exchange is one measurement, and each poll is counted once."""
    session = in_turn(running(), done())
    with export(session, clock) as op, op.hop("poll") as hop:
        while hop.wait(session.get(f"{API}jobs/1")) is None:
            pass
    assert [count for count, _ in exchanges(meter).values()] == [2]
    assert counted(meter, "trihop.poll.attempts") == {labels(): 2}


# ---- exemplars


@pytest.fixture
def exemplary() -> Iterator[Meter]:
    """A meter that keeps an exemplar of everything."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False, exemplar_filter=AlwaysOnExemplarFilter())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics._internal, "_METER_PROVIDER", provider)
        yield Meter(reader)
    provider.shutdown()


def test_exemplars_lead_to_the_trace(clock: VirtualClock, exemplary: Meter):
    """Each measurement is taken under the root, so that a bucket leads to an operation that fell into it."""
    with tracing() as log:
        op = run(in_turn(*TRIANGLE), clock)
    root = log.get_finished_spans()[-1].get_span_context()
    assert root is not None
    assert op.trace_id == format(root.trace_id, "032x")
    for name, metric in exemplary.metrics().items():
        for point in metric.data.data_points:
            assert point.exemplars, name
            for exemplar in point.exemplars:
                assert (exemplar.trace_id, exemplar.span_id) == (root.trace_id, root.span_id), name


# ---- nobody collects


def test_nothing_is_measured_where_nobody_collects(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """Without a meter provider no instrument is made, and asking for one costs less than ten microseconds a poll."""
    from trihop._telemetry import tracing as _tracing

    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", None)
    assert _tracing.instruments() is None
    op = run(in_turn(*TRIANGLE), clock)
    once_s = min(timeit.repeat(lambda: op._run.measure("trihop.poll.attempts", 1, ONE), number=1_000, repeat=5)) / 1_000
    assert once_s < 2e-6


@pytest.mark.parametrize("broken", ["get_meter", "create_histogram", "record"])
def test_a_meter_that_fails_fails_nothing_else(broken: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch):
    """A fault in somebody's meter provider never reaches the caller."""

    class Instrument:
        def record(self, *_: Any, **__: Any) -> None:
            raise RuntimeError

        add = record

    class Meters(metrics.MeterProvider):
        def get_meter(self, *_: Any, **__: Any) -> Any:
            if broken == "get_meter":
                raise RuntimeError
            return self

        def create_histogram(self, *_: Any, **__: Any) -> Instrument:
            if broken == "create_histogram":
                raise RuntimeError
            return Instrument()

        create_counter = create_up_down_counter = create_histogram

    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", Meters())
    op = run(in_turn(*TRIANGLE), clock)
    assert op._run.polls == 2
