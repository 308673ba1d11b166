"""Node runnables: what LangGraph calls, each a thin shell round the engine.

They are Runnables and no functions: LangGraph disassembles functions in search of subgraphs and reads their
signatures, which took half of the time of compiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send, interrupt
from msgspec.structs import replace

from ragflow_lg.base.errors import RunError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import to_json
from ragflow_lg.component.events import Waiting
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.state import TurnRequest, find_replaced_nodes, output_patch
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.forms import Form, form_problems, parse_answers
from ragflow_lg.dsl.response_schema import response_schema
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, SETTLE
from ragflow_lg.dsl_compiler.names import CLOSING_NODE, ROUND_NODE
from ragflow_lg.engine.final_state import final_state
from ragflow_lg.engine.node import NodeProgram, visit
from ragflow_lg.engine.scope import RegionProgram, Scope, Step, visit_region
from ragflow_lg.engine.turn import REQUEST_KEYS, close_turn, open_turn

__all__ = [
    "ClosingNode",
    "EntryNode",
    "Node",
    "ParallelEntry",
    "ParallelRound",
    "RegionEntry",
    "RegionNode",
    "RoundClosing",
]

SubGraph = CompiledStateGraph[Any, Any, Any, Any]


class _Shell(Runnable[Any, Command[Any]]):
    """A node as LangGraph sees it. It needs an event loop."""

    def __init__(self, name: str) -> None:
        self.name = name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Refuse.

        Raises:
            RunError: always.
        """
        raise RunError("A canvas runs asynchronously: use ainvoke or astream in place of invoke or stream.")

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Run the node once."""
        runtime = get_runtime(TurnContext)
        context: Any = runtime.context
        if isinstance(context, Scope):
            step = await self._inside(context, input, config or {}, runtime)
        elif isinstance(context, TurnContext):
            step = await self._play(context, input, config or {}, runtime)
        else:
            raise RunError(
                "The graph needs services: run it with ragflow_lg.Runner, or pass context=TurnContext(services)."
            )
        return Command(update=step.update, goto=step.goto)

    async def _play(
        self, turn: TurnContext, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        """Run the node with the state as it sees it."""
        raise NotImplementedError

    async def _inside(
        self, scope: Scope, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        """Run the node in the body of a region; ``state`` is what the body has written."""
        raise NotImplementedError


class Node(_Shell):
    """An ordinary node. In a body, the last node of a round also closes it."""

    def __init__(self, program: NodeProgram, closing: str = "", *, is_closer: bool = False) -> None:
        """``closing`` is the graph name of the node that closes rounds, for a body node that cannot by itself."""
        super().__init__(program.node.id)
        self._program = program
        self._closing = closing
        self._is_closer = is_closer

    async def _play(
        self, turn: TurnContext, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        task, inner = _task(config), turn.nested
        visited = visit(
            self._program,
            state,
            turn,
            _step(config),
            ask=partial(_ask, turn, runtime) if inner is None else None,  # else nobody could be asked
            task=task if inner is None else inner.name_visit(task),
            write=runtime.stream_writer,
        )
        return Step(*await visited)

    async def _inside(
        self, scope: Scope, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        record = state.get("scope", {})
        if record.get("exit") or record.get("leave"):
            return Step({})  # somebody has left the region already
        node = self._program.node
        step = await self._play(scope.turn, scope.view(state), config, runtime)
        if "outputs" not in step.update or "error" in step.update.get("turn", {}):
            return step  # the turn is over
        wanted = scope.program.collected
        if wanted and (done := wanted & set(find_replaced_nodes(step.update["outputs"]))):
            step.update["ran"] = dict.fromkeys(done, record.get("round", 0))
        if "leave" in step.update.get("scope", {}):
            return Step(step.update)
        if node.spec.kind == "region_exit":
            step = Step({**step.update, "scope": {"exit": True}})
        elif "last" not in step.update.get("turn", {}):
            return step
        if not self._is_closer:
            return Step(step.update, [self._closing])
        return _reset(scope, await scope.close_round(state, step.update, runtime.stream_writer))


class RegionNode(Node):
    """The node of a region, in the graph around it: it runs the region's own graph."""

    def __init__(
        self, region: RegionProgram, graph: SubGraph, round_steps: int, closing: str = "", *, is_closer: bool = False
    ) -> None:
        """``round_steps`` is how many supersteps a round of the graph may take."""
        super().__init__(region.owner, closing, is_closer=is_closer)
        self._region = region
        self._graph = graph
        self._round_steps = round_steps

    async def _play(
        self, turn: TurnContext, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        async def play(scope: Scope) -> Mapping[str, Any]:
            limit = (self._region.round_limit(scope.items) + 1) * self._round_steps + 10
            inner: Any = {**config, "recursion_limit": limit}
            if self._region.max_concurrency > 1:
                inner["max_concurrency"] = self._region.max_concurrency
            return await final_state(self._graph, {"scope": {}}, inner, context=scope)

        return Step(*await visit_region(self._region, state, turn, _step(config), play, runtime.stream_writer))


class RegionEntry(_Shell):
    """The first node of a region's graph, named after its item node: it opens the first round."""

    async def _inside(
        self, scope: Scope, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        return _reset(scope, await scope.enter(state, runtime.stream_writer))


class ParallelEntry(_Shell):
    """The first node of a graph whose rounds run side by side: it sends each item on its way."""

    async def _inside(
        self, scope: Scope, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        update, rounds = await scope.spread(runtime.stream_writer)
        return Step(update, [Send(ROUND_NODE, {"round": index}) for index in rounds])


class ParallelRound(_Shell):
    """One of several rounds that run side by side; it runs the graph of the body for it."""

    def __init__(self, graph: SubGraph, steps: int) -> None:
        super().__init__(ROUND_NODE)
        self._graph = graph
        self._steps = steps

    async def _inside(
        self, scope: Scope, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        only = replace(scope, only=state["round"])
        if scope.turn.nested is not None:
            scope.turn.nested.number_round(_task(config), state["round"])
        inner: Any = {**config, "recursion_limit": 2 * self._steps + 10}
        return Step(only.gathered(await final_state(self._graph, {"scope": {}}, inner, context=only)))


class RoundClosing(_Shell):
    """Closes the rounds of a body in which several nodes may be the last: it runs when nothing else can."""

    def __init__(self, looping_gates: Sequence[str]) -> None:
        super().__init__(CLOSING_NODE)
        self._gates = looping_gates

    async def _inside(
        self, scope: Scope, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        record = state.get("scope", {})
        settled: int = record.get("settled", 0)
        if "error" in state.get("turn", {}) or record.get("leave"):
            return Step({})
        if not record.get("exit") and settled < len(self._gates):
            return Step({self._gates[settled]: SETTLE, "scope": {"settled": settled + 1}}, [CLOSING_NODE])
        return _reset(scope, await scope.close_round(state, {}, runtime.stream_writer))


class EntryNode(Node):
    """The entry node: it opens the turn, then runs like any other."""

    def __init__(self, program: NodeProgram, gates: Sequence[str]) -> None:
        super().__init__(program)
        self._gates = gates

    async def _play(
        self, turn: TurnContext, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        request: TurnRequest = {key: state[key] for key in REQUEST_KEYS if key in state}  # pyright: ignore[reportAssignmentType]
        opened, event = await open_turn(self._program.plan, state, turn, request)
        await turn.emit(event, runtime.stream_writer)
        view = {**opened, "outputs": {}, "history": [*state.get("history", []), *opened["history"]]}
        update, goto = await visit(
            self._program, view, turn, _step(config), request=request, write=runtime.stream_writer
        )
        merged: dict[str, Any] = {
            "history": opened["history"],
            "messages": opened["messages"],
            "globals": {**opened["globals"], **update.get("globals", {})},
            "outputs": output_patch(clear=True, set=update.get("outputs", {})),
            "turn": {**opened["turn"], **update.get("turn", {})},
            **{gate: {**RESET, **update.get(gate, {})} for gate in self._gates},
        }
        return Step(merged, [*goto, CLOSING_NODE])


class ClosingNode(_Shell):
    """The node that ends the turn, once every gate behind a cycle has been told that nothing else can run."""

    def __init__(self, looping_gates: Sequence[str]) -> None:
        super().__init__(CLOSING_NODE)
        self._gates = looping_gates

    async def _play(
        self, turn: TurnContext, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> Step:
        record = state.get("turn", {})
        settled: int = record.get("settled", 0)
        if "error" not in record and settled < len(self._gates):
            return Step({self._gates[settled]: SETTLE, "turn": {"settled": settled + 1}}, [CLOSING_NODE])
        update, event = close_turn(state)
        await turn.emit(event, runtime.stream_writer)
        return Step(update)


async def _ask(turn: TurnContext, runtime: Runtime[TurnContext], node: PlanNode, form: Form) -> dict[str, Any]:
    """Wait for the user. LangGraph takes the node down here, and runs it again with the answer."""
    asked: dict[str, Any] = {
        "component_id": node.id,
        "title": node.title,
        "tips": form.tips,
        "inputs": to_json(form.fields),  # as the canvas has them, which no saver need be able to keep
    }
    schema = response_schema(form.fields, form.tips)
    try:
        answer = parse_answers(form.fields, interrupt(asked, response_schema=schema))
        while problems := form_problems(form.fields, answer):
            answer = parse_answers(form.fields, interrupt({**asked, "problems": problems}, response_schema=schema))
    except GraphInterrupt:
        await turn.emit(Waiting(NodeId(node.id), form.tips, form.fields), runtime.stream_writer)
        raise
    return answer


def _reset(scope: Scope, step: Step) -> Step:
    """Let the gates of the body forget the round before."""
    if not step.begins_round:
        return step
    gates = {gate: {**RESET, **step.update.get(gate, {})} for gate in scope.program.gates}
    return Step({**step.update, **gates}, step.goto)


def _task(config: RunnableConfig) -> str:
    """Give LangGraph's name of the task, which stays the same when a run goes on."""
    return config.get("configurable", {}).get("checkpoint_ns", "")


def _step(config: RunnableConfig) -> int:
    return config["metadata"]["langgraph_step"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - always set in a run
