"""Deletes a session, and says what its store had of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.sessions.session_pruning import is_part

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.sessions import Traces


class Removed(Struct, frozen=True):
    """What has been deleted."""

    checkpoints: int
    parts: int
    """Long texts and results of steps."""
    runs: int
    traces: int
    """Traces of agents and logs of nodes."""


async def remove_session(store: Store, session: str) -> Removed:
    """Delete everything that a store has of a session.

    Raises:
        SessionBusyError: if a runner holds the session.
        CheckpointError: if the store fails.
    """
    thread = str(thread_of_session(session))
    checkpoints = [1 async for _ in store.saver.list_keys(thread)]
    parts = [name for name in await store.saver.parts.names(thread) if is_part(name)]
    runs = [record.run_id async for record in store.runs.of_session(session)]
    traces = [1 for run in runs for table in (store.traces, store.node_logs) if await _has_trace(table, run)]
    await store.delete_session(session)
    return Removed(len(checkpoints), len(parts), len(runs), len(traces))


async def _has_trace(traces: Traces, run_id: str) -> bool:
    try:
        return await traces.get(run_id) is not None
    except SessionKeyError:  # it is deleted without being read
        return True
