"""Continues the runs that an earlier process of this server has left. With a queue, the workers do that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.tasks import end_task
from ragflow_lg.server.database.tables import OPEN, RunRow
from ragflow_lg.server.runs.run_player import RunPlayer

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.runs.turns import Turns

KEPT_MS = 24 * 3_600_000
"""An older run is continued only if somebody asks for it."""
AT_ONCE = 20

logger = logging.getLogger(__name__)


@asynccontextmanager
async def continuing_left_runs(app_state: AppState, turns: Turns) -> AsyncGenerator[None]:
    """Continue the runs during the block, unless there is a queue."""
    if app_state.queue is not None:
        yield
        return
    player = RunPlayer(app_state, turns)
    rows = await find_left_runs(app_state, player)  # before a client can repeat their requests
    continuing = asyncio.create_task(
        continue_left_runs(app_state, player, rows), name="continue the runs that were left"
    )
    try:
        yield
    finally:
        await end_task(continuing)


async def find_left_runs(app_state: AppState, player: RunPlayer) -> list[RunRow]:
    """Return the runs that can be continued. From now on, they have followers."""
    now_ms = app_state.now_ms()
    left = select(RunRow).where(RunRow.status.in_(OPEN), RunRow.start_ms.between(now_ms - KEPT_MS, now_ms))
    try:
        rows = await app_state.database.all(left)
    except RagflowLgError as error:
        logger.warning("the runs that were left are not continued: %s", error)
        return []
    found: list[RunRow] = []
    for row in rows:
        with _logging_failures(row):
            if await player.announce(row):
                found.append(row)
    return found


@contextmanager
def _logging_failures(row: RunRow) -> Generator[None]:
    """Log what fails in the block: a damaged run must not end the continuation of the others."""
    try:
        yield
    except RagflowLgError as error:
        logger.warning("run %s is not continued: %s", row.id, error)
    except Exception:
        logger.exception("run %s is not continued", row.id)


async def continue_left_runs(app_state: AppState, player: RunPlayer, rows: Sequence[RunRow]) -> None:
    """Continue runs that were found, and wait for their ends."""
    database, places = app_state.database, asyncio.Semaphore(AT_ONCE)

    async def continue_one(row: RunRow) -> None:
        async with places:
            claim = update(RunRow).where(RunRow.id == row.id, RunRow.restarts == row.restarts)
            with _logging_failures(row):
                if await player.can_restart(row) and await database.execute(claim.values(restarts=row.restarts + 1)):
                    await player.restart(row)
                    return
            with _logging_failures(row):
                await player.give_up(row)

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(continue_one(row))
