"""Running a compiled graph to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.runtime import RunControl


async def play(
    graph: Any,
    state: Any,
    config: Any,
    *,
    context: Any,
    control: RunControl | None = None,
    durability: Any = None,
) -> Any:
    """Run a graph, within the run of the caller's context, and return its final state.

    Unlike LangGraph's ``ainvoke``, this does not collect the writes of every node.

    Raises:
        GraphInterrupt: if a node in an inner graph waits for the user.
        GraphRecursionError: if the run exceeds the recursion limit in the config.
        GraphDrained: if ``control`` requests it.
    """
    options = {"context": context, "control": control, "durability": durability}
    given = {name: value for name, value in options.items() if value is not None}
    final = None
    async for values in graph.astream(state, config, stream_mode="values", **given):
        final = values
    return final
