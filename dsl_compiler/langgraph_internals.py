"""Everything that the compiler uses from LangGraph beyond its public interface.

``langgraph`` is pinned below 1.3 because of this file. For every name in it,
`tests/dsl_compiler/test_langgraph_internals.py` has a test that fails if LangGraph changes the name or its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from langchain_core.callbacks.manager import AsyncCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal._runnable import RunnableSeq
from langgraph._internal._typing import MISSING as MISSING  # a channel's checkpoint that is not stored
from langgraph.pregel._read import PregelNode
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

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


_SEND, _RUNTIME = "__pregel_send", "__pregel_runtime"
"""Where a task's config has the function that takes its writes, and its runtime."""
_TASKS, _END = "__pregel_tasks", "__end__"


def compile_graph(builder: Any, name: str) -> Any:
    """Compile a graph whose nodes are Runnables that return commands. Call ``graph.validate()`` afterwards.

    LangGraph makes a writer for each node and inspects its signature, although all writers do the same. Here, the nodes
    are copies of the first one that reads the same channels.
    """
    specs: dict[str, Any] = builder.nodes
    examples: dict[Any, str] = {}
    for node, spec in specs.items():
        examples.setdefault(_kind_of(spec), node)
    starts = {end for _, end in builder.edges}  # LangGraph checks that they exist
    builder.nodes = {node: specs[node] for node in specs if node in starts or node in examples.values()}
    graph = builder.compile(name=name)
    builder.nodes, nodes, channels = specs, graph.nodes, graph.channels
    for node, spec in specs.items():
        channel, example = BRANCH_PREFIX + node, examples[_kind_of(spec)]
        compiled = nodes.pop(node, None)  # added again, so that the order is that of the builder
        if compiled is None:
            update = {"triggers": [channel], "bound": spec.runnable, "subgraphs": []}
            compiled = nodes[example].copy(update)
        nodes[node] = compiled
        channels[channel] = channels.pop(channel, None) or channels[BRANCH_PREFIX + example].copy()
    return graph


def _kind_of(spec: Any) -> tuple[Any, bool]:
    """Return what distinguishes the compiled form of a node from that of another one."""
    return spec.input_schema, spec.defer


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


def skip_unheard_tracking(graph: Any) -> None:
    """Let the nodes of a compiled graph report their runs only to callbacks that exist.

    LangGraph creates a run id, callback managers and a task for every execution of a node, even without a callback.
    For short nodes, that is a third of their time.
    """
    for node in graph.nodes.values():
        node.__class__ = _UntrackedNode


class _UntrackedNode(PregelNode):
    """A node that LangGraph's tracking can skip."""

    @cached_property
    def node(self) -> Any:
        """What runs: the node and its writers. It is made when the node runs first."""
        sequence = super().node
        if isinstance(sequence, RunnableSeq):
            sequence.__class__ = _SequenceOfNode
        return sequence


class _SequenceOfNode(RunnableSeq):
    """A node and its writers. LangGraph's own method runs them if a callback listens."""

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        callbacks = config.get("callbacks") if config is not None else None
        if config is None or not isinstance(callbacks, AsyncCallbackManager) or callbacks.handlers:
            return await super().ainvoke(input, config, **kwargs)
        if "run_name" in config or "run_id" in config:  # they belong to this node, not to what it calls
            config = config.copy()
            config.pop("run_name", None)
            config.pop("run_id", None)
        steps: list[Any] = self.steps  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - open types
        node, *writers = steps
        token = var_child_runnable_config.set(config)
        try:
            result: Any = await node.ainvoke(input, config, **kwargs)
        finally:
            var_child_runnable_config.reset(token)
        if len(writers) == 1 and (writes := _writes_of(result)) is not None:
            config["configurable"][_SEND](writes)  # pyright: ignore[reportTypedDictNotRequiredAccess] - a task's
            return result
        for writer in writers:
            result = await writer.ainvoke(result, config)
        return result


def _writes_of(result: Any) -> list[tuple[str, Any]] | None:
    """Return what LangGraph's writer makes of a node's command for its own graph; None for other results."""
    if type(result) is not Command:
        return None
    command: Any = result  # pyright: ignore[reportUnknownVariableType] - its own types are open
    update: object = command.update
    if command.graph is not None or not isinstance(update, dict):
        return None
    writes: list[tuple[str, Any]] = list(command.update.items())
    goto: object = command.goto
    targets: Any = [goto] if isinstance(goto, str | Send) else goto
    for target in targets:
        if isinstance(target, Send):
            writes.append((_TASKS, target))
        elif target != _END:
            writes.append((BRANCH_PREFIX + target, None))
    return writes


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
