"""Every example is run, against a server that answers as its API does, on a clock of its own."""

import importlib.util
import logging
from pathlib import Path

import pytest
import requests

from trihop import JobFailed, ReadState, Reply, SubmitRejected
from trihop.testing import accepted, done, failed, reset, running

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(name, monkeypatch, clock):
    """The module of that name; its operations run on the virtual clock."""
    monkeypatch.setattr("trihop._operation._SYSTEM_CLOCK", clock)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of(name):
    """Marks the test of one example."""
    return pytest.mark.parametrize("name", [name])


@pytest.fixture
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture
def api(server):
    return server.url.rstrip("/")


def asked(server):
    return [(call.method, call.path) for call in server.calls]


def test_every_example_is_run_somewhere():
    """No file in examples/ is without a test that names it."""
    tests = "".join(path.read_text() for path in EXAMPLES.parent.glob("tests/**/test_*.py"))

    assert [
        path.stem for path in EXAMPLES.glob("*.py") if f'"{path.stem}"' not in tests and path.name not in tests
    ] == []


@of("first_export")
def test_first_export(example, server, session, api, tmp_path, capsys):
    """Submit, poll and download in one line, with its progress printed."""
    server.script(accepted(hint_s=40), running(progress=50), done(result_url="/files/1"), b"a,b\n")

    example.main(session, api, tmp_path / "all.csv")

    assert (tmp_path / "all.csv").read_bytes() == b"a,b\n"
    assert capsys.readouterr().err.splitlines() == [
        "export: started",
        "export: submitted",
        "export: running, 50 %, poll 1, 40.0 s elapsed",
        "export: succeeded, poll 2, 41.0 s elapsed",
        "export: downloaded 4 B of 4 B",
        "export: finished after 41.0 s, 2 polls",
    ]


@of("paged_query")
def test_paged_query(example, server, session, api, tmp_path):
    """Two pages become one file with one header line."""
    server.script(
        {"id": "750", "state": "UploadComplete"},
        {"state": "InProgress"},
        {"state": "JobComplete"},
        Reply(200, content=b"Id\n1\n", headers={"Sforce-Locator": "abc"}),
        Reply(200, content=b"Id\n2\n", headers={"Sforce-Locator": "null"}),
    )

    size = example.main(session, api, "SELECT Id FROM Account", tmp_path / "accounts.csv")

    assert (size, (tmp_path / "accounts.csv").read_text()) == (7, "Id\n1\n2\n")
    assert asked(server)[3:] == [("GET", "/jobs/query/750/results"), ("GET", "/jobs/query/750/results?locator=abc")]


@of("batch_from_file")
def test_batch_from_file(example, server, session, api, tmp_path):
    """The file is uploaded once, and both files that came of the batch are fetched."""
    (tmp_path / "lines.jsonl").write_text("{}\n")
    server.script(
        {"id": "file-1"},
        {"id": "batch-1"},
        {"status": "in_progress"},
        {
            "status": "completed",
            "output_file_id": "f-2",
            "error_file_id": "f-3",
            "request_counts": {"total": 3, "completed": 2, "failed": 1},
        },
        b"good\n",
        b"bad\n",
    )

    downloads = example.main(session, f"{api}/v1", tmp_path / "lines.jsonl", tmp_path / "out")

    assert {name: download.text for name, download in downloads.items()} == {"good": "good\n", "bad": "bad\n"}
    assert asked(server) == [
        ("POST", "/v1/files"),
        ("POST", "/v1/batches"),
        ("GET", "/v1/batches/batch-1"),
        ("GET", "/v1/batches/batch-1"),
        ("GET", "/v1/files/f-2/content"),
        ("GET", "/v1/files/f-3/content"),
    ]
    assert server.calls[1].json()["input_file_id"] == "file-1"


