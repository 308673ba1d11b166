"""Readiness checks for the parts of the server. They write to the stores, but never make them grow."""

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

CHECK_S = 2.0
"""Time limit for one check."""

FRESH_S = 1.0
"""Time for which results are reused, so that frequent probes cost nothing."""

PROBE_ID = "0" * 32
"""The session to lease and the run to look up; neither exists."""

_WRITE = text("UPDATE alembic_version SET version_num = version_num")
"""Rewrites the only row of a table that exists in every one of our databases, without changing it."""

logger = logging.getLogger(__name__)


class Readiness:
    """The readiness checks of a process."""

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state
        self._lock = asyncio.Lock()
        self._states: Mapping[str, str] = {}
        self._expires_at = 0.0

    async def check(self) -> Mapping[str, str]:
        """Return ``ok``, ``failed`` or ``timed out`` for each part: ``database``, ``checkpoints``, ``journal``."""
        async with self._lock:
            if time.monotonic() >= self._expires_at:
                checks = {
                    "database": self._check_database,
                    "checkpoints": self._check_checkpoints,
                    "journal": self._check_journal,
                }
                states = await asyncio.gather(*(_run_check(name, check) for name, check in checks.items()))
                self._states = dict(zip(checks, states, strict=True))
                self._expires_at = time.monotonic() + FRESH_S
            return self._states

    async def _check_database(self) -> None:
        await self._app_state.database.write(lambda connection: connection.execute(_WRITE))

    async def _check_checkpoints(self) -> None:
        """Lease a session briefly, as every run does first. Another replica's lease also proves that it works."""
        try:
            async with hold_lease(self._app_state.store.leases, PROBE_ID):
                await self._app_state.store.runs.get(PROBE_ID)
        except ConflictError:
            pass

    async def _check_journal(self) -> None:
        await self._app_state.run_manager.journal.head(PROBE_ID)


async def _run_check(name: str, check: Callable[[], Awaitable[None]]) -> str:
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
