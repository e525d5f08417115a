"""What these tests share: a session, a second origin, and the triangle over `field.jobs`."""

from __future__ import annotations

import gc
import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from field.jobs import JOBS
from trihop import Download, Ready, TrihopError, operation
from trihop.testing import ScriptedServer, SpanLog, VirtualClock


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A session after which a socket that nobody closed warns, and so fails the test."""
    with requests.Session() as session:
        session.trust_env = False
        yield session
    gc.collect()


@pytest.fixture
def other(clock: VirtualClock) -> Iterator[ScriptedServer]:
    """A second server: another port, so another origin."""
    with ScriptedServer(clock=clock) as other:
        yield other


@pytest.fixture
def wait_for(server: ScriptedServer, session: requests.Session, clock: VirtualClock) -> Callable[..., Ready]:
    """Submit a job and wait until it is over; further arguments are those of `op.poll`."""

    def wait_for(*, deadline: Any = 600, provider: Any = JOBS, on_event: Any = None, **as_in_poll: Any) -> Ready:
        with operation(
            "export", deadline=deadline, session=session, provider=provider, clock=clock, on_event=on_event
        ) as op:
            return op.poll(op.submit("POST", server.url + "jobs", json={}), **as_in_poll)

    return wait_for


@pytest.fixture
def fetch(server: ScriptedServer, session: requests.Session, clock: VirtualClock) -> Callable[..., Download]:
    """Submit a job, wait until it is over and download its one result; further arguments are the operation's."""

    def fetch(*, to: Any = None, deadline: Any = 600, provider: Any = JOBS, **as_in_operation: Any) -> Download:
        with operation(
            "export", deadline=deadline, session=session, provider=provider, clock=clock, **as_in_operation
        ) as op:
            return op.run("POST", server.url + "jobs", to=to, json={})

    return fetch


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening, so nobody else gets it meanwhile
        yield bound.getsockname()[1]


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port at which connecting never ends: its backlog is full."""
    with ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        for _ in range(4):
            filler = open_sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


@pytest.fixture
def told(spans: SpanLog, caplog: pytest.LogCaptureFixture) -> Callable[[TrihopError], str]:
    """All that an error, its traceback, our log and every span say, as one text."""
    caplog.set_level("DEBUG")

    def told(error: TrihopError) -> str:
        return "\n".join(
            [
                *map(repr, (error, error.args, error.cause, error.record, vars(error))),
                *traceback.format_exception(error),
                *(record.getMessage() for record in caplog.records if not record.name.startswith("urllib3")),
                *(span.to_json() for span in spans.all),
            ]
        )

    return told
