"""What a whole turn carries. It is LangGraph's runtime context: clients, the event sink, the cancel flag."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ragflow_lg.base.limits import Limits
from ragflow_lg.component.event_sink import EventSink
from ragflow_lg.component.events import EngineEvent
from ragflow_lg.component.nested_turn import NestedTurn
from ragflow_lg.dsl.redacted_view import RedactedView

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.sessions import Steps

__all__ = ["TurnContext"]


class TurnContext(Struct, eq=False):
    """Everything that one turn needs and that is never stored.

    ``write`` takes events where there is no sink: a graph that runs in Studio or as a library hands
    LangGraph's stream writer.
    """

    services: Services
    sink: EventSink | None = None
    steps: Steps | None = None
    """Where results of steps are kept, if the session is."""
    is_cancelled: bool = False
    limits: Limits = field(default_factory=Limits)
    inner: NestedTurn | None = None
    """For the turn of a canvas that is played within a node of another."""
    visits: int = 0
    """How many visits of nodes have begun."""
    presenter: RedactedView | None = None
    """Made when it is first needed."""
    shown: Callable[[EngineEvent], Iterable[Any]] | None = None
    """What is made of an event for LangGraph's stream writer; without it the event itself is written."""

    def cancel(self) -> None:
        """Stop all running nodes at once; those that would start next do not."""
        self.is_cancelled = True
        self.limits.end_all()

    async def emit(self, event: EngineEvent, write: Callable[[EngineEvent], None] | None = None) -> None:
        """Hand an event out that belongs to no running component; ``write`` takes it where there is no sink."""
        if self.sink is None:
            self.write(event, write)
            return
        await self.sink.room()
        self.sink.put(event)

    def write(self, event: EngineEvent, write: Callable[[Any], None] | None) -> None:
        """Write an event where there is no sink."""
        if write is None:
            return
        for part in self.shown(event) if self.shown is not None else (event,):
            write(part)
