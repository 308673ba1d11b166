"""Session stores of every kind, for tests that run on all of them."""

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.checkpoints import Store, open_store

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the same store again and again, as processes would."""


def store_opener(url: str, prefix: str = "") -> OpenStore:
    """Give what opens the store of a URL. One in memory stays the same, since it would forget."""
    if url.startswith("memory"):
        return _in_memory()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Store]:
        async with open_store(url, SystemClock(), prefix=prefix) as store:
            yield store

    return opened


def _in_memory() -> OpenStore:
    kept: list[Store] = []

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Store]:
        if not kept:
            async with open_store("memory://", SystemClock()) as store:
                kept.append(store)
        yield kept[0]

    return opened


def fresh_prefix() -> str:
    """Give a key prefix that no other test has."""
    return f"{uuid.uuid4().hex}:"
