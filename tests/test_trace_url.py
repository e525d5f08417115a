"""The link to the trace that error messages end with."""

from __future__ import annotations

import pickle
import sys

import pytest
from opentelemetry import trace

from trihop import DeadlineExceeded, SQLStore, SubmitRejected, TrihopError, operation
from trihop.testing import accepted, running

JAEGER = "http://localhost:16686/trace/{trace_id}"


@pytest.fixture
def late(server, clock, session):
    """An operation that runs out of time, with the options given; its error."""

    def late(**options):
        server.script(accepted(), then_always=running(hint_s=40))
        block = operation("export", deadline=60, session=session, clock=clock, **options)
        with pytest.raises(DeadlineExceeded) as raised, block as op:
            op.run("POST", server.url + "jobs")
        server.script()
        return raised.value

    return late


def test_an_error_ends_with_a_link_to_its_trace(late, spans):
    """Nothing follows it, so that a click on it in a terminal opens that and no more; a pickled error keeps it."""
    error = late(trace_url=JAEGER)

    assert str(error).endswith(f"or cancel it. Trace: http://localhost:16686/trace/{error.trace_id}")
    assert error.trace_url == f"http://localhost:16686/trace/{error.trace_id}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_environment_gives_the_link_and_the_argument_goes_before_it(late, spans, monkeypatch):
    """So one variable does for code that cannot be touched."""
    monkeypatch.setenv("TRIHOP_TRACE_URL", "https://a.example/explore?left={%22q%22:%22{trace_id}%22}")
    error = late()

    assert str(error).endswith(f"Trace: https://a.example/explore?left={{%22q%22:%22{error.trace_id}%22}}")
    assert late(trace_url=JAEGER).trace_url.startswith("http://localhost:16686/trace/")


def test_without_a_trace_there_is_no_link(late, monkeypatch):
    """Where nobody traces, there is nothing to open."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    error = late(trace_url=JAEGER)

    assert (error.trace_id, error.trace_url) == (None, None)
    assert "Trace:" not in str(error)


def test_what_the_callers_own_code_raises_is_noted_with_the_link(server, session, clock, spans):
    """Where Python has notes."""
    with pytest.raises(KeyError) as raised, operation("export", deadline=60, session=session, trace_url=JAEGER) as op:
        raise KeyError("mine")

    if sys.version_info >= (3, 11):
        assert raised.value.__notes__ == [
            f"trihop: operation 'export', trace http://localhost:16686/trace/{op.trace_id}"
        ]


def test_an_ending_that_was_recorded_has_the_link_of_its_first_trace(server, session, clock, spans, tmp_path):
    """Whoever enters the key again is led to the trace that shows what happened."""
    store = SQLStore(f"sqlite:///{tmp_path}/operations.db", clock=clock)
    server.script(422)
    links = []
    for _ in range(2):
        block = operation("export", deadline=60, session=session, clock=clock, key="k", store=store, trace_url=JAEGER)
        with pytest.raises(SubmitRejected) as raised, block as op:
            op.run("POST", server.url + "jobs")
        links.append(raised.value.trace_url)
    store.close()

    assert links == [f"http://localhost:16686/trace/{spans.roots[0].context.trace_id:032x}"] * 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("http://localhost:16686/trace/", "{trace_id} in it"),
        ("localhost:16686/trace/{trace_id}", "http:// or https:// URL"),
        ("http://me:pw@localhost/trace/{trace_id}", "without user or password"),
        ("http://localhost/trace/{trace_id}\nx", "http:// or https:// URL"),
    ],
)
def test_a_link_that_would_not_do_is_refused_and_in_the_environment_passed_over(
    given, told, late, spans, monkeypatch, caplog
):
    """An argument is a mistake of the code's; a variable is never the reason that a job is lost."""
    with pytest.raises(ValueError, match=told) as raised:
        operation("export", deadline=60, trace_url=given)
    monkeypatch.setenv("TRIHOP_TRACE_URL", given)

    assert "pw" not in str(raised.value)
    assert late().trace_url is None
    assert late().trace_url is None
    assert [record.message.partition(" takes")[0] for record in caplog.records if record.name == "trihop"] == [
        "TRIHOP_TRACE_URL"
    ]
    assert isinstance(late(trace_url=JAEGER), TrihopError)
