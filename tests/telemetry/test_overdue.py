"""How many operations of a store are past their deadline and have no ending."""

import requests
from telling import metering

from trihop import MemoryStore, Worker, operation
from trihop.testing import accepted


def test_a_worker_tells_how_many_operations_are_overdue(server, clock):
    """By name, from the store, whenever somebody collects."""
    store = MemoryStore(clock=clock)
    server.script(accepted(), accepted(), accepted())
    for key, name, deadline in (("a", "export", 60), ("b", "export", 90), ("c", "report", 600)):
        with operation(name, deadline=deadline, key=key, store=store, clock=clock) as op:
            op.submit("POST", server.url + "jobs")
    clock.advance(100)

    with metering() as meter, requests.Session() as session:
        worker = Worker(store, session=session, finish=lambda op, ready: None, clock=clock)
        worker.stop()
        worker.run()
        points = meter.points("trihop.operation.overdue")

    assert [(dict(point.attributes), point.value) for point in points] == [({"trihop.operation.name": "export"}, 2)]
