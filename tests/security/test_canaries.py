"""No credential and no signed link turns up anywhere, whatever goes wrong: scenarios x credentials x places."""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import pytest
import requests
from opentelemetry.exporter.otlp.json.file import FileSpanExporter

from security import canaries
from security.canaries import assert_silent
from security.scenarios import ACCEPTED, ACME, FILE, SCENARIOS, World, body
from trihop import (
    Accepted,
    Content,
    Failed,
    JobFailed,
    JobPartiallyFailed,
    Pending,
    Rejected,
    Reply,
    StatusUnavailable,
    SubmitRejected,
    Succeeded,
    SurfaceError,
    Transient,
    TrihopError,
    operation,
)
from trihop.testing import SpanLog, VirtualClock

CARRIED = ("session", "basic", "userinfo", "netrc", "netrc default", "oauth")

# The caller's own exceptions reach the caller as they are; what is written down of them is ours.
OWN = frozenset({requests.HTTPError, requests.ConnectionError, RuntimeError})


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


# ---- where no name tells of it


@pytest.mark.parametrize("world", ["session"], indirect=True)
@pytest.mark.parametrize("spelt", [canaries.API_KEY, quote(canaries.API_KEY, safe="")])
def test_a_known_credential_in_a_path_is_in_no_span_and_no_message(world: World, spans: SpanLog, spelt: str) -> None:
    """The session's key again as a part of each URL, as it is and percent-encoded; users and tenants stay."""
    world.session.headers["X-Tenant"] = "acme-corp"
    status = {"Location": f"/acme-corp/{spelt}/jobs/7"}
    world.server.script(Reply(202, {"id": "7"}, headers=status), {"status": "running"}, 403)
    with pytest.raises(StatusUnavailable) as refused, world.operation() as op:
        op.poll(op.submit("POST", f"{world.server.url}{spelt}/jobs"))
    world.server.script(200)
    with world.operation():
        world.session.get(f"{world.server.url}{spelt}/plain")

    assert_silent(canaries.span_texts(spans.all), {"the API key": canaries.API_KEY})
    told = [("the message", str(refused.value)), *canaries.event_texts(world.events)]
    assert_silent(iter(told), {"the API key": canaries.API_KEY})
    submitted, polled = spans.named("submit export"), spans.named("poll export")
    assert str((submitted.attributes or {})["url.full"]).startswith(f"{world.server.url}REDACTED/jobs")
    assert str((polled.attributes or {})["url.full"]).startswith(f"{world.server.url}acme-corp/REDACTED/jobs/7")


@pytest.mark.parametrize("world", ["session"], indirect=True)
def test_a_job_id_that_is_a_credential_is_in_no_message_and_no_event(world: World, spans: SpanLog) -> None:
    """It is shown as REDACTED; `error.job` has it, for code that goes on."""
    accepted = Reply(202, {"id": canaries.API_KEY}, headers={"Location": "/jobs/7"})
    world.server.script(accepted, {"status": "failed"})
    with pytest.raises(JobFailed) as failed, world.operation() as op:
        op.poll(op.submit("POST", world.jobs))

    told = [*canaries.event_texts(world.events), *canaries.span_texts(spans.all), ("the message", str(failed.value))]
    assert_silent(iter(told), {"the API key": canaries.API_KEY})
    assert "job=REDACTED" in str(failed.value)
    assert {event.job_id for event in world.events} == {None, "REDACTED"}
    assert failed.value.job_id == canaries.API_KEY
    assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value)


@pytest.mark.parametrize("world", ["session"], indirect=True)
def test_a_job_id_that_is_a_credential_of_the_submit_alone_is_in_no_event(world: World) -> None:
    """It is known as soon as it has gone out."""
    world.server.script(Reply(202, {"id": canaries.WRITTEN}, headers={"Location": "/jobs/7"}))
    with world.operation() as op:
        op.submit("POST", world.jobs, headers=world.written)

    assert_silent(canaries.event_texts(world.events), {"the token given to op.submit": canaries.WRITTEN})
    assert "REDACTED" in {event.job_id for event in world.events}


def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
    request.headers["X-Magic"] = canaries.OAUTH
    return request


@pytest.mark.parametrize("world", ["basic"], indirect=True)
@pytest.mark.parametrize("given", ["session", "submit"])
def test_what_an_auth_handler_sends_is_known_by_whatever_name(world: World, spans: SpanLog, given: str) -> None:
    """A server that quotes it quotes it to nobody."""
    world.session.auth = sign if given == "session" else None
    options = {"auth": sign} if given == "submit" else {}
    world.server.script(lambda call: Reply(422, {"code": "E7", "message": f"{call.headers['X-Magic']} may not"}))
    with pytest.raises(SubmitRejected, match="E7: REDACTED may not") as rejected, world.operation() as op:
        op.submit("POST", world.jobs, **options)

    assert_silent(canaries.span_texts(spans.all), {"an OAuth token": canaries.OAUTH})
    assert_silent(canaries.event_texts(world.events), {"an OAuth token": canaries.OAUTH})
    assert_silent(canaries.pickle_texts(rejected.value), {"an OAuth token": canaries.OAUTH})


