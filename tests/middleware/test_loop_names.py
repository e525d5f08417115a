"""The parts that requests of unchanged loops are given, over real sockets, against the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from labelled import FIELD, OWN, Step

from trihop import Reply, operation
from trihop.testing import ScriptedServer, SpanLog, VirtualClock

_HOST = re.compile(r"\{(\w+)\}")


@pytest.fixture
def walk(clock: VirtualClock, spans: SpanLog, session: requests.Session) -> Iterator[Any]:
    """Send a loop inside an operation; the part that each of its exchanges was given."""
    with ExitStack() as open_servers:
        servers: dict[str, ScriptedServer] = {}

        def at(host: str) -> ScriptedServer:
            if host not in servers:
                servers[host] = open_servers.enter_context(ScriptedServer(clock=clock))
            return servers[host]

        def placed(value: Any) -> Any:
            """With the hosts' own addresses."""
            if isinstance(value, str):
                return _HOST.sub(lambda match: at(match[1]).url.rstrip("/"), value)
            if isinstance(value, dict):
                return {name: placed(inner) for name, inner in value.items()}
            return [placed(inner) for inner in value] if isinstance(value, list) else value

        def walk(steps: list[Step]) -> list[str]:
            times = []
            with operation("export", deadline=3600, session=session, clock=clock):
                for one in steps:
                    url, headers = placed(one.url), placed(dict(one.headers))
                    text = one.body if isinstance(one.body, str) else None
                    content = {"content": text.encode()} if text is not None else {"body": placed(one.body)}
                    host = _HOST.match(one.url)
                    assert host is not None
                    at(host[1]).script(Reply(one.status, headers=headers, **content))
                    times.append(clock.time_ns())
                    body = one.truth if one.method == "POST" else None
                    response = session.request(one.method, url, data=body, allow_redirects=False)
                    assert response.status_code == one.status
                    clock.advance(1)
            given = labels(spans)
            spans.clear()
            assert sorted(given) == times  # each exchange is told once
            return [given[time] for time in times]

        yield walk


def labels(spans: SpanLog) -> dict[int, str]:
    """The part of each exchange, by the time at which it began."""
    found: list[tuple[int, str]] = []
    for span in spans.all:
        part = str((span.attributes or {}).get("trihop.hop", ""))
        if part == "request":
            found.append((span.start_time or 0, part))
        elif part:
            found += [(event.timestamp, part) for event in span.events if event.name == "trihop.attempt"]
    assert len(found) == len(dict(found))
    return dict(found)


def wrong(steps: list[Step], given: list[str]) -> list[tuple[Step, str]]:
    """The exchanges that were told to be what they were not."""
    return [(one, part) for one, part in zip(steps, given, strict=True) if part not in ("request", one.truth)]


@pytest.mark.parametrize("loop", [*FIELD, *OWN])
def test_no_request_is_given_a_part_that_it_did_not_play(walk, loop):
    """Whatever the loop, a request is named as what it was, or left plain."""
    steps = {**FIELD, **OWN}[loop]

    assert wrong(steps, walk(steps)) == []


def test_most_parts_of_loops_from_the_field_are_named(walk):
    """Of the requests that play a part, 69 of 81 are named: none of the loops says more by itself."""
    parts = [
        part for steps in FIELD.values() for one, part in zip(steps, walk(steps), strict=True) if one.truth != "other"
    ]

    assert (len(parts), parts.count("request")) == (81, 12)


def test_what_is_named_of_loops_of_our_own(walk):
    """What is left plain is what no exchange proves."""
    plain = {
        loop: [
            f"{one.method} {one.url}"
            for one, part in zip(steps, walk(steps), strict=True)
            if part != one.truth and one.truth != "other"
        ]
        for loop, steps in OWN.items()
    }

    assert {loop: requests for loop, requests in plain.items() if requests} == {
        "a link that runs out": ["GET {storage}/r.gz?sig=old"],
        "jobs that somebody else began": ["GET {api}/jobs/job-3001"] * 3 + ["GET {api}/out/o-3001"],
        "UWS, the phase as text": ["GET {api}/async/job1a2b/results/result"],
    }
