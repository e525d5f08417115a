"""The examples of operations that outlive their process, and code as its users would write it."""

import importlib.util
from datetime import date
from pathlib import Path

import pytest

from trihop import Reply

EXAMPLES = Path(__file__).parents[2] / "examples"
DAY = date(2026, 3, 1)


@pytest.fixture
def example(request, monkeypatch, clock):
    """The module of that name; its operations run on the virtual clock."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
    for module in ("_resume", "_worker"):
        monkeypatch.setattr(f"trihop.{module}._SYSTEM_CLOCK", clock)
    spec = importlib.util.spec_from_file_location(request.param, EXAMPLES / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accepted():
    return Reply(202, {"id": "j-1"}, headers={"Location": "/jobs/1"})


@pytest.mark.parametrize("example", ["nightly"], indirect=True)
def test_nightly(example, server, session, shelf, tmp_path, capsys):
    """Too late the first time, the same command waits on, and a third one has nothing to do."""
    api = server.url.rstrip("/")
    server.script(accepted(), Reply(200, {"state": "running"}, headers={"Retry-After": "30000"}))
    assert example.main(session, api, shelf, DAY, tmp_path) == 75
    assert "`trihop resume accounts-2026-03-01` waits on" in capsys.readouterr().out

    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")
    assert [example.main(session, api, shelf, DAY, tmp_path) for _ in range(2)] == [0, 0]

    assert (tmp_path / "accounts-2026-03-01.csv").read_bytes() == b"a,b\n"
    assert [call.method for call in server.calls].count("POST") == 1


@pytest.mark.parametrize("example", ["web_handler"], indirect=True)
def test_web_handler(example, server, session, shelf, tmp_path, clock):
    """202 at once; the worker polls, is woken by the webhook, and downloads."""
    api = server.url.rstrip("/")
    server.script(accepted(), Reply(200, {"state": "running"}, headers={"Retry-After": "600"}))
    server.script({"state": "done", "result_url": "/f/1"})
    server.on("GET", "/f/1", b"a,b\n")

    assert example.post_export(session, api, shelf, "e-1") == ({"operation": "e-1"}, 202)
    worker = example.worker(session, shelf, tmp_path)
    assert [worker.step(), worker.step()] == [600.0, None]
    assert example.job_has_ended(shelf, {"job": {"id": "j-1"}}) == ("", 204)
    assert [worker.step(), worker.step()] == [0.0, None]

    assert (tmp_path / "e-1.csv").read_bytes() == b"a,b\n"
    server.script(400)
    assert example.post_export(session, api, shelf, "e-2")[1] == 502
