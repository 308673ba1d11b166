"""The session of a run: its lease, how much of it is read, and how the run is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.component.plan import HISTORY_VARIABLE, Plan
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.services.services import Clock
from ragflow_lg.services.sessions import Lease, Leases, RecentEntries, RunRecord, Runs, RunStatus, Steps

EndStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled", "waiting", "drained"]
"""``running`` until the end; ``waiting`` if an answer is needed; ``drained`` if the run can continue elsewhere."""

BUSY_POLL_S = 0.05
"""The interval between attempts to acquire a busy session."""


async def acquire_lease(
    leases: Leases, session: str, on_lost: Callable[[], None], clock: Clock, busy_s: float
) -> Lease:
    """Acquire a session's lease, retrying for ``busy_s`` seconds.

    Clients receive the end of a turn slightly before its lease is released.
    """
    deadline = clock.monotonic() + busy_s
    while True:
        try:
            return await leases.acquire(session, on_lost)
        except SessionBusyError:
            if clock.monotonic() >= deadline:
                raise
            await asyncio.sleep(BUSY_POLL_S)


def ended_record(record: RunRecord, end: EndStatus, error: str | None, checkpoint: str, now_ms: int) -> RunRecord:
    """Return the record of a run that has ended at a checkpoint. A drained run is still running."""
    statuses: dict[EndStatus, RunStatus] = {
        "succeeded": "succeeded",
        "failed": "failed",
        "waiting": "waiting",
        "drained": "running",
    }
    status = statuses.get(end, "cancelled")
    return replace(
        record,
        status=status,
        reason=error or "",
        checkpoint=checkpoint,
        is_cancel_requested=status == "cancelled",
        updated_ms=now_ms,
        ended_ms=now_ms if status in ("succeeded", "failed", "cancelled") else 0,
    )


async def is_recorded(runs: Runs, ended: RunRecord) -> bool:
    """Return whether the store has the end of a run, although its answer was lost: a second attempt has no lease."""
    with suppress(CheckpointError):
        record = await runs.get(ended.run_id)
        return record is not None and record.status == ended.status
    return False


def needed_entries(plan: Plan, *, replaces_message: bool) -> RecentEntries:
    """Return which part of the conversation a turn reads."""
    needed: dict[str, int] = {}
    if plan.history_window is not None:
        needed["history"] = plan.history_window
    if not plan.reads_history_variable:
        needed[HISTORY_VARIABLE] = 0
    if not replaces_message:
        needed["messages"] = 0
    return needed


def step_store(canvas: CompiledCanvas, config: Any) -> Steps | None:
    """Return the store for steps, which only `CanvasSaver` has."""
    graph: Any = canvas.graph
    saver = graph.checkpointer
    return saver.steps(config) if hasattr(saver, "steps") else None
