"""`instrument()` by OpenTelemetry's convention, for those who instrument everything alike.

Loaded by `opentelemetry-instrument` through the entry point `opentelemetry_instrumentor`;
needs the package `opentelemetry-instrumentation`, which that command is a part of.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trihop._middleware.cover import instrument, uninstrument

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]
except ModuleNotFoundError as missing:
    advice = "pip install opentelemetry-instrumentation, or call trihop.instrument() instead"
    raise ModuleNotFoundError(f"{missing.name} is not installed: {advice}", name=missing.name) from None


class TrihopInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Has operations cover every `requests.Session`; `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=trihop` leaves it off."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """What is instrumented, as a requirement."""
        return ("requests>=2.31",)

    def _instrument(self, **_: Any) -> None:
        instrument()

    def _uninstrument(self, **_: Any) -> None:
        uninstrument()
