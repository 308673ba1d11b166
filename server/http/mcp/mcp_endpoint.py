"""The endpoint ``/mcp``: the agents of a tenant as tools, in sessions bound to the API key that opened them.

It is served by version 1 or 2 of the MCP SDK.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import mcp
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    ServerResult,
    TextContent,
    Tool,
)
from starlette.requests import Request

from ragflow_lg.base.errors import CompileError, RagflowLgError
from ragflow_lg.engine.canvas_call import parameter_schema, read_arguments
from ragflow_lg.runs.wire.wire_events import AnswerText, WireNodeStarted
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.http.shared.auth import authenticate, get_app_state, get_turns
from ragflow_lg.server.http.shared.request_bodies import parse_json
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.server.streaming.run_task import CANCEL

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.http.shared.auth import ApiCaller
    from ragflow_lg.server.runs.turns import Turn, Turns


logger = logging.getLogger(__name__)

MAX_AGENTS = 1000
TOOLS_PER_PAGE = 50
"""Each tool of a page needs the compiled canvas of its agent."""

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
    answer, started = AnswerText(), 0
    async with aclosing(turn.events()) as events:
        async for _, event in events:
            answer.feed(event)
            if isinstance(event, WireNodeStarted):
                started += 1
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


MAX_SESSIONS = 1000
"""How many sessions may be open. Further ones are refused with status 503."""

IDLE_S = 30 * 60.0
"""A session without requests for this long is closed; its client opens another one."""

INSTRUCTIONS = "Each tool is an agent. A call is a new conversation with it and returns its answer."


class McpEndpoint:
    """An ASGI application. It answers requests while it is `running`."""

    def __init__(self) -> None:
        server = _make_server(self._list, self._call)
        self._sessions = StreamableHTTPSessionManager(server, session_idle_timeout=IDLE_S, max_sessions=MAX_SESSIONS)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep sessions inside the context. It can be entered once."""
        async with self._sessions.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request and hand it to its session. A session answers only requests with the same key.

        Raises:
            RequestError: if the key is missing or invalid.
        """
        caller = await authenticate(Request(scope, receive))
        token = AccessToken(token="", client_id=f"{caller.tenant}/{caller.owner.id}", scopes=[])
        await self._sessions.handle_request({**scope, "user": AuthenticatedUser(token)}, receive, send)

    async def _list(self, context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return await (await _tools_for(context.request)).page(params.cursor if params else None)

    async def _call(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        token = context.meta and (context.meta.progressToken if _IS_FIRST else context.meta.get("progress_token"))

        async def report(progress: float, name: str) -> None:
            if token is not None:
                await context.session.send_progress_notification(
                    token, progress, message=name, related_request_id=str(context.request_id)
                )

        tools = await _tools_for(context.request)
        try:
            arguments = parse_json(encode_json(params.arguments or {}))
            return await tools.call(params.name, arguments, report)
        except json.JSONDecodeError as error:
            raise _error(INVALID_PARAMS, f"The arguments cannot be read: {error.msg}.") from None
        except Exception as error:
            # The error text may contain secrets, so it is only logged.
            logger.exception("a call of an MCP tool failed")
            text = "Internal server error; see the server log."
            raise _error(INTERNAL_ERROR, text) from error


async def _tools_for(request: Request) -> ToolsOfAgents:
    return ToolsOfAgents(get_app_state(request), get_turns(request), await authenticate(request))


_IS_FIRST = hasattr(mcp, "McpError")
"""Whether this is version 1 of the SDK."""


def _error(code: int, message: str) -> Exception:
    """Return an error that the SDK hands to the client."""
    if _IS_FIRST:
        return mcp.McpError(ErrorData(code=code, message=message))
    return cast("Any", mcp).MCPError(code, message)


def _make_server(list_tools: Callable[..., Awaitable[Any]], call_tool: Callable[..., Awaitable[Any]]) -> Any:
    """Return a server with both handlers, which get the context and the params of a request."""
    names: Any = {"name": "ragflow-lg", "version": version("ragflow-lg"), "instructions": INSTRUCTIONS}
    handlers: Any = {} if _IS_FIRST else {"on_list_tools": list_tools, "on_call_tool": call_tool}
    server: Server[Any, Any] = Server(**names, **handlers)

    def handle(handler: Callable[..., Awaitable[Any]]) -> Callable[[Any], Awaitable[ServerResult]]:
        async def answer(request: Any) -> ServerResult:
            return ServerResult(await handler(server.request_context, request.params))

        return answer

    if _IS_FIRST:  # its decorators keep one list of tools for all callers
        server.request_handlers.update({ListToolsRequest: handle(list_tools), CallToolRequest: handle(call_tool)})
    return server
