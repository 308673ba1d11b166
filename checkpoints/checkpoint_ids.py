"""Ids of checkpoints, by which a saver knows the newest one: they must grow even where the clock goes back."""

from __future__ import annotations

import uuid

from langgraph.checkpoint.base import id as langgraph_ids

__all__ = ["begin_after"]

_TIME_ORDERED = 6
"""The version of UUID that LangGraph makes."""


def begin_after(checkpoint_id: str) -> None:
    """Let all ids that this process makes from now on be greater than a stored one.

    LangGraph makes them of the time, and keeps them growing within a process only.
    """
    try:
        stored = uuid.UUID(checkpoint_id)
    except ValueError:
        return  # not one of LangGraph's
    if stored.version != _TIME_ORDERED:
        return
    ticks = (stored.int >> 80) << 12 | (stored.int >> 64) & 0xFFF
    if ticks >= 2**60 - 2**40:
        return  # no time that was ever: the ids would run over
    last = langgraph_ids._last_v6_timestamp  # pyright: ignore[reportPrivateUsage] - it offers no other way
    langgraph_ids._last_v6_timestamp = max(last or 0, ticks)  # pyright: ignore[reportPrivateUsage]
