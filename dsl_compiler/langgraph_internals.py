"""Everything that the compiler uses from LangGraph beyond its public interface.

``langgraph`` is pinned below 1.3 because of this file. For every name in it,
`tests/dsl_compiler/test_langgraph_internals.py` has a test that fails if LangGraph changes the name or its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._typing import MISSING as MISSING  # a channel's checkpoint that is not stored
from langgraph.runtime import Runtime

BRANCH_PREFIX = "branch:to:"
"""Prefix of the channel that triggers a node. A write to that channel in a checkpoint means that the node is next."""

NOT_RESULTS = frozenset(
    {"__error__", "__error_source_node__", "__interrupt__", "__resume__", "__scheduled__", "__pregel_tasks"}
)
"""Channels for pending writes that are not a task's results."""

NOT_EDITS = ("__start__", "__end__", "__input__", "__copy__")
"""Values of ``as_node`` for which LangGraph updates the state in a different way than for an edit by a node."""

RESERVED_PREFIX = "__"
"""Prefix of LangGraph's and the engine's own keys in state values."""

OVERWRITE = "__overwrite__"
"""A map with this as its key or its ``type`` makes LangGraph overwrite the whole channel."""


_RUNTIME = "__pregel_runtime"
"""Where a task's config has its runtime."""


def add_trigger(graph: Any, node: str, channel: str) -> None:
    """Make a node also run when a channel becomes available. Call ``graph.validate()`` afterwards.

    Graph builders do not offer such edges.
    """
    graph.nodes[node].triggers.append(channel)


def set_subgraph(graph: Any, node: str, subgraph: Any) -> None:
    """Declare the subgraph that a node runs. LangGraph detects subgraphs only in functions and in plain graphs."""
    graph.nodes[node].subgraphs = [subgraph]


def set_stream_channels(graph: Any, names: Iterable[str]) -> None:
    """Limit the channels that appear in a compiled graph's streams and snapshots."""
    graph.stream_channels = [name for name in graph.channels if name in names]


def convert_graph(graph: Any, graph_class: type[Any], **attributes: Any) -> Any:
    """Change a compiled graph's class to a subclass, in place, and set the subclass's attributes.

    LangGraph compiles to a fixed class, and a copy would lose everything that the builder attached.
    """
    graph.__class__ = graph_class
    for name, value in attributes.items():
        setattr(graph, name, value)
    return graph


def resolve_checkpointer(graph: Any, config: RunnableConfig) -> Any:
    """Return the saver that a run uses: the graph's own, the enclosing graph's, or None."""
    return graph._resolve_checkpointer(config)


def required_checkpointer(graph: Any, config: RunnableConfig) -> Any:
    """Return the saver used for state updates.

    Raises:
        ValueError: if there is no saver.
    """
    return graph._state_checkpointer(config)


def find_subgraph(graph: Any, config: RunnableConfig, checkpointer: Any) -> Any:
    """Return the subgraph that the config's checkpoint namespace addresses, or None if it is the graph itself."""
    return graph._subgraph_for_namespace(config, checkpointer)


def is_resuming(config: RunnableConfig) -> bool:
    """Return whether the enclosing graph is continuing an interrupted run."""
    return bool(config.get("configurable", {}).get("__pregel_resuming"))


def task_namespace(config: RunnableConfig) -> str:
    """Return LangGraph's name for a task, which stays the same when a run continues; ``""`` outside of tasks."""
    return config.get("configurable", {}).get("checkpoint_ns", "")


def runtime_of(config: RunnableConfig) -> Runtime[Any]:
    """Return the runtime of a task, which `langgraph.runtime.get_runtime` returns inside it."""
    return config.get("configurable", {})[_RUNTIME]


def superstep_of(config: RunnableConfig) -> int:
    """Return the number of the superstep in which a node is running."""
    metadata: Any = config.get("metadata")
    return metadata["langgraph_step"]
