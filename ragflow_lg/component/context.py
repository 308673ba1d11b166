"""A component's view of its run: `RunContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from msgspec import Struct

from ragflow_lg.base.errors import ComponentError, RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.limits import Limit
from ragflow_lg.base.thinking import AnswerPart
from ragflow_lg.base.values import (
    MAX_CHARS,
    MAX_NAME_PARTS,
    MAX_PARSED_CHARS,
    JsonValue,
    join_texts,
    parse_json,
    to_json,
    to_text,
    write_path,
)
from ragflow_lg.component.events import AnswerDiscarded, Delta, EngineEvent, MessagePiece
from ragflow_lg.component.spec import MessageAlternative
from ragflow_lg.component.state import TurnRequest, look_up, merge_outputs, output_patch
from ragflow_lg.component.turn_context import MemorySteps, NestedTurn, TurnContext, step_key
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl.forms import is_file, read_value, unwrap_submission
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.services.chat import NO_USAGE, TokenBudget, Usage
from ragflow_lg.services.references import Chunk, References, add_chunks, merge_references
from ragflow_lg.services.services import Caller

if TYPE_CHECKING:
    from ragflow_lg.component.plan import MessagePlan, Plan, PlanNode
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.sessions import Steps

T = TypeVar("T")


class Round(Struct, frozen=True):
    """One round of a region. ``index`` starts at 0; ``items`` are the items of an Iteration."""

    index: int
    items: Sequence[JsonValue] | None = None

    @property
    def item(self) -> JsonValue:
        """This round's item, or None without items."""
        return self.items[self.index] if self.items is not None and self.index < len(self.items) else None


