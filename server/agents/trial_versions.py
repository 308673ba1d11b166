"""Trials: versions of a canvas that reruns and forks use before anybody has saved them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ragflow_lg.server.agents.agent_versions import DRAFT, build_version, find_version
from ragflow_lg.server.agents.drafts import check_draft
from ragflow_lg.server.database.agent_repository import AgentRepository

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, VersionRow

TRIAL_TITLE = "Trial"


@asynccontextmanager
async def stored_trial(app_state: AppState, agent: AgentRow, dsl: Any) -> AsyncGenerator[VersionRow]:
    """Store a version with this canvas. Neither the agent's draft nor what is published changes.

    It is an unpublished version. If the block fails before a session uses it, it is deleted. Later, like old drafts, it
    is deleted some time after no session uses it.

    Raises:
        RequestError: If the canvas cannot run, or takes too much time or memory to check.
    """
    settings, workers = app_state.settings_of(agent.tenant), app_state.workers_of(agent.tenant)
    text = await check_draft(settings, workers, dsl, is_released=True)
    draft = await find_version(app_state.database, agent, DRAFT)
    if text == draft.dsl:
        yield draft
        return
    now = app_state.now_ms()
    version = build_version(app_state.new_id(), agent.id, TRIAL_TITLE, text, now, is_released=False)
    agents = AgentRepository(app_state.database, agent.tenant)
    await agents.add_trial(version)
    try:
        yield version
    except BaseException:
        await agents.delete_version(agent.id, version.id)
        raise
