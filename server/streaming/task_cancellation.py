"""Ending a task for certain."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["end_task"]

AGAIN_S = 0.05


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and see it end. It is told again and again: Redis's client may swallow a cancel."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)
