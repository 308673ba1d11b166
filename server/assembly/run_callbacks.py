"""The run callbacks that the settings enable."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require

if TYPE_CHECKING:
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.settings.server_section import OtelSection

PROGRAM = "program"
"""The exporter of the settings if the program has a provider."""

FLUSH_S = 5.0
"""How long sending the last spans may take."""


@asynccontextmanager
async def open_callbacks(settings: Settings) -> AsyncGenerator[Sequence[RunCallbacks]]:
    """Create the callbacks that the settings enable, and shut them down at the end.

    OpenTelemetry is imported only if it is enabled.

    Raises:
        SettingsError: If OpenTelemetry is enabled but not installed, or its exporter does not exist.
    """
    otel = settings.otel
    if not otel.exporter:
        yield ()
        return
    from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans

    if otel.exporter == PROGRAM:
        yield (OtelSpans(include_content=otel.include_content),)
        return
    provider = _provider(otel)
    try:
        yield (OtelSpans(provider, include_content=otel.include_content),)
    finally:
        await _shut_down(provider)


def _provider(otel: OtelSection) -> Any:
    require("otel", "[otel] exporter")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "ragflow-lg")
    provider = TracerProvider(resource=Resource.create({"service.name": name}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(otel.exporter)))
    return provider


def _exporter(name: str) -> Any:
    from importlib.metadata import entry_points

    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # stdout is reserved for the answer
    exporters = entry_points(group="opentelemetry_traces_exporter")
    if name not in exporters.names:
        names = ", ".join(sorted(exporters.names))
        hint = "; pip install opentelemetry-exporter-otlp-proto-http" if name == "otlp_proto_http" else ""
        raise SettingsError(f"[otel] exporter: unknown exporter {name!r} (installed: {names}){hint}.")
    try:
        return exporters[name].load()()
    except Exception as error:
        raise SettingsError(f"[otel] exporter: {name!r} cannot be created: {error}") from error


async def _shut_down(provider: Any) -> None:
    """Send the remaining spans without waiting for a collector that does not respond."""
    sender = threading.Thread(target=provider.shutdown, daemon=True, name="otel-shutdown")
    sender.start()
    await asyncio.to_thread(sender.join, FLUSH_S)
    if sender.is_alive():
        sys.stderr.write(f"ragflow-lg: the last spans could not be sent within {FLUSH_S:g} s and are lost.\n")