@of("batch_from_file")
def test_a_batch_that_failed_leaves_its_errors(example, server, session, api, tmp_path):
    """What there is, is fetched before the failure is raised."""
    (tmp_path / "lines.jsonl").write_text("{}\n")
    server.script({"id": "file-1"}, {"id": "batch-1"}, {"status": "expired", "error_file_id": "f-3"}, b"bad\n")

    with pytest.raises(JobFailed, match="the job expired"):
        example.main(session, f"{api}/v1", tmp_path / "lines.jsonl", tmp_path / "out")

    assert (tmp_path / "out" / "bad").read_text() == "bad\n"


def counts(**some):
    return dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0) | some


@of("outcome_in_counts")
def test_outcome_in_counts(example, server, session, api):
    """A batch with errors is handed over as it is; one that was cancelled as a whole is cancelled."""
    ended = {"processing_status": "ended", "results_url": "/results"}
    server.script(
        {"id": "b1"}, {**ended, "request_counts": counts(succeeded=2, errored=1)}, b'{"n": 1}\n',
        {"id": "b2"}, {**ended, "request_counts": counts(canceled=3)},
    )  # fmt: skip

    assert list(example.main(session, f"{api}/v1", []).iter_rows()) == [{"n": 1}]
    with pytest.raises(JobFailed, match="the job was cancelled"):
        example.main(session, f"{api}/v1", [])


@of("final_get")
def test_final_get(example, server, session, api):
    """The monitor moves, then says that it is over, and the resource is asked for again."""
    moved = Reply(200, {"status": "InProgress"}, headers={"Azure-AsyncOperation": "/operations/2"})
    server.script(
        Reply(201, {"name": "vm"}, headers={"Azure-AsyncOperation": "{url}operations/1"}),
        moved,
        {"status": "Succeeded"},
        {"name": "vm", "ready": True},
    )

    assert example.main(session, f"{api}/vm", {"size": 2}) == {"name": "vm", "ready": True}
    assert asked(server) == [("PUT", "/vm"), ("GET", "/operations/1"), ("GET", "/operations/2"), ("GET", "/vm")]


@of("done_flag")
def test_done_flag(example, server, session, api):
    """The response is in the body that says done; an error there is the job's failure."""
    start = {"name": "operations/7"}
    server.script(
        start, {**start, "metadata": {"progressPercent": 40}}, {**start, "done": True, "response": {"text": "hello"}},
        start, {**start, "done": True, "error": {"code": 3, "message": "no such recording"}},
    )  # fmt: skip

    assert example.main(session, f"{api}/v1", "gs://a/b") == {"text": "hello"}
    with pytest.raises(JobFailed, match="3: no such recording"):
        example.main(session, f"{api}/v1", "gs://a/c")


@of("quick_or_slow")
def test_quick_or_slow(example, server, session, api):
    """An answer at once is the result; a job's results may be a poll behind its success."""
    not_ready = Reply(404, {"type": "http://www.opengis.net/def/exceptions/result-not-ready"})
    server.script(
        Reply(200, content=b"null"),
        Reply(201, {"jobID": "7"}, headers={"Location": "/jobs/7"}),
        {"status": "running", "progress": 50},
        {"status": "successful"},
        not_ready,
        {"status": "successful"},
        {"area": 3},
    )

    assert example.main(session, api, "buffer", {}) is None
    assert example.main(session, api, "buffer", {}) == {"area": 3}
    assert [path for _, path in asked(server)[2:]] == [
        "/jobs/7",
        "/jobs/7",
        "/jobs/7/results",
        "/jobs/7",
        "/jobs/7/results",
    ]


@of("held_request")
def test_held_request(example, server, session, api, tmp_path):
    """The job is started once, polled by requests that the server may hold, and its link followed."""
    uws = '<job xmlns="http://www.ivoa.net/xml/UWS/v1.0" xmlns:x="http://www.w3.org/1999/xlink">{}</job>'
    server.script(
        Reply(303, headers={"Location": "/tap/async/7"}),
        200,
        uws.format("<phase>EXECUTING</phase>"),
        uws.format('<phase>COMPLETED</phase><results><result id="r" x:href="/tap/async/7/r"/></results>'),
        b"rows",
    )

    example.main(session, f"{api}/tap", "SELECT 1", tmp_path / "rows.vot")

    assert (tmp_path / "rows.vot").read_bytes() == b"rows"
    assert asked(server)[1:4] == [
        ("POST", "/tap/async/7/phase"),
        ("GET", "/tap/async/7?WAIT=60"),
        ("GET", "/tap/async/7?WAIT=60&PHASE=EXECUTING"),
    ]


