"""Where a command's own spans go: a file, and the collector that the environment names, if it names one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


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
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.json.file import FileSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    except ModuleNotFoundError as missing:
        raise _not_installed(missing, "cli") from None
    endpoint = next((value for name in _ENDPOINTS if (value := os.environ.get(name))), None)
    export = None if endpoint is None else Export(endpoint)
    present = trace.get_tracer_provider()
    with _open(file) as stream:
        to_file = SimpleSpanProcessor(FileSpanExporter(stream=stream))
        if isinstance(present, TracerProvider):  # started under opentelemetry-instrument, which exports as it was told
            present.add_span_processor(to_file)
            yield None
            return
        name = os.environ.get("OTEL_SERVICE_NAME", service)
        sdk = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create({"service.name": name}), shutdown_on_exit=False
        )
        sdk.add_span_processor(to_file)
        if export is not None:
            sdk.add_span_processor(BatchSpanProcessor(_watched(_otlp(), export)))
        trace.set_tracer_provider(sdk)
        try:
            yield export
        finally:
            sdk.shutdown()


def _otlp() -> SpanExporter:
    """The exporter of the protocol that the environment asks for; OpenTelemetry's default is http/protobuf."""
    protocol = next((value for name in _PROTOCOLS if (value := os.environ.get(name))), "http/protobuf")
    try:
        if protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

            return GrpcExporter()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        return HttpExporter()
    except ModuleNotFoundError as missing:
        raise _not_installed(missing, "otlp") from None


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


def _not_installed(missing: ModuleNotFoundError, extra: str) -> click.ClickException:
    return click.ClickException(f"{missing.name} is not installed: pip install 'trihop[{extra}]'")


def _open(file: Path) -> TextIO:
    try:
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    stream = os.fdopen(fd, "a", encoding="utf-8")
    os.chmod(file, 0o600)  # it may have been there already
    if not _ends_in_newline(file):
        stream.write("\n")  # an earlier writer was stopped in mid-line; ours must not be lost with it
    return stream


def _ends_in_newline(file: Path) -> bool:
    with file.open("rb") as written:
        if written.seek(0, os.SEEK_END) == 0:
            return True
        written.seek(-1, os.SEEK_END)
        return written.read() == b"\n"
