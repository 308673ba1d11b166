"""Operations on stored sessions for the command and the server: select, inspect, fork, abandon, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragflow_lg.base.errors import ConflictError, DamagedSessionError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.runs.branching import fork
from ragflow_lg.runs.runner import newest_run
from ragflow_lg.runs.stored_turn import session_status
from ragflow_lg.services.sessions import RunRecord

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.services.services import Clock, Ids
    from ragflow_lg.services.sessions import RunStatus

PATIENCE_S = 10.0
"""How long a cancelled run may take to release its session."""


async def cancel_and_delete(
    store: Store, session: str, delete: Callable[[str], Awaitable[None]] | None = None, patience_s: float = PATIENCE_S
) -> None:
    """Delete everything stored for a session, by default in the store. A run in progress is cancelled first.

    Raises:
        CheckpointError: If the store fails.
        ConflictError: If the run does not end within ``patience_s`` seconds.
    """
    until = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            await (delete or store.delete_session)(session)
        except ConflictError:
            if asyncio.get_running_loop().time() > until:
                raise
            await store.cancels.request(session)
            await asyncio.sleep(0.1)
        else:
            return


async def has_session(store: Store, session: str) -> bool:
    """Check whether the store contains a session."""
    place: Any = {"configurable": {"thread_id": thread_of_session(session), "checkpoint_ns": ""}}
    try:
        return await newest_run(store, session) is not None or await store.saver.aget_tuple(place) is not None
    except DamagedSessionError:  # it is there, but nobody can read it
        return True


async def is_interrupted(store: Store, record: RunRecord) -> bool:
    """Check whether a run was left unfinished by its process. Records do not show that a process has died."""
    return record.status == "running" and not await store.leases.holder(record.session)


async def fork_session(
    store: Store,
    canvas: CompiledCanvas,
    session: str,
    target: str,
    checkpoint: str,
    *,
    canvas_id: str,
    clock: Clock,
    ids: Ids,
    parent_run: str = "",
    changes: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Create a session from another one, either as it was at a checkpoint or as it is now, with ``changes``.

    Returns the record of a run that represents the new session.

    Raises:
        CheckpointError: If the session or the checkpoint does not exist.
        ConflictError: If the new session already exists.
    """
    canvas = canvas.with_saver(store.saver)
    await fork(canvas, store.saver, session, target, checkpoint, changes=changes, leases=store.leases)
    snapshot: Any = await canvas.graph.aget_state(canvas.thread_config(target))
    newest = await newest_run(store, session)
    if not parent_run and newest is not None:
        parent_run = newest.run_id
    status: RunStatus = session_status(snapshot)
    turn: dict[str, Any] = snapshot.values.get("turn", {})
    now = int(clock.now() * 1000)
    record = RunRecord(
        ids.run_id(),
        session_of_thread(thread_of_session(target)),
        target,
        canvas_id,
        turn.get("canvas_hash", ""),
        checkpoint=snapshot.config["configurable"]["checkpoint_id"],
        parent_run=parent_run,
        status=status,
        reason=turn["error"][3] if status == "failed" and "error" in turn else "",
        started_ms=now,
        updated_ms=now,
        ended_ms=now if status in ("succeeded", "failed") else 0,
        model=newest.model if newest is not None else "",
    )
    await store.runs.put(record)
    return record


class Selected(Struct, frozen=True):
    """A session, and its name for users."""

    session: str
    name: str
    problem: str = ""
    """Why its user cannot be read."""


async def select_sessions(store: Store, names: Sequence[str], user: str = "") -> tuple[list[Selected], list[str]]:
    """Return the sessions with these names or, without names, all; and the names that no session has.

    If a ``user`` is given, only sessions whose last turn had this ``sys.user_id`` are returned, and those of which that
    is unknown, because they are damaged.

    Raises:
        CheckpointError: if the store fails.
    """
    found: list[Selected] = []
    if names:
        missing = [name for name in names if not await has_session(store, name)]
        found = [Selected(name, name) for name in dict.fromkeys(names) if name not in missing]
    else:
        missing = []
        found = [Selected(record.session, record.name or record.session) async for record in store.runs.sessions()]
    return [each for selected in found if (each := await _of_user(store, selected, user))], missing


async def _of_user(store: Store, selected: Selected, user: str) -> Selected | None:
    try:
        return selected if not user or await _user_of(store, selected.session) == user else None
    except DamagedSessionError as error:
        return Selected(selected.session, selected.name, str(error))


async def _user_of(store: Store, session: str) -> str:
    place: Any = {"configurable": {"thread_id": str(thread_of_session(session)), "checkpoint_ns": ""}}
    stored = await store.saver.aget_tuple(place)
    values: dict[str, Any] = stored.checkpoint["channel_values"] if stored is not None else {}
    globals_: dict[str, Any] = values.get("globals") or {}
    return str(globals_.get("sys.user_id") or "")
