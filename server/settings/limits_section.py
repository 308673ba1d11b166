"""The section for limits on work."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.server.settings.sections import Section


class LimitsSection(Section):
    """``[limits]``: limits on the work that canvases, requests and files can cause. See ``docs/limits.md``."""

    workers: Annotated[int, Field(ge=0, le=256)] = 0
    """Number of worker processes. 0 means as many as processors, but at least 2."""
    worker_memory_bytes: Annotated[int, Field(ge=256 * 1024**2)] = 1024**3
    """Maximum memory of a worker process."""
    worker_queue: Annotated[int, Field(gt=0)] = 100
    """How many of a tenant's tasks may wait for a worker process."""
    takeovers: Annotated[int, Field(ge=0, le=100)] = 2
    """How often another server continues a run whose server has died. After that, the run has failed."""
    loop_late_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """How late the event loop may be before the server logs what it is doing, and is not ready."""
