"""Everything that can go wrong with an operation, at a server that quotes what it was sent."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from security import canaries
from security.canaries import echo, signed
from security.proxy import Proxy
from trihop import (
    Budget,
    Call,
    Content,
    DeadlineExceeded,
    Event,
    Failed,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobPartiallyFailed,
    Operation,
    OperationTaken,
    OutcomeAmbiguous,
    Pending,
    PollBudgetExhausted,
    PollErrorsExhausted,
    Provider,
    ReadJob,
    ReadState,
    Ready,
    Reply,
    Result,
    ResultCorrupt,
    ResultUnavailable,
    RetryPolicy,
    StatusUnavailable,
    SubmitRejected,
    SubmitUncertain,
    Succeeded,
    SurfaceError,
    Transient,
    TrihopError,
    operation,
)
from trihop.testing import ScriptedServer, VirtualClock, delayed, reset, short, silent

ACME = Provider(
    "acme",
    submit=ReadJob("id", rejected="rejected"),
    poll=ReadState(
        "status",
        pending={"running"},
        succeeded={"succeeded"},
        failed={"failed"},
        cancelled={"cancelled"},
        expired={"expired"},
        ambiguous={"held"},
        results="links",
        error="error",
        message="message",
        counts="counts",
        bad_items="bad",
        transient="transient",
    ),
    cancel=Call("DELETE", "{status_url}"),
    budget=Budget(consecutive_errors=2),
    retry=RetryPolicy(attempts=2),
)
LONG_S = 7200


@dataclass
class World:
    """Two servers, a session with credentials, and an operation to come."""

    server: ScriptedServer
    foreign: ScriptedServer
    session: requests.Session
    clock: VirtualClock
    tmp_path: Path
    kind: str
    monkeypatch: pytest.MonkeyPatch
    link: str = "aws"
    events: list[Event] = field(default_factory=list)
    on_event: Callable[[Event], None] | None = None
    op: Operation | None = None
    ready: Ready | None = None

    @property
    def jobs(self) -> str:
        """Where to submit."""
        user = f"{canaries.USER}:{quote(canaries.PASSWORD, safe='')}@" if self.kind == "userinfo" else ""
        return self.server.url.replace("//", f"//{user}", 1) + "jobs"

    @property
    def file(self) -> str:
        """The signed link to the result."""
        return signed(self.foreign.url + "files/1")[self.link]

    @property
    def written(self) -> dict[str, str]:
        """Headers that the caller writes."""
        token = canaries.WRITTEN
        return {"X-Written-Token": token, "Authorization": f"Bearer {token}"} if self.kind == "session" else {}

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if self.on_event is not None:
            self.on_event(event)

    @contextlib.contextmanager
    def operation(self, *, provider: Provider = ACME, **options: Any) -> Iterator[Operation]:
        """The operation, remembered."""
        options = {"deadline": 600, "clock": self.clock, "on_event": self.hear, **options}
        with operation("export", session=self.session, provider=provider, **options) as self.op:
            yield self.op

    def run(
        self,
        *replies: Any,
        download: Any = None,
        provider: Provider = ACME,
        impatient: str = "",
        **options: Any,
    ) -> None:
        """The triangle, against these replies of the API and of the place where the result is; one hop may not wait."""
        timeout = {impatient: 0.05}
        self.server.script(*[self.bound(reply) for reply in replies])
        if download is not None:
            self.foreign.script(then_always=self.bound(download))
        with self.operation(provider=provider) as op:
            job = op.submit("POST", self.jobs, json={"q": 1}, headers=self.written, timeout=timeout.get("submit"))
            self.ready = op.poll(job, timeout=timeout.get("poll"))
            op.download(self.ready, timeout=timeout.get("download"), **options)

    def bound(self, reply: Any) -> Any:
        """The reply, made by this world if it is one of ours."""
        return (lambda call: reply.make(self, call)) if isinstance(reply, Made) else reply


# ---- replies


@dataclass(frozen=True)
class Made:
    """A reply that depends on the world."""

    make: Callable[[World, Any], Reply]


ECHO, FILE = object(), object()


def body(http: int = 200, /, **fields: Any) -> Made:
    """JSON, in which ECHO quotes what was sent and FILE is the signed link to the result."""

    def filled(world: World, call: Any, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled(world, call, part) for name, part in value.items()}
        if isinstance(value, list):
            return [filled(world, call, part) for part in value]
        return echo(call) if value is ECHO else world.file if value is FILE else value

    return Made(lambda world, call: Reply(http, filled(world, call, fields)))


def text(status: int = 200) -> Made:
    """A text that quotes what was sent."""
    return Made(lambda world, call: Reply(status, content=echo(call).encode()))


def refusing(status: int) -> Made:
    """A refusal that quotes what was sent, in headers too; as a text for odd statuses, else as JSON."""

    def make(world: World, call: Any) -> Reply:
        told = echo(call)
        headers = {"WWW-Authenticate": f"Bearer error={told}", "X-Request-Id": told, "Retry-After": told}
        if status % 2:
            return Reply(status, headers=headers, content=told.encode())
        return Reply(status, {"error": {"code": told, "message": told, "more": [told]}}, headers=headers)

    return Made(make)


ACCEPTED = Reply(202, {"id": "7"}, headers={"Location": signed("/jobs/7")["azure"]})
RUNNING = body(status=ECHO, message=ECHO)
DONE = body(status="succeeded", links=[FILE])

# ---- the scenarios

Scenario = Callable[[World], None]
SCENARIOS: dict[str, tuple[Scenario, type[BaseException] | None]] = {}


def case(name: str, raises: type[BaseException] | None, *replies: Any, link: str = "aws", **options: Any) -> None:
    """A scenario that is a triangle against these replies."""

    def run(world: World) -> None:
        world.link = link
        world.run(*replies, **options)

    assert name not in SCENARIOS
    SCENARIOS[name] = run, raises


def scenario(raises: type[BaseException] | None) -> Callable[[Scenario], Scenario]:
    """A scenario that is a function of the world; its docstring's first words are its name."""

    def note(run: Scenario) -> Scenario:
        name = str(run.__doc__).rstrip(".")
        assert name not in SCENARIOS
        SCENARIOS[name] = run, raises
        return run

    return note


