"""The canvas that a package was ejected from, as far as its components need it: ids, titles, variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from msgspec.structs import replace

from ragflow_lg.base.errors import CompileError, NodeFailedError, RunError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import superstep_of
from ragflow_lg.base.values import to_json, to_text
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.plan import MessagePlan, Plan, PlanNode
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec, ComponentParams
from ragflow_lg.component.state import OPERATIONS, TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl.forms import form_problems, parse_answers, response_schema
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.passes.bind_components import bind_node
from ragflow_lg.dsl_compiler.passes.bind_tools import bind_tools
from ragflow_lg.ejected.turn_state import Outputs, StateUpdate, output
from ragflow_lg.engine.node_attempts import attempt
from ragflow_lg.engine.node_program import NodeProgram
from ragflow_lg.engine.node_result import state_update
from ragflow_lg.engine.turn import REQUEST_KEYS, close_turn, open_turn
from ragflow_lg.services.services import Services

_KEPT_NOTES = ("visits", "shown", "references", "ends", "files")
"""The parts of a turn's record that a subgraph adds to the turn's."""


def _find(catalog: Registry, name: str) -> AnySpec:
    spec = catalog.get(name)
    if spec is None:
        raise RunError(f"This installation has no component {name!r}.")
    return spec


class Node(NamedTuple):
    """A node of the canvas. Its outputs are in the state under the name of a Python function."""

    id: str
    component: str
    title: str = ""
    declared: Sequence[str] = ()
    """The outputs that are null, not blank, before the node has run."""
    rank: int = 0
    """The position in breadth-first order, which decides which of several last nodes ends the turn."""
    rounds: Sequence[str] = ()
    """The names under which the state counts the rounds of the enclosing Loops and Iterations, outermost first."""
    item: str = ""
    """The node with the current item, inside an Iteration."""


class Canvas:
    """A canvas: its nodes by the names of their functions, and the variables of a new conversation."""

    def __init__(
        self, title: str, nodes: Mapping[str, Node], variables: Mapping[str, Any], *, compatibility: Sequence[str] = ()
    ) -> None:
        self.title = title
        self.nodes = nodes
        self.variables = variables
        self.compatibility = Compatibility().override(dict.fromkeys(compatibility, True))
        self.components: dict[str, Component] = {}

    def component(self, name: str, params: Mapping[str, Any], *, is_streamed: bool = False) -> Component:
        """Return the component that runs a node.

        Args:
            name: The name of the node's function.
            params: Its parameters, as in the canvas. Texts may contain references such as ``{sys.query}``.
            is_streamed: Whether a Message streams the answer of this model.
        """
        component = Component(self, name, params, is_streamed=is_streamed)
        self.components[name] = component
        return component

    @cached_property
    def plan(self) -> Plan:
        """The plan of the components, which is built when the first of them runs.

        Raises:
            CompileError: if a component does not exist in this installation, or its parameters are wrong.
        """
        from ragflow_lg.server.assembly.library import catalog as load_catalog

        reporter, catalog = Reporter(), load_catalog()
        raw = {
            node.id: RawComponent(node.id, node.component, self._params(name), (), None, "", "", node.title)
            for name, node in self.nodes.items()
        }
        specs = {id_: _find(catalog, component.name) for id_, component in raw.items()}
        nodes: dict[NodeId, PlanNode] = {}
        for name, node in self.nodes.items():
            nodes[NodeId(node.id)] = self._bind(name, node, raw[node.id], specs[node.id], reporter)
        draft = bind_tools(Draft({}, "", catalog, components=raw, specs=specs, nodes=nodes), reporter)
        if reporter.has_errors:
            raise CompileError(reporter.diagnostics)
        entry = next(node.id for node in draft.nodes.values() if node.spec.kind == "entry")
        return Plan(
            self.title,
            entry,
            draft.nodes,
            self.variables,
            messages={id_: self._message(node) for id_, node in draft.nodes.items() if node.spec.kind == "message"},
            compatibility=self.compatibility,
        )

    def _params(self, name: str) -> Mapping[str, Any]:
        return self.components[name].params if name in self.components else {}

    def _bind(self, name: str, node: Node, raw: RawComponent, spec: AnySpec, reporter: Reporter) -> PlanNode:
        declared = frozenset(node.declared)
        if name not in self.components:  # its function is written out
            return PlanNode(NodeId(node.id), spec, ComponentParams(), node.title, node.rank, "", declared=declared)
        scope = ReferenceScope(frozenset(other.id for other in self.nodes.values()), bool(node.item))
        bound = bind_node(raw, spec, scope, reporter)
        streams_to = (NodeId("message"),) if self.components[name].is_streamed else ()
        return replace(bound, rank=node.rank, declared=declared, streams_to=streams_to, runs_alone=True)

    def _message(self, node: PlanNode) -> MessagePlan:
        alternatives = tuple(node.spec.shows(node.params)) if node.params.__class__ is not ComponentParams else ()
        read = {NodeId(r.node) for text in alternatives for r in text.template.references if r.kind == "output"}
        streamed = {NodeId(self.nodes[name].id) for name, c in self.components.items() if c.is_streamed}
        return MessagePlan(node.id, alternatives, frozenset(read), frozenset(streamed & read))

    def view(self, state: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return the state as the components of `ragflow_lg` read it, for the node with a name."""
        node = self.nodes[name]
        outputs = {other.id: state[key] for key, other in self.nodes.items() if state.get(key)}
        return {
            "globals": state.get("variables", {}),
            "outputs": outputs,
            "history": state.get("history", []),
            "turn": state.get("turn", {}),
            "aliases": state.get(node.item, {}) if node.item else {},
            "place": tuple(state.get(key, 0) for key in node.rounds),
        }

    # Turns

    async def open_turn(self, state: Mapping[str, Any], runtime: Runtime[Services]) -> StateUpdate:
        """Return the start of a turn: the variables, the user's message, and no outputs.

        Raises:
            NodeFailedError: if a file of the request cannot be read.
        """
        before = {"globals": state.get("variables", {}), "history": state.get("history", [])}
        request: TurnRequest = {key: state[key] for key in REQUEST_KEYS if key in state}  # pyright: ignore[reportAssignmentType]
        turn = TurnContext(runtime.context)
        opened, _ = await open_turn(self.plan, {**before, "turn": state.get("turn", {})}, turn, request)
        if error := opened["turn"].pop("error", None):
            raise NodeFailedError(error[3], node=self.plan.entry)
        cleared: StateUpdate = {name: {} for name in self.nodes if state.get(name)}
        variables, history, messages = opened["globals"], opened["history"], opened["messages"]
        return {**cleared, "variables": variables, "history": history, "messages": messages, "turn": opened["turn"]}

    def close_turn(self, state: Mapping[str, Any], last: str = "") -> StateUpdate:
        """Return the end of a turn: the answer in the conversation.

        ``last`` is the node that ended the turn; by default the one that `mark_last` recorded.
        """
        view = self.view(state, next(iter(self.nodes)))
        if last:
            view["turn"] = {**view["turn"], "last": [0, 0, self.nodes[last].id]}
        closed, _ = close_turn(view)
        return {("variables" if key == "globals" else key): value for key, value in closed.items()}

    def shown_answer(self, state: Mapping[str, Any], name: str) -> str:
        """Return the answer of a model as it was streamed, including a part before a default value."""
        shown: Mapping[str, Any] = state.get("turn", {}).get("shown", {})
        text = shown.get(self.nodes[name].id) if state.get(name) else None
        return to_text(output(state, name, "content")) if text is None else str(text)

    def titles(self, ids: Sequence[str]) -> list[str]:
        """Return the titles of nodes by their ids."""
        return [self.plan.nodes[NodeId(id_)].title if id_ in self.plan.nodes else "" for id_ in ids]

    def mark_last(self, name: str) -> StateUpdate:
        """Record that a node is the last one of its path, so that the latest of several ends the turn."""
        node = self.nodes[name]
        return {"last": [superstep_of(get_config()), node.rank, node.id]}

    def last_of(self, state: Mapping[str, Any], *names: str) -> str:
        """Return the one of several nodes that has run in this turn, or ``""`` if none has."""
        return next((name for name in names if state.get(name)), "")

    def leave(self, before: Mapping[str, Any], after: Mapping[str, Any], *names: str) -> StateUpdate:
        """Return what a subgraph has changed: the nodes with some ``names``, variables, and the record of the turn."""
        update: StateUpdate = {name: after[name] for name in names if name in after}
        known, variables = before.get("variables", {}), after.get("variables", {})
        if changed := {key: value for key, value in variables.items() if key not in known or known[key] != value}:
            update["variables"] = changed
        record: Mapping[str, Any] = after.get("turn", {})
        if notes := {key: record[key] for key in _KEPT_NOTES if key in record}:
            update["turn"] = notes
        return update