# ---- what the server said


@pytest.mark.parametrize("world", ["session"], indirect=True)
def test_what_the_server_said_is_at_hand_as_it_was_said(world: World) -> None:
    """`error.error` and `error.reply` are the server's own words, for code; in a pickle they are redacted."""
    world.server.script(lambda call: Reply(422, {"code": "E7", "message": f"{call.headers['X-Api-Key']} may not"}))
    with pytest.raises(SubmitRejected) as rejected, world.operation() as op:
        op.submit("POST", world.jobs)
    assert rejected.value.error == {"code": "E7", "message": f"{canaries.API_KEY} may not"}
    assert "HTTP 422: E7: REDACTED may not" in str(rejected.value)
    twin = pickle.loads(pickle.dumps(rejected.value))
    assert (twin.error, str(twin)) == ({"code": "E7", "message": "REDACTED may not"}, str(rejected.value))

    world.server.script(
        lambda call: Reply(202, {"told": call.headers["X-Api-Key"]}, headers={"X-Token": canaries.API_KEY})
    )
    with pytest.raises(SurfaceError) as nonsense, world.operation() as op:
        op.submit("POST", world.jobs)
    reply = nonsense.value.reply
    assert reply is not None
    assert (reply.json(), reply.headers["X-Token"]) == ({"told": canaries.API_KEY}, canaries.API_KEY)
    twin = pickle.loads(pickle.dumps(nonsense.value))
    assert (twin.reply.json(), twin.reply.headers["X-Token"]) == ({"told": "REDACTED"}, "REDACTED")
    assert (reply.status_code, reply.url) == (twin.reply.status_code, twin.reply.url)


@pytest.mark.parametrize("world", ["session"], indirect=True)
def test_a_pickled_ending_still_leads_to_its_results(world: World, clock: VirtualClock) -> None:
    """`.ready` has its signed links, which its repr does not show, and none of the session's credentials."""
    partial = body(status="succeeded", bad=1, links=[FILE])
    world.server.script(ACCEPTED, world.bound(partial))
    world.foreign.script(b"rows")
    with pytest.raises(JobPartiallyFailed) as raised, world.operation() as op:
        op.poll(op.submit("POST", world.jobs))
    twin = pickle.loads(pickle.dumps(raised.value))
    assert "X-Amz-Signature=REDACTED" in repr(twin.ready)
    with operation("later", deadline=60, clock=clock) as op:
        assert op.download(twin.ready).content == b"rows"


@pytest.mark.parametrize("world", ["session"], indirect=True)
@pytest.mark.parametrize("length", range(495 - len(canaries.API_KEY), 500))
def test_half_a_secret_is_not_shown_where_a_text_is_cut(world: World, length: int) -> None:
    """A page is quoted up to a length, and a secret may stand across it."""
    page = f"{('words ' * 100)[: length - 1]} {canaries.API_KEY} and more"
    world.server.script(Reply(422, content=page.encode()))
    with pytest.raises(SubmitRejected) as rejected, world.operation() as op:
        op.submit("POST", world.jobs)
    assert canaries.API_KEY[:5] not in str(rejected.value.error).replace(canaries.API_KEY, "")


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (
            Failed("failed", error={"why": "x"}, message="x"),
            "Failed(state='failed', results=(), error=..., message=...)",
        ),
        (Pending("running", message="x", after=4), "Pending(state='running', after=4.0, message=..., known=True)"),
        (Succeeded("done", counts={"total": 3}), "Succeeded(state='done', results=(), counts=...)"),
        (Accepted("7", "https://h/1?sig=abcdef"), "Accepted(id='7', status_url='https://h/1?sig=REDACTED', memo={})"),
        (Rejected({"why": "x"}), "Rejected(error=...)"),
        (Content(next="?sig=abcdef"), "Content(next='?sig=REDACTED', header_lines=0)"),
        (Transient("503", after=2), "Transient(reason='503', after=2.0)"),
    ],
)
def test_a_verdict_shows_what_it_is_and_not_what_the_server_said(verdict: object, shown: str) -> None:
    """Bodies are elided and links redacted: it may end up in a log of whoever wrote the surface."""
    assert repr(verdict) == shown


def test_a_provider_shows_its_name() -> None:
    """Its templates may have a key in them."""
    assert repr(replace(ACME, status="{status_url}?key=s3cr3t")) == "Provider('acme')"
