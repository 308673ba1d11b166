"""Names inside LangGraph that `engine` and `runs` depend on. A test compares each with LangGraph."""

from __future__ import annotations

INTERRUPT_CHANNEL = "__interrupt__"
"""Channel of a task's pending interrupts."""
START, END = "__start__", "__end__"
"""Graph names of entry and exit. A state update as ``END`` without values discards all open tasks."""
ENTRY_CHANNEL_PREFIX = "branch:to:"
"""Prefix of the channel that triggers a node, before the node's name."""
NAMESPACE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""A checkpoint namespace is ``node:task|node:task|…``, from the outermost graph inwards."""
