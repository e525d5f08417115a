"""Where a command's own spans go: a file, and the collector that the environment names, if it names one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trihop._telemetry.configure import file_exporter, named_collector, not_installed, otlp_exporter

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


@dataclass(slots=True)
class Export:
    """Where spans go besides the file. `arrived` is known once the block has ended."""

    endpoint: str
    arrived: bool = True


@contextmanager
def tracing(file: Path, *, service: str) -> Iterator[Export | None]:
    """Write every span that ends inside the block to a file, and export it as the environment asks.

    The file is appended to, one OTLP JSON export a line, and is its owner's alone (0600). A span is in it as soon as it
    has ended.

    Yields:
        The export besides the file; None where the environment names no collector.

    Raises:
        click.ClickException: The SDK or an exporter is not installed, or the file cannot be written.
    """
    endpoint = named_collector("traces")
    export = None if endpoint is None else Export(endpoint)
    try:
        to_file, to_collector = file_exporter(file), None if export is None else otlp_exporter("traces", None)
        provider, ours = _provider(service)
    except ModuleNotFoundError as missing:
        raise click.ClickException(str(missing)) from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    provider.add_span_processor(SimpleSpanProcessor(to_file))
    if not ours:  # started under opentelemetry-instrument, which exports as it was told
        yield None
        return
    if export is not None and to_collector is not None:
        provider.add_span_processor(BatchSpanProcessor(_watched(to_collector, export)))
    try:
        yield export
    finally:
        provider.shutdown()


def _provider(service: str) -> tuple[Any, bool]:
    """The provider that is set, or one that we set; and whether it is ours."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    except ModuleNotFoundError as missing:
        raise not_installed(missing, "cli") from None
    present = trace.get_tracer_provider()
    if isinstance(present, TracerProvider):
        return present, False
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", service)})
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    trace.set_tracer_provider(provider)
    return provider, True


def _watched(exporter: SpanExporter, seen: Export) -> SpanExporter:
    """The exporter, with a note taken of whether what it sent arrived; the SDK itself only logs that."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    send = exporter.export

    def export(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = send(spans)
        seen.arrived = seen.arrived and result is SpanExportResult.SUCCESS
        return result

    exporter.export = export  # type: ignore[method-assign]
    return exporter
