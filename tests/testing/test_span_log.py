"""Captured spans and the tree they are shown as."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from trihop.testing._capture import captured


@pytest.fixture
def tracer(spans):
    """A tracer of the provider that `spans` listens to; asked for after it."""
    return trace.get_tracer("test")


def grow(tracer):
    """A trace of four spans: a root with two children, the second with one of its own."""
    with tracer.start_as_current_span("export", attributes={"trihop.provider": "acme", "trihop.operation.id": "f00"}):
        with tracer.start_as_current_span(
            "submit export",
            kind=trace.SpanKind.CLIENT,
            attributes={"trihop.provider": "acme", "url.full": "http://127.0.0.1:41234/jobs", "server.port": 41234},
        ):
            pass
        with tracer.start_as_current_span("poll export", attributes={"trihop.poll.statuses": ["200=2"]}) as poll:
            poll.add_event("trihop.attempt", {"trihop.attempt.number": 1, "trihop.attempt.duration": 0.25})
            poll.add_event("bare")
            with tracer.start_as_current_span("inner"):
                pass
            poll.set_status(trace.Status(trace.StatusCode.ERROR, "gave up on http://127.0.0.1:41234/jobs/1"))


def test_every_span_is_there_in_the_order_of_ends(spans, tracer):
    """`all` holds finished spans, the first to end first."""
    grow(tracer)

    assert [span.name for span in spans.all] == ["submit export", "inner", "poll export", "export"]
    assert repr(spans) == "SpanLog('submit export', 'inner', 'poll export', 'export')"


def test_parents_and_children_find_each_other(spans, tracer):
    """Roots have no parent in the log; children come by start."""
    grow(tracer)

    (root,) = spans.roots
    assert root is spans.named("export")
    assert [span.name for span in spans.children(root)] == ["submit export", "poll export"]
    assert spans.children(spans.named("inner")) == []


def test_a_span_below_a_parent_elsewhere_is_a_root(spans, tracer):
    """A parent in another process, or not ended yet, does not hide a span."""
    with tracer.start_as_current_span("open"):
        with tracer.start_as_current_span("done"):
            pass

        assert [span.name for span in spans.roots] == ["done"]


@pytest.mark.parametrize(("names", "told"), [([], "no spans named 'export'.*none"), (["export"] * 2, "2 spans named")])
def test_named_means_the_only_one(spans, tracer, names, told):
    """No span of the name, or two, is an AssertionError that names what there is."""
    for name in names:
        tracer.start_span(name).end()

    with pytest.raises(AssertionError, match=told):
        spans.named("export")


def test_the_tree_tells_the_trace_without_what_changes(spans, tracer):
    """Names, kinds, statuses, attributes and events, indented; no ids, no ports, nothing a parent has said."""
    grow(tracer)

    assert spans.tree() == (
        "export [INTERNAL]\n"
        "    trihop.provider: acme\n"
        "  submit export [CLIENT]\n"
        "      url.full: http://127.0.0.1/jobs\n"
        "  poll export [INTERNAL] ERROR: gave up on http://127.0.0.1/jobs/1\n"
        "      trihop.poll.statuses: [200=2]\n"
        "      * trihop.attempt trihop.attempt.duration=0.25 trihop.attempt.number=1\n"
        "      * bare\n"
        "    inner [INTERNAL]"
    )


def test_the_tree_can_be_cut_to_some_attributes(spans, tracer):
    """With a choice of attributes, only those are shown, on spans and events."""
    grow(tracer)

    assert spans.tree(attributes={"trihop.attempt.number"}) == (
        "export [INTERNAL]\n"
        "  submit export [CLIENT]\n"
        "  poll export [INTERNAL] ERROR: gave up on http://127.0.0.1/jobs/1\n"
        "      * trihop.attempt trihop.attempt.number=1\n"
        "      * bare\n"
        "    inner [INTERNAL]"
    )


def test_a_status_of_ok_is_shown(spans, tracer):
    """A status that was set is part of the tree, without a description too."""
    with tracer.start_as_current_span("fine") as span:
        span.set_status(trace.StatusCode.OK)

    assert spans.tree() == "fine [INTERNAL] OK"


def test_clear_forgets(spans, tracer):
    """After clear() only later spans are there."""
    tracer.start_span("before").end()
    spans.clear()
    tracer.start_span("after").end()

    assert [span.name for span in spans.all] == ["after"]


def test_a_log_ends_with_its_block(spans):
    """Spans that end later do not reach a log whose block is over, and no processor is added twice."""
    tracer = trace.get_tracer("test")
    with captured() as log:
        tracer.start_span("inside").end()
    tracer.start_span("outside").end()

    assert [span.name for span in log.all] == ["inside"]
    assert [span.name for span in spans.all] == ["inside", "outside"]


def test_a_provider_that_is_set_is_kept(monkeypatch, spans):
    """A global SDK provider of the application stays, and gets a processor once."""
    own = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: own)

    for _ in range(2):
        with captured() as log:
            own.get_tracer("app").start_span("theirs").end()
        assert [span.name for span in log.all] == ["theirs"]

    assert spans.all == []
    assert len(own._active_span_processor._span_processors) == 1


def test_a_provider_that_is_not_the_sdks_is_refused(monkeypatch):
    """Another vendor's provider has no spans to hand out, and is named."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)

    with (
        pytest.raises(RuntimeError, match=r"but the global one is a opentelemetry\.trace\.NoOpTracerProvider"),
        captured(),
    ):
        pass
