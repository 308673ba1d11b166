"""One session with an MCP server, by the SDK: opened and closed by one task of its own, as the SDK demands.

Calls come from any task. Whatever ends the session answers every call that waits.
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
from ragflow_lg.adapters.mcp.mcp_http import McpHttpSettings, mcp_http_client
from ragflow_lg.adapters.mcp.mcp_process import McpProcessSettings, Streams, process_streams
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.tool_server import ServerAnswer

__all__ = ["McpConnection", "McpLimits"]

CLOSE_S = 3.0
"""How long a session may take to end."""

STRAY_S = 0.5
"""How long the right answer may come behind one that nobody has asked for."""

MAX_PAGES = 50
"""Of the list of tools."""


class McpLimits(Struct, frozen=True):
    """How long the handshake and a call may take."""

    initialize_s: float = 5.0
    call_s: float = 10.0


class _Session(ClientSession):
    strayed: Callable[[], None] = staticmethod(lambda: None)
    """Is told of an answer to a request that was never made."""

    @property
    def next_id(self) -> int:
        """Id of the request that is sent next."""
        return self._request_id

    async def _handle_response(self, message: SessionMessage) -> None:
        root = message.message.root
        if isinstance(root, JSONRPCResponse | JSONRPCError) and not self._was_sent(root.id):
            self.strayed()
        await super()._handle_response(message)

    def _was_sent(self, id_: str | int) -> bool:
        number = self._normalize_request_id(id_)
        return isinstance(number, int) and 0 <= number < self._request_id


class McpConnection:
    """A session. It begins with the object, and with the first failure it is over: make another one."""

    def __init__(
        self,
        name: str,
        how: McpProcessSettings | McpHttpSettings,
        limits: McpLimits,
        guarded: GuardedHttpClient,
    ) -> None:
        self._name = name
        self._how = how
        self._limits = limits
        self._guarded = guarded
        self._group = 0
        self._waiting = 0
        self._notes: set[asyncio.Task[None]] = set()
        self.loop = asyncio.get_running_loop()
        self._refused: set[int] = set()
        """Ids of requests that surely were not carried out."""
        self._stray: asyncio.Future[None] = self.loop.create_future()
        """Is done with the next answer that nobody has asked for."""
        self._lost: asyncio.Future[str] = self.loop.create_future()
        self._ready: asyncio.Future[_Session] = self.loop.create_future()
        self._ended = asyncio.Event()
        # An empty context: the session outlives the run that opens it.
        self._owner = self.loop.create_task(self._live(), name=f"mcp {name}", context=contextvars.Context())
        self._owner.add_done_callback(self._has_ended)

    @property
    def is_over(self) -> bool:
        """Whether nobody can call any more."""
        return self._lost.done()

    @property
    def is_open(self) -> bool:
        """Whether the server has answered once."""
        return self._ready.done()

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._waiting > 0

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ServerAnswer:
        """Call a tool.

        Raises:
            ServiceError: if the session fails or the server refuses; retryable if the server surely did nothing.
            TimeoutError: with the limit in seconds, if there is no answer in time.
        """
        asked = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        return _answer(await self._ask(ClientRequest(asked), CallToolResult))

    async def tools(self) -> list[Tool]:
        """Give what the server offers.

        Raises:
            ServiceError: if the session fails.
            TimeoutError: with the limit in seconds, if there is no answer in time.
        """
        found: list[Tool] = []
        cursor: str | None = None
        session = await self._opened()
        for _ in range(MAX_PAGES):
            async with asyncio.timeout(self._limits.call_s):
                try:
                    page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                except _SAID as error:
                    raise ServiceError(self._reason(error)) from None
            found += page.tools
            cursor = page.nextCursor
            if not cursor:
                break
        return found

    async def aclose(self) -> None:
        """End the session, and the process if there is one."""
        self._lose("The session was closed.")
        for note in self._notes:
            note.cancel()
        if not self._owner.done() and self.loop is asyncio.get_running_loop():
            await asyncio.wait({self._owner}, timeout=CLOSE_S)
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=CLOSE_S)
        self.abandon()

    def abandon(self) -> None:
        """Kill the process, if there is one: for a session whose event loop runs no more."""
        group, self._group = self._group, 0
        if group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    # The session itself

    async def _live(self) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._limits.initialize_s):
                streams = await stack.enter_async_context(self._streams())
                session = await stack.enter_async_context(
                    _Session(*streams, client_info=Implementation(name="ragflow-lg", version="1"))
                )
                await session.initialize()
            session.strayed = self._has_strayed
            self._ready.set_result(session)
            await self._ended.wait()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Streams]:
        how = self._how
        if isinstance(how, McpProcessSettings):
            try:
                async with process_streams(how, self._name, self._lose) as (streams, self._group):
                    yield streams
            finally:
                self._group = 0
            return
        async with mcp_http_client(self._guarded, how, self._lose) as client:
            if how.kind == "sse":

                def same(*_: Any, **__: Any) -> httpx.AsyncClient:
                    return client

                async with sse_client(str(how.public_url), httpx_client_factory=same) as streams:
                    yield streams
            else:
                async with client, streamable_http_client(str(how.public_url), http_client=client) as (read, write, _):
                    yield read, write

    def _has_strayed(self) -> None:
        stray, self._stray = self._stray, self.loop.create_future()
        stray.set_result(None)

    def _lose(self, reason: str, refused: int | None = None) -> None:
        if refused is not None:
            self._refused.add(refused)
        if not self._lost.done():
            self._lost.set_result(reason)
        self._ended.set()

    def _has_ended(self, owner: asyncio.Task[None]) -> None:
        error = None if owner.cancelled() else owner.exception()
        self._lose(self._reason(error) if error is not None else "The session has ended.")

    def _reason(self, error: BaseException) -> str:
        """Say why the session failed; no text of the SDK that may hold the URL."""
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        match error:
            case TimeoutError():
                return f"The server did not finish the handshake within {self._limits.initialize_s:g} s."
            case ServiceError():
                return str(error)
            case McpError() if error.error.code != CONNECTION_CLOSED:
                return error.error.message
            case McpError() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
                return self._lost.result() if self._lost.done() else "The session has ended."
            case ValidationError():
                return "The server's answer is not what the protocol asks for."
            case OSError() if isinstance(self._how, McpProcessSettings):
                return f"{self._how.command!r} cannot be started: {error.strerror or error}."
            case httpx.HTTPStatusError():
                return f"The server answered {error.response.status_code}."
            case _:
                return f"The session failed ({type(error).__name__})."

    # Asking

    async def _opened(self) -> _Session:
        await asyncio.wait({self._ready, self._lost}, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            raise ServiceError(self._lost.result())
        return self._ready.result()

    async def _ask(self, request: ClientRequest, kind: type[CallToolResult]) -> CallToolResult:
        self._waiting += 1
        sent: list[int] = []
        is_late = False

        async def send() -> CallToolResult:
            sent.append(session.next_id)
            return await session.send_request(request, kind)

        try:
            session = await self._opened()
            answering = asyncio.create_task(send())
            try:
                await self._wait(answering)
                if answering.done():
                    return answering.result()
                if self._lost.done():
                    raise ServiceError(self._lost.result(), is_retryable=not self._refused.isdisjoint(sent))
                is_late = True
                raise TimeoutError(self._limits.call_s)
            finally:
                if answering.cancel() and not self._lost.done():
                    self._note(session, sent, is_late=is_late)
        except _SAID as error:
            raise ServiceError(self._reason(error), is_retryable=not self._refused.isdisjoint(sent)) from None
        finally:
            self._waiting -= 1

    async def _wait(self, answering: asyncio.Task[CallToolResult]) -> None:
        """Wait until there is an answer, the session is lost, or the time is up.

        Raises:
            ServiceError: if the server answers what nobody has asked, and not what the only one who waits has.
        """
        end, waited = self.loop.time() + self._limits.call_s, {answering, self._lost}
        while not any(future.done() for future in waited) and (left_s := end - self.loop.time()) > 0:
            stray = self._stray
            await asyncio.wait({*waited, stray}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if not stray.done():
                continue
            await asyncio.wait(waited, timeout=min(STRAY_S, left_s), return_when=asyncio.FIRST_COMPLETED)
            if self._waiting == 1 and not any(future.done() for future in waited):
                raise ServiceError("The server has answered with the id of a request that nobody made.")

    def _note(self, session: _Session, sent: list[int], *, is_late: bool) -> None:
        """Tell the server that nobody waits any more; one that was late has to show that it is still there."""

        async def note() -> None:
            told = CancelledNotificationParams(requestId=sent[0], reason="nobody waits for it")
            with suppress(*_SAID):
                try:
                    async with asyncio.timeout(self._limits.initialize_s):
                        await session.send_notification(ClientNotification(CancelledNotification(params=told)))
                        if is_late:
                            await session.send_ping()
                except TimeoutError:
                    self._lose("The server does not answer any more.")

        if sent:
            task = self.loop.create_task(note())
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)


_SAID = (McpError, anyio.ClosedResourceError, anyio.BrokenResourceError, ValidationError)
"""What a session raises for a request that fails."""


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
