"""Restarts that submitted twice, and tokens that could not be kept."""

from __future__ import annotations

import io
import json

import pytest

from field.jobs import JOBS, state, submitted
from trihop import MemoryStore, SubmitUncertain, operation, resume


class Died(BaseException):
    """The process is killed."""


def submits(server):
    return [call for call in server.calls if call.method == "POST"]


def test_dup_05_worker_restart_runs_twice(server, session, clock):
    """A process that dies while its job runs leaves a record by which the next one finds the same job: one submit.

    https://github.com/apache/airflow/pull/4083
    """
    store = MemoryStore(clock=clock)
    server.script(submitted(), state("running"), state("done", results="/rows"))
    server.on("GET", "/rows", b"rows")

    def dies(event):
        if event.kind == "state_changed" and event.state == "running":
            raise Died

    options = {"deadline": 600, "session": session, "provider": JOBS, "clock": clock, "key": "k", "store": store}
    with pytest.raises(Died), operation("export", on_event=dies, **options) as op:
        op.run("POST", server.url + "jobs", json={})
    with operation("export", **options) as op:
        assert op.run("POST", server.url + "jobs", json={}).content == b"rows"

    assert len(submits(server)) == 1


def test_dup_07_resume_mixin(server, session, clock):
    """The job's id is stored before the first poll; a submit that died before it was known is shown as in doubt.

    https://github.com/apache/airflow/pull/67118
    """
    store = MemoryStore(clock=clock)
    seen = []

    def answered(call):
        seen.append(store.get("k").record["phase"])
        return submitted()

    def polled(call):
        seen.append((store.get("k").record["phase"], store.get("k").record["job_id"]))
        return state("done")

    server.script(answered, polled)
    options = {"deadline": 600, "session": session, "provider": JOBS, "clock": clock, "store": store}
    with operation("export", key="k", **options) as op:
        op.poll(op.submit("POST", server.url + "jobs"))

    assert seen == ["submitting", ("submitted", "J1")]


def test_dup_09_token_cannot_serialise(server, session, clock):
    """A record is plain JSON of ids, URLs and states, whatever was submitted, an open file too.

    https://github.com/Azure/azure-sdk-for-python/issues/38713
    """
    store = MemoryStore(clock=clock)
    server.script(submitted(), state("done"))
    options = {"deadline": 600, "session": session, "provider": JOBS, "clock": clock}
    with operation("export", key="k", store=store, **options) as op:
        op.submit("POST", server.url + "jobs", data=io.BytesIO(b"the private body"))

    record = json.dumps(store.get("k").record)
    assert "the private body" not in record
    assert '"job_id": "J1"' in record
    with resume("k", store=store, session=session, provider=JOBS, clock=clock) as op:
        assert op.poll().state == "done"


def test_dup_12_crash_window_recomputed_id(server, session, clock):
    """What is kept is the key that went out; without one, a submit that may have gone out is not repeated.

    https://github.com/apache/airflow/pull/69542
    """
    store = MemoryStore(clock=clock)

    options = {"deadline": 600, "session": session, "provider": JOBS, "clock": clock, "key": "k", "store": store}
    save = store.save

    def last_write(*args, **kwargs):
        save(*args, **kwargs)
        store.save = killed
        raise Died

    def killed(*_, **__):
        raise Died

    store.save = last_write
    with pytest.raises(Died), operation("export", **options) as op:
        op.submit("POST", server.url + "jobs")
    store.save = save

    doubt = "an earlier process stopped while it submitted"
    with pytest.raises(SubmitUncertain, match=doubt), operation("export", **options) as op:
        op.submit("POST", server.url + "jobs")
    assert submits(server) == []
