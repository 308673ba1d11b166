"""Running a graph for the state that it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["final_state"]


async def final_state(graph: Any, state: Mapping[str, Any], config: Any, *, context: Any) -> Any:
    """Run a graph to its end; give its state, None if it has none.

    LangGraph's ``ainvoke`` gives the same, but also makes a record of what every node wrote, at every superstep.

    Raises:
        GraphInterrupt: if a node within a node waits for the user.
        GraphRecursionError: if it takes more supersteps than the config allows.
    """
    left = None
    async for values in graph.astream(state, config, context=context, stream_mode="values"):
        left = values
    return left
