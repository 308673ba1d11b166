"""Deletes sessions with everything that belongs to them, and what is older than the settings allow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import ConflictError, DamagedSessionError, RagflowLgError
from ragflow_lg.base.tasks import running
from ragflow_lg.server.agents.file_store import file_store
from ragflow_lg.server.database.file_repository import find_expired, find_older_files
from ragflow_lg.server.database.session_repository import SessionRepository, find_older_sessions
from ragflow_lg.server.observability.logs import audit

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.database import Database

SWEEP_S = 600.0
"""How often old data is deleted."""
PAGE = 200
_DAY_MS = 86_400_000

logger = logging.getLogger(__name__)


async def delete_session(app_state: AppState, tenant: str, agent_id: str, session_id: str, /, **details: str) -> None:
    """Delete a session; see `delete_stored_session`. ``details`` are for the audit log."""
    await delete_stored_session(app_state.database, app_state.store, tenant, agent_id, session_id)
    audit("session.deleted", agent=agent_id, session=session_id, **details)


async def delete_stored_session(database: Database, store: Store, tenant: str, agent_id: str, session_id: str) -> None:
    """Delete everything stored for a session.

    Runs that copies of the session show go to one of these, with their traces, but without their steps.

    Raises:
        ConflictError: If the session has a run in progress.
    """
    async with SessionRepository(database, tenant).deleting(agent_id, session_id) as heirs:
        kept = [put for run_id, heir in heirs.items() async for put in _read_kept(store, run_id, heir)]
        await store.delete_session(session_id)
        for put in kept:
            await put()


async def _read_kept(store: Store, run_id: str, heir: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Yield what stores the record of a run and its traces again, for another session. What is damaged is left out."""
    with suppress(DamagedSessionError):
        if (record := await store.runs.get(run_id)) is None:
            return
        record = replace(record, session=heir, name=heir, checkpoint="")
        yield partial(store.runs.put, record)
        for kind in (store.traces, store.node_logs):
            if trace := await kind.get(run_id):
                yield partial(kind.put, record, trace)


async def delete_old_sessions(app_state: AppState) -> int:
    """Delete the sessions of all tenants without a turn for `session_days`. Return their number.

    A session that is running is left for the next time. The runs of a session, its messages, checkpoints, traces and
    events are deleted with it.
    """
    days = app_state.settings.retention.session_days
    if not days:
        return 0
    before_ms, count, last = app_state.now_ms() - int(days * _DAY_MS), 0, ""
    while page := await find_older_sessions(app_state.database, before_ms, last, PAGE):
        for tenant, agent_id, session_id in page:
            with suppress(ConflictError):
                details = {"tenant": tenant, "reason": "retention"}
                await delete_session(app_state, tenant, agent_id, session_id, **details)
                count += 1
        last = page[-1][2]
    return count


async def delete_old_files(app_state: AppState) -> int:
    """Delete the files of all tenants that were stored more than `file_days` ago. Return their number."""
    days = app_state.settings.retention.file_days
    if not days:
        return 0
    before_ms = app_state.now_ms() - int(days * _DAY_MS)
    return await _delete_files(app_state, lambda: find_older_files(app_state.database, before_ms, PAGE))


async def delete_expired_files(app_state: AppState) -> int:
    """Delete the files of all tenants that have expired. Return their number."""
    return await _delete_files(app_state, lambda: find_expired(app_state.database, app_state.now_ms(), PAGE))


async def _delete_files(app_state: AppState, find: Callable[[], Awaitable[list[tuple[str, str]]]]) -> int:
    """Delete files page by page, until none is found. Return their number."""
    count = 0
    while page := await find():
        for tenant, file_id in page:
            store = file_store(app_state, tenant)
            if (row := await store.find(file_id)) is not None:
                await store.delete(row)
                count += 1
    return count


def deleting_old_data(app_state: AppState) -> AbstractAsyncContextManager[None]:
    """Delete expired files and old data inside the context, at once and then every ten minutes."""
    return running(partial(_sweep, app_state), "delete old data")


async def _sweep(app_state: AppState) -> None:
    works = {"expired files": delete_expired_files, "old files": delete_old_files, "old sessions": delete_old_sessions}
    while True:
        for what, work in works.items():
            try:
                if count := await work(app_state):
                    logger.info("%s %s deleted", count, what)
            except RagflowLgError as error:
                logger.warning("%s cannot be deleted: %s", what.capitalize(), error)
        await asyncio.sleep(SWEEP_S)
