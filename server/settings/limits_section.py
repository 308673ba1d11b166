"""The section for limits on work."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.dsl_compiler.deployment import CanvasLimits
from ragflow_lg.dsl_compiler.source import MAX_BYTES
from ragflow_lg.server.settings.sections import Section
from ragflow_lg.services.services import StateLimits

_CANVAS, _STATE = CanvasLimits(), StateLimits()


class LimitsSection(Section):
    """``[limits]``: limits on the work that canvases, requests and files can cause. See ``docs/limits.md``."""

    workers: Annotated[int, Field(ge=0, le=256)] = 0
    """Number of worker processes. 0 means as many as processors, but at least 2."""
    worker_memory_bytes: Annotated[int, Field(ge=256 * 1024**2)] = 1024**3
    """Maximum memory of a worker process."""
    worker_queue: Annotated[int, Field(gt=0)] = 100
    """How many of a tenant's tasks may wait for a worker process."""
    canvas_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = _CANVAS.canvas_bytes
    """Maximum number of characters in a canvas."""
    canvas_components: Annotated[int, Field(gt=0)] = _CANVAS.canvas_components
    """Maximum number of components in a canvas."""
    canvas_list: Annotated[int, Field(gt=0)] = _CANVAS.canvas_list
    """Maximum number of entries in one list of a canvas's parameters."""
    canvas_entries: Annotated[int, Field(gt=0)] = _CANVAS.canvas_entries
    """Maximum number of list entries and map keys in all parameters of a canvas."""
    canvas_chars: Annotated[int, Field(gt=0)] = _CANVAS.canvas_chars
    """Maximum number of characters in the texts of all parameters of a canvas."""
    canvas_references: Annotated[int, Field(gt=0)] = _CANVAS.canvas_references
    """Maximum number of references, counted as opening braces, in all parameters of a canvas."""
    state_chars: Annotated[int, Field(gt=0)] = _STATE.state_chars
    """Maximum number of characters in all values of a turn."""
    state_entries: Annotated[int, Field(gt=0)] = _STATE.state_entries
    """Maximum number of list entries and map keys in all values of a turn."""
    compiles: Annotated[int, Field(gt=0)] = 4
    """How many canvases are compiled concurrently. No tenant uses all of these slots."""
    searches: Annotated[int, Field(gt=0)] = 16
    """How many searches in datasets run concurrently. No tenant uses all of these slots."""
    takeovers: Annotated[int, Field(ge=0, le=100)] = 2
    """How often another server continues a run whose server has died. After that, the run has failed."""
    loop_late_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """How late the event loop may be before the server logs what it is doing, and is not ready."""

    @property
    def canvas(self) -> CanvasLimits:
        """The limits on the size of a canvas."""
        return CanvasLimits(**{name: getattr(self, name) for name in CanvasLimits.__struct_fields__})

    @property
    def state(self) -> StateLimits:
        """The limits on the state of a turn."""
        return StateLimits(self.state_chars, self.state_entries)
