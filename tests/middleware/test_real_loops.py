"""Loops that exist already, run as they are and inside `operation(…)`: nothing changes but what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
import tenacity
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from trihop import Reply, operation
from trihop.testing import ScriptedServer, SpanLog, VirtualClock

Loop = Callable[[requests.Session, str, Callable[[float], None]], bytes]


def plain(session: requests.Session, api: str, sleep: Callable[[float], None]) -> bytes:
    """As in a thousand scripts."""
    submitted = session.post(f"{api}jobs", json={"table": "accounts"}, headers={"X-Request": "1"})
    submitted.raise_for_status()
    status = api.rstrip("/") + submitted.headers["Location"]
    while True:
        polled = session.get(status, timeout=(3, 30))
        polled.raise_for_status()
        job = polled.json()
        if job["state"] != "InProgress":
            break
        sleep(float(polled.headers.get("Retry-After", 5)))
    if job["state"] != "Done":
        raise RuntimeError(job["state"])
    with session.get(job["result"], stream=True) as response:
        response.raise_for_status()
        return b"".join(response.iter_content(7))


def with_tenacity(session: requests.Session, api: str, sleep: Callable[[float], None]) -> bytes:
    """The same, each step tried again by a decorator."""

    class NotYet(Exception):
        pass

    again = tenacity.retry(
        retry=tenacity.retry_if_exception_type((requests.HTTPError, NotYet)),
        wait=tenacity.wait_fixed(5),
        stop=tenacity.stop_after_attempt(10),
        sleep=sleep,
        reraise=True,
    )

    @again
    def submit() -> str:
        response = session.post(f"{api}jobs", data={"table": "accounts"})
        response.raise_for_status()
        return str(response.headers["Location"])

    @again
    def wait(location: str) -> str:
        response = session.get(api.rstrip("/") + location)
        response.raise_for_status()
        if response.json()["state"] == "InProgress":
            raise NotYet
        return str(response.json()["result"])

    @again
    def fetch(url: str) -> bytes:
        response = session.get(url)
        response.raise_for_status()
        return response.content

    return fetch(wait(submit()))


def with_retry(session: requests.Session, api: str, sleep: Callable[[float], None]) -> bytes:
    """The same, tried again underneath by urllib3."""
    patient = Retry(total=5, backoff_factor=0, status_forcelist=(503,), allowed_methods=None)
    session.mount(api, HTTPAdapter(max_retries=patient))
    status = api.rstrip("/") + session.post(f"{api}jobs", json={}).headers["Location"]
    while (job := session.get(status).json())["state"] == "InProgress":
        sleep(5)
    return session.get(job["result"]).content


def script(server: ScriptedServer, *, troubled: bool) -> None:
    """A job that takes three good polls; with trouble at each hop, if there is to be some."""
    trouble: list[Any] = [503] if troubled else []
    server.script(
        *trouble,
        Reply(202, headers={"Location": "/jobs/J-7001"}),
        {"state": "InProgress"},
        Reply(200, {"state": "InProgress"}, headers={"Retry-After": "9"}),
        *trouble,
        {"state": "Done", "result": "{url}files/9"},
        *trouble,
        b"a,b\n1,2\n3,4\n",
    )


def on_the_wire(server: ScriptedServer, since: int) -> list[tuple[Any, ...]]:
    """Every request in full, but for `traceparent`."""
    calls = server.calls[since:]
    first = calls[0].connection
    return [
        (
            call.method,
            call.path,
            [field for field in call.headers.fields if field[0] != "traceparent"],
            call.body,
            call.connection - first,
        )
        for call in calls
    ]


LOOPS: dict[str, tuple[Loop, bool]] = {
    "a plain while loop": (plain, False),
    "tenacity": (with_tenacity, True),
    "a mounted Retry": (with_retry, True),
}


@pytest.mark.parametrize("which", LOOPS)
def test_a_loop_sends_and_returns_the_same(which: str, server: ScriptedServer, clock: VirtualClock, spans: SpanLog):
    """Byte for byte but `traceparent`, on as many connections, with the same result and the same pauses."""
    loop, troubled = LOOPS[which]
    script(server, troubled=troubled)
    with requests.Session() as session:
        bare = loop(session, server.url, clock.sleep)
    sent, slept = on_the_wire(server, 0), list(clock.sleeps)
    assert spans.all == []

    script(server, troubled=troubled)
    with requests.Session() as session, operation("export", deadline=600, session=session, clock=clock):
        inside = loop(session, server.url, clock.sleep)

    assert inside == bare == b"a,b\n1,2\n3,4\n"
    assert on_the_wire(server, len(sent)) == sent
    assert clock.sleeps == [*slept, *slept]
    assert len({span.context.trace_id for span in spans.all}) == 1
    [root] = spans.roots
    assert [span.name for span in spans.children(root)] == ["submit export", "poll export", "download export"]


@pytest.mark.parametrize("which", LOOPS)
def test_a_loop_has_its_story_told(which: str, server: ScriptedServer, clock: VirtualClock, spans: SpanLog):
    """Each hop with its re-sends, the polls with their pauses, all linked, and the job on them."""
    loop, troubled = LOOPS[which]
    script(server, troubled=troubled)
    with requests.Session() as session, operation("export", deadline=600, session=session, clock=clock):
        loop(session, server.url, clock.sleep)

    submit, poll, download = (spans.named(f"{hop} export") for hop in ("submit", "poll", "download"))
    assert [[link.context.span_id for link in hop.links] for hop in (submit, poll, download)] == [
        [],
        [submit.context.span_id],
        [poll.context.span_id],
    ]
    assert {hop.attributes["trihop.job.id"] for hop in (submit, poll, download)} == {"J-7001"}
    assert {hop.status.status_code.name for hop in (submit, poll, download)} == {"UNSET"}
    resends = 1 if troubled else None
    assert [hop.attributes.get("http.request.resend_count") for hop in (submit, download)] == [resends, resends]
    told = {name: poll.attributes[f"trihop.poll.{name}"] for name in ("attempts", "errors", "wait_time")}
    pauses = sum(clock.sleeps[1:-1] if which == "tenacity" else clock.sleeps)
    assert told == {
        "attempts": 4 if which == "tenacity" else 3,
        "errors": 1 if which == "tenacity" else 0,
        "wait_time": pauses,
    }
    assert download.attributes["trihop.download.size"] == 12


@pytest.mark.parametrize("which", LOOPS)
def test_a_loop_tells_the_server_its_trace(which: str, server: ScriptedServer, clock: VirtualClock, spans: SpanLog):
    """Each request names the root, as its own span is known only later."""
    loop, troubled = LOOPS[which]
    script(server, troubled=troubled)
    with requests.Session() as session, operation("export", deadline=600, session=session, clock=clock):
        loop(session, server.url, clock.sleep)

    [root] = spans.roots
    ids = root.context
    expected = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"
    assert {call.headers.get("traceparent") for call in server.calls} == {expected}
