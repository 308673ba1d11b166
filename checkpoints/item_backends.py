"""The stores of items, by the URL of the session store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.encryption.item_encryption import EncryptedItems
from ragflow_lg.checkpoints.items.item_store import WHOLE, Embed, ItemStore
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.checkpoints.store_url import key_prefix, sqlite_path, store_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.checkpoints.items.item_store import ItemTable
    from ragflow_lg.services.encryption import EncryptionKey
    from ragflow_lg.services.services import Clock


@asynccontextmanager
async def open_items(
    url: str,
    clock: Clock,
    embed: Embed | None = None,
    *,
    fields: Sequence[str] = WHOLE,
    model: str = "",
    prefix: str = "",
    keys: Sequence[EncryptionKey] = (),
) -> AsyncGenerator[ItemStore]:
    """Open LangGraph's store beside the checkpoints at a URL, and close it on exit.

    The URLs, ``prefix`` and ``keys`` are those of `ragflow_lg.checkpoints.open_store`. ``embed`` returns the vectors of
    ``fields``, and makes queries compare meanings. ``model`` names the model that it uses.

    Raises:
        CheckpointError: if the scheme is unknown or the store cannot be opened.
    """
    async with open_item_table(url, prefix, keys) as table:
        yield ItemStore(table, clock, embed, fields=fields, model=model)


@asynccontextmanager
async def open_item_table(url: str, prefix: str, keys: Sequence[EncryptionKey]) -> AsyncGenerator[EncryptedItems]:
    """Open the table of the items at a URL, and close it on exit.

    Raises:
        CheckpointError: if the scheme is unknown or the table cannot be opened.
    """
    ring = make_key_ring(keys)
    async with _open_table(url, prefix) as table:
        yield EncryptedItems(table, ring)


@asynccontextmanager
async def _open_table(url: str, prefix: str) -> AsyncGenerator[ItemTable]:
    kind = store_kind(url)
    if kind == "memory":
        from ragflow_lg.checkpoints.memory.memory_items import MemoryItems

        yield MemoryItems()
    elif kind == "sqlite":
        from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
        from ragflow_lg.checkpoints.sqlite.sqlite_items import SqliteItems

        async with open_sqlite(sqlite_path(url)) as file:
            table = SqliteItems(file)
            await table.create()
            yield table
    else:
        require("redis", "A session store in Redis", CheckpointError)
        from ragflow_lg.checkpoints.redis.redis_client import open_redis
        from ragflow_lg.checkpoints.redis.redis_items import RedisItems

        async with open_redis(url) as client:
            items = RedisItems(client, key_prefix(url, prefix))
            await items.create()
            yield items
