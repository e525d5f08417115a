"""The commands on a store: what there is, and going on with it, cancelling it, forgetting it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import requests
from processes import ENVIRONMENT

from trihop import Call, OperationError, Provider, ReadJob, ReadState, Reply, SQLStore, Worker, operation
from trihop.cli._store import opened
from trihop.testing import ScriptedServer

APP = """
import requests
from trihop import Call, Provider, ReadJob, ReadState, SQLStore, Worker

JOBS = Provider(
    "acme.exports",
    submit=ReadJob(id="id", status_url="status_url"),
    poll=ReadState(
        "state", pending={"running"}, succeeded={"done"}, failed={"failed"}, results="result_url", error="error"
    ),
    cancel=Call("DELETE", "{status_url}"),
)


def finish(op, ready):
    op.download(ready, to=f"{op.key}.csv")


store = SQLStore("sqlite:///operations.db")
worker = Worker(store, session=lambda name: requests.Session(), finish=finish, providers=[JOBS])
"""
JOBS = Provider(
    "acme.exports",
    submit=ReadJob(id="id", status_url="status_url"),
    poll=ReadState(
        "state", pending={"running"}, succeeded={"done"}, failed={"failed"}, results="result_url", error="error"
    ),
    cancel=Call("DELETE", "{status_url}"),
)
STORE = ("--store", "sqlite:///operations.db")
WITH_APP = ("--app", "exports_app:worker")


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def begun(tmp_path, server):
    """An operation that a web handler left in the store, under the key that is given."""
    (tmp_path / "exports_app.py").write_text(APP)

    def begun(key="nightly", *answers):
        store = SQLStore(f"sqlite:///{tmp_path}/operations.db")
        server.script(Reply(202, {"id": f"j-{key}", "status_url": f"/jobs/{key}"}), *answers)
        try:
            with operation("export", deadline=600, provider=JOBS, key=key, store=store) as op:
                job = op.submit("POST", server.url + "jobs", json={"query": "all"})
                if answers:
                    op.poll(job)
        except OperationError:
            pass
        finally:
            store.close()

    return begun


def test_operations_are_listed(run, begun):
    """Key, state, age, polls, next check, deadline and trace: for people, and as JSON."""
    begun("one")
    begun("two", {"state": "failed", "error": "no such column"})

    listed = run("ls", *STORE)
    as_json = run("ls", *STORE, "--json", "--open")

    assert (listed.returncode, listed.stderr) == (0, b"")
    lines = listed.stdout.decode().splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["KEY", "OPERATION", "STATUS", "STATE"],
        ["two", "export", "failure", "failed"],
        ["one", "export", "polling", "-"],
    ]
    [one] = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert (one["key"], one["job_id"], one["polls"], one["error"]) == ("one", "j-one", 0, None)
    assert 500 < one["deadline_s"] <= 600


def test_an_operation_is_shown_by_key_or_id(run, begun, tmp_path):
    """With what the server said."""
    begun("two", {"state": "failed", "error": "no such column"})
    store = SQLStore(f"sqlite:///{tmp_path}/operations.db")
    operation_id = store.get("two").record["operation_id"]
    store.close()

    by_key, by_id = run("show", "two", *STORE), run("show", operation_id[:12], *STORE)

    assert "no such column" in by_key.stdout.decode()
    assert operation_id in by_id.stdout.decode()
    assert run("show", "three", *STORE).returncode == 1


def test_a_shown_operation_has_a_link_to_its_trace(run, begun, spans, tmp_path):
    """Where the environment says what such a link looks like."""
    begun()
    [trace_id] = {f"{span.context.trace_id:032x}" for span in spans.all}

    shown = run("show", "nightly", *STORE, env={"TRIHOP_TRACE_URL": "http://localhost:16686/trace/{trace_id}"})

    assert shown.stdout.decode().splitlines()[-1].split() == ["trace", f"http://localhost:16686/trace/{trace_id}"]


def test_an_operation_is_resumed(run, begun, server, tmp_path):
    """By the application's own provider, session and finish()."""
    begun()
    server.on("GET", "/jobs/nightly", {"state": "done", "result_url": "/files/1"})
    server.on("GET", "/files/1", b"a,b\n")

    done = run("resume", "nightly", *WITH_APP)

    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "nightly.csv").read_bytes() == b"a,b\n"
    assert b"downloaded 4 B" in done.stderr


