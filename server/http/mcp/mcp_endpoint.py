"""The endpoint ``/mcp``: sessions of the protocol, each bound to the API key that opened it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequest, ErrorData, ListToolsRequest, ServerResult
from starlette.requests import Request

from ragflow_lg.server.http.mcp.tools_of_agents import ToolsOfAgents
from ragflow_lg.server.http.shared.auth import authenticate, get_app_state, get_turns
from ragflow_lg.server.http.shared.request_bodies import parse_json
from ragflow_lg.server.http.shared.responses import encode_json

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

MAX_SESSIONS = 1000
"""How many sessions may be open. Further ones are refused with status 503."""

IDLE_S = 30 * 60.0
"""A session without requests for this long is closed; its client opens another one."""

INSTRUCTIONS = "Each tool is an agent. A call is a new conversation with it and returns its answer."


class McpEndpoint:
    """An ASGI application. It answers requests while it is `running`."""

    def __init__(self) -> None:
        server: Server[Any, Any] = Server("ragflow-lg", version("ragflow-lg"), instructions=INSTRUCTIONS)
        self._server = server
        # Registered directly: the decorators keep one list of tools for all callers.
        server.request_handlers[ListToolsRequest] = self._list
        server.request_handlers[CallToolRequest] = self._call
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

    async def _list(self, request: ListToolsRequest) -> ServerResult:
        tools = await self._tools()
        return ServerResult(await tools.page(request.params.cursor if request.params else None))

    async def _call(self, request: CallToolRequest) -> ServerResult:
        context = self._server.request_context
        token = context.meta.progressToken if context.meta is not None else None

        async def report(progress: float, name: str) -> None:
            if token is not None:
                await context.session.send_progress_notification(
                    token, progress, message=name, related_request_id=str(context.request_id)
                )

        tools = await self._tools()
        try:
            arguments = parse_json(encode_json(request.params.arguments or {}))
            return ServerResult(await tools.call(request.params.name, arguments, report))
        except json.JSONDecodeError as error:
            raise McpError(
                ErrorData(code=INVALID_PARAMS, message=f"The arguments cannot be read: {error.msg}.")
            ) from None
        except Exception as error:
            # The error text may contain secrets, so it is only logged.
            logger.exception("a call of an MCP tool failed")
            text = "Internal server error; see the server log."
            raise McpError(ErrorData(code=INTERNAL_ERROR, message=text)) from error

    async def _tools(self) -> ToolsOfAgents:
        request = cast("Request", self._server.request_context.request)
        return ToolsOfAgents(get_app_state(request), get_turns(request), await authenticate(request))
