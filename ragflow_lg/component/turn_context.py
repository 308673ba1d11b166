"""What a whole turn carries. It is LangGraph's runtime context: clients, the event sink, the cancel flag."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ragflow_lg.base.limits import Limits
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.event_sink import EventSink
from ragflow_lg.component.events import EngineEvent
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.token_budget import TokenBudget

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.sessions import Steps

__all__ = ["MemorySteps", "NestedTurn", "TurnContext", "step_key"]


class MemorySteps:
    """The `ragflow_lg.services.sessions.Steps` of a visit whose session is not stored: its attempts share them."""

    def __init__(self) -> None:
        self._results: dict[str, JsonValue] = {}

    async def put(self, key: str, value: JsonValue) -> None:
        """Hold a result."""
        self._results[key] = value

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Give whether there is a result, and the result."""
        return key in self._results, self._results.get(key)


def step_key(task: str, position: str, name: str, arguments: JsonValue) -> str:
    """Give the key of a step: 32 hexadecimal digits."""
    text = json.dumps([task, position, name, arguments], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


class NestedTurn:
    """Names the visits of one such turn, and gathers what they used and said."""

    def __init__(self, place: str, budget: TokenBudget | None = None) -> None:
        """``place`` names the call among all of the session around, ``budget`` is that of who calls."""
        self._place = place
        self.budget = budget or TokenBudget()
        self._rounds: dict[str, int] = {}
        self._visits: Counter[str] = Counter()
        self.usage = Usage()
        """What the models of all visits were asked."""
        self.texts: list[str] = []
        """What Messages showed, in order."""

    def number_round(self, namespace: str, index: int) -> None:
        """Note which of several rounds side by side runs under one of LangGraph's names for tasks."""
        self._rounds[namespace] = index

    def name_visit(self, namespace: str) -> str:
        """Give the name of a visit that begins, of LangGraph's name for its task, which no other process repeats."""
        path, prefix = self._place, ""
        for part in namespace.split("|"):
            prefix = f"{prefix}|{part}" if prefix else part
            index = self._rounds.get(prefix)
            path += "/" + part.rpartition(":")[0] + ("" if index is None else f"[{index}]")
        self._visits[path] += 1
        return f"{path}#{self._visits[path]}"

    def record(self, usage: Usage, said: str) -> None:
        """Take what a visit used and said."""
        self.usage = self.usage.plus(usage)
        if said:
            self.texts.append(said)

    def restore(self, stored: Any) -> tuple[dict[str, Any], list[str]]:
        """Take a visit that was made before a crash; give its update and the next nodes."""
        self.record(Usage(*stored["usage"]), stored["said"])
        self.budget.charge(stored.get("tokens", 0))
        return stored["update"], stored["goto"]


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
    nested: NestedTurn | None = None
    """For the turn of a canvas that is played within a node of another."""
    visits: int = 0
    """How many visits of nodes have begun."""
    redacted_view: RedactedView | None = None
    """Made when it is first needed."""
    render_event: Callable[[EngineEvent], Iterable[Any]] | None = None
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
        for part in self.render_event(event) if self.render_event is not None else (event,):
            write(part)
