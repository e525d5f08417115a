"""How many operations of a store are past their deadline and have no ending."""

import requests
from telling import metering

from trihop import MemoryStore, StoreError, Worker, operation
from trihop.testing import accepted


def overdue(meter):
    """Operation names and how many of each."""
    points = meter.points("trihop.operation.overdue")
    return [(point.attributes["trihop.operation.name"], point.value) for point in points]


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
        told = overdue(meter)
        store.forget("a")
        store.forget("b")
        told_later = overdue(meter)

    assert (told, told_later) == ([("export", 2)], [("export", 0)])


def test_a_store_that_cannot_be_read_tells_nothing(clock):
    """No number is better than a wrong one, and collecting goes on."""

    class Broken(MemoryStore):
        def overdue(self):
            raise StoreError("the disk is full")

    with metering() as meter, requests.Session() as session:
        worker = Worker(Broken(clock=clock), session=session, finish=lambda op, ready: None, clock=clock)
        worker.stop()
        worker.run()

        assert overdue(meter) == []


def test_whoever_offers_tells_as_well(server, clock):
    """The dispatcher of an engine, which calls no `run()`; however often it offers, each operation counts once."""
    store = MemoryStore(clock=clock)
    server.script(accepted())
    with operation("export", deadline=60, key="a", store=store, clock=clock) as op:
        op.submit("POST", server.url + "jobs")
    clock.advance(100)

    with metering() as meter, requests.Session() as session:
        worker = Worker(store, session=session, finish=lambda op, ready: None, clock=clock)
        for _ in range(3):
            worker.offer()

        assert overdue(meter) == [("export", 1)]
