"""The examples of many jobs, and code as its users would write it."""

import importlib.util
import threading
from pathlib import Path

import pytest
import requests

from trihop import Call, Fleet, MemoryStore, Reply, show
from trihop.providers import salesforce

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture
def api(server):
    return server.url.rstrip("/")


@pytest.fixture
def example(name, monkeypatch, clock):
    """The module of that name; its operations run on the virtual clock."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
    monkeypatch.setattr("trihop._fleet.fleet._SYSTEM_CLOCK", clock)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Queries:
    """Bulk queries by the object they name: two polls each, one page, and no such thing as Nothing."""

    def __init__(self):
        self.made = []
        self.polled = {}
        self.lock = threading.Lock()

    def __call__(self, call):
        with self.lock:
            if call.method == "POST":
                self.made.append(call.json()["query"].split()[-1])
                return {"id": self.made[-1], "state": "UploadComplete"}
            name = call.path.split("/")[3]
            if call.path.partition("?")[0].endswith("/results"):
                return Reply(200, content=f"Id\n{name}\n".encode(), headers={"Sforce-Locator": "null"})
            self.polled[name] = self.polled.get(name, 0) + 1
            if name == "Nothing":
                return {"id": name, "state": "Failed", "errorMessage": "no such object"}
            return {"id": name, "state": "InProgress" if self.polled[name] < 2 else "JobComplete"}


@pytest.mark.parametrize("name", ["many_exports"])
def test_many_exports(example, server, session, api, tmp_path, clock):
    """One submit for each, whichever run saw it end; what failed is told by its key both times."""
    server.script(then_always=Queries())
    store = MemoryStore(clock=clock)
    objects = ["Account", "Contact", "Nothing"]
    for _ in range(2):
        assert example.main(session, api, objects, tmp_path, store) == ["export-Nothing"]

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "Account.csv": "Id\nAccount\n",
        "Contact.csv": "Id\nContact\n",
    }
    assert [call.method for call in server.calls].count("POST") == 3


@pytest.mark.parametrize("name", ["parts_of_one"])
def test_parts_of_one(example, server, session, api):
    """The years come as they are done."""
    jobs = [Reply(202, {"id": f"{year}"}, headers={"Location": f"/reports/{year}"}) for year in (2025, 2026)]
    server.on("POST", "/reports", *jobs)
    server.on("GET", "/reports/2025", {"status": "running"}, {"status": "running"}, {"status": "done", "result": 1})
    server.on("GET", "/reports/2026", {"status": "done", "result": 2})

    assert list(example.main(session, api, [2025, 2026]).items()) == [("2026", "2"), ("2025", "1")]


def test_a_hundred_at_once(server, session, api, clock, tmp_path, monkeypatch, capsys):
    """As it is written by somebody who has a hundred things to export; each outcome is told once."""
    monkeypatch.chdir(tmp_path)
    server.script(then_always=Queries())
    objects = [f"Object{number}" for number in range(100)]
    with Fleet(session=session, provider=salesforce.QUERY, on_event=show, clock=clock) as fleet:
        for name in objects:
            query = {"operation": "query", "query": f"SELECT Id FROM {name}"}
            fleet.start(
                "export", Call("POST", f"{api}/jobs/query", json=query), key=name, deadline=7200, to=f"{name}.csv"
            )
        for outcome in fleet.outcomes():
            print(outcome.key, outcome.error or outcome.download)

    assert sorted(line.split()[0] for line in capsys.readouterr().out.splitlines()) == sorted(objects)
    assert sorted(path.stem for path in tmp_path.glob("*.csv")) == sorted(objects)
