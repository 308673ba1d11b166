"""Whether the parts of the server do their work: they are tried, and what is stored is written, but nothing grows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from sqlalchemy import text

from ragflow_lg.base.errors import ConflictError, RagflowLgError
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState

__all__ = ["Readiness"]

CHECK_S = 2.0
"""How long a part may take to answer."""

FRESH_S = 1.0
"""For so long an answer is given again: whoever asks often makes no work."""

PROBED = "0" * 32
"""The session that is held, and the run that is looked up: there is none of this id."""

_WRITE = text("UPDATE alembic_version SET version_num = version_num")
"""Writes the one row of a table that every database of ours has, and leaves it as it is."""

logger = logging.getLogger(__name__)


class Readiness:
    """Tries the parts of one process."""

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state
        self._asking = asyncio.Lock()
        self._found: Mapping[str, str] = {}
        self._until = 0.0

    async def states(self) -> Mapping[str, str]:
        """Give ``ok``, ``failed`` or ``timed out`` of each part: ``database``, ``checkpoints``, ``journal``."""
        async with self._asking:
            if time.monotonic() >= self._until:
                checks = {"database": self._database, "checkpoints": self._checkpoints, "journal": self._journal}
                states = await asyncio.gather(*(_state(name, check) for name, check in checks.items()))
                self._found = dict(zip(checks, states, strict=True))
                self._until = time.monotonic() + FRESH_S
            return self._found

    async def _database(self) -> None:
        await self._app_state.database.write(lambda connection: connection.execute(_WRITE))

    async def _checkpoints(self) -> None:
        """Hold a session for a moment, as every run does first; if another replica does, the store works."""
        try:
            async with hold_lease(self._app_state.store.leases, PROBED):
                await self._app_state.store.runs.get(PROBED)
        except ConflictError:
            pass

    async def _journal(self) -> None:
        await self._app_state.run_manager.journal.head(PROBED)


async def _state(name: str, check: Callable[[], Awaitable[None]]) -> str:
    try:
        async with asyncio.timeout(CHECK_S):
            await check()
    except TimeoutError:
        logger.error("not ready: the %s did not answer within %g s", name, CHECK_S)
        return "timed out"
    except (RagflowLgError, OSError) as error:
        logger.error("not ready: the %s fails: %s", name, error)
        return "failed"
    return "ok"