class Component:
    """A component of RAGFlow with its parameters, which runs one node."""

    def __init__(self, canvas: Canvas, name: str, params: Mapping[str, Any], *, is_streamed: bool = False) -> None:
        self._canvas = canvas
        self._name = name
        self.params = params
        self.is_streamed = is_streamed

    @property
    def _node(self) -> PlanNode:
        return self._canvas.plan.nodes[NodeId(self._canvas.nodes[self._name].id)]

    def _context(
        self, state: Mapping[str, Any], runtime: Runtime[Services], request: TurnRequest | None = None
    ) -> tuple[RunContext, TurnContext]:
        turn = TurnContext(runtime.context)
        view = self._canvas.view(state, self._name)
        ctx = RunContext(self._canvas.plan, self._node, turn, view, request=request, write=runtime.stream_writer)
        return ctx, turn

    async def run(
        self, state: Mapping[str, Any], runtime: Runtime[Services], *, answer: Mapping[str, Any] | None = None
    ) -> StateUpdate:
        """Run the component once, with its time limit and retries. Return the update of the state.

        ``answer`` is the user's answer, for a form.

        Raises:
            NodeFailedError: if it fails, unless ``exception_default_value`` replaces the outputs.
        """
        request: TurnRequest = {key: state[key] for key in REQUEST_KEYS if key in state}  # pyright: ignore[reportAssignmentType]
        if answer is not None:
            request = {"inputs": dict(answer)}
        ctx, turn = self._context(state, runtime, request)
        node = ctx.node
        program = NodeProgram(ctx.plan, node, {}, (), dict.fromkeys(node.outputs))
        outcome = await attempt(program, ctx, turn)
        if outcome.is_halting:
            raise NodeFailedError(outcome.error or "", node=node.id, outputs=outcome.outputs)
        return self._as_update(state, state_update(program, ctx, outcome, superstep_of(get_config())))

    def ask(self, state: Mapping[str, Any], runtime: Runtime[Services]) -> dict[str, Any] | None:
        """Show the form of this node, and return the answer once there is a valid one; None if there is no form.

        LangGraph stops the node here, and runs it again from its beginning with the answer.
        """
        ctx, _ = self._context(state, runtime)
        form = ctx.node.spec.asks(ctx, ctx.node.params)
        if form is None:
            return None
        node = ctx.node
        question = {"component_id": node.id, "title": node.title, "tips": form.tips, "inputs": to_json(form.fields)}
        schema = response_schema(form.fields, form.tips)
        answer = parse_answers(form.fields, interrupt(question, response_schema=schema))
        checked = not self._canvas.compatibility.unchecked_forms
        while checked and (problems := form_problems(form.fields, answer)):
            answer = parse_answers(form.fields, interrupt({**question, "problems": problems}, response_schema=schema))
        return answer

    def _as_update(self, state: Mapping[str, Any], update: Mapping[str, Any]) -> StateUpdate:
        names = {node.id: name for name, node in self._canvas.nodes.items()}
        operations = update["outputs"].get(OPERATIONS, {"set": update["outputs"], "patch": {}})
        result: StateUpdate = {names[id_]: entry for id_, entry in operations["set"].items()}
        for id_, patch in operations["patch"].items():
            before: Outputs = state.get(names[id_]) or {}
            result[names[id_]] = {**before, **result.get(names[id_], {}), **patch}
        if variables := update.get("globals"):
            result["variables"] = variables
        record = {key: value for key, value in update.get("turn", {}).items() if key != "last"}
        if record:
            result["turn"] = record
        return result
