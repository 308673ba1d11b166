"""Running a compiled graph: with less work than LangGraph's own methods do, if its version is known."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import ModuleType

    from langgraph.runtime import RunControl

KNOWN_VERSIONS = ("1.2.22",)
"""The versions of LangGraph that `langgraph_loop` is tested with. Others run graphs with their public methods."""


@cache
def find_loop() -> ModuleType | None:
    """Return the module `langgraph_loop`, or None if it does not know the installed version of LangGraph."""
    if version("langgraph") not in KNOWN_VERSIONS:
        return None
    from ragflow_lg.engine import langgraph_loop

    return langgraph_loop


def play(
    graph: Any,
    state: Any,
    config: Any,
    *,
    context: Any,
    control: RunControl | None = None,
    durability: Any = None,
) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that runs a graph, within the run of the caller's context, and returns its final state.

    Raises:
        GraphInterrupt: if a node in an inner graph waits for the user.
        GraphRecursionError: if the run exceeds the recursion limit in the config.
        GraphDrained: if ``control`` requests it.
    """
    loop = find_loop()
    run = loop.unwatched_run(graph, config) if loop is not None else None
    if loop is None or run is None:
        return _play_watched(graph, state, config, context=context, control=control, durability=durability)
    return loop.play_unwatched(graph, state, run, context=context, control=control, durability=durability)


async def _play_watched(graph: Any, state: Any, config: Any, **options: Any) -> Any:
    """Run a graph as LangGraph does. Unlike its ``ainvoke``, this does not collect the writes of every node."""
    given = {name: value for name, value in options.items() if value is not None}
    final = None
    async for values in graph.astream(state, config, stream_mode="values", **given):
        final = values
    return final
