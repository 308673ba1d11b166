"""The values that a node execution reads and writes, `NodeValues`, and its stored steps, `NodeSteps`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ragflow_lg.base.errors import ApprovalNeeded, ComponentError, ForeignJsonError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.json_scanner import TEXT_LIMITS, check_json
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
from ragflow_lg.component.state import look_up, merge_outputs, output_patch
from ragflow_lg.component.turn_context import Approval, BegunCall, BegunCalls, Decision, TurnContext, step_key
from ragflow_lg.dsl.old_values import python_text
from ragflow_lg.dsl.variable_references import Reference, Template

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan, PlanNode
    from ragflow_lg.services.sessions import Steps


class NodeValues:
    """The state as one node execution sees it: what was stored before, and on top what it has written itself.

    Every value that is read is recorded and appears in ``node_finished.inputs``, unless the component reports others.
    """

    # Class attributes, because every node execution creates these and most never change them.
    text_chars = 0
    """The total length of the texts built so far; see `charge`."""
    _has_reported = False
    _parsed: dict[str, JsonValue] | None = None
    _parsed_chars = 0

    def __init__(self, plan: Plan, node: PlanNode, state: Mapping[str, Any]) -> None:
        self.plan = plan
        self.node = node
        self._state = state
        self.inputs: dict[str, JsonValue] = {}
        self.global_updates: dict[str, JsonValue] = {}
        self.output_updates: dict[str, dict[str, JsonValue]] = {}

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

    def text_of(self, reference: Reference, as_text: Callable[[JsonValue], str] = to_text) -> str:
        """Return the value of a reference as text. The text is also what is recorded."""
        text = as_text(self.peek(reference))
        self.record(reference, text)
        return text

    def answer(self, reference: Reference) -> str:
        """Return the answer of a streaming model as it was shown, including a part before a default value."""
        answer = to_text(self.peek(reference))
        has_run = reference.node in self._state.get("outputs", {})  # else the record is of another item
        shown: str | None = self._state.get("turn", {}).get("shown", {}).get(reference.node) if has_run else None
        return answer if shown is None else shown

    def text(self, template: Template, as_text: Callable[[JsonValue], str] = to_text) -> str:
        """Render a template in one pass, converting each reference with `ragflow_lg.base.values.to_text`."""
        pieces = (s if isinstance(s, str) else self.text_of(s, as_text) for s in template.segments)
        return self.charge(join_texts(pieces))

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
        if (sole := template.sole_reference) is not None:
            return self.value(sole)
        return self.text(template, python_text if self.plan.compatibility.old_values else to_text)

    def global_value(self, name: str) -> JsonValue:
        """Return a ``sys.*`` or ``env.*`` value by its full name, without recording it; None if it does not exist."""
        if name in self.global_updates:
            return self.global_updates[name]
        return self._state.get("globals", {}).get(name)

    @property
    def global_names(self) -> AbstractSet[str]:
        """The names of all ``sys.*`` and ``env.*`` values."""
        return {*self._state.get("globals", {}), *self.global_updates}

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
            parsed[text] = self._parse_text(text)
        return parsed[text]

    def _parse_text(self, text: str) -> JsonValue:
        if text.lstrip()[:1] in ("[", "{"):
            try:
                check_json(text, TEXT_LIMITS)
            except ForeignJsonError as error:
                what = f"The node reads parts of a JSON text that {error}."
                raise ComponentError(what, node=self.node.id) from None
        return parse_json(text)

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
        """Assign a global, or a value inside of one."""
        current = {**self._state.get("globals", {}), **self.global_updates}
        parts = key.split(".")
        for end in range(min(len(parts) - 1, MAX_NAME_PARTS), 1, -1):
            name = ".".join(parts[:end])
            if key not in current and name in current:
                self.global_updates[name] = write_path(current[name], parts[end:], value)
                return
        self.global_updates[key] = value


class MemorySteps:
    """The `ragflow_lg.services.sessions.Steps` for a visit in a session that is not stored, shared by its attempts."""

    def __init__(self) -> None:
        self._results: dict[str, JsonValue] = {}

    async def put(self, key: str, value: JsonValue) -> None:
        """Store a result."""
        self._results[key] = value

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Return whether there is a stored result, and the result."""
        return key in self._results, self._results.get(key)


class NodeSteps:
    """The steps of one node execution."""

    node: PlanNode
    steps = 0
    """The number of steps so far."""
    replayed_steps: frozenset[str] = frozenset()
    """The positions of steps whose results were restored."""

    def __init__(self, turn: TurnContext, task: str, place: str, memory_steps: MemorySteps | None) -> None:
        self._turn = turn
        self._memory_steps = memory_steps
        self.task = task
        """The name of this node execution, unique in the session and unchanged if a run resumes after a crash."""
        self.place = place
        """The position for `ragflow_lg.services.services.Caller`. It is the same in every run that does the same."""

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

    @cached_property
    def begun_calls(self) -> BegunCalls:
        """The calls that must not start twice, shared by the node of the session's canvas and everything inside it."""
        nested = self._turn.nested
        return BegunCalls(*self._steps()) if nested is None else nested.begun_calls

    def has_begun(self, name: str, arguments: object, position: str) -> bool:
        """Return whether `begin` was called with these arguments by this node, and the call must not be repeated."""
        return self.begun_calls.contain(self._mark(name, arguments, position))

    async def begin(self, name: str, arguments: object, position: str, title: str = "") -> None:
        """Mark the start of a call that must not start twice. The mark is stored before this method returns.

        The call is made inside a `step` with the same name, arguments and position.
        """
        result = step_key(self._steps()[1], position, name, arguments)
        mark = self._mark(name, arguments, position)
        await self.begun_calls.add(BegunCall(mark, result, title or name, cast("Any", to_json(arguments))))

    def decision(self, name: str, arguments: object, position: str) -> Decision | None:
        """Return what the user has decided about a call; None if the user was not asked."""
        return self.begun_calls.decisions.get(self._mark(name, arguments, position, "approval"))

    def need_approval(
        self, name: str, arguments: object, position: str, tool: tuple[str, str], shown: JsonValue
    ) -> NoReturn:
        """Have the user asked about a call of a tool when the other calls of the round have ended.

        ``tool`` is its name in the policies and its title, ``shown`` are the arguments that the user sees.

        Raises:
            ApprovalNeeded: always.
        """
        mark = self._mark(name, arguments, position, "approval")
        self.begun_calls.open_approvals[mark] = Approval(mark, *tool, shown)
        raise ApprovalNeeded(self.node.id)

    def _mark(self, name: str, arguments: object, position: str, what: str = "begun") -> str:
        return step_key(self._steps()[1], f"{position} {what}", name, arguments)

    def _steps(self) -> tuple[Steps, str]:
        """Return the store for this node's steps, and the name of the node execution in that store."""
        steps = self._turn.steps
        return (self._get_memory_steps(), self.place) if steps is None or not self.task else (steps, self.task)

    def _get_memory_steps(self) -> MemorySteps:
        if self._memory_steps is None:
            self._memory_steps = MemorySteps()
        return self._memory_steps
