"""The session store that a command works with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ragflow_lg.base.errors import CheckpointError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.settings import Settings

T = TypeVar("T")


def open_sessions(url: str, settings: Settings) -> AbstractAsyncContextManager[Store]:
    """Open the session store at a URL."""
    from ragflow_lg.checkpoints import open_store

    return open_store(url, **settings.store_options)


async def _require_store(url: str, settings: Settings) -> None:
    """Raise CheckpointError if there is no session store at a URL: opening it would create an empty one."""
    from ragflow_lg.base.local_paths import suggest_file
    from ragflow_lg.checkpoints.backends import store_exists
    from ragflow_lg.checkpoints.store_url import redact_url, sqlite_path, store_kind

    prefix = settings.checkpoint_prefix
    if await store_exists(url, prefix=prefix):
        return
    if store_kind(url) == "sqlite":
        path = sqlite_path(url)
        what, near = f"There is no session store {str(path)!r}.", suggest_file(path)
    else:
        beginning = f" with the prefix {prefix!r}" if prefix else ""
        what, near = f"There is no session store at {redact_url(url)}{beginning}.", ""
    raise CheckpointError(what + (near or " A run with --session creates it; --checkpoint names another store."))


def use_store(
    settings: Settings, checkpoint: str, work: Callable[[Store], Awaitable[T]], *, may_create: bool = False
) -> T:
    """Open the session store, run ``work`` with it, close it and return the result.

    Raises:
        CheckpointError: if there is no store, unless ``may_create``.
    """

    async def run() -> T:
        url = checkpoint or settings.checkpoints
        if not may_create:
            await _require_store(url, settings)
        async with open_sessions(url, settings) as store:
            return await work(store)

    return asyncio.run(run())


def with_store(
    file: Path | None, checkpoint: str, work: Callable[[Store, Settings], Awaitable[T]], *, may_create: bool = False
) -> T:
    """Do the same as `use_store` with the settings in a file, or in the default one."""
    from ragflow_lg.server.settings import load_settings

    settings = load_settings(file)
    return use_store(settings, checkpoint, lambda store: work(store, settings), may_create=may_create)


async def canvas_of(store: Store, session: str) -> Path:
    """Return the path of the canvas file used in a session's last run.

    Raises:
        CheckpointError: If the session is not in the store.
    """
    from ragflow_lg.runs.runner import newest_run

    if newest := await newest_run(store, session):
        return Path(newest.canvas_id)
    raise no_session(session)


def no_session(session: str) -> CheckpointError:
    """Return the error for a session that does not exist."""
    return CheckpointError(f"There is no session {session!r}; `ragflow-lg sessions` lists all sessions.")


async def free_name(store: Store, name: str) -> str:
    """Return the first unused name among NAME, NAME-2, NAME-3 and so on."""
    from ragflow_lg.server.runs.stored_sessions import has_session

    number, candidate = 1, name
    while await has_session(store, candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate
