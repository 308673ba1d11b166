"""The runnables for nodes: thin adapters from LangGraph to the engine.

They are Runnables instead of functions because LangGraph disassembles functions in search of subgraphs and inspects
their signatures, which used to take half of the compile time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send, interrupt
from msgspec.structs import replace

from ragflow_lg.base.errors import ApprovalNeeded, RunCancelled, RunError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import superstep_of
from ragflow_lg.base.values import to_json
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Waiting
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.state import TurnRequest, merge_turn, output_patch, place_of, updated_state
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.forms import Form, form_problems, parse_answers, response_schema
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, SETTLE
from ragflow_lg.dsl_compiler.names import CLOSING_NODE, ROUND_NODE
from ragflow_lg.engine.compiled_canvas import play
from ragflow_lg.engine.node import visit
from ragflow_lg.engine.node_program import NodeProgram, Step
from ragflow_lg.engine.scope import RegionProgram, Scope, visit_region
from ragflow_lg.engine.turn import REQUEST_KEYS, close_turn, open_turn

SubGraph = CompiledStateGraph[Any, Any, Any, Any]


MAX_FOLLOWERS = 63
"""How many nodes a superstep adds to its first: what a crash repeats, and what a step holds in memory."""


class _Task(NamedTuple):
    """One execution of a node by LangGraph."""

    config: RunnableConfig
    runtime: Runtime[TurnContext]

    @property
    def namespace(self) -> str:
        """LangGraph's name of the task, which stays the same when a run continues; ``""`` outside of tasks."""
        return self.config.get("configurable", {}).get("checkpoint_ns", "")


