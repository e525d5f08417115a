"""The examples of engines, and code as an engine's users would write it."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import celery
import pytest
import requests
from procrastinate.testing import InMemoryConnector

import trihop
from trihop import Operation, Ready, Worker, operation
from trihop.engines.celery import install
from trihop.providers import salesforce

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(request, monkeypatch, clock, store, server, tmp_path):
    """The module of that name; its store is in memory, and its operations run on the virtual clock."""
    for module in ("_operation", "_worker"):
        monkeypatch.setattr(f"trihop.{module}._SYSTEM_CLOCK", clock)
    monkeypatch.setattr(trihop, "SQLStore", lambda url: store, raising=False)
    monkeypatch.setenv("EXPORTS_API", server.url.rstrip("/"))
    monkeypatch.setenv("EXPORTS_BROKER", "memory://")
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location(request.param, EXAMPLES / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, request.param, module)
    spec.loader.exec_module(module)
    yield module
    module.session_for("acme.exports").close()


def script(server):
    """A job that takes two questions and has a file."""
    server.script({"id": "750", "state": "UploadComplete"}, {"state": "InProgress"})
    server.script({"state": "JobComplete", "resultUrl": "/files/750"})
    server.on("GET", "/files/750", b"Id\n1\n")


def asked(server):
    return [(call.method, call.path) for call in server.calls]


WALK = [("POST", "/jobs/query"), *[("GET", "/jobs/query/750")] * 2, ("GET", "/files/750")]


@pytest.mark.parametrize("example", ["celery_exports"], indirect=True)
def test_celery_exports(example, server, clock, store, tmp_path):
    """Begun twice, submitted once; a tick for each hop, and the file is there."""
    example.app.conf.task_always_eager = True
    script(server)
    example.start.delay("2026-03-01")
    example.start.delay("2026-03-01")
    for _ in range(4):
        example.dispatch.delay()
        clock.advance(1)

    assert asked(server) == WALK
    assert (tmp_path / "accounts-2026-03-01.csv").read_bytes() == b"Id\n1\n"
    assert store.get("accounts-2026-03-01").ended


@pytest.mark.parametrize("example", ["procrastinate_exports"], indirect=True)
def test_procrastinate_exports(example, server, clock, store, tmp_path):
    """The same, on a queue in memory."""
    script(server)
    example.app.periodic_registry.periodic_tasks.clear()

    async def walk():
        with example.app.replace_connector(InMemoryConnector()) as app:
            async with app.open_async():
                for number in range(12):  # whether a step runs at once or a tick later is up to the queue
                    if number < 2:
                        await example.start.defer_async(day="2026-03-01")
                    await example.dispatch.defer_async(timestamp=number)
                    await app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=False)
                    clock.advance(1)

    asyncio.run(walk())

    assert asked(server) == WALK
    assert (tmp_path / "accounts-2026-03-01.csv").read_bytes() == b"Id\n1\n"
    assert store.get("accounts-2026-03-01").ended


def test_exports_of_salesforce_from_celery(server, clock, store, session, spans, tmp_path, monkeypatch):
    """A task starts, a worker in each process goes on, and whichever ends it ends one trace."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
    app = celery.Celery("exports", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    providers = []

    def session_for(provider: str) -> requests.Session:
        providers.append(provider)
        return session

    def finish(op: Operation, ready: Ready) -> None:
        op.download(ready, to=f"{tmp_path}/{op.key}.csv")

    worker = Worker(store, session=session_for, providers=[salesforce.QUERY], finish=finish, clock=clock)
    _, dispatch = install(app, worker)

    @app.task
    def start(day: str, api: str) -> None:
        with operation(
            "accounts",
            deadline=6 * 3600,
            session=session_for("salesforce.query"),
            provider=salesforce.QUERY,
            key=f"accounts-{day}",
            store=store,
        ) as op:
            op.submit("POST", f"{api}/jobs/query", json={"operation": "query", "query": "SELECT Id FROM Account"})

    server.script({"id": "750", "state": "UploadComplete"}, {"id": "750", "state": "InProgress"})
    server.script({"id": "750", "state": "JobComplete"})
    server.on("GET", "/jobs/query/750/results", b"Id\n1\n")
    start.delay("2026-03-01", server.url.rstrip("/"))
    for _ in range(10):
        dispatch.delay()
        clock.advance(10)

    assert (tmp_path / "accounts-2026-03-01.csv").read_bytes() == b"Id\n1\n"
    assert asked(server) == [*WALK[:3], ("GET", "/jobs/query/750/results")]
    assert providers == ["salesforce.query"] * 4
    [root] = spans.roots
    assert [span.name for span in spans.children(root)] == [
        "start accounts",
        "submit accounts",
        "poll accounts",
        "download accounts",
    ]
