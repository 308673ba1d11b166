"""All names and formats of LangGraph that are not public and that this project uses; no other file may use any.

``langgraph`` is pinned below 1.3 because of this file. Each entry says why it is needed and what is lost without it;
`tests/ragflow_lg/base/test_langgraph_internals.py` has a test for each.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextvars import Context, copy_context
from typing import Any

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
"""Task of writes that belong to none. Answers are stored with it before the run resumes; else a crash loses them."""
BRANCH_PREFIX = "branch:to:"
"""Prefix of the channel that triggers a node. History shows by it what comes next, and edits keep what follows."""
NAMESPACE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""A checkpoint namespace is ``node:task|node:task|…``. Without it, no progress, rerun or fork inside a region."""
NOT_EDITS = ("__start__", "__end__", "__input__", "__copy__")
"""Nodes as which ``update_state`` does something else than an edit: without them, Studio's forks would become edits."""
OVERWRITE = "__overwrite__"
"""A map with this key or ``type`` replaces a channel. Without it, values of users would not be refused but obeyed."""


def advance_ids_past(checkpoint_id: str) -> None:
    """Ensure that all checkpoint ids that this process generates from now on are greater than a stored one.

    The newest checkpoint is the one with the greatest id. LangGraph derives ids from the clock and ensures that they
    increase only within one process. Without this, new checkpoints are hidden if the clock was set back.
    """
    from langgraph.checkpoint.base import id as langgraph_ids  # here, as it loads LangSmith

    try:
        stored = uuid.UUID(checkpoint_id)
    except ValueError:
        return  # not one of LangGraph's
    if stored.version != 6:
        return
    ticks = (stored.int >> 80) << 12 | (stored.int >> 64) & 0xFFF
    if ticks >= 2**60 - 2**40:
        return  # not a real time; later ids would overflow
    last = langgraph_ids._last_v6_timestamp  # pyright: ignore[reportPrivateUsage] - there is no public way
    langgraph_ids._last_v6_timestamp = max(last or 0, ticks)  # pyright: ignore[reportPrivateUsage] - see above


def copy_context_without_run() -> Context:
    """Return a copy of the current context in which LangGraph does not see the surrounding run.

    Without it, a canvas that runs inside a node is a subgraph that writes to the outer run's checkpoints.
    """
    from langchain_core.runnables.config import var_child_runnable_config

    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    return context


def add_trigger(graph: Any, node: str, channel: str) -> None:
    """Make a node also run when a channel becomes available: builders have no such edges, and joins wait for theirs.

    Call ``graph.validate()`` afterwards.
    """
    graph.nodes[node].triggers.append(channel)


def set_subgraph(graph: Any, node: str, subgraph: Any) -> None:
    """Declare the subgraph that a node runs. Without it, history, Studio and reruns do not see inside a region."""
    graph.nodes[node].subgraphs = [subgraph]


def set_stream_channels(graph: Any, names: Iterable[str]) -> None:
    """Limit the channels in a graph's streams and snapshots. Without it, callers also see the joins' channels."""
    graph.stream_channels = [name for name in graph.channels if name in names]


def convert_graph(graph: Any, graph_class: type[Any], **attributes: Any) -> Any:
    """Change a compiled graph's class in place and set attributes. Without it, there is no ``load_canvas``.

    LangGraph compiles to a fixed class, and a copy would lose everything that the builder attached.
    """
    graph.__class__ = graph_class
    for name, value in attributes.items():
        setattr(graph, name, value)
    return graph


def resolve_checkpointer(graph: Any, config: Any) -> Any:
    """Return the saver of a run: the graph's own, the enclosing graph's, or None. Canvases as nodes need it."""
    return graph._resolve_checkpointer(config)


def find_subgraph(graph: Any, config: Any) -> Any:
    """Return the subgraph that a namespace addresses, or None for the graph itself. Edits in regions need it."""
    return graph._subgraph_for_namespace(config, resolve_checkpointer(graph, config))


def is_resuming(config: Any) -> bool:
    """Return whether the graph around continues an interrupted run. Without it, a canvas in it would start again."""
    return bool(config.get("configurable", {}).get("__pregel_resuming"))


def superstep_of(config: Any) -> int:
    """Return the number of a task's superstep, which orders events. LangGraph's pages show it but promise nothing."""
    return config["metadata"]["langgraph_step"]
