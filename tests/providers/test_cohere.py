"""Cohere's batches: the result is a dataset, and its parts are signed links elsewhere."""

import pytest
import requests

from trihop import Job, JobCancelled, JobFailed, JobPartiallyFailed, Pending, Reply, operation
from trihop.providers import cohere
from trihop.testing import ScriptedServer, check_provider

ID = "batch-01"
JOB = Job(id=ID, status_url=f"https://api.cohere.com/v2/batches/{ID}", submit_url="https://api.cohere.com/v2/batches")


def batch(word, *, records=2, good=0, bad=0, **fields):
    return {
        "batch": {
            "id": ID,
            "status": f"BATCH_STATUS_{word}",
            "num_records": records,
            "num_successful_records": good,
            "num_failed_records": bad,
            **fields,
        }
    }


def done(**fields):
    return batch("COMPLETED", **{"good": 2, "output_dataset_id": "ds-7", **fields})


def dataset(*urls, status="validated"):
    parts = [{"id": f"part-{index}", "url": url, "index": index} for index, url in enumerate(urls)]
    return {"dataset": {"id": "ds-7", "validation_status": status, "dataset_parts": parts}}


@pytest.fixture
def storage(clock):
    """Another host, where the parts are."""
    with ScriptedServer(clock=clock) as storage:
        yield storage


@pytest.fixture
def run(server, clock, tmp_path):
    """The triangle with a session that has a key."""

    def run(**options):
        with requests.Session() as session:
            session.headers["Authorization"] = "Bearer co-test-key"
            with operation("batch", deadline=90_000, provider=cohere.BATCHES, session=session, clock=clock) as op:
                job = op.submit("POST", f"{server.url}v2/batches", json={"input_dataset_id": "ds-1"})
                return op.download(op.poll(job, **options), into=tmp_path)

    return run


def test_the_monitor_moves_to_the_dataset_and_the_parts_are_fetched_without_the_key(run, server, storage):
    """A batch that is over leads to its dataset; the signed links to another host get no credentials."""
    server.script(batch("QUEUED"), batch("IN_PROGRESS"), done())
    server.script(dataset(f"{storage.url}part-0?X-Goog-Signature=a", f"{storage.url}part-1?X-Goog-Signature=b"))
    storage.script(b"Obj\x01 one", b"Obj\x01 two")

    files = run()

    assert {name: file.path.read_bytes() for name, file in files.items()} == {
        "output-1": b"Obj\x01 one",
        "output-2": b"Obj\x01 two",
    }
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v2/batches",
        f"GET /v2/batches/{ID}",
        f"GET /v2/batches/{ID}",
        "GET /v1/datasets/ds-7",
    ]
    assert {call.headers.get("Authorization") for call in server.calls} == {"Bearer co-test-key"}
    assert [call.headers.get("Authorization") for call in storage.calls] == [None, None]


def test_the_dataset_is_asked_for_at_once(run, server, storage, clock):
    """The job is over: the question where its results are does not wait for its turn among the polls."""
    server.script(batch("QUEUED"), *[batch("IN_PROGRESS")] * 4, done(), dataset(f"{storage.url}part"))
    storage.script(b"rows")

    run()

    assert clock.sleeps[-1] == 0.5


def test_a_link_that_ran_out_is_asked_for_again_at_the_dataset(run, server, storage):
    """One fresh look at the dataset gives a fresh link."""
    server.script(batch("QUEUED"), done(), dataset(f"{storage.url}part?sig=old"), dataset(f"{storage.url}part?sig=new"))
    storage.script(403, b"rows")

    assert run()["output"].path.read_bytes() == b"rows"
    assert [call.path for call in storage.calls] == ["/part?sig=old", "/part?sig=new"]


def test_a_dataset_in_preparation_is_waited_for(run, server, storage):
    """No parts yet, and being prepared: asked again."""
    server.script(batch("QUEUED"), done(), dataset(status="processing"), dataset(f"{storage.url}part"))
    storage.script(b"rows")

    assert list(run()) == ["output"]


def test_failed_records_are_partial(run, server):
    """`COMPLETED` with failed records: the counts are kept while the dataset is asked for."""
    server.script(batch("QUEUED"), done(good=1, bad=1), dataset("https://storage.test/part"))

    with pytest.raises(JobPartiallyFailed, match="1 succeeded, 1 failed") as caught:
        run()

    assert [result.name for result in caught.value.ready.results] == ["output"]


def test_a_failed_batch_says_why(run, server):
    """`status_reason` is the text."""
    server.script(batch("QUEUED"), batch("FAILED", status_reason="the dataset is of another type"))

    with pytest.raises(JobFailed, match="the dataset is of another type"):
        run()


def test_a_cancelled_batch_went_through_canceling(run, server):
    """`CANCELING` is pending."""
    server.script(batch("QUEUED"), batch("CANCELING"), batch("CANCELED"))

    with pytest.raises(JobCancelled):
        run()


def test_cancel_is_a_custom_method():
    """`POST …:cancel`, also after the monitor has moved."""
    call = cohere.BATCHES.cancel_call(JOB)

    assert (call.method, call.url) == ("POST", f"https://api.cohere.com/v2/batches/{ID}:cancel")


def test_an_end_with_an_output_is_not_yet_the_end():
    """The links are still to come."""
    verdict = cohere.BATCHES.poll(Reply(200, done()), JOB)

    assert isinstance(verdict, Pending)
    assert (verdict.state, verdict.status_url) == ("BATCH_STATUS_COMPLETED", "../../v1/datasets/ds-7")


def test_conforms():
    """It keeps the rules that the engine relies on."""
    check_provider(
        cohere.BATCHES,
        pending=batch("IN_PROGRESS"),
        succeeded=batch("COMPLETED", good=2),
        partial=batch("COMPLETED", good=1, bad=1),
        failed=batch("FAILED"),
        cancelled=batch("CANCELED"),
        job=JOB,
    )
