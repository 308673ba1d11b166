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
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from mcp.types import INTERNAL_ERROR, INVALID_REQUEST, CallToolRequest, ErrorData, ListToolsRequest, ServerResult
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.mcp.open_sessions import OpenSessions, SessionOwner
from ragflow_lg.server.http.mcp.tools_of_agents import ToolsOfAgents
from ragflow_lg.server.http.shared.auth import authenticate, get_app_state, get_turns
from ragflow_lg.server.http.shared.body_reading import parse_json, read_bytes

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

MAX_SESSIONS = 1000
TENANT_SESSIONS = 50
"""How many sessions a tenant may have. Its oldest one without an open request ends when it opens another one."""

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
        self._sessions = StreamableHTTPSessionManager(server, session_idle_timeout=IDLE_S, max_sessions=None)
        self._open = OpenSessions(MAX_SESSIONS, TENANT_SESSIONS)

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
        request = Request(scope, receive)
        caller = await authenticate(request)
        owner = SessionOwner(caller.tenant, caller.owner.id)
        try:
            if body := await read_bytes(request, "turn"):
                parse_json(body)
        except (RequestError, json.JSONDecodeError) as error:
            message = f"The body cannot be read: {error}"
            refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
            await JSONResponse(refusal, getattr(error, "status", 400))(scope, receive, send)
            return
        session = request.headers.get(MCP_SESSION_ID_HEADER, "")
        is_read = False

        async def receive_again() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body}

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER, "")
                if opened and not session and message["status"] < 400:
                    self._open.add(opened, owner)
                elif session and (message["status"] == 404 or request.method == "DELETE"):
                    self._open.discard(session)
            await send(message)

        if not session and request.method == "POST":
            await self._make_room(owner.tenant)
        with self._open.using(session):
            await self._handle(scope, owner, receive_again, send_and_note)

    async def _handle(self, scope: Scope, owner: SessionOwner, receive: Receive, send: Send) -> None:
        token = AccessToken(token="", client_id=owner.client_id, scopes=[])
        await self._sessions.handle_request({**scope, "user": AuthenticatedUser(token)}, receive, send)

    async def _make_room(self, tenant: str) -> None:
        """End a session, as its client would, if the tenant must not have another one."""
        while excess := self._open.find_excess(tenant):
            id_, owner = excess
            self._open.discard(id_)
            headers = [(MCP_SESSION_ID_HEADER.encode(), id_.encode())]
            scope: Scope = {"type": "http", "method": "DELETE", "path": "/mcp", "query_string": b"", "headers": headers}
            await self._handle(scope, owner, _receive_nothing, _send_nothing)
            logger.info("an MCP session of %s has ended, because more are open than the limits allow", owner.tenant)

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
            return ServerResult(await tools.call(request.params.name, request.params.arguments or {}, report))
        except Exception as error:
            # The error text may contain secrets, so it is only logged.
            logger.exception("a call of an MCP tool failed")
            text = "Internal server error; see the server log."
            raise McpError(ErrorData(code=INTERNAL_ERROR, message=text)) from error

    async def _tools(self) -> ToolsOfAgents:
        request = cast("Request", self._server.request_context.request)
        return ToolsOfAgents(get_app_state(request), get_turns(request), await authenticate(request))


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b""}


async def _send_nothing(message: Message) -> None:
    pass
