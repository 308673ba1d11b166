"""The runnables for nodes: thin adapters from LangGraph to the engine.

They are Runnables instead of functions because LangGraph disassembles functions in search of subgraphs and inspects
their signatures, which used to take half of the compile time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send, interrupt
from msgspec.structs import replace

from ragflow_lg.base.errors import RunError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import superstep_of
from ragflow_lg.base.values import to_json
from ragflow_lg.component.events import Waiting
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.state import TurnRequest, merge_turn, output_patch
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.forms import Form, form_problems, parse_answers, response_schema
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, SETTLE
from ragflow_lg.dsl_compiler.names import CLOSING_NODE, ROUND_NODE
from ragflow_lg.engine.graph_run import play
from ragflow_lg.engine.node import visit
from ragflow_lg.engine.node_program import NodeProgram
from ragflow_lg.engine.scope import RegionProgram, Scope, Step, visit_region
from ragflow_lg.engine.turn import REQUEST_KEYS, close_turn, open_turn

SubGraph = CompiledStateGraph[Any, Any, Any, Any]


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

    def __init__(self, name: str, *, is_stored_first: bool = False) -> None:
        """Create a node. If ``is_stored_first``, no other node follows before its result is stored."""
        self.name = name
        self._is_stored_first = is_stored_first

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
        if isinstance(context, Scope):
            turn = context.turn
            step = await self._run_in_body(context, input, task)
        elif isinstance(context, TurnContext):
            turn = context
            step = await self._run(turn, input, task)
        else:
            raise RunError(
                "The graph needs services: run it with ragflow_lg.Runner, or pass context=TurnContext(services)."
            )
        if turn.publish is not None:
            await turn.publish()
        if self._is_stored_first and turn.gathered is not None:
            turn.gathered.require(task.namespace)
        return Command(update=step.update, goto=step.goto)

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
        # The entry chooses the turn's time and seed. Followers cannot tell the executions of a node in a cycle apart.
        is_stored_first = program.node.spec.kind == "entry" or program.node.id in program.plan.cyclic
        super().__init__(program.node.id, is_stored_first=is_stored_first)
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
            ask=partial(_ask, self._program.plan, turn, task.runtime) if inner is None else None,
            task=name if inner is None else inner.name_visit(name),
            write=task.runtime.stream_writer,
        )
        return Step(*await visited)

    async def _run_in_body(self, scope: Scope, state: Mapping[str, Any], task: _Task) -> Step:
        record = state.get("scope", {})
        if record.get("exit") or record.get("leave"):
            return Step({})  # another node has left the region
        node = self._program.node
        step = await self._run(scope.turn, scope.view(state), task)
        if "outputs" not in step.update or "error" in step.update.get("turn", {}):
            return step  # the turn is over
        if "leave" in step.update.get("scope", {}):
            return Step(step.update)
        if node.spec.kind == "region_exit":
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
        await turn.begin()
        view: dict[str, Any] = {
            **opened,
            "outputs": {},
            "history": [*state.get("history", ()), *opened["history"]],
        }
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

    def __init__(self, looping_gates: Sequence[str]) -> None:
        super().__init__(CLOSING_NODE)
        self._gates = looping_gates

    async def _run(self, turn: TurnContext, state: Mapping[str, Any], task: _Task) -> Step:
        record = state.get("turn", {})
        settled: int = record.get("settled", 0)
        if "error" not in record and settled < len(self._gates):
            return Step({self._gates[settled]: SETTLE, "turn": {"settled": settled + 1}}, [CLOSING_NODE])
        update, event = close_turn(state)
        await turn.emit(event, task.runtime.stream_writer)
        return Step(update)


async def _ask(
    plan: Plan, turn: TurnContext, runtime: Runtime[TurnContext], node: PlanNode, form: Form
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
        await turn.emit(Waiting(NodeId(node.id), form.tips, form.fields), runtime.stream_writer)
        raise
    return answer


def _reset(scope: Scope, step: Step) -> Step:
    """Reset the body's gates if the step begins a round."""
    if not step.begins_round or not scope.program.gates:
        return step
    gates = {gate: {**RESET, **step.update.get(gate, {})} for gate in scope.program.gates}
    return Step({**step.update, **gates}, step.goto)