class RunContext:
    """A component's access to its run: the node, its values and services, and the events that it emits.

    Every value that is read is recorded and appears in ``node_finished.inputs``, unless the component reports others.
    """

    # Class attributes, because every node execution creates a context and most never change them.
    agent_log: object = None
    """The `ragflow_lg.agents.agent_log.AgentLog` of the agent that is running, or None if this is not an agent."""
    agent_result: object = None
    """The `ragflow_lg.agents.agent_run.AgentResult` of the agent's attempts so far, or None if there is none."""
    caller = ""
    """For a tool: the positions of the enclosing calls, separated by ``/``."""
    _shown: list[str] | None = None
    _has_reported = False
    _parsed: dict[str, JsonValue] | None = None
    _parsed_chars = 0
    _message_pieces: list[str] | None = None
    end: dict[str, JsonValue] | None = None
    """The data for ``message_end``, set by a Message."""
    limit: Limit | None = None
    """Stops the component when its time is up."""
    refusals = 0
    """The number of unusable answers so far; the next attempt asks again instead of using a stored answer."""
    replayed_steps: frozenset[str] = frozenset()
    """The positions of steps whose results were restored."""
    steps = 0
    """The number of steps so far."""
    text_chars = 0
    """The total length of the texts built so far; see `charge`."""
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
        self.plan = plan
        self.node = node
        self._turn = turn
        self._state = state
        self._memory_steps = memory_steps
        self.request: TurnRequest = request or {}
        """The turn's input or the answer to a form, for nodes that accept one."""
        self.round = round or Round(0)
        """The current round, only for a region's two components."""
        self.task = task
        """The name of this node execution, unique in the session and unchanged if a run resumes after a crash."""
        self.place = ".".join(map(str, state.get("place", ()))) if place is None else place
        """The position for `ragflow_lg.services.services.Caller`. It is the same in every run that does the same."""
        self.write = write
        self.inputs: dict[str, JsonValue] = {}
        self.global_updates: dict[str, JsonValue] = {}
        self.output_updates: dict[str, dict[str, JsonValue]] = {}
        self.partial: dict[str, JsonValue] = {}
        """The outputs to store if the node is stopped before it returns."""
        self.visits: dict[str, int] = {}
        self.new_references: References = {}
        """The citable sources found by this node."""
        self._inherited_references: References = {}
        """For a tool: the sources known to its caller, if the caller has found any."""
        self.owner = node.id
        """The component of the canvas that is running; for a tool, this differs from ``node``."""
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
        return self._services(self.place)

    def services_at(self, position: str) -> Services:
        """Return the services for one of this node's parallel calls; ``position`` distinguishes the calls."""
        return self._services(f"{self.place}/{position}")

    def _services(self, place: str) -> Services:
        services = self._turn.services
        return services if services.for_caller is None else services.for_caller(Caller(self.node.id, place))

    async def step(
        self,
        name: str,
        arguments: object,
        call: Callable[[], Awaitable[JsonValue]],
        *,
        position: str = "",
        in_memory: bool = False,
    ) -> JsonValue:
        """Run an expensive call once: if the node runs again after a crash, it gets the stored result.

        This method returns after the result is stored. ``position`` distinguishes steps that run in parallel; by
        default, steps are numbered. ``name`` and ``arguments`` (JSON) are part of the key, so a result is never used
        for a different call. ``in_memory``: if the session is not stored, keep the result in memory; results of a node
        with retries are always kept for its next attempt.
        """
        self.steps += 1
        steps, task = self._steps()
        if steps is self._memory_steps and not (in_memory or self.node.extra_attempts):
            return to_json(await call())
        key = step_key(task, position or str(self.steps), name, arguments)
        has_result, result = await steps.find(key)
        if has_result:
            self.replayed_steps |= {position}
        else:
            result = to_json(await call())
            await steps.put(key, result)
        return result

    async def has_begun(self, name: str, arguments: object, position: str) -> bool:
        """Return whether `begin` was called with these arguments by this node, including before a crash."""
        steps, task = self._steps()
        has_begun, _ = await steps.find(step_key(task, f"{position} begun", name, arguments))
        return has_begun

    async def begin(self, name: str, arguments: object, position: str) -> None:
        """Mark the start of something that must not start twice. The mark is stored before this method returns."""
        steps, task = self._steps()
        await steps.put(step_key(task, f"{position} begun", name, arguments), True)

    def _steps(self) -> tuple[Steps, str]:
        """Return the store for this node's steps, and the name of the node execution in that store."""
        steps = self._turn.steps
        return (self._get_memory_steps(), self.place) if steps is None or not self.task else (steps, self.task)

    def _get_memory_steps(self) -> MemorySteps:
        if self._memory_steps is None:
            self._memory_steps = MemorySteps()
        return self._memory_steps

    def nested_turn(self) -> TurnContext:
        """Return the turn context for a canvas that runs inside this node. Its steps belong to this node."""
        steps, place = self._steps()
        return TurnContext(self.services, steps=steps, nested=NestedTurn(place, self.budget), outer=self._turn)

    async def check_interruption(self) -> None:
        """Raise RunCancelled if the turn is being moved to another process."""
        await self._turn.check_interruption()

    def calling(self) -> AbstractContextManager[None]:
        """Delay a handover to another process until the call inside the block has ended."""
        return self._turn.calling()

    def count(self, usage: Usage) -> None:
        """Add the usage of a model call."""
        self.usage = self.usage.plus(usage)

    async def run_in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run blocking work in a thread."""
        return await asyncio.to_thread(work, *arguments)

    async def form_value(self, submitted: Any, declared: Any, layout_recognize: str) -> JsonValue:
        """Return the value of a form field. Files are read, and object text is parsed."""
        value, type_name = unwrap_submission(
            submitted, cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}
        )
        if not is_file(type_name):
            return read_value(value, type_name)
        if value in (None, "", []):
            return None
        files = cast("list[Any]", value if isinstance(value, list) else [value])
        return list[JsonValue](await self.services.files.read(files, layout_recognize))

    # Reading

    def value(self, reference: Reference) -> JsonValue:
        """Return the value of a reference.

        If nothing has been stored yet, this is None for outputs that the canvas declares, and otherwise ``""``.

        Raises:
            ComponentError: if the reference names a component that the canvas does not have.
        """
        value = self.peek(reference)
        self.record(reference, value)
        return value

    def record(self, reference: Reference, value: JsonValue) -> None:
        """Record what was read for a reference."""
        if not self._has_reported:
            self.inputs[reference.text] = value

    def report_inputs(self, inputs: Mapping[str, JsonValue]) -> None:
        """Set ``node_finished.inputs`` to what RAGFlow's component reports; what is read later is not recorded."""
        self.inputs, self._has_reported = dict(inputs), True

    def text_of(self, reference: Reference) -> str:
        """Return the value of a reference as text. The text is also what is recorded."""
        text = to_text(self.peek(reference))
        self.record(reference, text)
        return text

    def answer(self, reference: Reference) -> str:
        """Return the answer of a streaming model as it was shown, including a part before a default value."""
        shown: str | None = self._state.get("turn", {}).get("shown", {}).get(reference.node)
        return to_text(self.peek(reference)) if shown is None else shown

    def text(self, template: Template) -> str:
        """Render a template in one pass, converting each reference with `ragflow_lg.base.values.to_text`."""
        return self.charge(join_texts(s if isinstance(s, str) else self.text_of(s) for s in template.segments))

    def charge(self, text: str) -> str:
        """Return a text that was built from values, counted towards the limit on all such texts of one node.

        Raises:
            ComponentError: if the limit is exceeded: parameters can repeat a value any number of times.
        """
        self.charge_chars(len(text))
        return text

    def charge_chars(self, count: int) -> None:
        """Count characters as `charge` does."""
        if self.text_chars + count > MAX_CHARS:
            raise ComponentError(f"The texts of the node exceed {MAX_CHARS:,} characters.", node=self.node.id)
        self.text_chars += count

    def resolve(self, template: Template | JsonValue) -> JsonValue:
        """Resolve a parameter that may be a template.

        If the template is a single reference, return its value with its type. Return other templates as text, and other
        values unchanged.
        """
        if not isinstance(template, Template):
            return template
        sole = template.sole_reference
        return self.text(template) if sole is None else self.value(sole)

    def global_value(self, name: str) -> JsonValue:
        """Return a ``sys.*`` or ``env.*`` value by its full name, without recording it; None if it does not exist."""
        if name in self.global_updates:
            return self.global_updates[name]
        return self._state.get("globals", {}).get(name)

    def title_of(self, node: str) -> str:
        """Return a node's display name, or ``""`` if it has none."""
        plan_node = self.plan.nodes.get(NodeId(node))
        return plan_node.title if plan_node else ""

    @property
    def references(self) -> References:
        """The sources that answers in this turn may cite."""
        known = self._inherited_references or self._state.get("turn", {}).get("references", {})
        return merge_references(known, self.new_references)

    def cite(self, chunks: Sequence[Chunk], documents: Sequence[Mapping[str, JsonValue]] | None = None) -> None:
        """Add sources that answers may cite; see `ragflow_lg.services.references.add_chunks`."""
        if chunks or documents:
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
        child.visit, child.owner = self.visit, self.owner
        child.budget = TokenBudget(self.budget)
        child.caller = f"{self.caller}/{position}" if self.caller else position
        if self.new_references:
            child._inherited_references = self.references
        return child

    @property
    def redacted_view(self) -> RedactedView:
        """A view that redacts secrets from this canvas, its nested canvases and its services."""
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
    def history(self) -> Sequence[list[Any]]:
        """The session's ``[role, payload]`` pairs, ending with this turn's user entry."""
        return self._state.get("history", [])

    def peek(self, reference: Reference) -> JsonValue:
        """Return the value of a reference as `value` does, without recording it."""
        if reference.kind == "output" and reference.node not in self.plan.nodes:
            raise ComponentError(f"Can't find variable: {reference.text!r}", node=self.node.id)
        if reference.kind == "alias":
            return self._state.get("aliases", {}).get(reference.key, "")
        globals_, outputs = self._state.get("globals", {}), self._state.get("outputs", {})
        if self.global_updates:
            globals_ = {**globals_, **self.global_updates}
        if reference.node in self.output_updates:
            outputs = merge_outputs(outputs, output_patch(patch=self.output_updates))
        declared = self.plan.nodes[NodeId(reference.node)].declared if reference.kind == "output" else ()
        return look_up(reference, globals_, outputs, declared, self.parse_json)

    def parse_json(self, text: str) -> JsonValue:
        """Parse text as JSON, or return None. Each text is parsed once.

        Raises:
            ComponentError: if the node has parsed too much.
        """
        parsed = self._parsed = {} if self._parsed is None else self._parsed
        if text not in parsed:
            if self._parsed_chars + len(text) > MAX_PARSED_CHARS:
                raise ComponentError(
                    f"The node reads parts of JSON texts with more than {MAX_PARSED_CHARS:,} characters. "
                    "Convert them with DataOperations first.",
                    node=self.node.id,
                )
            self._parsed_chars += len(text)
            parsed[text] = parse_json(text)
        return parsed[text]

    # Writing

    def assign(self, reference: Reference, value: JsonValue) -> None:
        """Write a global or another node's output. Later reads by this node return the new value.

        Raises:
            ComponentError: if a value along the path is not a map.
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
        current = {**self._state.get("globals", {}), **self.global_updates}
        parts = key.split(".")
        for end in range(min(len(parts) - 1, MAX_NAME_PARTS), 1, -1):
            name = ".".join(parts[:end])
            if key not in current and name in current:
                self.global_updates[name] = write_path(current[name], parts[end:], value)
                return
        self.global_updates[key] = value

    # Emitting

    @property
    def is_streaming(self) -> bool:
        """Whether a Message streams this model's answer."""
        return bool(self.node.streams_to)

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
        """Withdraw the answer that was shown so far, before the model is called again."""
        self._shown = None
        self.partial.clear()
        await self.emit(AnswerDiscarded(self.node.id, self.place))

    async def delta(self, text: str, mark: Literal["", "start", "end"] = "") -> None:
        """Emit a piece of the model's answer, or the start or end of a thinking section."""
        self._shown = self._shown or []
        self._shown.append(AnswerPart(text, mark).source)
        await self.emit(Delta(self.node.id, text, mark, self.place))

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
            with self.limit.paused() if self.limit else nullcontext():
                await sink.room()
        if self._turn.is_cancelled and not even_if_cancelled:
            raise RunCancelled(self.node.id)
        sink.put(event)