@of("manifest")
def test_manifest(example, server, session, api, tmp_path):
    """Each file of the manifest goes to the folder, with the sign-in where the manifest asks for it."""
    session.auth = ("me", "secret")
    ndjson = {"Content-Type": "application/fhir+ndjson"}
    entries = [{"type": "Patient", "url": f"{{url}}f/{n}"} for n in (1, 2)]
    server.script(
        Reply(202, headers={"Content-Location": "/status/1"}),
        Reply(202, headers={"X-Progress": "10 %", "Retry-After": "60"}),
        {"requiresAccessToken": False, "output": entries, "error": [{"type": "OperationOutcome", "url": "{url}f/3"}]},
        *[Reply(200, content=b"{}\n", headers=ndjson)] * 3,
    )

    downloads = example.main(session, api, tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "error-OperationOutcome.ndjson",
        "output-Patient-2.ndjson",
        "output-Patient.ndjson",
    ]
    assert list(downloads) == ["output-Patient", "output-Patient-2", "error-OperationOutcome"]
    assert ["Authorization" in call.headers for call in server.calls] == [True] * 3 + [False] * 3


@of("one_endpoint")
def test_one_endpoint(example, server, session, api, tmp_path):
    """Every request is a POST to one URL; a 400 on the rows is waited out, and a token leads to the next page."""
    state = {"QueryExecution": {"Status": {"State": "SUCCEEDED"}}}
    server.script(
        {"QueryExecutionId": "q1"},
        {"QueryExecution": {"Status": {"State": "QUEUED"}}},
        state,
        Reply(400, {"Message": "Query has not yet finished"}),
        state,
        {"ResultSet": {"Rows": [{"n": 1}]}, "NextToken": "t2"},
        {"ResultSet": {"Rows": [{"n": 2}]}},
    )

    download = example.main(session, f"{api}/", "SELECT 1", tmp_path / "rows.jsonl")

    assert list(download.iter_rows()) == [{"n": 1}, {"n": 2}]
    assert set(asked(server)) == {("POST", "/")}
    assert [call.headers["X-Amz-Target"].partition(".")[2] for call in server.calls] == [
        "StartQueryExecution", "GetQueryExecution", "GetQueryExecution", "GetQueryResults", "GetQueryExecution",
        "GetQueryResults", "GetQueryResults",
    ]  # fmt: skip
    assert [call.json().get("NextToken") for call in server.calls[-2:]] == [None, "t2"]


@of("graphql_bulk")
def test_graphql_bulk(example, server, session, api, tmp_path):
    """A throttled answer at 200 is asked again; the braces of the query arrive as they were."""

    def run(operation=None, errors=()):
        return {"data": {"bulkOperationRunQuery": {"bulkOperation": operation, "userErrors": list(errors)}}}

    server.script(
        run({"id": "gid://bulk/1"}),
        {"data": {"node": {"status": "RUNNING"}}},
        {"errors": [{"message": "Throttled"}]},
        {"data": {"node": {"status": "COMPLETED", "url": "{url}files/1"}}},
        b'{"id": 1}\n',
        run(errors=[{"message": "a bulk operation is running already"}]),
    )

    download = example.main(session, f"{api}/graphql.json", "{ products }", tmp_path / "products.jsonl")

    assert list(download.iter_rows()) == [{"id": 1}]
    assert server.calls[1].json() == {"query": example.NODE, "variables": {"id": "gid://bulk/1"}}
    with pytest.raises(SubmitRejected, match="a bulk operation is running already"):
        example.main(session, f"{api}/graphql.json", "{ products }", tmp_path / "again.jsonl")


