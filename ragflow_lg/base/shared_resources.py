"""Marks code that holds what all tenants share, such as a database connection.

A server gives tenants their turns. If code had to wait for its turn while it holds a lock, all other tenants would wait
with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar

_IS_UNDELAYED: ContextVar[bool] = ContextVar("is_undelayed", default=False)


@asynccontextmanager
async def undelayed() -> AsyncGenerator[None]:
    """Do not wait for other tenants in the block. What follows the block waits again."""
    before = _IS_UNDELAYED.get()
    _IS_UNDELAYED.set(True)
    try:
        yield
    finally:
        _IS_UNDELAYED.set(before)
    await asyncio.sleep(0)


def is_undelayed(context: Context | None) -> bool:
    """Return whether code in a context, or in the current one, is inside such a block."""
    return _IS_UNDELAYED.get() if context is None else context.get(_IS_UNDELAYED, False)