def test_a_job_is_cancelled(run, begun, server):
    """And the record says so."""
    begun()
    server.on("DELETE", "/jobs/nightly", 202)

    assert run("cancel", "nightly", *WITH_APP).stdout == b"cancelled nightly\n"
    assert b"cancellation" in run("ls", *STORE).stdout


def test_an_operation_is_forgotten(run, begun):
    """After a question where its job may still run."""
    begun()

    kept = run("forget", "nightly", *STORE, stdin=b"n\n")
    forgotten = run("forget", "nightly", *STORE, "--yes")

    assert (kept.returncode, forgotten.returncode) == (1, 0)
    assert run("ls", *STORE).stdout == b"no operations\n"
    assert b"there is no operation with the key 'nightly'" in run("forget", "nightly", *STORE).stderr


def test_a_worker_goes_on_until_it_is_told_to_stop(begun, server, tmp_path):
    """SIGTERM lets it finish what it has begun."""
    begun()
    server.on("GET", "/jobs/nightly", {"state": "done", "result_url": "/files/1"})
    finished = tmp_path / "nightly.csv"

    def answer(call):
        return b"a,b\n"

    server.on("GET", "/files/1", answer)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "trihop.cli", "worker", *WITH_APP],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        process.stderr.readline()
        for _ in range(600):
            if finished.exists():
                break
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

    assert finished.read_bytes() == b"a,b\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ls",), b"say where the store is"),
        (("ls", "--store", "nonsense"), b"Error"),
        (("resume", "nightly", "--app", "nowhere:worker"), b"there is no module nowhere"),
        (("resume", "nightly", "--app", "exports_app"), b"--app takes MODULE:WORKER"),
        (("resume", "unheard-of", *WITH_APP), b"there is no operation with the key 'unheard-of'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(run, begun, arguments, said):
    """And nothing is sent."""
    begun()
    done = run(*arguments)

    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("folder", ["", "{tmp_path}/"])
@pytest.mark.parametrize("command", [("ls",), ("ls", "--watch"), ("show", "nightly"), ("forget", "nightly", "--yes")])
def test_a_store_that_is_not_there_is_not_made(run, tmp_path, command, folder):
    """The name may be mistyped: the file that was looked for is told, and what makes one."""
    url = "sqlite:///" + folder.format(tmp_path=tmp_path) + "mistyped.db"
    done = run(*command, "--store", url)

    assert done.returncode == 1
    assert f"there is no file {tmp_path}/mistyped.db. ".encode() in done.stderr
    assert b"`trihop worker`" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["resume", "cancel"])
def test_a_workers_store_that_is_not_there_is_not_made(run, tmp_path, verb):
    """The same where the store is the worker's, which may be called in another folder."""
    (tmp_path / "exports_app.py").write_text(APP)
    done = run(verb, "nightly", *WITH_APP)

    assert done.returncode == 1
    assert f"there is no file {tmp_path}/operations.db. ".encode() in done.stderr
    assert not (tmp_path / "operations.db").exists()


def test_a_worker_may_begin_with_an_empty_store(tmp_path):
    """It waits for what others will begin: a file that is not there is none that is missed."""
    store = SQLStore(f"sqlite:///{tmp_path}/operations.db")
    worker = Worker(store, session=lambda name: requests.Session(), finish=lambda op, ready: None, providers=[JOBS])

    with opened(None, worker, may_make=True) as found:
        assert found.list(limit=1) == []
    store.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_database_in_memory_is_no_store_to_look_into(run, tmp_path, url):
    """It would be an empty one of this process."""
    done = run("ls", "--store", url)

    assert done.returncode == 2
    assert b"a database in memory ends with its connection: name a file" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--help",), b"Go on with operations"),
        (("ls", "--store", "sqlite:///operations.db"), b"this store needs sqlalchemy: pip install 'trihop[sql]'"),
    ],
)
def test_without_sqlalchemy_what_needs_none_works_and_the_rest_says_what_to_install(run, tmp_path, arguments, said):
    """The extra `cli` is without it: the help is shown, and a store's command names the extra it lacks."""
    (tmp_path / "sqlalchemy.py").write_text("raise ModuleNotFoundError('no', name='sqlalchemy')\n")
    done = run(*arguments, env={"PYTHONPATH": str(tmp_path)})

    assert said in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr
