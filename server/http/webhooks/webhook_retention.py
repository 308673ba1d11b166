"""Letting old sessions of webhooks go: every call has one of its own, and nobody deletes them."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import ConflictError, RagflowLgError
from ragflow_lg.server.database.session_repository import SessionRepository

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow

__all__ = ["TRIM_INTERVAL", "WEBHOOK_SOURCE", "trim_sessions"]

WEBHOOK_SOURCE = "webhook"
"""What sessions of webhooks have as their source."""

TRIM_INTERVAL = 20
"""After so many calls of an agent a process looks whether there are too many sessions."""

_calls: Counter[str] = Counter()

logger = logging.getLogger(__name__)


async def trim_sessions(app_state: AppState, agent: AgentRow) -> None:
    """Delete the oldest sessions of an agent's webhook, now and then. What is being run stays, for the next time."""
    kept = app_state.settings.server.webhook_sessions
    _calls[agent.id] += 1
    if not kept or _calls[agent.id] < TRIM_INTERVAL:
        return
    del _calls[agent.id]
    sessions = SessionRepository(app_state.database, agent.tenant)
    try:
        for id_ in await sessions.older_ids(agent.id, WEBHOOK_SOURCE, kept, 2 * TRIM_INTERVAL):
            try:
                await app_state.store.delete_session(id_)
            except ConflictError:
                continue
            await sessions.delete(agent.id, id_)
    except RagflowLgError as error:
        logger.warning("old sessions of the webhook of %s cannot be deleted: %s", agent.id, error)
