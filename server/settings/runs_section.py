"""Sections for runs: their limits and their spans."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.server.settings.section import Section

__all__ = ["OtelSection", "RunSection"]


class OtelSection(Section):
    """``[otel]``: OpenTelemetry spans, for the command and ``open_runner``. Needs ``ragflow-lg[otel]``."""

    enabled: bool = False
    exporter: str = "otlp_proto_http"
    """Name of an installed exporter, configured by its own variables ``OTEL_EXPORTER_…``; ``console`` writes to
    standard error; ``""`` uses the provider that the program has set globally."""
    service_name: str = "ragflow-lg"
    include_content: bool = False
    """Whether spans contain arguments, results, thoughts and errors."""


class RunSection(Section):
    """``[run]``: limits of a run."""

    event_limit: Annotated[int, Field(gt=0)] = 256
    """How many events may wait for the reader before the nodes have to wait."""
