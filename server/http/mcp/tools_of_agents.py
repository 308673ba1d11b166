"""The agents of a tenant as tools: their names, their schemas, and one call."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from ragflow_lg.base.errors import CompileError, RagflowLgError
from ragflow_lg.engine.canvas_call import parameter_schema, read_arguments
from ragflow_lg.runs.wire.answer_text import AnswerText
from ragflow_lg.runs.wire.wire_events import WireNodeStarted
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.streaming.run_task import CANCEL

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.http.shared.auth import ApiCaller
    from ragflow_lg.server.runs.turns import Turn, Turns

logger = logging.getLogger(__name__)

MAX_AGENTS = 1000
TOOLS_PER_PAGE = 50
"""Each tool of a page needs the compiled canvas of its agent."""

PROGRESS_S = 0.2
"""Shortest time between two reports of progress."""

_MAX_NAME_CHARS = 48
_MAX_DESCRIPTION_CHARS = 1000
_ID_CHARS = 8
_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]+")

Report = Callable[[float, str], Awaitable[None]]
"""Reports progress: the number of components that have started, and the name of the last one."""


class ToolsOfAgents:
    """The agents that one caller may use."""

    def __init__(self, app_state: AppState, turns: Turns, caller: ApiCaller) -> None:
        self._app_state = app_state
        self._turns = turns
        self._caller = caller

    async def page(self, cursor: str | None) -> ListToolsResult:
        """Return a page of tools. Agents whose canvas has errors are left out."""
        agents = await self._agents()
        start = int(cursor) if cursor and cursor.isdecimal() and len(cursor) < len(str(MAX_AGENTS)) + 1 else 0
        names = list(agents)[start : start + TOOLS_PER_PAGE]
        tools = [tool for name in names if (tool := await self._tool(name, agents[name])) is not None]
        end = start + TOOLS_PER_PAGE
        return ListToolsResult(tools=tools, nextCursor=str(end) if end < len(agents) else None)

    async def call(self, name: str, arguments: Mapping[str, Any], report: Report) -> CallToolResult:
        """Run a turn in a new session. If the call is cancelled, the turn is cancelled as well."""
        agent = (await self._agents()).get(name)
        if agent is None:
            return _failed(f"There is no tool {name[:100]!r}.")
        try:
            turn = await self._begin(agent, arguments)
            return await _follow(turn, report)
        except RagflowLgError as error:
            return _failed(str(error))

    async def _begin(self, agent: AgentRow, arguments: Mapping[str, Any]) -> Turn:
        version = await self._turns.canvases.version(agent)
        request = read_arguments((await self._turns.canvases.compile(version)).plan, arguments)
        user = self._caller.tenant
        session = await self._turns.new_session(agent, version, user_id=user, source="workflow")
        return await self._turns.begin(agent, session, {**request, "user_id": user}, CANCEL)

    async def _tool(self, name: str, agent: AgentRow) -> Tool | None:
        try:
            plan = (await self._turns.canvases.compile_version(agent)).plan
        except CompileError:
            logger.info("The agent %s has errors and is no tool.", agent.id)
            return None
        description = " ".join((agent.description or f"Ask the agent {agent.title}.").split())
        return Tool(
            name=name,
            title=agent.title,
            description=description[:_MAX_DESCRIPTION_CHARS],
            inputSchema=parameter_schema(plan),
        )

    async def _agents(self) -> dict[str, AgentRow]:
        """Return the agents by the names of their tools, oldest first, so that new agents do not move the pages."""
        agents = AgentRepository(self._app_state.database, self._caller.tenant)
        found, _ = await agents.find(AgentQuery(page_size=MAX_AGENTS, is_descending=False))
        rows = [agent for agent in found if self._caller.opens(agent.id)]
        names = [_NOT_NAME.sub("_", agent.title).strip("_")[:_MAX_NAME_CHARS] for agent in rows]
        counts = Counter(name.lower() for name in names)
        return {
            name if name and counts[name.lower()] == 1 else f"{name or 'agent'}_{agent.id[:_ID_CHARS]}": agent
            for name, agent in zip(names, rows, strict=True)
        }


async def _follow(turn: Turn, report: Report) -> CallToolResult:
    answer, loop = AnswerText(), asyncio.get_running_loop()
    started, reported = 0, loop.time() - PROGRESS_S
    async with aclosing(turn.events()) as events:
        async for _, event in events:
            answer.feed(event)
            if isinstance(event, WireNodeStarted):
                started += 1
                if loop.time() - reported >= PROGRESS_S:
                    reported = loop.time()
                    await report(started, event.component_name or event.component_id)
    status, failure = await turn.result()
    if status == "failed":
        return _failed(failure or "The run failed.")
    meta: dict[str, Any] = {"ragflow-lg/session_id": turn.envelope.session_id}
    if any(answer.reference.values()):
        meta["ragflow-lg/reference"] = answer.reference
    if answer.form is not None:
        text = f"{answer.text}\n{answer.tips}".strip()
        problem = "The agent waits for the answer to a form, which a tool cannot give. Continue its session over HTTP."
        result = _failed(f"{text}\n\n{problem}".strip())
        return result.model_copy(update={"meta": {**meta, "ragflow-lg/form": answer.form.data()}})
    return CallToolResult(content=[TextContent(type="text", text=answer.text)], _meta=meta)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=True)
