"""Node functions: what LangGraph calls, one line each round the engine.

Annotations are real objects here: LangGraph evaluates those of every node, and text would cost a tenth of the
time of compiling.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Command

from dsl_compiler.lower.gate import RESET, SETTLE
from dsl_compiler.names import CLOSING_NODE
from ragflow_lg.context import TurnContext
from ragflow_lg.errors import RunError
from ragflow_lg.events import EngineEvent
from ragflow_lg.node import NodeProgram, visit
from ragflow_lg.state import TurnRequest, output_patch
from ragflow_lg.turn import REQUEST_KEYS, close_turn, open_turn

__all__ = ["closing_function", "entry_function", "node_function"]

NodeFunction = Callable[..., Awaitable[Command[Any]]]
"""``(state, config, runtime) -> Command``. LangGraph disassembles what it is given, so these stay one line."""


def node_function(program: NodeProgram) -> NodeFunction:
    """Make the function of an ordinary node."""

    async def run(state: Any, config: RunnableConfig, runtime: Runtime[TurnContext]) -> Command[Any]:
        return await _visit(program, state, config, runtime)

    return run


def entry_function(program: NodeProgram, gates: Sequence[str]) -> NodeFunction:
    """Make the function of the entry node: it opens the turn, then runs like any other."""

    async def run(state: Any, config: RunnableConfig, runtime: Runtime[TurnContext]) -> Command[Any]:
        return await _open(program, gates, state, config, runtime)

    return run


def closing_function(looping_gates: Sequence[str]) -> NodeFunction:
    """Make the function of the node that ends the turn."""

    async def run(state: Any, runtime: Runtime[TurnContext]) -> Command[Any]:
        return await _close(looping_gates, state, runtime)

    return run


async def _visit(
    program: NodeProgram, state: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[TurnContext]
) -> Command[Any]:
    update, goto = await visit(program, state, _context(runtime), _step(config), write=runtime.stream_writer)
    return Command(update=update, goto=goto)


async def _open(
    program: NodeProgram,
    gates: Sequence[str],
    state: Mapping[str, Any],
    config: RunnableConfig,
    runtime: Runtime[TurnContext],
) -> Command[Any]:
    turn = _context(runtime)
    request: TurnRequest = {key: state[key] for key in REQUEST_KEYS if key in state}  # pyright: ignore[reportAssignmentType]
    opened, event = await open_turn(program.plan, state, turn, request)
    await _emit(turn, runtime, event)
    view = {**opened, "outputs": {}, "history": [*state.get("history", []), *opened["history"]]}
    update, goto = await visit(program, view, turn, _step(config), request=request, write=runtime.stream_writer)
    merged: dict[str, Any] = {
        "history": opened["history"],
        "globals": {**opened["globals"], **update.get("globals", {})},
        "outputs": output_patch(clear=True, set=update.get("outputs", {})),
        "turn": {**opened["turn"], **update.get("turn", {})},
        **{gate: {**RESET, **update.get(gate, {})} for gate in gates},
    }
    return Command(update=merged, goto=[*goto, CLOSING_NODE])


async def _close(looping_gates: Sequence[str], state: Mapping[str, Any], runtime: Runtime[TurnContext]) -> Command[Any]:
    """End the turn, once every gate behind a cycle has been told, one by one, that nothing else can run."""
    record = state.get("turn", {})
    settled = record.get("settled", 0)
    if "error" not in record and settled < len(looping_gates):
        return Command(update={looping_gates[settled]: SETTLE, "turn": {"settled": settled + 1}}, goto=CLOSING_NODE)
    update, event = close_turn(state)
    await _emit(_context(runtime), runtime, event)
    return Command(update=update)


async def _emit(turn: TurnContext, runtime: Runtime[TurnContext], event: EngineEvent) -> None:
    if turn.sink is None:
        runtime.stream_writer(event)
        return
    await turn.sink.room()
    turn.sink.put(event)


def _context(runtime: Runtime[TurnContext]) -> TurnContext:
    if not isinstance(runtime.context, TurnContext):  # pyright: ignore[reportUnnecessaryIsInstance] - LangGraph passes anything
        raise RunError(
            "The graph needs services: run it with ragflow_lg.Runner, or pass context=TurnContext(services)."
        )
    return runtime.context


def _step(config: RunnableConfig) -> int:
    return config["metadata"]["langgraph_step"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - always set in a run
