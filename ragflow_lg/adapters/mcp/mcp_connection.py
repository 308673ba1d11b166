"""One session with an MCP server, using the MCP SDK.

A dedicated task opens and closes the session, because the SDK requires both in the same task. Calls can be made from
any task. When the session ends, all pending calls fail.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, cast

import anyio
import httpx
from mcp import ClientSession, McpError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    ClientRequest,
    EmbeddedResource,
    Implementation,
    JSONRPCError,
    JSONRPCResponse,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)
from msgspec import Struct
from pydantic import ValidationError

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.mcp.mcp_http import McpHttpSettings, open_http_client
from ragflow_lg.adapters.mcp.mcp_process import McpProcessSettings, Streams, open_process
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.tool_policies import ServerAnswer

CLOSE_S = 3.0
"""Time limit for closing a session."""

GRACE_S = 0.5
"""How long to wait for the right response after one with an unknown request id."""

MAX_PAGES = 50
"""Maximum number of pages in the list of tools."""


class McpLimits(Struct, frozen=True):
    """Time limits for the handshake and for a call."""

    initialize_s: float = 5.0
    call_s: float = 10.0


class _Session(ClientSession):
    on_unknown_response: Callable[[], None] = staticmethod(lambda: None)
    """Called for a response to a request that was never sent."""

    @property
    def next_id(self) -> int:
        """Id of the next request."""
        return self._request_id

    async def _handle_response(self, message: SessionMessage) -> None:
        root = message.message.root
        if isinstance(root, JSONRPCResponse | JSONRPCError) and not self._is_request_id(root.id):
            self.on_unknown_response()
        await super()._handle_response(message)

    def _is_request_id(self, id_: str | int) -> bool:
        number = self._normalize_request_id(id_)
        return isinstance(number, int) and 0 <= number < self._request_id


class McpConnection:
    """A session. It starts when the object is created. After the first failure, create a new one."""

    def __init__(
        self, name: str, settings: McpProcessSettings | McpHttpSettings, limits: McpLimits, http: GuardedHttpClient
    ) -> None:
        self._name = name
        self._settings = settings
        self._limits = limits
        self._http = http
        self._group = 0
        self._pending_calls = 0
        self._notifications: set[asyncio.Task[None]] = set()
        self.loop = asyncio.get_running_loop()
        self._unprocessed: set[int] = set()
        """Ids of requests that the server definitely did not process."""
        self._unknown_response: asyncio.Future[None] = self.loop.create_future()
        """Resolved by the next response with an unknown request id."""
        self._end_reason: asyncio.Future[str] = self.loop.create_future()
        self._ready: asyncio.Future[_Session] = self.loop.create_future()
        self._stop = asyncio.Event()
        # An empty context, because the session outlives the run that opens it.
        self._owner = self.loop.create_task(self._run_session(), name=f"mcp {name}", context=contextvars.Context())
        self._owner.add_done_callback(self._on_owner_done)

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended, so that calls fail."""
        return self._end_reason.done()

    @property
    def is_open(self) -> bool:
        """Whether the handshake has succeeded."""
        return self._ready.done()

    @property
    def is_busy(self) -> bool:
        """Whether a call is pending."""
        return self._pending_calls > 0

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ServerAnswer:
        """Call a tool.

        Raises:
            ServiceError: if the session fails or the server refuses; retryable if the server definitely did nothing.
            TimeoutError: with the limit in seconds, if the server does not respond in time.
        """
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        return _answer(await self._request(ClientRequest(request), CallToolResult))

    async def tools(self) -> list[Tool]:
        """Return the tools that the server offers.

        Raises:
            ServiceError: if the session fails.
            TimeoutError: with the limit in seconds, if the server does not respond in time.
        """
        tools: list[Tool] = []
        cursor: str | None = None
        session = await self._wait_until_ready()
        for _ in range(MAX_PAGES):
            async with asyncio.timeout(self._limits.call_s):
                try:
                    page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                except _REQUEST_ERRORS as error:
                    raise ServiceError(self._reason(error)) from None
            tools += page.tools
            cursor = page.nextCursor
            if not cursor:
                break
        return tools

    async def aclose(self) -> None:
        """End the session, and a stdio server's process."""
        self._end("The session was closed.")
        for task in self._notifications:
            task.cancel()
        if not self._owner.done() and self.loop is asyncio.get_running_loop():
            await asyncio.wait({self._owner}, timeout=CLOSE_S)
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=CLOSE_S)
        self.abandon()

    def abandon(self) -> None:
        """Kill a stdio server's process without waiting, for sessions whose event loop no longer runs."""
        group, self._group = self._group, 0
        if group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    # Session

    async def _run_session(self) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._limits.initialize_s):
                streams = await stack.enter_async_context(self._streams())
                session = await stack.enter_async_context(
                    _Session(*streams, client_info=Implementation(name="ragflow-lg", version="1"))
                )
                await session.initialize()
            session.on_unknown_response = self._on_unknown_response
            self._ready.set_result(session)
            await self._stop.wait()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Streams]:
        settings = self._settings
        if isinstance(settings, McpProcessSettings):
            try:
                async with open_process(settings, self._name, self._end) as (streams, self._group):
                    yield streams
            finally:
                self._group = 0
            return
        async with open_http_client(self._http, settings, self._end) as client:
            if settings.kind == "sse":

                def reuse_client(*_: Any, **__: Any) -> httpx.AsyncClient:
                    return client

                async with sse_client(str(settings.public_url), httpx_client_factory=reuse_client) as streams:
                    yield streams
            else:
                url = str(settings.public_url)
                async with client, streamable_http_client(url, http_client=client) as (read, write, _):
                    yield read, write

    def _on_unknown_response(self) -> None:
        future, self._unknown_response = self._unknown_response, self.loop.create_future()
        future.set_result(None)

    def _end(self, reason: str, unprocessed: int | None = None) -> None:
        if unprocessed is not None:
            self._unprocessed.add(unprocessed)
        if not self._end_reason.done():
            self._end_reason.set_result(reason)
        self._stop.set()

    def _on_owner_done(self, owner: asyncio.Task[None]) -> None:
        error = None if owner.cancelled() else owner.exception()
        self._end(self._reason(error) if error is not None else "The session has ended.")

    def _reason(self, error: BaseException) -> str:
        """Describe why the session failed, without any SDK messages that may contain the URL."""
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        match error:
            case TimeoutError():
                return f"The server did not complete the handshake within {self._limits.initialize_s:g} s."
            case ServiceError():
                return str(error)
            case McpError() if error.error.code != CONNECTION_CLOSED:
                return error.error.message
            case McpError() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
                return self._end_reason.result() if self._end_reason.done() else "The session has ended."
            case ValidationError():
                return "The server's response does not conform to the protocol."
            case OSError() if isinstance(self._settings, McpProcessSettings):
                return f"{self._settings.command!r} cannot be started: {error.strerror or error}."
            case httpx.HTTPStatusError():
                return f"The server answered {error.response.status_code}."
            case _:
                return f"The session failed ({type(error).__name__})."

    # Requests

    async def _wait_until_ready(self) -> _Session:
        await asyncio.wait({self._ready, self._end_reason}, return_when=asyncio.FIRST_COMPLETED)
        if self._end_reason.done():
            raise ServiceError(self._end_reason.result())
        return self._ready.result()

    async def _request(self, request: ClientRequest, kind: type[CallToolResult]) -> CallToolResult:
        self._pending_calls += 1
        request_ids: list[int] = []
        is_late = False

        async def send() -> CallToolResult:
            request_ids.append(session.next_id)
            return await session.send_request(request, kind)

        try:
            session = await self._wait_until_ready()
            response = asyncio.create_task(send())
            try:
                await self._wait(response)
                if response.done():
                    return response.result()
                if self._end_reason.done():
                    is_retryable = not self._unprocessed.isdisjoint(request_ids)
                    raise ServiceError(self._end_reason.result(), is_retryable=is_retryable)
                is_late = True
                raise TimeoutError(self._limits.call_s)
            finally:
                if response.cancel() and not self._end_reason.done():
                    self._notify_cancelled(session, request_ids, is_late=is_late)
        except _REQUEST_ERRORS as error:
            is_retryable = not self._unprocessed.isdisjoint(request_ids)
            raise ServiceError(self._reason(error), is_retryable=is_retryable) from None
        finally:
            self._pending_calls -= 1

    async def _wait(self, response: asyncio.Task[CallToolResult]) -> None:
        """Wait until the response arrives, the session ends or the time is up.

        Raises:
            ServiceError: if the server responds with an unknown request id instead of to the only pending call.
        """
        end, awaited = self.loop.time() + self._limits.call_s, {response, self._end_reason}
        while not any(future.done() for future in awaited) and (remaining_s := end - self.loop.time()) > 0:
            unknown = self._unknown_response
            await asyncio.wait({*awaited, unknown}, timeout=remaining_s, return_when=asyncio.FIRST_COMPLETED)
            if not unknown.done():
                continue
            await asyncio.wait(awaited, timeout=min(GRACE_S, remaining_s), return_when=asyncio.FIRST_COMPLETED)
            if self._pending_calls == 1 and not any(future.done() for future in awaited):
                raise ServiceError("The server responded with an unknown request id.")

    def _notify_cancelled(self, session: _Session, request_ids: list[int], *, is_late: bool) -> None:
        """Notify the server of a cancelled request. After a timeout, also ping it and end the session if that fails."""

        async def notify() -> None:
            params = CancelledNotificationParams(requestId=request_ids[0], reason="cancelled by the client")
            with suppress(*_REQUEST_ERRORS):
                try:
                    async with asyncio.timeout(self._limits.initialize_s):
                        await session.send_notification(ClientNotification(CancelledNotification(params=params)))
                        if is_late:
                            await session.send_ping()
                except TimeoutError:
                    self._end("The server stopped responding.")

        if request_ids:
            task = self.loop.create_task(notify())
            self._notifications.add(task)
            task.add_done_callback(self._notifications.discard)


_REQUEST_ERRORS = (McpError, anyio.ClosedResourceError, anyio.BrokenResourceError, ValidationError)
"""Errors that the SDK raises for a failed request."""


def _answer(result: CallToolResult) -> ServerAnswer:
    texts: list[str] = []
    others: list[str] = []
    for content in result.content:
        if isinstance(content, TextContent):
            texts.append(content.text)
        elif isinstance(content, EmbeddedResource) and isinstance(content.resource, TextResourceContents):
            texts.append(content.resource.text)
        else:
            others.append(content.type)
    return ServerAnswer(tuple(texts), tuple(others), result.structuredContent, bool(result.isError))
