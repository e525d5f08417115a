"""Getting spans out of the OpenTelemetry SDK, for as long as a test runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from trihop.testing._spans import SpanLog


class _Tap(SpanExporter):
    """Hands spans to the logs that are open; between tests there is none."""

    def __init__(self) -> None:
        self.logs: list[SpanLog] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for log in tuple(self.logs):
            log.add(spans)
        return SpanExportResult.SUCCESS


# A processor cannot be taken off a provider, so each provider gets one, once.
_taps: WeakKeyDictionary[TracerProvider, _Tap] = WeakKeyDictionary()


@contextmanager
def captured() -> Iterator[SpanLog]:
    """A log of the spans that end in the block.

    The first call in a process sets a global tracer provider, if nobody has. One
    that is set already is kept, with its sampler, and gets one more processor.

    Raises:
        RuntimeError: The global tracer provider is not the SDK's.
    """
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource({}), shutdown_on_exit=False)
        trace.set_tracer_provider(provider)
    if not isinstance(provider, TracerProvider):
        kind = f"{type(provider).__module__}.{type(provider).__qualname__}"
        raise RuntimeError(f"spans are captured from the SDK's TracerProvider, but the global one is a {kind}")
    tap = _taps.get(provider)
    if tap is None:
        tap = _taps[provider] = _Tap()
        provider.add_span_processor(SimpleSpanProcessor(tap))
    log = SpanLog()
    tap.logs.append(log)
    try:
        yield log
    finally:
        tap.logs.remove(log)