# ---- all goes well, or the server says no

for link in ("aws", "azure", "cloudfront", "userinfo"):
    case(f"success over {link}", None, ACCEPTED, RUNNING, DONE, download=b"rows", link=link)
    for status in (401, 403, 404, 410, 500, 503):
        case(
            f"download over {link} answered {status}",
            ResultUnavailable,
            *(ACCEPTED, DONE, DONE),
            download=refusing(status),
            link=link,
        )
for status in (400, 401, 403, 404, 409, 422):
    case(f"submit answered {status}", SubmitRejected, refusing(status))
for status in (500, 503):
    case(f"submit answered {status}", SubmitUncertain, refusing(status))
for status in (400, 401, 403, 405):
    case(f"poll answered {status}", StatusUnavailable, ACCEPTED, RUNNING, *[refusing(status)] * 2)
for status in (404, 410):
    case(f"poll answered {status}", JobExpired, ACCEPTED, RUNNING, refusing(status))
for status in (429, 500, 503):
    case(f"polls answered {status}", PollErrorsExhausted, ACCEPTED, RUNNING, *[refusing(status)] * 2)

ENDS = {"failed": JobFailed, "cancelled": JobCancelled, "expired": JobExpired, "held": OutcomeAmbiguous}
for word, kind in ENDS.items():
    case(f"job {word}", kind, ACCEPTED, RUNNING, body(status=word, error={"code": ECHO, "message": ECHO}))
case(
    "job done in part",
    JobPartiallyFailed,
    ACCEPTED,
    body(status="succeeded", bad=3, links=[FILE], counts={"told": ECHO}, message=ECHO),
)
case(
    "job failed in a state that quotes",
    JobFailed,
    ACCEPTED,
    RUNNING,
    provider=replace(ACME, poll=lambda reply, job: Failed(reply.text, error=[reply.text], message=reply.text)),
)
case("job failed at once", JobFailed, body(told=ECHO), provider=replace(ACME, submit=lambda reply: Failed(reply.text)))
case("rejected within a 200", SubmitRejected, body(rejected=[{"message": ECHO}]))
case("no answer within a 200", PollErrorsExhausted, ACCEPTED, *[body(transient=ECHO)] * 2)
case("budget spent", PollBudgetExhausted, ACCEPTED, *[RUNNING] * 3, provider=replace(ACME, budget=Budget(polls=3)))
case("result larger than allowed", ResultUnavailable, ACCEPTED, DONE, download=b"x" * 100, max_size=10)
case("result with another digest", ResultCorrupt, ACCEPTED, DONE, download=b"x", sha256="0" * 64)


