"""Ends a task reliably."""

from __future__ import annotations

import asyncio
from typing import Any

RETRY_S = 0.05


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it ends. Cancels repeatedly, because redis-py can swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=RETRY_S)
