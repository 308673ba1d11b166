"""LangGraph's internal names and state that the checkpointers depend on. There is a test for each."""

from __future__ import annotations

import uuid
from typing import Any

from langgraph.checkpoint.base import id as langgraph_ids

INTERRUPT_CHANNEL = "__interrupt__"
"""Channel for a task's pending interrupts."""
TASKS_CHANNEL = "__pregel_tasks"
"""Channel for ``Send`` packets."""
ERROR_CHANNEL = "__error__"
"""Channel for a task's exception."""

_UUID_VERSION = 6


def advance_ids_past(checkpoint_id: str) -> None:
    """Ensure that all checkpoint ids that this process generates from now on are greater than a stored one.

    The newest checkpoint is the one with the greatest id. LangGraph derives ids from the clock and ensures that they
    increase only within one process, so new checkpoints would be hidden if the clock were set back.
    """
    try:
        stored = uuid.UUID(checkpoint_id)
    except ValueError:
        return  # not one of LangGraph's
    if stored.version != _UUID_VERSION:
        return
    ticks = (stored.int >> 80) << 12 | (stored.int >> 64) & 0xFFF
    if ticks >= 2**60 - 2**40:
        return  # not a real time; later ids would overflow
    last = langgraph_ids._last_v6_timestamp  # pyright: ignore[reportPrivateUsage] - there is no public way
    langgraph_ids._last_v6_timestamp = max(last or 0, ticks)  # pyright: ignore[reportPrivateUsage] - see above


def redis_key_of(saver: Any, thread: str, namespace: str, checkpoint: str) -> str:
    """Return the Redis saver's key of a checkpoint."""
    return saver._make_redis_checkpoint_key(thread, namespace, checkpoint)


def redis_pointer_of(saver: Any, thread: str, namespace: str) -> str:
    """Return the Redis saver's key of the pointer to the newest checkpoint."""
    return saver._make_redis_checkpoint_latest_key(thread, namespace)


def redis_write_key_of(saver: Any, place: tuple[str, str, str], task_id: str, index: int) -> str:
    """Return the Redis saver's key of a pending write. ``place`` is the key of its checkpoint."""
    return saver._make_redis_checkpoint_writes_key(*place, task_id, index)
