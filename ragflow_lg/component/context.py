"""A component's view of its run: `RunContext`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.lenient_values import as_items, as_map
from ragflow_lg.base.thinking import AnswerPart, Mark
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.events import AnswerDiscarded, Delta, EngineEvent, EventSink, MessagePiece
from ragflow_lg.component.node_values import MemorySteps, NodeSteps, NodeValues
from ragflow_lg.component.plan import find_stored_secrets, make_redacted_view
from ragflow_lg.component.spec import MessageAlternative
from ragflow_lg.component.state import TurnRequest, place_of
from ragflow_lg.component.turn_context import NestedVisits, TurnContext, paused
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl.field_values import parse_object
from ragflow_lg.dsl.forms import declared_options, is_file, read_value, stored_files, unwrap_submission
from ragflow_lg.services.chat import NO_USAGE, TokenBudget, Usage
from ragflow_lg.services.references import Chunk, References, add_chunks, merge_references
from ragflow_lg.services.services import Caller

if TYPE_CHECKING:
    from ragflow_lg.component.plan import MessagePlan, Plan, PlanNode
    from ragflow_lg.dsl.redacted_view import RedactedView
    from ragflow_lg.dsl.variable_references import Reference
    from ragflow_lg.services.services import Services

T = TypeVar("T")

logger = logging.getLogger(__name__)

_MAX_NOTICES = 20


class Round(Struct, frozen=True):
    """One round of a region. ``index`` starts at 0; ``items`` are the items of an Iteration."""

    index: int
    items: Sequence[JsonValue] | None = None

    @property
    def item(self) -> JsonValue:
        """This round's item, or None without items."""
        return self.items[self.index] if self.items is not None and self.index < len(self.items) else None


