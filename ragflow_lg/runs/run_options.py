"""What all runs of a runner have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.callbacks import CallbackSet
from ragflow_lg.services.sessions import SessionStore

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

    from ragflow_lg.services.services import Services


class RunOptions(Struct, frozen=True):
    """What a runner gives to each of its runs."""

    canvas: CompiledCanvas
    services: Services
    store: SessionStore | None
    canvas_id: str
    model: str
    event_limit: int
    callbacks: CallbackSet
    busy_s: float
    running: set[RunControl]
    """The controls of the runs that are being iterated."""