@of("plain_text_state")
def test_plain_text_state(example, server, session, api):
    """The word is the whole body."""
    server.script(Reply(202, headers={"Location": "/reports/7"}), "queued\n", "Running", "done", "a report")

    assert example.main(session, api) == "a report"
    assert asked(server)[-2:] == [("GET", "/reports/7/state"), ("GET", "/reports/7/result")]


@of("existing_loop")
def test_existing_loop_untouched(example, server, session, api, spans, monkeypatch, clock):
    """The loop runs as it did, its pauses too; the trace shows submit, poll and download."""
    monkeypatch.setattr(example.time, "sleep", clock.sleep)
    server.script(
        Reply(202, headers={"Location": "{url}jobs/7"}),
        {"state": "Queued"},
        {"state": "InProgress"},
        {"state": "Done"},
        b"rows",
    )

    assert example.untouched(session, api, {}) == b"rows"
    assert clock.sleeps == [5, 5]
    root = spans.named("export")
    assert [span.name for span in spans.children(root)] == ["submit export", "poll export", "download export"]
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 3


@of("existing_loop")
def test_existing_loop_by_hand(example, server, session, api, tmp_path, clock):
    """The hop waits, judges and hands over what the job left; its failure is typed."""
    server.script(
        Reply(202, headers={"Location": "{url}jobs/7"}), {"state": "Queued"}, {"state": "Done", "file": "7/file"}
    )
    server.script(b"rows", Reply(202, headers={"Location": "{url}jobs/8"}), {"state": "Failed"})

    example.by_hand(session, api, {}, tmp_path / "rows")

    assert ((tmp_path / "rows").read_bytes(), clock.sleeps) == (b"rows", [1])
    with pytest.raises(JobFailed, match="state 'Failed'"):
        example.by_hand(session, api, {}, tmp_path / "more")
    assert isinstance(example.STATES, ReadState)


@of("progress")
def test_progress(example, server, session, api, tmp_path, caplog):
    """Changes of state, the download and the failure are logged in the caller's words."""
    server.script(accepted(), running(), running(), done(result_url="/files/1"), b"12345", accepted(), failed("no"))

    with caplog.at_level(logging.INFO, "exports"):
        example.main(session, api, tmp_path / "rows")
        with pytest.raises(JobFailed):
            example.main(session, api, tmp_path / "more")

    assert [record.getMessage() for record in caplog.records if record.name == "exports"] == [
        "export is running after 1 polls",
        "export is succeeded after 3 polls",
        "export: 5 of 5 bytes",
        "export is failed after 1 polls",
        "export: the job failed, state 'failed': no",
    ]


ENDINGS = {
    "nothing": ([accepted(), done(result=1)], b"1"),
    "mend the request": ([400], None),
    "look for the job before submitting again": ([reset()], None),
    "submit anew: no such column": ([accepted(), failed("no such column")], None),
    "poll the job again when the service is back": ([accepted(), *[503] * 5], None),
    "wait on for a job that is running": ([accepted(), running(hint_s=7200)], None),
    "ask for help with trace": ([accepted(), 403], None),
}


@pytest.mark.parametrize(("advice", "name"), [(advice, "endings") for advice in ENDINGS])
def test_endings(example, advice, server, session, api, spans):
    """Each ending leads to its own advice."""
    replies, content = ENDINGS[advice]
    server.script(*replies)

    said, download = example.main(session, api)

    assert said.removesuffix(f" {spans.named('export').context.trace_id:032x}") == advice
    assert (download and download.content) == content


def test_the_tests_of_a_provider_pass(pytester):
    """What testing_a_provider.py shows is run as its readers would run it."""
    for name in ("one_endpoint", "testing_a_provider"):
        pytester.makepyfile(**{name: (EXAMPLES / f"{name}.py").read_text()})

    result = pytester.runpytest_subprocess("-q", "testing_a_provider.py", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=4)


def test_examples_use_the_public_api_alone():
    """No example imports a module whose name begins with an underscore."""
    assert [
        (path.name, line)
        for path in EXAMPLES.glob("*.py")
        for line in path.read_text().splitlines()
        if "trihop._" in line or "import _" in line
    ] == []
