"""LangGraph's ``BaseStore`` beside the checkpoints: what outlives sessions, such as memories."""

from __future__ import annotations

import asyncio
import copy
import sqlite3
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, assert_never

import orjson
from langgraph.store.base import BaseStore, Item, Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.key_ring import KeyRing, make_key_ring, require_plain
from ragflow_lg.checkpoints.store_url import key_prefix, sqlite_path, store_kind

if TYPE_CHECKING:
    from ragflow_lg.services.encryption import EncryptionKey

_ENCRYPTED = "encrypted"
_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


class ItemStore(BaseStore):
    """A store of LangGraph's whose values are plain JSON, encrypted if there are keys.

    Namespaces and keys stay plain: an item is found by them. All methods raise CheckpointError if the store fails or a
    value is no JSON, and SessionKeyError for an item that cannot be decrypted.
    """

    def __init__(self, inner: BaseStore, keys: KeyRing | None, errors: tuple[type[Exception], ...]) -> None:
        """Initialize, inside the event loop to which the store belongs. ``errors`` are those of a failing store."""
        self._inner = inner
        self._keys = keys
        self._errors = errors
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[list[Result]]] = set()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations from another thread.

        Raises:
            CheckpointError: in the thread of the event loop, which would wait for itself; use `abatch` there.
        """
        try:
            is_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_loop = False
        if is_loop:
            raise CheckpointError("The store is asynchronous: call aput, aget, asearch or adelete, and await them.")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations. They are completed even if the caller is cancelled."""
        sealed = [self._seal(op) if isinstance(op, PutOp) and op.value is not None else op for op in ops]
        # LangGraph's store for SQLite leaves its transaction open for ever if it is cancelled while it begins one.
        running = asyncio.create_task(self._inner.abatch(sealed), name="operations on items")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        with translate_errors(*self._errors, ValueError):
            results = await asyncio.shield(running)
        return [self._open_result(result) for result in results]

    async def settle(self) -> None:
        """Wait for operations whose callers have been cancelled."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def _seal(self, op: PutOp) -> PutOp:
        try:
            text = orjson.dumps(op.value, option=_PLAIN).decode()
        except (ValueError, TypeError, RecursionError) as error:
            raise CheckpointError(f"The value of {op.key!r:.80} cannot be stored as JSON: {error}") from None
        if self._keys is None:
            return op._replace(value=orjson.loads(text))
        return op._replace(value={_ENCRYPTED: self._keys.encrypt_text(_domain(op.namespace), [op.key], text)})

    def _open_result(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self._open_result(part) for part in result]  # pyright: ignore[reportUnknownVariableType]
        return self._open(result) if isinstance(result, Item) else result

    def _open(self, item: Item) -> Item:
        text = item.value.get(_ENCRYPTED)
        if not isinstance(text, str):
            return item
        if self._keys is None:
            require_plain(text)
            return item
        opened = copy.copy(item)
        opened.value = orjson.loads(self._keys.decrypt_text(_domain(item.namespace), [item.key], text))
        return opened


def _domain(namespace: tuple[str, ...]) -> str:
    return orjson.dumps(["items", *namespace]).decode()


@asynccontextmanager
async def open_items(url: str, *, prefix: str = "", keys: Sequence[EncryptionKey] = ()) -> AsyncGenerator[ItemStore]:
    """Open LangGraph's store beside the checkpoints at a URL, and close it on exit.

    The URLs, ``prefix`` and ``keys`` are those of `ragflow_lg.checkpoints.open_store`.

    Raises:
        CheckpointError: if the scheme is unknown or the store cannot be opened.
    """
    ring = make_key_ring(keys)
    async with _open_inner(url, prefix) as (inner, errors):
        store = ItemStore(inner, ring, errors)
        try:
            yield store
        finally:
            await store.settle()


@asynccontextmanager
async def _open_inner(url: str, prefix: str) -> AsyncGenerator[tuple[BaseStore, tuple[type[Exception], ...]]]:
    """Open a store of LangGraph's. Yield it with the errors of a failing one."""
    kind = store_kind(url)
    if kind == "memory":
        yield InMemoryStore(), ()
    elif kind == "sqlite":
        from langgraph.store.sqlite import AsyncSqliteStore

        from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite

        path = sqlite_path(url)
        async with open_sqlite(path), AsyncSqliteStore.from_conn_string(str(path)) as inner:
            for _ in inner.MIGRATIONS:  # another process may create the same tables at the same time
                with suppress(sqlite3.Error):
                    await inner.setup()
            yield inner, (sqlite3.Error,)
    elif kind == "postgresql":
        require("postgresql", "A session store in PostgreSQL", CheckpointError)
        from langgraph.store.postgres.aio import AsyncPostgresStore
        from psycopg import Error

        from ragflow_lg.checkpoints.sql.postgresql_database import open_database

        async with open_database(url, prefix) as database:
            yield AsyncPostgresStore(database.pool), (Error, OSError)
    elif kind == "redis":
        require("redis", "A session store in Redis", CheckpointError)
        from redis.exceptions import RedisError

        from ragflow_lg.checkpoints.redis.redis_client import open_redis
        from ragflow_lg.checkpoints.redis.redis_items import RedisItems

        async with open_redis(url) as client:
            yield RedisItems(client, key_prefix(url, prefix)), (RedisError, OSError)
    else:
        assert_never(kind)
