"""From a URL to a LangGraph checkpointer."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ragflow_lg.errors import CheckpointError

__all__ = ["open_saver"]


@asynccontextmanager
async def open_saver(url: str) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    """Open the store of sessions that a URL names, and close it again.

    ``memory://`` forgets with the process; ``sqlite:///PATH`` is a file that only its owner may read. Nothing
    that is read from it is revived as an object.

    Raises:
        CheckpointError: for an unknown scheme, or a file that cannot be opened.
    """
    scheme, separator, path = url.partition("://")
    if separator and scheme == "memory" and not path:
        yield InMemorySaver(serde=_plain())
    elif separator and scheme == "sqlite" and path.startswith("/") and path != "/":
        async with _sqlite(Path(path[1:])) as saver:
            yield saver
    else:
        raise CheckpointError(f"There is no session store {url!r}; give memory:// or sqlite:///PATH.")


@asynccontextmanager
async def _sqlite(path: Path) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    try:
        path = _prepared(path)
        connection = await aiosqlite.connect(path)
    except (OSError, sqlite3.Error) as error:
        raise CheckpointError(f"The session store {str(path)!r} cannot be opened: {error}.") from error
    try:
        saver = AsyncSqliteSaver(connection, serde=_plain())
        try:
            await saver.setup()
        except sqlite3.Error as error:
            raise CheckpointError(f"{str(path)!r} is no session store: {error}.") from error
        yield saver
    finally:
        await connection.close()


def _prepared(path: Path) -> Path:
    """Make the file and its folder where they are missing."""
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return path


def _plain() -> JsonPlusSerializer:
    """A serialiser that gives data back as data, whatever it looks like."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)