class _NodeRunnable(Runnable[Any, Command[Any]]):
    """The base class of all node runnables, which are asynchronous only."""

    followers: Mapping[str, Node]
    """The nodes, by graph name, that may run in the same superstep after this one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.followers = {}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Raise an error.

        Raises:
            RunError: always.
        """
        raise RunError("Canvases run asynchronously: use ainvoke or astream instead of invoke or stream.")

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Run the node once."""
        task = _Task(config or {}, get_runtime())
        context: Any = task.runtime.context
        if not isinstance(context, Scope | TurnContext):
            raise RunError(
                "The graph needs services: run it with ragflow_lg.Runner, or pass context=TurnContext(services)."
            )
        turn = context.turn if isinstance(context, Scope) else context
        step = await self._run_anywhere(context, input, task)
        if turn.joins_nodes and self.followers and self.has_no_effect(turn, input):
            step = await self._run_followers(context, turn, updated_state(input, step.update), step, task)
        if turn.publish is not None:
            await turn.publish()
        return Command(update=step.update, goto=step.goto)

    def has_no_effect(self, turn: TurnContext, state: Mapping[str, Any]) -> bool:
        """Return whether running the node again would cost and change nothing."""
        return True

    async def _run_followers(
        self, context: Scope | TurnContext, turn: TurnContext, state: dict[str, Any], step: Step, task: _Task
    ) -> Step:
        """Run the nodes that follow this one alone, in the same superstep.

        A node that a cancellation stops is next in what is stored, as if each had a superstep of its own.
        """
        for _ in range(MAX_FOLLOWERS):
            node = self.followers.get(step.goto[0]) if len(step.goto) == 1 else None
            if node is None or not node.has_no_effect(turn, state) or task.runtime.drain_requested:
                break
            await asyncio.sleep(0)  # readers see events, and cancellations arrive, between any two nodes
            try:
                following = await node._run_anywhere(context, state, task)
            except RunCancelled:
                break
            state, step = updated_state(state, following.update), step.then(following)
        return step

    async def _run_anywhere(self, context: Scope | TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        """Run the node in the canvas, or in a region's body."""
        if isinstance(context, Scope):
            return await self._run_in_body(context, state, task)
        return await self._run(context, state, task)

    async def _run(self, turn: TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        """Run the node on its view of the state."""
        raise NotImplementedError

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        """Run the node in a region's body. ``state`` is the state of the body only."""
        raise NotImplementedError


class Node(_NodeRunnable):
    """An ordinary node. In a body, the last node in a round also closes the round."""

    def __init__(self, program: NodeProgram, closing: str = "", *, is_closer: bool = False) -> None:
        """Create the node for a program.

        Args:
            program: The node's program.
            closing: Graph name of the node that closes rounds, for a node in a body that is not a closer itself.
            is_closer: Whether the node closes the round if it is the last one.
        """
        super().__init__(program.node.id)
        self.node = program.node
        self._program = program
        self._closing = closing
        self._is_closer = is_closer

    async def _run(self, turn: TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        name, inner = task.namespace, turn.nested
        visited = visit(
            self._program,
            state,
            turn,
            superstep_of(task.config),
            # a nested canvas has no user
            ask=partial(_ask, self._program.plan, turn, task.runtime, place_of(state)) if inner is None else None,
            task=name if inner is None else inner.name_visit(name),
            write=task.runtime.stream_writer,
        )
        try:
            return Step(*await visited)
        except ApprovalNeeded:
            if inner is None:
                raise
            inner.is_paused = True
            raise GraphInterrupt from None  # the nodes beside it go on

    def has_no_effect(self, turn: TurnContext, state: Mapping[str, Any]) -> bool:
        """Return whether running the node again would cost and change nothing."""
        ctx = RunContext(self._program.plan, self.node, turn, state)
        return self.node.spec.effects_of(ctx, self.node.params) == "none"

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        record = state.get("scope", {})
        if record.get("exit") or record.get("leave"):
            return Step({})  # another node has left the region
        step = await self._run(scope.turn, scope.view(state), task)
        if "outputs" not in step.update or "error" in step.update.get("turn", {}):
            return step  # the turn is over
        if "leave" in step.update.get("scope", {}):
            return Step(step.update)
        if self.node.spec.kind == "region_exit":
            step = Step({**step.update, "scope": {"exit": True}})
        elif "last" not in step.update.get("turn", {}):
            return step
        if not self._is_closer:
            return Step(step.update, [self._closing])
        return _reset(scope, await scope.close_round(state, step.update, task.runtime.stream_writer))


class RegionNode(Node):
    """A region's node in the enclosing graph. It runs the graph for the region's body."""

    def __init__(
        self, region: RegionProgram, graph: SubGraph, round_steps: int, closing: str, *, is_closer: bool
    ) -> None:
        """Create a region's node. One round of ``graph`` may take up to ``round_steps`` supersteps."""
        super().__init__(region.owner, closing, is_closer=is_closer)
        self._region = region
        self._graph = graph
        self._round_steps = round_steps

    async def _run(self, turn: TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        async def play_rounds(scope: Scope) -> Mapping[str, Any]:
            limit = (self._region.round_limit(scope.items) + 1) * self._round_steps + 10
            inner: Any = {**task.config, "recursion_limit": limit}
            if self._region.max_concurrency > 1:
                inner["max_concurrency"] = self._region.max_concurrency
            return await play(self._graph, {"scope": {}}, inner, context=scope)

        superstep, write = superstep_of(task.config), task.runtime.stream_writer
        return Step(*await visit_region(self._region, state, turn, superstep, play_rounds, write))


class RegionEntry(_NodeRunnable):
    """The first node in a region's graph, which opens the first round. It has the item node's name."""

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        return _reset(scope, await scope.enter(state, task.runtime.stream_writer))


class ParallelEntry(_NodeRunnable):
    """The first node in a graph with parallel rounds. It starts one round for each item, some hundreds at once.

    LangGraph takes time with the square of the number of tasks in a superstep, so the last of these rounds leads back.
    """

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        update, rounds = await scope.spread(state, task.runtime.stream_writer)
        return Step(update, [Send(ROUND_NODE, {"round": index}) for index in rounds])


class ParallelRound(_NodeRunnable):
    """One of several parallel rounds. It runs the body's graph."""

    def __init__(self, entry: str, graph: SubGraph, steps: int) -> None:
        super().__init__(ROUND_NODE)
        self._entry = entry
        self._graph = graph
        self._steps = steps

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        round_scope = replace(scope, only=state["round"])
        if scope.turn.nested is not None:
            scope.turn.nested.number_round(task.namespace, state["round"])
        inner: Any = {**task.config, "recursion_limit": 2 * self._steps + 10}
        update = round_scope.round_update(await play(self._graph, {"scope": {}}, inner, context=round_scope))
        return Step(update, [self._entry] if round_scope.is_last_of_wave() else [])


class RoundClosing(_NodeRunnable):
    """The node that closes rounds that have several possible last nodes. It runs when no other node can."""

    def __init__(self, looping_gates: Sequence[str]) -> None:
        super().__init__(CLOSING_NODE)
        self._gates = looping_gates

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        record = state.get("scope", {})
        settled: int = record.get("settled", 0)
        if "error" in state.get("turn", {}) or record.get("leave"):
            return Step({})
        if not record.get("exit") and settled < len(self._gates):
            return Step({self._gates[settled]: SETTLE, "scope": {"settled": settled + 1}}, [CLOSING_NODE])
        return _reset(scope, await scope.close_round(state, {}, task.runtime.stream_writer))


class EntryNode(Node):
    """The entry node. It opens the turn and then runs like an ordinary node."""

    def __init__(self, program: NodeProgram, gates: Sequence[str]) -> None:
        super().__init__(program)
        self._gates = gates

    async def _run(self, turn: TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        request: TurnRequest = {key: state[key] for key in REQUEST_KEYS if key in state}  # pyright: ignore[reportAssignmentType]
        opened, event = await open_turn(self._program.plan, state, turn, request)
        await turn.emit(event, task.runtime.stream_writer)
        await asyncio.sleep(0)  # so that a reader receives the first event
        view: dict[str, Any] = {**opened, "outputs": {}, "history": [*state.get("history", ()), *opened["history"]]}
        update, goto = await visit(
            self._program, view, turn, superstep_of(task.config), request=request, write=task.runtime.stream_writer
        )
        merged: dict[str, Any] = {
            "history": opened["history"],
            "messages": opened["messages"],
            "globals": {**opened["globals"], **update.get("globals", {})},
            "outputs": output_patch(clear=True, set=update.get("outputs", {})),
            "turn": merge_turn(opened["turn"], update.get("turn", {})),
            **{gate: {**RESET, **update.get(gate, {})} for gate in self._gates},
        }
        return Step(merged, [*goto, CLOSING_NODE])


class ClosingNode(_NodeRunnable):
    """The node that ends the turn. It first settles every gate after a cycle, since no other node can run."""

    def __init__(self, plan: Plan, looping_gates: Sequence[str]) -> None:
        super().__init__(CLOSING_NODE)
        self._plan = plan
        self._gates = looping_gates

    async def _run(self, turn: TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        record = state.get("turn", {})
        settled: int = record.get("settled", 0)
        if "error" not in record and settled < len(self._gates):
            return Step({self._gates[settled]: SETTLE, "turn": {"settled": settled + 1}}, [CLOSING_NODE])
        update, event = close_turn(self._plan, state)
        await turn.emit(event, task.runtime.stream_writer)
        return Step(update)


async def _ask(
    plan: Plan, turn: TurnContext, runtime: Runtime[TurnContext], place: str, node: PlanNode, form: Form
) -> dict[str, Any]:
    """Wait for the user. LangGraph aborts the node here and runs it again with the answer."""
    question: dict[str, Any] = {
        "component_id": node.id,
        "title": node.title,
        "tips": form.tips,
        "inputs": to_json(form.fields),  # a saver may not be able to store other values
    }
    schema = response_schema(form.fields, form.tips)
    try:
        answer = parse_answers(form.fields, interrupt(question, response_schema=schema))
        while node.id not in plan.unchecked_forms and (problems := form_problems(form.fields, answer)):
            answer = parse_answers(form.fields, interrupt({**question, "problems": problems}, response_schema=schema))
    except GraphInterrupt:
        await turn.emit(Waiting(NodeId(node.id), form.tips, form.fields, place), runtime.stream_writer)
        raise
    return answer


def _reset(scope: Scope, step: Step) -> Step:
    """Reset the body's gates if the step begins a round."""
    if not step.begins_round or not scope.program.gates:
        return step
    gates = {gate: {**RESET, **step.update.get(gate, {})} for gate in scope.program.gates}
    return Step({**step.update, **gates}, step.goto)
