"""Jobs that went on spending after their caller had gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import Call, MemoryStore, operation, resume

CANCELLED = replace(JOBS, cancel=Call("DELETE", "{status_url}"))


def test_cxl_01_ctrl_c_orphan(server, session, clock, caplog):
    """Ctrl-C is raised as it is; what happens to the job is the caller's choice, and a job that is left is told of.

    https://github.com/Burla-Cloud/burla/issues/192
    """
    store = MemoryStore(clock=clock)

    def interrupted(event):
        if event.kind == "state_changed":
            raise KeyboardInterrupt

    options = {"deadline": 600, "session": session, "provider": CANCELLED, "clock": clock, "on_event": interrupted}
    server.script(submitted(), state("running"), submitted(), state("running"))
    with pytest.raises(KeyboardInterrupt), operation("export", key="left", store=store, **options) as op:
        op.run("POST", server.url + "jobs")
    assert "The job may still finish: `trihop resume left` waits on, `trihop cancel left` stops it." in caplog.text

    server.on("DELETE", "/jobs/J1", 202)
    options["on_interrupt"] = "cancel"
    with pytest.raises(KeyboardInterrupt), operation("export", key="not", store=store, **options) as op:
        op.run("POST", server.url + "jobs")
    assert [call.method for call in server.calls] == ["POST", "GET", "POST", "GET", "DELETE"]
    assert (store.get("left").ended, store.get("not").ended) == (False, True)


def test_cxl_03_on_kill_not_called(server, session, clock):
    """A job whose waiter is no more is cancelled by another process, from the record.

    https://github.com/apache/airflow/issues/36090
    """
    store = MemoryStore(clock=clock)
    server.script(submitted())
    options = {"deadline": 600, "session": session, "provider": CANCELLED, "clock": clock}
    with operation("export", key="k", store=store, **options) as op:
        op.submit("POST", server.url + "jobs")
    server.on("DELETE", "/jobs/J1", 202)

    with resume("k", store=store, session=session, provider=CANCELLED, clock=clock) as op:
        assert op.cancel()

    assert store.get("k").record["outcome"]["result"] == "cancellation"