class RunContext(NodeValues, NodeSteps):
    """A component's access to its run: the node, its values, steps and services, and the events that it emits."""

    # Class attributes, because every node execution creates a context and most never change them.
    agent_log: object = None
    """The `ragflow_lg.agents.agent_log.AgentLog` of the agent that is running, or None if this is not an agent."""
    agent_result: object = None
    """The `ragflow_lg.agents.agent_run.AgentResult` of the agent's attempts so far, or None if there is none."""
    caller = ""
    """For a tool: the positions of the enclosing calls, separated by ``/``."""
    _shown: list[str] | None = None
    _message_pieces: list[str] | None = None
    end: dict[str, JsonValue] | None = None
    """The data for ``message_end``, set by a Message."""
    limit: asyncio.Timeout | None = None
    """Stops the component when its time is up."""
    finish_reason = ""
    """``length`` or ``content_filter`` if the model's last answer was cut off or blocked, else ``""``."""
    refusals = 0
    """The number of unusable answers so far; the next attempt asks again instead of using a stored answer."""
    usage = NO_USAGE
    """The model usage so far."""
    span = (0.0, 0.0)
    """The start of this node execution in epoch seconds and its duration in seconds, once it has ended."""
    visit = 0
    """The number of this node execution within the run; see `ragflow_lg.component.events.NodeStarted`."""

    def __init__(
        self,
        plan: Plan,
        node: PlanNode,
        turn: TurnContext,
        state: Mapping[str, Any],
        *,
        request: TurnRequest | None = None,
        round: Round | None = None,
        task: str = "",
        place: str | None = None,
        write: Callable[[EngineEvent], None] | None = None,
        memory_steps: MemorySteps | None = None,
    ) -> None:
        NodeValues.__init__(self, plan, node, state)
        position = place_of(state) if place is None else place
        NodeSteps.__init__(self, turn, task, position, memory_steps)
        self.request: TurnRequest = request or {}
        """The turn's input or the answer to a form, for nodes that accept one."""
        self.round = round or Round(0)
        """The current round, only for a region's two components."""
        self.write = write
        self.partial: dict[str, JsonValue] = {}
        """The outputs to store if the node is stopped before it returns."""
        self.visits: dict[str, int] = {}
        self.submitted_files: dict[str, list[Any]] = {}
        """The files of this form's fields, for the turn's record."""
        self.new_references: References = {}
        """The citable sources found by this node."""
        self._inherited_references: References = {}
        """For a tool: the sources known to its caller, if the caller has found any."""
        self.is_streaming = bool(node.streams_to)
        """Whether a Message streams this model's answer."""
        self.owner = node.id
        """The component of the canvas that is running; for a tool, this differs from ``node``."""
        self.notices: list[str] = []
        """What an author should know of this execution, although it did not fail; see `notice`."""
        self.feedback: list[dict[str, str]] = []
        """Messages from a failed attempt for the next attempt: an answer and a description of its problems."""

    @cached_property
    def budget(self) -> TokenBudget:
        """The token budget for this node's models."""
        nested = self._turn.nested
        return TokenBudget(nested.budget if nested is not None else None)

    @property
    def compatibility(self) -> Compatibility:
        """The behaviours of RAGFlow that apply."""
        return self.plan.compatibility

    @property
    def services(self) -> Services:
        """The services of the run."""
        return self.services_at("")

    def services_at(self, position: str) -> Services:
        """Return the services for one of this node's parallel calls; ``position`` distinguishes the calls."""
        services = self._turn.services
        place = f"{self.place}/{position}" if position else self.place
        if services.for_caller is not None:
            services = services.for_caller(Caller(self.node.id, place))
        return services.for_node(self.node.name) if services.is_demo else services

    def nested_turn(self) -> TurnContext:
        """Return the turn context for a canvas that runs inside this node. Its steps belong to this node."""
        steps, place = self._steps()
        nested = NestedVisits(place, self.begun_calls, self.budget)
        return TurnContext(self.services, steps=steps, nested=nested, outer=self._turn)

    async def check_interruption(self) -> None:
        """Raise RunCancelled if the turn is being moved to another process."""
        await self._turn.check_interruption()

    def calling(self) -> AbstractContextManager[None]:
        """Delay a handover to another process until the call inside the block has ended."""
        return self._turn.calling()

    def count(self, usage: Usage) -> None:
        """Add the usage of a model call."""
        self.usage = self.usage.plus(usage)

    async def form_value(self, name: str, submitted: Any, declared: Any, layout_recognize: str) -> JsonValue:
        """Return the value of a form field as its type; files are read. RAGFlow only parses the text of objects."""
        value, type_name = unwrap_submission(submitted, as_map(declared))
        if not is_file(type_name) and self.compatibility.unchecked_forms:
            return parse_object(value) if type_name == "object" else value
        if not is_file(type_name):
            return read_value(value, type_name, declared_options(declared))
        if value in (None, "", []):
            return None
        files = as_items(value)
        if any(stored := stored_files(files)):
            self.submitted_files[f"{self.node.id}@{name}"] = stored
        return list[JsonValue](await self.services.read_files(files, layout_recognize))

    def files(self, reference: Reference) -> list[Any]:
        """Return the files that a reference names, for `ragflow_lg.services.services.Files.load`.

        A field of a form and ``sys.files`` contain the texts of files; the files themselves are in the turn's record.
        """
        value = self.value(reference)
        values = as_items(value)
        key = f"{reference.node}@{reference.key}" if reference.kind == "output" else reference.key
        known: list[Any] = self._state.get("turn", {}).get("files", {}).get(key, [])
        if reference.path or value in (None, "") or len(known) != len(values):
            return values
        return [file if stored is None else stored for file, stored in zip(values, known, strict=True)]

    def title_of(self, node: str) -> str:
        """Return a node's display name, or ``""`` if it has none."""
        plan_node = self.plan.nodes.get(NodeId(node))
        return plan_node.title if plan_node else ""

    @property
    def references(self) -> References:
        """The sources that answers in this turn may cite."""
        known = self._inherited_references or self._state.get("turn", {}).get("references", {})
        both = (known, self.new_references)
        return merge_references(*(both[::-1] if self.compatibility.old_values else both))

    def cite(self, chunks: Sequence[Chunk], documents: Sequence[Mapping[str, JsonValue]] | None = None) -> None:
        """Add sources that answers may cite; see `ragflow_lg.services.references.add_chunks`."""
        if chunks or documents:
            if self.compatibility.old_values:  # the last chunk with a number is kept
                self.new_references = merge_references(add_chunks({}, chunks[::-1], documents), self.new_references)
            else:
                self.new_references = add_chunks(self.new_references, chunks, documents)

    def child(self, node: PlanNode, position: str) -> RunContext:
        """Return the context for a tool that this node calls.

        ``position`` distinguishes the steps of this call from the steps of other calls.
        """
        task = f"{self.task}/{position}" if self.task else ""
        place = f"{self.place}/{position}"
        child = RunContext(
            self.plan,
            node,
            self._turn,
            self._state,
            task=task,
            place=place,
            write=self.write,
            memory_steps=self._get_memory_steps(),
        )
        child.visit, child.owner, child.notices = self.visit, self.owner, self.notices
        child.budget, child.begun_calls = TokenBudget(self.budget), self.begun_calls
        child.caller = f"{self.caller}/{position}" if self.caller else position
        if self.new_references:
            child._inherited_references = self.references
        return child

    @property
    def redacted_view(self) -> RedactedView:
        """A view that redacts secrets from this canvas, its nested canvases and its services."""
        turn = self._turn
        if turn.redacted_view is None:
            stored = find_stored_secrets(self._state)
            turn.redacted_view = make_redacted_view(self.plan, (*turn.services.all_secrets, *stored))
        return turn.redacted_view

    def notice(self, text: str, level: int = logging.WARNING) -> None:
        """Log something that an author should know, and say it in the event that the node has finished.

        What a tool has to say is in the event of the node that calls it, after the tool's name.
        """
        logger.log(level, "Node %s: %s", self.node.id, text)
        text = text if self.node.id == self.owner else f"{self.node.name}: {text}"
        if text not in self.notices and len(self.notices) < _MAX_NOTICES:
            self.notices.append(text)

    # Emitting

    @property
    def shown(self) -> str:
        """The part of the answer that was shown so far, with tags."""
        return "".join(self._shown or ())

    def shown_update(self, content: JsonValue) -> dict[str, str | None]:
        """Return the update of the turn's record of shown answers, if this answer was shown other than as stored."""
        known = self._state.get("turn", {}).get("shown", {}).get(self.node.id)
        shown = None if self.shown in ("", to_text(content)) else self.shown
        return {} if shown == known else {self.node.id: shown}

    async def discard_answer(self) -> None:
        """Withdraw the answer that was shown so far. The model is called again, or shows it in another way."""
        self._shown = None
        self.partial.clear()
        await self.emit(AnswerDiscarded(self.node.id, self.place))

    async def delta(self, text: str, mark: Mark = "", is_aside: bool = False) -> None:
        """Emit a piece of the model's answer, or the start or end of a thinking section."""
        self._shown = self._shown or []
        self._shown.append(AnswerPart(text, mark, is_aside).source)
        await self.emit(Delta(self.node.id, text, mark, self.place, is_aside))

    async def piece(self, segment: int, text: str, model: NodeId | None = None) -> None:
        """Emit the text of this Message's segment ``segment``, which may be the answer of a ``model``."""
        if self._message_pieces is None:
            self._message_pieces = []
        self._message_pieces.append(text)
        await self.emit(MessagePiece(self.node.id, segment, text, model, self.place))

    @property
    def message_text(self) -> str:
        """The text that this Message has shown, with tags."""
        return "".join(self._message_pieces or ())

    @property
    def message(self) -> MessagePlan:
        """The plan of this Message."""
        return self.plan.messages[self.node.id]

    def alternative(self) -> MessageAlternative:
        """Select the text that this Message shows."""
        if len(self.message.alternatives) > 1:
            self.visits[self.node.id] = self.message.count_visits(self._state) + 1
        return self.message.select(self._state)

    @property
    def sink(self) -> EventSink | None:
        """Takes reports for which no client waits; None in Studio, in a library and in a canvas inside another one."""
        return self._turn.sink

    async def emit(self, event: EngineEvent, *, even_if_cancelled: bool = False) -> None:
        """Emit an event, waiting while the reader is behind. The wait does not count towards the node's time limit.

        Raises:
            RunCancelled: if the run was cancelled meanwhile.
        """
        sink = self._turn.sink
        if sink is None:
            self._turn.write(event, self.write)
            return
        if sink.is_full:
            with paused(self.limit) if self.limit else nullcontext():
                await sink.room()
        if self._turn.is_cancelled and not even_if_cancelled:
            raise RunCancelled(self.node.id)
        sink.put(event)
