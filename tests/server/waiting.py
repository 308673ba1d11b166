"""Waiting for what another task does."""

import asyncio
from collections.abc import Callable


async def wait_while(condition: Callable[[], object], limit_s: float = 60) -> None:
    """Return when a condition is no longer true."""
    async with asyncio.timeout(limit_s):
        while condition():
            await asyncio.sleep(0.005)