@scenario(OperationTaken)
def taken(world: World) -> None:
    """The key is taken."""
    with world.operation(key="k"), world.operation(key="k"):
        pass


@scenario(ResultUnavailable)
def works_once(world: World) -> None:
    """A link that works once breaks off."""
    once = Succeeded("succeeded", results=(Result(world.file, single_use=True),))
    broken = short(Reply(200, content=b"x" * 100), 10)
    world.run(ACCEPTED, DONE, download=broken, provider=replace(ACME, poll=lambda reply, job: once))


# ---- surfaces that fail

case("submit makes no sense", SurfaceError, text(202))
case("submit names no job", SurfaceError, body(202, told=ECHO))
case(
    "submit names a job at no place",
    SurfaceError,
    Reply(202, headers={"Location": f"http://[bad/jobs?X-Amz-Signature={canaries.AWS}"}),
)


def broken(kind: type[Exception]) -> Callable[..., Any]:
    """A surface that raises with what it saw."""

    def surface(reply: Reply, *_: object) -> object:
        raise kind(f"cannot read {reply.text} of {reply.url}")

    return surface


for error in (KeyError, ValueError, TypeError):
    name = error.__name__
    case(f"submit surface raises {name}", SurfaceError, text(202), provider=replace(ACME, submit=broken(error)))
    case(
        f"poll surface raises {name}",
        TrihopError,
        *(ACCEPTED, RUNNING, RUNNING),
        provider=replace(ACME, poll=broken(error)),
    )
    case(
        f"download surface raises {name}",
        SurfaceError,
        *(ACCEPTED, DONE),
        download=text(),
        provider=replace(ACME, download=broken(error)),
    )
case(
    "poll surface raises RuntimeError",
    RuntimeError,
    *(ACCEPTED, RUNNING),
    provider=replace(ACME, poll=broken(RuntimeError)),
)
case(
    "poll surface returns no verdict",
    SurfaceError,
    *(ACCEPTED, RUNNING),
    provider=replace(ACME, poll=lambda reply, job: reply.text),  # type: ignore[arg-type, return-value]
)
NOWHERE = f"http://[bad/?X-Amz-Signature={canaries.AWS}"
case(
    "monitor moves to no place",
    SurfaceError,
    *(ACCEPTED, RUNNING),
    provider=replace(ACME, poll=lambda reply, job: Pending("running", status_url=NOWHERE)),
)
case(
    "result at no place",
    ResultUnavailable,
    ACCEPTED,
    body(status="succeeded", links=[signed("s3://bucket/key")["aws"]]),
)
case(
    "page names itself",
    SurfaceError,
    *(ACCEPTED, DONE),
    download=b"rows",
    provider=replace(ACME, download=lambda reply, result: Content(next=reply.url)),
)
case(
    "page names no place",
    ResultUnavailable,
    *(ACCEPTED, DONE),
    download=b"rows",
    provider=replace(ACME, download=lambda reply, result: Content(next=NOWHERE)),
)
case(
    "download surface gives a reason that quotes",
    ResultUnavailable,
    *(ACCEPTED, DONE),
    download=text(),
    provider=replace(ACME, download=lambda reply, result: Transient(reply.text)),
)

# ---- the network fails


def garbage(sock: socket.socket, call: Any) -> None:
    """No HTTP at all."""
    sock.sendall(f"who are you? {echo(call)}\r\n\r\n".encode())
    sock.close()


def bad_chunk(sock: socket.socket, _: object) -> None:
    """A chunk without a size."""
    sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    sock.close()


