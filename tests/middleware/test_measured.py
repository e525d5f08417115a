"""What is measured of requests that the caller's own code sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from opentelemetry import metrics
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from requests.adapters import HTTPAdapter
from requests.auth import HTTPDigestAuth
from urllib3.util import Retry

from trihop import Reply, operation
from trihop.testing import ScriptedServer, VirtualClock, accepted, done, running

Points = Callable[[str], list[tuple[dict[str, Any], Any]]]


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[Points]:
    """The points of a metric, whoever measured it: attributes, and how often or how much."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", provider)

    def points(name: str) -> list[tuple[dict[str, Any], Any]]:
        data = reader.get_metrics_data()
        found = [
            (dict(point.attributes), getattr(point, "count", None) or getattr(point, "value", None))
            for resource in ([] if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        return sorted(found, key=str)

    yield points
    provider.shutdown()


def exchanges(points: Points) -> list[tuple[str, int | None, str | None, int]]:
    """`http.client.request.duration`: method, status, error and how often."""
    return [
        (
            attributes["http.request.method"],
            attributes.get("http.response.status_code"),
            attributes.get("error.type"),
            count,
        )
        for attributes, count in points("http.client.request.duration")
    ]


def export(session: requests.Session, clock: VirtualClock) -> Any:
    return operation("export", deadline=600, session=session, clock=clock)


def test_each_exchange_is_measured_once(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, points: Points
):
    """Submit, polls, a failure, a redirect with what came before it: each once."""
    server.script(
        accepted("/jobs/J-1"), running(), 503, running(), Reply(302, headers={"Location": "/elsewhere"}), "content", 404
    )
    with export(session, clock):
        session.post(f"{server.url}jobs")
        for _ in range(3):
            session.get(f"{server.url}jobs/J-1")
        session.get(f"{server.url}result")
        session.get(f"{server.url}gone")

    assert exchanges(points) == [
        ("GET", 200, None, 3),
        ("GET", 302, None, 1),
        ("GET", 404, "404", 1),
        ("GET", 503, "503", 1),
        ("POST", 202, None, 1),
    ]


def test_durations_are_those_of_the_exchanges(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    """What a hook of the caller's takes afterwards belongs to no exchange of a redirect."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", provider)
    server.script(lambda _: clock.advance(7) or "content")
    with export(session, clock):
        session.get(server.url)
    data = reader.get_metrics_data()
    assert data is not None
    [point] = [
        point
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "http.client.request.duration"
        for point in metric.data.data_points
    ]
    assert point.sum == 7
    provider.shutdown()


def test_an_auth_handler_that_asks_again_is_measured_twice(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, points: Points
):
    """Digest sends by the adapter, where no session sees it; the response's history does."""
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'}
    server.script(Reply(401, headers=challenge), "in")
    with export(session, clock):
        session.get(server.url, auth=HTTPDigestAuth("me", "pw"))

    assert exchanges(points) == [("GET", 200, None, 1), ("GET", 401, "401", 1)]


def test_a_lost_request_is_measured_under_its_reason(session: requests.Session, clock: VirtualClock, points: Points):
    """No status, and a word for why."""
    with export(session, clock), pytest.raises(requests.ConnectionError):
        session.get("http://127.0.0.1:1/")

    assert exchanges(points) == [("GET", None, "connect_refused", 1)]


def test_a_mounted_retry_is_one_send_with_re_sends(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, points: Points, spans
):
    """What urllib3 sends again by itself is counted on the span; its times are urllib3's own."""
    session.mount("http://", HTTPAdapter(max_retries=Retry(3, status_forcelist=[503], backoff_factor=0)))
    server.script(503, 503, "ok")
    with export(session, clock):
        session.get(server.url)

    assert exchanges(points) == [("GET", 200, None, 1)]
    assert spans.named("GET").attributes["http.request.resend_count"] == 2


def test_beside_opentelemetrys_own_it_is_measured_once(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, points: Points, monkeypatch
):
    """Inside by us, outside by their instrumentation of requests."""
    server.script("in", "out")
    RequestsInstrumentor().instrument()
    try:
        with export(session, clock):
            session.get(server.url)
        inside = points("http.client.request.duration")
        session.get(server.url)
    finally:
        RequestsInstrumentor().uninstrument()

    assert [count for _, count in inside] == [1]
    assert points("http.client.request.duration") == inside


def test_polls_and_downloads_are_measured_as_the_engines(
    session: requests.Session, server: ScriptedServer, clock: VirtualClock, points: Points
):
    """The counters of polls and sizes know no difference between a loop and the engine."""
    server.script(accepted("/jobs/J-1"), running(), 503, done(href="/files/f-77"), "content")
    with export(session, clock):
        session.post(f"{server.url}jobs")
        for _ in range(3):
            answer = session.get(f"{server.url}jobs/J-1")
        session.get(server.url.rstrip("/") + answer.json()["href"])

    own = {"trihop.operation.name": "export", "trihop.provider": "generic.accepted"}
    assert points("trihop.poll.attempts") == [({**own, "error.type": "503"}, 1), (own, 2)]
    assert points("trihop.download.size") == [(own, 1)]
    assert [attributes["trihop.operation.result"] for attributes, _ in points("trihop.operation.duration")] == [
        "success"
    ]
