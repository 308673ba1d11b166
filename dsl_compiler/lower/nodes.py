"""Node runnables: what LangGraph calls, each a thin shell round the engine.

They are Runnables and no functions: LangGraph disassembles functions in search of subgraphs and reads their
signatures, which took half of the time of compiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from dsl_compiler.lower.gate import RESET, SETTLE
from dsl_compiler.names import CLOSING_NODE
from ragflow_lg.context import TurnContext
from ragflow_lg.errors import RunError
from ragflow_lg.events import EngineEvent
from ragflow_lg.node import NodeProgram, visit
from ragflow_lg.state import TurnRequest, output_patch
from ragflow_lg.turn import REQUEST_KEYS, close_turn, open_turn

__all__ = ["ClosingNode", "EntryNode", "Node"]


class _AsyncOnly(Runnable[Any, Command[Any]]):
    """A node that needs an event loop."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Refuse.

        Raises:
            RunError: always.
        """
        raise RunError("A canvas runs asynchronously: use ainvoke or astream in place of invoke or stream.")


class Node(_AsyncOnly):
    """An ordinary node."""

    def __init__(self, program: NodeProgram) -> None:
        self.name = program.node.id
        self._program = program

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Visit the node once."""
        runtime = get_runtime(TurnContext)
        turn = _context(runtime)
        update, goto = await visit(self._program, input, turn, _step(config), write=runtime.stream_writer)
        return Command(update=update, goto=goto)


class EntryNode(_AsyncOnly):
    """The entry node: it opens the turn, then runs like any other."""

    def __init__(self, program: NodeProgram, gates: Sequence[str]) -> None:
        self.name = program.node.id
        self._program = program
        self._gates = gates

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Open the turn and visit the node."""
        state: Mapping[str, Any] = input
        runtime = get_runtime(TurnContext)
        turn = _context(runtime)
        request: TurnRequest = {key: state[key] for key in REQUEST_KEYS if key in state}  # pyright: ignore[reportAssignmentType]
        opened, event = await open_turn(self._program.plan, state, turn, request)
        await _emit(turn, runtime, event)
        view = {**opened, "outputs": {}, "history": [*state.get("history", []), *opened["history"]]}
        update, goto = await visit(
            self._program, view, turn, _step(config), request=request, write=runtime.stream_writer
        )
        merged: dict[str, Any] = {
            "history": opened["history"],
            "globals": {**opened["globals"], **update.get("globals", {})},
            "outputs": output_patch(clear=True, set=update.get("outputs", {})),
            "turn": {**opened["turn"], **update.get("turn", {})},
            **{gate: {**RESET, **update.get(gate, {})} for gate in self._gates},
        }
        return Command(update=merged, goto=[*goto, CLOSING_NODE])


class ClosingNode(_AsyncOnly):
    """The node that ends the turn, once every gate behind a cycle has been told that nothing else can run."""

    def __init__(self, looping_gates: Sequence[str]) -> None:
        self.name = CLOSING_NODE
        self._gates = looping_gates

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
        """Settle the gates one by one, then close."""
        record = input.get("turn", {})
        settled = record.get("settled", 0)
        if "error" not in record and settled < len(self._gates):
            return Command(update={self._gates[settled]: SETTLE, "turn": {"settled": settled + 1}}, goto=CLOSING_NODE)
        update, event = close_turn(input)
        runtime = get_runtime(TurnContext)
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


def _step(config: RunnableConfig | None) -> int:
    return (config or {})["metadata"]["langgraph_step"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - always set in a run
