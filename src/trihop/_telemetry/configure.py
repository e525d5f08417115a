"""Where spans and metrics go in an application without a set-up of its own. Needs the SDK, as nothing else does."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Signal = Literal["traces", "metrics"]

_EXPORTERS = {"traces": ("trace_exporter", "OTLPSpanExporter"), "metrics": ("metric_exporter", "OTLPMetricExporter")}


def configure(*, file: str | os.PathLike[str] | None = None, otlp: str | None = None, service: str = "trihop") -> bool:
    """Set up OpenTelemetry for this process: spans to a file, spans and metrics to a collector, or both.

    For an application that has no set-up of its own; one that has needs no call, as trihop emits to whatever provider
    is set. Where a tracer provider is set already this does nothing. What is still waiting is sent when the process
    exits; a collector that cannot be reached delays that by up to OTEL_EXPORTER_OTLP_TIMEOUT seconds (default 10) for
    each export that is under way or still to be made, and nothing else ever waits for it.

    Args:
        file: Gets the spans as OTLP JSON lines, each as soon as it has ended; appended to, readable by its owner only.
            `trihop trace` draws it. Extra: `cli`.
        otlp: The collector's address, `http://localhost:4318`; with OTEL_EXPORTER_OTLP_PROTOCOL=grpc that of its gRPC
            port. None: the one that OTEL_EXPORTER_OTLP_ENDPOINT names, if it names one. Extra: `otlp`. Metrics stay
            at home where OTEL_METRICS_EXPORTER is `none`, as it should be for a collector that takes traces only.
        service: The name of this application, unless OTEL_SERVICE_NAME gives one.

    Returns:
        Whether it set the provider.

    Raises:
        ValueError: Neither a file nor a collector is named.
        ModuleNotFoundError: An extra is missing; the message says which.
        OSError: The file cannot be written.
    """
    spans_to, metrics_to = otlp or named_collector("traces"), otlp or named_collector("metrics")
    if file is None and spans_to is None:
        raise ValueError("name a file or a collector: configure(file=...), configure(otlp='http://localhost:4318')")
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return False
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    except ModuleNotFoundError as missing:
        raise not_installed(missing, "otlp" if file is None else "cli") from None

    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", service)})
    processors: list[Any] = []
    if file is not None:
        processors.append(SimpleSpanProcessor(file_exporter(Path(file))))
    if spans_to is not None:
        processors.append(BatchSpanProcessor(otlp_exporter("traces", otlp)))
    provider = TracerProvider(resource=resource)
    for processor in processors:
        provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    if metrics_to is not None and os.environ.get("OTEL_METRICS_EXPORTER") != "none":
        _measure(resource, otlp)
    return True


def _measure(resource: Any, otlp: str | None) -> None:
    """Send metrics as well, unless somebody has seen to them."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider":
        reader = PeriodicExportingMetricReader(otlp_exporter("metrics", otlp))
        metrics.set_meter_provider(MeterProvider([reader], resource=resource))


def named_collector(signal: Signal) -> str | None:
    """The collector that the environment names for a signal, None where it names none."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return next((value for name in names if (value := os.environ.get(name))), None)


def otlp_exporter(signal: Signal, endpoint: str | None) -> Any:
    """The exporter of the protocol that the environment asks for; OpenTelemetry's default is http/protobuf.

    Raises ModuleNotFoundError, with advice, where it is not installed.
    """
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    grpc = next((value for name in names if (value := os.environ.get(name))), None) == "grpc"
    module, exporter = _EXPORTERS[signal]
    try:
        found = import_module(f"opentelemetry.exporter.otlp.proto.{'grpc' if grpc else 'http'}.{module}")
    except ModuleNotFoundError as missing:
        raise not_installed(missing, "otlp") from None
    if endpoint is not None and not grpc:
        endpoint = f"{endpoint.rstrip('/')}/v1/{signal}"
    return getattr(found, exporter)(endpoint=endpoint)


def file_exporter(file: Path) -> Any:
    """An exporter that appends to a file of mode 0600.

    Raises ModuleNotFoundError, with advice, where it is not installed, and OSError where the file cannot be written.
    """
    try:
        from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    except ModuleNotFoundError as missing:
        raise not_installed(missing, "cli") from None
    with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab+") as written:
        if file.is_file():  # /dev/null belongs to everybody, even where we may close it
            os.chmod(file, 0o600)  # it may have been there already
        size = written.seek(0, os.SEEK_END)
        written.seek(max(size - 1, 0))
        if written.read() not in (b"", b"\n"):
            written.write(b"\n")  # an earlier writer was stopped in mid-line; ours must not be lost with it
    return FileSpanExporter(file)


def not_installed(missing: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The same error, saying what to install."""
    advice = f"{missing.name} is not installed: pip install 'trihop[{extra}]'"
    return ModuleNotFoundError(advice, name=missing.name)
