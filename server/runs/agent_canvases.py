"""The canvases of agents: which version a turn runs, and that version compiled."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import CompileError, RequestError
from ragflow_lg.server.agents.drafts import SMALL_BYTES, find_diagnostics, without_position
from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.assembly.canvas_needs import describe_missing
from ragflow_lg.server.assembly.library import cached_canvas, load_canvas
from ragflow_lg.server.assembly.warm_up import load_turn_code
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import AgentRow, VersionRow

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.settings import Settings

logger = logging.getLogger(__name__)


class AgentCanvases:
    """The canvases of all tenants' agents."""

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state

    async def compile(self, version: VersionRow) -> CompiledCanvas:
        """Compile a canvas in a thread, so that other requests can proceed. A cached one is returned immediately.

        Raises:
            CompileError: If the canvas has errors.
            RequestError: If checking it takes too much time or memory.
        """
        content, settings = version.dsl.encode(), self._app_state.settings_of(version.tenant)
        if (canvas := cached_canvas(content, CanvasFiles(lambda: settings))) is not None:
            return canvas
        if len(content) > SMALL_BYTES:
            # Where it can be stopped, because compiling checks it again in a thread.
            await find_diagnostics(self._app_state.services.workers, settings, content)
        canvas = await asyncio.to_thread(_compile, content, settings)
        if missing := describe_missing(canvas.plan, settings, has_model=bool(self._app_state.model)):
            logger.warning("agent %s: %s", version.agent_id, missing)
        return canvas

    async def compile_version(self, agent: AgentRow, version_id: str = "") -> CompiledCanvas:
        """Compile one of an agent's versions; see `version`."""
        return await self.compile(await self.version(agent, version_id))

    async def version(self, agent: AgentRow, version_id: str = "") -> VersionRow:
        """Return one of an agent's versions, or its draft if no id is given or the version has been deleted.

        Raises:
            RequestError: If the agent has been deleted.
        """
        agents = AgentRepository(self._app_state.database, agent.tenant)
        row = await agents.version(agent.id, version_id) if version_id else None
        row = row or await agents.version(agent.id, agent.version_id)
        if row is None:
            raise RequestError("The agent has been deleted.", status=404)
        return row

    async def opening_message(self, version: VersionRow) -> str:
        """Return a conversational canvas's opening message, or ``""`` if there is none."""
        try:
            return _opening_message((await self.compile(version)).plan)
        except CompileError:
            return ""  # a draft that cannot run yet


def _compile(content: bytes, settings: Settings) -> CompiledCanvas:
    """Compile a canvas, and load the code that its turns need, if the server has not finished loading it."""
    load_turn_code()
    try:
        return load_canvas(content, settings)
    except CompileError as error:
        raise CompileError(map(without_position, error.diagnostics)) from None


def _opening_message(plan: Plan) -> str:
    params = plan.nodes[plan.entry].params
    prologue = getattr(params, "prologue", None)
    return prologue if isinstance(prologue, str) and getattr(params, "mode", "") == "conversational" else ""