def long_line(sock: socket.socket, _: object) -> None:
    """A header field longer than http.client reads."""
    sock.sendall(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n")
    sock.close()


def leads_to(location: str) -> Reply:
    """A redirect that every hop follows."""
    return Reply(307, headers={"Location": location})


FAULTS: dict[str, Any] = {
    "reset": reset(),
    "closed": short(),
    "short": short(Reply(200, content=b"x" * 100), 10),
    "garbage": garbage,
    "bad chunk": bad_chunk,
    "long line": long_line,
    "no gzip": Reply(200, content=b"no gzip", headers={"Content-Encoding": "gzip"}),
    "silent": silent(),
    "silent in the body": silent(Reply(200, content=b"x" * 100), 10),
    "redirect loop": leads_to(signed("/loop")["aws"]),
    "redirect to no place": leads_to(NOWHERE),
    "redirect to no host": leads_to(signed("http://" + "x" * 64 + ".test/")["aws"]),
    "redirect to nobody": leads_to(signed("http://127.0.0.1:1/")["aws"]),
    "redirect to nobody with a password": leads_to(signed("http://127.0.0.1:1/")["userinfo"]),
}
for name, fault in FAULTS.items():
    hop = {one: one if name.startswith("silent") else "" for one in ("submit", "poll", "download")}
    case(f"submit: {name}", TrihopError, *[fault] * 40, impatient=hop["submit"])
    case(f"poll: {name}", PollErrorsExhausted, ACCEPTED, *[fault] * 70, impatient=hop["poll"])
    if name != "no gzip":  # what is no gzip is taken as it is
        case(f"download: {name}", TrihopError, ACCEPTED, DONE, DONE, download=fault, impatient=hop["download"])


class Vanishing(HTTPAdapter):
    """After so many requests there is nobody any more."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        if self.left == 0:
            scheme, _, authority, *path = str(request.url).split("/")
            request.url = "/".join([scheme, "", authority.rpartition(":")[0] + ":1", *path])
        self.left -= self.left > 0
        return super().send(request, **options)


def mounted(name: str, raises: type[Exception], adapter: Callable[[], HTTPAdapter], *replies: Any, **more: Any) -> None:
    """A scenario over an adapter of the caller's."""

    def run(world: World) -> None:
        world.session.mount("http://", adapter())
        world.run(*replies, **more)

    SCENARIOS[name] = run, raises


def retrying() -> HTTPAdapter:
    """With a Retry underneath."""
    return HTTPAdapter(max_retries=Retry(total=1, backoff_factor=0, status_forcelist=[503], allowed_methods=None))


mounted("submit: refused", SubmitRejected, lambda: Vanishing(0))
mounted("poll: refused", PollErrorsExhausted, lambda: Vanishing(1), ACCEPTED)
mounted("download: refused", ResultUnavailable, lambda: Vanishing(2), ACCEPTED, DONE)
mounted("submit: a Retry gives up", SubmitUncertain, retrying, *[reset()] * 2)
mounted("poll: a Retry gives up", PollErrorsExhausted, retrying, ACCEPTED, *[503] * 4)
mounted("poll: a Retry would wait", DeadlineExceeded, retrying, ACCEPTED, Reply(503, headers={"Retry-After": "7200"}))
mounted("download: a Retry gives up", ResultUnavailable, retrying, ACCEPTED, DONE, download=503)


@scenario(SubmitRejected)
def unresolved(world: World) -> None:
    """submit: no such name."""

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    with world.monkeypatch.context() as patch, world.operation() as op:
        patch.setattr(socket, "getaddrinfo", fail)
        op.submit("POST", signed("http://nowhere.invalid/jobs")["aws"], headers=world.written)


@scenario(SubmitRejected)
def untrusted(world: World) -> None:
    """submit: an unknown certificate."""
    world.session.cert = None
    with ScriptedServer(tls=True) as server, world.operation() as op:
        op.submit("POST", signed(server.url + "jobs")["aws"], headers=world.written)


@scenario(SubmitRejected)
def no_certificate(world: World) -> None:
    """submit: no client certificate at its path."""
    world.session.cert = str(world.tmp_path / f"no-{canaries.CERT}.pem")
    with ScriptedServer(tls=True) as server, world.operation() as op:
        op.submit("POST", server.url + "jobs", verify=server.ca_file)


@scenario(PollErrorsExhausted)
def falls(world: World) -> None:
    """poll: redirected from https to http."""
    world.session.cert = None
    with ScriptedServer(tls=True, clock=world.clock) as server, world.operation() as op:
        server.script(ACCEPTED, then_always=leads_to(world.file))
        op.poll(op.submit("POST", server.url + "jobs", verify=server.ca_file))


def proxied(name: str, raises: type[Exception], proxy: str) -> None:
    """A scenario over a proxy that is of no use."""

    def run(world: World) -> None:
        world.session.proxies = {"http": proxy}
        world.run()

    SCENARIOS[f"proxy: {name}"] = run, raises


proxied("refused", TrihopError, f"http://me:{canaries.PROXY}@127.0.0.1:1")
proxied("refused by SOCKS", TrihopError, f"socks5h://me:{canaries.PROXY}@127.0.0.1:1")
proxied("no such scheme", Exception, f"gopher://me:{canaries.PROXY}@127.0.0.1:1")
proxied("malformed", Exception, f"http://me:{canaries.PROXY}@:x")
proxied("without a host", Exception, f"http://me:{canaries.PROXY}@")


@scenario(SubmitRejected)
def refused_by_a_proxy(world: World) -> None:
    """proxy: quotes what it was told."""
    with Proxy(("me", canaries.PROXY), quotes=True) as proxy:
        world.session.proxies = {"http": proxy.url}
        world.run()


@scenario(StatusUnavailable)
def refused_through_a_proxy(world: World) -> None:
    """poll: refused through a proxy."""
    with Proxy(("me", canaries.PROXY)) as proxy:
        world.session.proxies = {"http": proxy.url}
        world.run(ACCEPTED, RUNNING, *[refusing(403)] * 2)


# ---- the deadline strikes

case(
    "deadline: a hint does not fit",
    DeadlineExceeded,
    ACCEPTED,
    Made(lambda world, call: Reply(200, {"status": echo(call)}, headers={"Retry-After": "7200"})),
)


def half(head: bytes) -> Callable[[socket.socket, Any], None]:
    """A reply that stops in the middle, until the client has gone."""

    def send(sock: socket.socket, _: Any) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n" + head)
        while sock.recv(65536):
            pass

    return send


# The time is up before the first half comes, so that nobody waits for the second.
LATE = {"headers": delayed(LONG_S, half(b"")), "body": delayed(LONG_S, half(b"\r\nx"))}
for phase, shape in LATE.items():
    case(f"deadline: submit, in the {phase}", DeadlineExceeded, shape)
    case(f"deadline: poll, in the {phase}", DeadlineExceeded, ACCEPTED, RUNNING, shape)
    case(f"deadline: download, in the {phase}", DeadlineExceeded, ACCEPTED, DONE, download=shape)


@scenario(DeadlineExceeded)
def between(world: World) -> None:
    """deadline: between two requests."""
    world.on_event = lambda event: world.clock.advance(LONG_S) if event.kind == "submitted" else None
    world.run(ACCEPTED)


def _in_real_time(world: World, url: str) -> None:
    world.session.cert = None
    with operation("export", deadline=0.1, session=world.session, provider=ACME) as world.op:
        world.op.submit("POST", signed(url)["aws"], verify=False)


@scenario(DeadlineExceeded)
def connecting(world: World) -> None:
    """deadline: connecting."""
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        _in_real_time(world, f"http://127.0.0.1:{full.getsockname()[1]}/jobs")


@scenario(DeadlineExceeded)
def handshaking(world: World) -> None:
    """deadline: in the TLS handshake."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        _in_real_time(world, f"https://127.0.0.1:{mute.getsockname()[1]}/jobs")


# ---- the caller's own part


@scenario(None)
def listener_fails(world: World) -> None:
    """A listener fails with what it heard and more."""

    def fail(event: Event) -> None:
        if event.kind in ("state_changed", "polled"):
            sent = world.server.calls[-1].headers.fields
            raise ValueError(f"cannot show {event!r} of {dict(world.session.headers)} and {sent}")

    world.on_event = fail
    world.run(ACCEPTED, RUNNING, DONE, download=b"rows")


@scenario(ValueError)
def bad_header(world: World) -> None:
    """A header that cannot be sent."""
    world.session.headers["X-Api-Key"] = f"{canaries.API_KEY}\n"
    world.run()


@scenario(ValueError)
def bad_bytes(world: World) -> None:
    """A header of bytes that cannot be sent."""
    world.session.headers["X-Api-Key"] = f" {canaries.API_KEY}".encode()
    world.run()


@scenario(requests.HTTPError)
def own_error(world: World) -> None:
    """The block raises an error of requests."""
    world.server.script(world.bound(refusing(403)))
    with world.operation():
        world.session.get(signed(world.server.url + "x")["aws"]).raise_for_status()


@scenario(KeyboardInterrupt)
def interrupted(world: World) -> None:
    """Ctrl-C cancels, and that is refused."""

    def interrupt(event: Event) -> None:
        if event.kind in ("polled", "state_changed"):
            raise KeyboardInterrupt

    world.on_event = interrupt
    world.server.script(ACCEPTED, world.bound(RUNNING), world.bound(refusing(403)))
    with world.operation(on_interrupt="cancel") as op:
        op.poll(op.submit("POST", world.jobs, headers=world.written))


@scenario(None)
def cancel_refused(world: World) -> None:
    """A cancel is refused."""
    world.server.script(ACCEPTED, world.bound(refusing(403)))
    with world.operation() as op:
        op.submit("POST", world.jobs, headers=world.written)
        assert op.cancel() is False


@scenario(StatusUnavailable)
def by_hand(world: World) -> None:
    """A loop of the caller's own is judged by hand."""
    world.server.script(ACCEPTED, world.bound(RUNNING), world.bound(refusing(403)))
    with world.operation() as op:
        world.session.post(world.server.url + "jobs", headers=world.written)
        with op.hop("poll") as hop:
            for _ in range(2):
                hop.wait(world.session.get(signed(world.server.url + "jobs/7")["azure"], headers=world.written))


def loop(world: World) -> None:
    """A loop as it was written before there were operations."""
    session, own = world.session, world.written
    reply = session.post(world.jobs, json={"q": 1}, headers=own)
    at = world.server.url.rstrip("/") + reply.headers["Location"]
    while "links" not in (found := session.get(at, headers=own).json()):
        world.clock.sleep(1)
    session.get(found["links"][0], headers=own).raise_for_status()


@scenario(None)
def loop_ends_well(world: World) -> None:
    """An unchanged loop."""
    world.server.script(ACCEPTED, *[world.bound(reply) for reply in (RUNNING, RUNNING, refusing(500), RUNNING, DONE)])
    world.server.script(world.bound(text()))
    world.foreign.script(world.bound(text()))
    with world.operation():
        world.session.hooks["response"].append(as_json)
        loop(world)


def as_json(response: requests.Response, **_: object) -> None:
    """Have a page of text read as JSON that says nothing."""
    if not response.content.startswith(b"{"):
        response._content = b"{}"


@scenario(requests.HTTPError)
def loop_is_refused(world: World) -> None:
    """An unchanged loop meets a refusal."""
    world.server.script(ACCEPTED, *[world.bound(reply) for reply in (RUNNING, RUNNING, DONE)])
    world.foreign.script(world.bound(refusing(403)))
    with world.operation():
        loop(world)


@scenario(DeadlineExceeded)
def loop_has_no_end(world: World) -> None:
    """An unchanged loop runs into the deadline."""
    world.server.script(ACCEPTED, then_always=world.bound(RUNNING))
    with world.operation(deadline=20):
        loop(world)


@scenario(DeadlineExceeded)
def loop_is_cut(world: World) -> None:
    """An unchanged loop is cut in the body of a reply."""
    world.server.script(ACCEPTED, world.bound(RUNNING), LATE["body"])
    with world.operation():
        loop(world)


@scenario(requests.ConnectionError)
def loop_loses_its_server(world: World) -> None:
    """An unchanged loop loses its connection."""
    world.server.script(ACCEPTED, world.bound(RUNNING), reset())
    with world.operation():
        loop(world)
