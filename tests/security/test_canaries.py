"""No credential and no signed link turns up anywhere, whatever goes wrong: scenarios x credentials x places."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from opentelemetry.exporter.otlp.json.file import FileSpanExporter

from security import canaries
from security.canaries import assert_silent, carry
from security.scenarios import ACME, SCENARIOS, World
from trihop import TrihopError
from trihop.testing import ScriptedServer, SpanLog, VirtualClock

CARRIED = ("session", "basic", "userinfo", "netrc", "netrc default", "oauth")

# The caller's own exceptions reach the caller as they are; what is written down of them is ours.
OWN = frozenset({requests.HTTPError, requests.ConnectionError, RuntimeError})


@pytest.fixture
def world(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """Servers and a session that carries one kind of credentials."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with requests.Session() as plain, ScriptedServer(clock=clock) as server, ScriptedServer(clock=clock) as foreign:
        session = carry(request.param, plain, tmp_path / "netrc", monkeypatch)
        yield World(server, foreign, session, clock, tmp_path, request.param, monkeypatch)
        session.close()


@pytest.mark.parametrize("world", CARRIED, indirect=True)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_credential_turns_up_anywhere(
    world: World, name: str, spans: SpanLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Spans, trace file, logs, events, errors with all that hangs on them, and reprs: none has a canary."""
    run, raises = SCENARIOS[name]
    caught: BaseException | None = None
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "trihop"):
        try:
            run(world)
        except (Exception, KeyboardInterrupt) as error:
            caught = error
    assert (caught is None) if raises is None else isinstance(caught, raises), f"expected {raises}, got {caught!r}"
    file = io.StringIO()
    FileSpanExporter(stream=file).export(spans.all)

    def texts() -> Iterator[tuple[str, str]]:
        yield from canaries.span_texts(spans.all)
        yield "the trace file", file.getvalue()
        yield from canaries.log_texts(caplog.records)
        yield from canaries.event_texts(world.events)
        yield from canaries.value_texts(canaries.reprs_of(world.ready, ACME))
        if world.op is not None:
            yield "repr of the Operation", repr(world.op)
            yield "repr of its Job", repr(world.op.job) if world.op._run_or_none is not None else ""
        if caught is not None and type(caught) not in OWN:
            yield from canaries.error_texts(caught)

    assert_silent(texts(), {**canaries.CREDENTIALS, **canaries.LINKS})
    if isinstance(caught, TrihopError):
        # The URLs that it takes to go on are in there, and they may be signed.
        assert_silent(canaries.pickle_texts(caught), canaries.CREDENTIALS)
