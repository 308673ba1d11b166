"""LangGraph's internal names that `engine` and `runs` depend on. There is a test for each of them."""

from __future__ import annotations

from contextvars import Context, copy_context

INTERRUPT_CHANNEL = "__interrupt__"
"""The channel for a task's pending interrupts."""
NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
"""The task id of writes that belong to no task, such as what a run changes in the state before it resumes."""
START, END = "__start__", "__end__"
"""The graph names of the entry and the exit. Updating the state as ``END`` without values discards all open tasks."""
ENTRY_CHANNEL_PREFIX = "branch:to:"
"""The prefix of the channel that triggers a node; the node's name follows it."""
NAMESPACE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""A checkpoint namespace is ``node:task|node:task|…``, starting with the outermost graph."""


def copy_context_without_run() -> Context:
    """Return a copy of the current context in which LangGraph does not see the surrounding run.

    LangGraph would treat a graph that runs inside a node as a subgraph, and write to the outer run's checkpoints.
    """
    from langchain_core.runnables.config import var_child_runnable_config

    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    return context
