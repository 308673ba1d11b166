"""Abandoning a turn that is waiting for an answer."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.base.ids import SessionId, session_of_thread, thread_of_session
from ragflow_lg.base.langgraph_internals import END
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.pauses import open_pauses
from ragflow_lg.runs.run import thread_config
from ragflow_lg.services.sessions import RunRecord, SessionStore, hold_lease, with_lease_token

if TYPE_CHECKING:
    from ragflow_lg.services.services import Clock


async def abandon(canvas: CompiledCanvas, session: SessionId | str, store: SessionStore | None, clock: Clock) -> None:
    """Close a session's open forms and cancel its turn. The history and the globals are kept.

    The canvas may no longer contain the waiting nodes, so the stored run record is checked as well.

    Raises:
        ConflictError: if the session is not waiting, or is running.
    """
    graph: Any = canvas.graph
    config: Any = thread_config(canvas, session)
    session_id = session_of_thread(thread_of_session(session))
    async with AsyncExitStack() as stack:
        if store is not None:
            config = with_lease_token(config, await stack.enter_async_context(hold_lease(store.leases, session_id)))
        snapshot: Any = await graph.aget_state(config)
        newest = await _newest(store, session_id) if store is not None else None
        if not open_pauses(snapshot) and (newest is None or newest.status != "waiting"):
            raise ConflictError("The session is not waiting for an answer.")
        while snapshot.tasks:  # first the open tasks, then the closing node, which follows them
            await graph.aupdate_state(config, None, as_node=END)
            snapshot = await graph.aget_state(config)
        if store is not None and newest is not None:
            now = int(clock.now() * 1000)
            await store.runs.put(
                replace(newest, status="cancelled", is_cancel_requested=True, updated_ms=now, ended_ms=now)
            )


async def _newest(store: SessionStore, session: str) -> RunRecord | None:
    async for record in store.runs.of_session(session):
        return record
    return None
