"""LangGraph's internal names that `engine` and `runs` depend on. A test compares each of them with LangGraph."""

from __future__ import annotations

INTERRUPT_CHANNEL = "__interrupt__"
"""The channel for a task's pending interrupts."""
START, END = "__start__", "__end__"
"""The graph names of the entry and the exit. Updating the state as ``END`` without values discards all open tasks."""
ENTRY_CHANNEL_PREFIX = "branch:to:"
"""The prefix of the channel that triggers a node; the node's name follows it."""
NAMESPACE_SEPARATOR, TASK_SEPARATOR = "|", ":"
"""A checkpoint namespace is ``node:task|node:task|…``, starting with the outermost graph."""
