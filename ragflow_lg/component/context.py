"""What a component sees of the run: `RunContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from msgspec import Struct

from ragflow_lg.base.errors import ComponentError, RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.limits import Limit
from ragflow_lg.base.values import JsonValue, join_texts, to_json, to_text, write_path
from ragflow_lg.component.events import Delta, EngineEvent, MessagePiece
from ragflow_lg.component.spec import MessageAlternative
from ragflow_lg.component.state import TurnRequest, look_up, merge_outputs, output_patch
from ragflow_lg.component.turn_context import MemorySteps, NestedTurn, TurnContext, step_key
from ragflow_lg.dsl.forms import is_file, read_value, unwrap_submission
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.services.chat import NO_USAGE, Usage
from ragflow_lg.services.references import Chunk, References, add_chunks, merge_references
from ragflow_lg.services.services import Caller
from ragflow_lg.services.token_budget import TokenBudget

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan, PlanNode
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.sessions import Steps

__all__ = ["Round", "RunContext"]

T = TypeVar("T")


class Round(Struct, frozen=True):
    """One round of a region. ``index`` counts from 0; ``items`` is what an Iteration goes through."""

    index: int
    items: Sequence[JsonValue] | None = None

    @property
    def item(self) -> JsonValue:
        """The item of this round, None where there is none."""
        return self.items[self.index] if self.items is not None and self.index < len(self.items) else None


class RunContext:
    """What a component sees of the run: its node, values, services, and ways to speak.

    Reading a value records it; the record becomes ``node_finished.inputs``.
    """

    # What most visits never change is a default of the class: a context is made for every visit.
    agent_log: object = None
    """The `ragflow_lg.agents.agent_log.AgentLog` of the agent that works in this visit, None if there is none."""
    caller = ""
    """Where ``node`` is a tool: the positions of the calls that led to it, ``/`` between."""
    deltas = 0
    """How many deltas this visit has shown; an answer that was shown is not asked for again."""
    end: dict[str, JsonValue] | None = None
    """Data of ``message_end``, from a Message."""
    limit: Limit | None = None
    """What ends the component when its time is up."""
    refusals = 0
    """How many whole answers of this visit could not be taken; the next attempt asks anew, whatever is stored."""
    replayed_steps: frozenset[str] = frozenset()
    """Positions of the steps whose result was there already."""
    message_text = ""
    """What a Message has shown, with tags, in a canvas that is played within a node of another."""
    steps = 0
    """How many steps this visit has taken."""
    usage = NO_USAGE
    """What the models of this visit have been asked so far."""
    visit = 0
    """Number of the visit in this run, see `ragflow_lg.component.events.NodeStarted`."""

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
        held: MemorySteps | None = None,
    ) -> None:
        self.plan = plan
        self.node = node
        self._turn = turn
        self._state = state
        self._held = held
        self.request: TurnRequest = request or {}
        """What the turn was started with, or the answer to a form; for nodes that take one."""
        self.round = round or Round(0)
        """The round that begins; for the two components of a region only."""
        self.task = task
        """Names this visit among all of the session; the same when a run goes on behind a crash."""
        self.place = ".".join(map(str, state.get("place", ()))) if place is None else place
        """The position of `ragflow_lg.services.services.Caller`; the same in every run that does the same."""
        self.write = write
        self.inputs: dict[str, JsonValue] = {}
        self.global_updates: dict[str, JsonValue] = {}
        self.output_updates: dict[str, dict[str, JsonValue]] = {}
        self.partial: dict[str, JsonValue] = {}
        """Outputs to keep should the node be stopped before it returns."""
        self.visits: dict[str, int] = {}
        self.new_references: References = {}
        """What this visit has found that answers may cite."""
        self.owner = node.id
        """The component of the canvas that is visited; another one than ``node`` where that is a tool."""
        self.feedback: list[dict[str, str]] = []
        """Messages a failed attempt leaves for the next one of this visit: an answer, and what is wrong with it."""

    @cached_property
    def budget(self) -> TokenBudget:
        """What its models may still use."""
        inner = self._turn.nested
        return TokenBudget(inner.budget if inner is not None else None)

    @property
    def services(self) -> Services:
        """The services of the run."""
        return self._services(self.place)

    def services_at(self, position: str) -> Services:
        """Give the services for a call that this node makes beside others; ``position`` tells them apart."""
        return self._services(f"{self.place}/{position}")

    def _services(self, place: str) -> Services:
        services = self._turn.services
        return services if services.for_caller is None else services.for_caller(Caller(self.node.id, place))

    async def step(
        self,
        name: str,
        arguments: JsonValue,
        call: Callable[[], Awaitable[JsonValue]],
        *,
        position: str = "",
        is_held: bool = False,
    ) -> JsonValue:
        """Do something costly, once: should the node run again after a crash, it gets the stored result.

        Returns when the result is stored. ``position`` tells steps apart that run at the same time; by default they
        are counted. ``name`` and ``arguments`` (JSON) are part of the key, so that a result never answers another call.
        ``is_held``: where the session is not stored, the result is held in memory, for further attempts of this visit.
        """
        self.steps += 1
        steps, task = self._steps()
        if steps is self._held and not is_held:
            return to_json(await call())
        key = step_key(task, position or str(self.steps), name, arguments)
        is_there, result = await steps.find(key)
        if is_there:
            self.replayed_steps |= {position}
        else:
            result = to_json(await call())
            await steps.put(key, result)
        return result

    async def has_begun(self, name: str, arguments: JsonValue, position: str) -> bool:
        """Tell whether `begin` was called for this in this visit, be it before a crash."""
        steps, task = self._steps()
        has_begun, _ = await steps.find(step_key(task, f"{position} begun", name, arguments))
        return has_begun

    async def begin(self, name: str, arguments: JsonValue, position: str) -> None:
        """Mark that something begins which may not be begun twice. The mark is stored when this returns."""
        steps, task = self._steps()
        await steps.put(step_key(task, f"{position} begun", name, arguments), True)

    def _steps(self) -> tuple[Steps, str]:
        """Give where this visit's steps are kept, and what names the visit there."""
        steps = self._turn.steps
        return (self._held_steps, self.place) if steps is None or not self.task else (steps, self.task)

    @property
    def _held_steps(self) -> MemorySteps:
        if self._held is None:
            self._held = MemorySteps()
        return self._held

    def nested_turn(self) -> TurnContext:
        """Give what a canvas needs to be played within this visit. Its steps are those of this visit."""
        steps, place = self._steps()
        return TurnContext(self.services, steps=steps, nested=NestedTurn(place, self.budget))

    def count(self, usage: Usage) -> None:
        """Add what a model call has used."""
        self.usage = self.usage.plus(usage)

    async def run_in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do work that would block the event loop in a thread."""
        return await asyncio.to_thread(work, *arguments)

    async def form_value(self, submitted: Any, declared: Any, layout_recognize: str) -> JsonValue:
        """Give the value of a form's field: files are read, the text of an object too."""
        value, type_name = unwrap_submission(
            submitted, cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}
        )
        if not is_file(type_name):
            return read_value(value, type_name)
        if value in (None, "", []):
            return None
        files = cast("list[Any]", value if isinstance(value, list) else [value])
        return await self.services.files.read(files, layout_recognize)

    # Reading

    def value(self, reference: Reference) -> JsonValue:
        """Give the value of a reference; ``""`` where nothing was put yet.

        Raises:
            ComponentError: if it names a component that the canvas does not have.
        """
        value = self._look_up(reference)
        self.inputs[reference.text] = value
        return value

    def text(self, template: Template) -> str:
        """Render a template: each reference by `ragflow_lg.base.values.to_text`, in one pass."""
        return join_texts(s if isinstance(s, str) else to_text(self.value(s)) for s in template.segments)

    def resolve(self, template: Template | JsonValue) -> JsonValue:
        """Give the value, type kept, of a template that is one reference, else its text; other values as they are."""
        if not isinstance(template, Template):
            return template
        sole = template.sole_reference
        return self.text(template) if sole is None else self.value(sole)

    def global_value(self, name: str) -> JsonValue:
        """Give a ``sys.*`` or ``env.*`` value by its whole name, unrecorded; None if there is none."""
        if name in self.global_updates:
            return self.global_updates[name]
        return self._state.get("globals", {}).get(name)

    def title_of(self, node: str) -> str:
        """Give the display name of a node, ``""`` if it has none."""
        found = self.plan.nodes.get(NodeId(node))
        return found.title if found else ""

    def ran(self, node: str) -> bool:
        """Tell whether a node has run in this turn."""
        return node in self._state.get("outputs", {})

    @property
    def references(self) -> References:
        """What answers of this turn may cite."""
        return merge_references(self._state.get("turn", {}).get("references", {}), self.new_references)

    def cite(self, chunks: Sequence[Chunk], documents: Sequence[Mapping[str, JsonValue]] | None = None) -> None:
        """Let answers cite what was found, see `ragflow_lg.services.references.add_chunks`."""
        if chunks or documents:
            self.new_references = add_chunks(self.new_references, chunks, documents)

    def child(self, node: PlanNode, position: str) -> RunContext:
        """Give the context of a tool that this node calls. ``position`` tells its steps from those of other calls."""
        task = f"{self.task}/{position}" if self.task else ""
        place = f"{self.place}/{position}"
        child = RunContext(
            self.plan, node, self._turn, self._state, task=task, place=place, write=self.write, held=self._held_steps
        )
        child.visit, child.owner = self.visit, self.owner
        child.budget = TokenBudget(self.budget)
        child.caller = f"{self.caller}/{position}" if self.caller else position
        return child

    @property
    def redacted_view(self) -> RedactedView:
        """Takes the secrets of this canvas, those within it and its services out of what others are shown."""
        turn = self._turn
        if turn.redacted_view is None:
            redactor = Redactor(turn.services.all_secrets)
            for plan in self.plan.with_canvases():
                nodes = [node for node in plan.nodes.values() if node.tools or node.spec.tool]
                redactor.learn_from([part.params for node in nodes for part in node.with_tools()])
                redactor.learn_from(dict(plan.globals))
            turn.redacted_view = RedactedView(redactor)
        return turn.redacted_view

    @property
    def history(self) -> list[list[Any]]:
        """``[role, payload]`` pairs of the session, this turn's user entry last."""
        return self._state.get("history", [])

    def _look_up(self, reference: Reference) -> JsonValue:
        if reference.kind == "output" and reference.node not in self.plan.nodes:
            raise ComponentError(f"Can't find variable: {reference.text!r}", node=self.node.id)
        if reference.kind == "alias":
            return self._state.get("aliases", {}).get(reference.key, "")
        globals_, outputs = self._state.get("globals", {}), self._state.get("outputs", {})
        if self.global_updates:
            globals_ = {**globals_, **self.global_updates}
        if reference.node in self.output_updates:
            outputs = merge_outputs(outputs, output_patch(patch=self.output_updates))
        return look_up(reference, globals_, outputs)

    # Writing

    def assign(self, reference: Reference, value: JsonValue) -> None:
        """Write a global, or an output of another node; later reads of this node see it.

        Raises:
            ComponentError: if the path leads through something that is no map.
        """
        if reference.kind == "global":
            self._assign_global(reference.key, value)
            return
        if reference.node not in self.plan.nodes:
            raise ComponentError(f"Can't find variable: {reference.text!r}", node=self.node.id)
        entry = self.output_updates.setdefault(reference.node, {})
        stored = self._state.get("outputs", {}).get(reference.node, {})
        root = entry.get(reference.key, stored.get(reference.key))
        entry[reference.key] = write_path(root, reference.path, value)

    def _assign_global(self, key: str, value: JsonValue) -> None:
        held = {**self._state.get("globals", {}), **self.global_updates}
        parts = key.split(".")
        for end in range(len(parts) - 1, 1, -1):
            name = ".".join(parts[:end])
            if key not in held and name in held:
                self.global_updates[name] = write_path(held[name], parts[end:], value)
                return
        self.global_updates[key] = value

    # Speaking

    @property
    def is_streaming(self) -> bool:
        """Whether a Message shows this model's answer as it comes."""
        return bool(self.node.streams_to)

    async def delta(self, text: str, mark: Literal["", "start", "end"] = "") -> None:
        """Show a piece of the model's answer, or the border of a thinking section."""
        self.deltas += 1
        await self.emit(Delta(self.node.id, text, mark))

    async def piece(self, segment: int, text: str) -> None:
        """Show a piece of this Message: (part of) the text of segment ``segment``."""
        if self._turn.nested is not None:
            self.message_text += text
        await self.emit(MessagePiece(self.node.id, segment, text))

    def alternative(self) -> MessageAlternative:
        """Draw the text that this Message shows at this visit."""
        message = self.plan.messages[self.node.id]
        record = self._state.get("turn", {})
        visit = cast("int", record.get("visits", {}).get(self.node.id, 0))
        if len(message.alternatives) > 1:
            self.visits[self.node.id] = visit + 1
        index = message.choose(self._state.get("outputs", {}), record.get("seed", 0), visit)
        return message.alternatives[index]

    async def emit(self, event: EngineEvent, *, even_if_cancelled: bool = False) -> None:
        """Hand an event out; wait while the reader is behind. The wait does not count as time of the node.

        Raises:
            RunCancelled: if the run was cancelled meanwhile.
        """
        sink = self._turn.sink
        if sink is None:
            self._turn.write(event, self.write)
            return
        if sink.is_full:
            with self.limit.paused() if self.limit else nullcontext():
                await sink.room()
        if self._turn.is_cancelled and not even_if_cancelled:
            raise RunCancelled(self.node.id)
        sink.put(event)
