"""One session with an MCP server, opened by the MCP SDK, version 1 or 2.

The versions differ in their HTTP library (httpx or httpx2) and in the names of attributes; values are therefore read
with the protocol's names, which both write.
A task of its own opens and closes the session, because the SDK requires both in the same task. Calls can be made from
any task. When the session ends, all pending calls fail.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

import anyio
import httpcore
import httpx
import mcp
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    Implementation,
    PaginatedRequestParams,
)
from pydantic import ValidationError

from ragflow_lg.adapters.http.answer_limits import AnswerTooLargeError, limit_hooks
from ragflow_lg.adapters.http.http_client import USER_AGENT, GuardedHttpClient, parse_url
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.mcp.mcp_settings import McpServerSettings
from ragflow_lg.services.tool_policies import ServerAnswer, ServerTool

CLOSE_S = 5.0
"""Time limit for closing a session. The SDK kills a process that does not end."""
MAX_PAGES = 50
"""Maximum number of pages in the list of tools."""
MAX_CONNECTIONS = 128
"""Maximum number of concurrent requests of one session."""
_DAY_S = 86_400.0
_ENDED = "The server has ended, or closed the connection."
_UNREADABLE = "The server's response does not conform to the protocol."

_IS_FIRST = hasattr(mcp, "McpError")
"""Whether this is version 1 of the SDK."""
_McpError: Any = mcp.McpError if _IS_FIRST else getattr(mcp, "MCPError")  # noqa: B009 (of version 2)
_web: Any = importlib.import_module("httpx" if _IS_FIRST else "httpx2")
_ByteStream: type[httpx.AsyncByteStream] = _web.AsyncByteStream
_Transport: type[httpx.AsyncBaseTransport] = _web.AsyncBaseTransport

_REQUEST_ERRORS = (_McpError, anyio.ClosedResourceError, anyio.BrokenResourceError, ValidationError)
"""Errors that the SDK raises for a failed request."""


class McpSession:
    """A session. It starts when the object is created. After the first failure, create a new one.

    ``settings`` have no variables any more; ``headers`` are those of an HTTP session.
    """

    def __init__(self, settings: McpServerSettings, headers: Mapping[str, str], http: GuardedHttpClient) -> None:
        self._settings = settings
        self._headers = headers
        self._http = http
        self._pending_calls = 0
        self._notifications: set[asyncio.Task[None]] = set()
        self.loop = asyncio.get_running_loop()
        self._refused: Any = None
        """The id of a request that the server did not process."""
        self._end_reason: asyncio.Future[str] = self.loop.create_future()
        self._ready: asyncio.Future[ClientSession] = self.loop.create_future()
        # An empty context, because the session outlives the run that opens it.
        self._owner = self.loop.create_task(self._hold(), context=contextvars.Context())
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
        numbers: list[int] = []

        async def send(session: ClientSession) -> CallToolResult:
            numbers.append(_next_number(session))
            return await session.send_request(cast("Any", request), CallToolResult)

        self._pending_calls += 1
        try:
            session = await self._wait_until_ready()
            response = asyncio.create_task(send(session))
            awaited = {response, self._end_reason}
            try:
                await asyncio.wait(awaited, timeout=self._settings.timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if response.done():
                    return self._answer(response.result())
                if self.has_ended:
                    raise ServiceError(self._end_reason.result(), is_retryable=self._refused in numbers)
                self._cancel(session, numbers, is_late=True)
                raise TimeoutError(self._settings.timeout_s)
            except asyncio.CancelledError:
                self._cancel(session, numbers)
                raise
            finally:
                response.cancel()
        except _REQUEST_ERRORS as error:
            raise await self._failure(error, numbers) from None
        finally:
            self._pending_calls -= 1

    async def tools(self) -> list[ServerTool]:
        """Return the tools that the server offers.

        Raises:
            ServiceError: if the session fails.
            TimeoutError: with the limit in seconds, if the server does not respond in time.
        """
        tools: list[ServerTool] = []
        cursor: str | None = None
        session = await self._wait_until_ready()
        for _ in range(MAX_PAGES):
            async with asyncio.timeout(self._settings.timeout_s):
                try:
                    page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                except _REQUEST_ERRORS as error:
                    raise await self._failure(error) from None
            listed = page.model_dump(by_alias=True)
            tools += (
                ServerTool(tool["name"], tool["description"] or "", tool["inputSchema"]) for tool in listed["tools"]
            )
            cursor = listed["nextCursor"]
            if not cursor:
                break
        return tools

    async def aclose(self) -> None:
        """End the session, and a stdio server's process."""
        self._end("The session was closed.")
        for task in self._notifications:
            task.cancel()
        if self.loop is asyncio.get_running_loop():
            if not self.is_open:
                self._owner.cancel()  # the SDK would wait for the rest of the handshake
            await asyncio.wait({self._owner}, timeout=CLOSE_S)
            self._owner.cancel()

    async def _hold(self) -> None:
        settings = self._settings
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(settings.initialize_timeout_s):
                session = await self._open(stack)
                await session.initialize()
            self._ready.set_result(session)
            await asyncio.wait({self._end_reason})

    async def _open(self, stack: AsyncExitStack) -> ClientSession:
        options: dict[str, Any] = {
            "client_info": Implementation(name="ragflow-lg", version="1"),
            "message_handler": self._on_message,
        }
        transport = await stack.enter_async_context(await self._transport(stack))
        return await stack.enter_async_context(ClientSession(*transport[:2], **options))

    async def _transport(self, stack: AsyncExitStack) -> Any:
        """Return the connection, unopened."""
        settings = self._settings
        if settings.kind == "stdio":
            program: dict[str, Any] = {
                "command": settings.command,
                "args": list(settings.args),
                "env": dict(settings.env),
            }
            return stdio_client(StdioServerParameters(**program, encoding_error_handler="replace"))
        url, headers = str(_public_url(settings.url)), {"User-Agent": USER_AGENT, **self._headers}
        connect_s, read_s = settings.initialize_timeout_s, _DAY_S  # a call has a limit of its own
        if settings.kind == "sse":
            return sse_client(url, headers, connect_s, read_s, httpx_client_factory=self._make_client)
        client = await stack.enter_async_context(self._make_client(headers, _web.Timeout(connect_s, read=read_s)))
        no_limit: Any = {} if _IS_FIRST else {"max_sse_event_size": None}  # the client has one
        return streamable_http_client(url, http_client=client, **no_limit)

    def _make_client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        """Return a client that connects only to checked addresses."""
        url = parse_url(self._settings.url, "URL")
        has_header = any(name.lower() == "authorization" for name in self._headers)
        hooks = limit_hooks(self._settings.max_result_bytes)
        hooks["response"].append(self._watch_body)
        return _web.AsyncClient(
            transport=_GuardedTransport(self._http, url, self._on_lost),
            headers=headers,
            timeout=timeout,
            auth=_web.BasicAuth(url.username, url.password) if url.userinfo and not has_header else None,
            event_hooks=hooks,
            trust_env=False,
        )

    async def _watch_body(self, response: Any) -> None:
        """End the session if a body breaks off: the SDK would leave the caller waiting."""
        if response.request.method == "POST" or self._settings.kind == "sse":
            response.stream = _WatchedBody(response.stream, self._on_failure)

    def _on_lost(self, message: bytes, error: Exception) -> None:
        """End the session after a message that the server did not accept."""
        is_unknown = isinstance(error, _web.HTTPStatusError) and cast("Any", error).response.status_code == 404
        if is_unknown or isinstance(error, ServiceError | httpcore.ConnectError | httpcore.ConnectTimeout):
            self._refused = json.loads(message).get("id")
        self._on_failure(error)

    async def _on_message(self, message: Any) -> None:
        """End the session after a message over HTTP that cannot be read. Processes may print other lines."""
        is_unreadable = isinstance(message, Exception) and not isinstance(message, RuntimeError)  # an unknown id
        if is_unreadable and self._settings.kind != "stdio":
            self._on_failure(message)

    def _on_failure(self, error: BaseException) -> None:
        self._end(self._reason(error))

    def _end(self, reason: str) -> None:
        if not self.has_ended:
            self._end_reason.set_result(reason)

    def _on_owner_done(self, owner: asyncio.Task[None]) -> None:
        error = None if owner.cancelled() else owner.exception()
        self._end(self._reason(error) if error is not None else "The session has ended.")

    async def _wait_until_ready(self) -> ClientSession:
        await asyncio.wait({self._ready, self._end_reason}, return_when=asyncio.FIRST_COMPLETED)
        if self.has_ended:
            raise ServiceError(self._end_reason.result())
        return self._ready.result()

    async def _failure(self, error: Exception, numbers: Sequence[int] = ()) -> ServiceError:
        """Return the error for a failed request. If the connection is gone, the session ends."""
        is_unsent = isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)
        if is_unsent or (isinstance(error, _McpError) and cast("Any", error).error.code == CONNECTION_CLOSED):
            await asyncio.wait({self._end_reason}, timeout=0.1)  # which knows why
            self._end(_ENDED)
            return ServiceError(self._end_reason.result(), is_retryable=is_unsent or self._refused in numbers)
        return ServiceError(self._reason(error))

    def _reason(self, error: BaseException) -> str:
        """Describe why the session failed, without any SDK messages that may contain the URL."""
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        host = repr(parse_url(self._settings.url, "URL").host) if self._settings.url else ""
        match error:
            case TimeoutError():
                return f"The server did not complete the handshake within {self._settings.initialize_timeout_s:g} s."
            case ServiceError():
                return str(error)
            case _McpError():
                code, message = error.error.code, error.error.message
                return _ENDED if code == CONNECTION_CLOSED else _UNREADABLE if code == PARSE_ERROR else message
            case anyio.ClosedResourceError() | anyio.BrokenResourceError() | BrokenPipeError() | ConnectionResetError():
                return _ENDED  # a process that ends at once may close its input before the first message is written
            case ValidationError():
                return _UNREADABLE
            case _web.HTTPStatusError():
                status = error.response.status_code
                return f"{host} answered {status}. Check the server's url, headers and variables in the settings."
            case AnswerTooLargeError():
                return f"{host} {error}."
            case httpcore.ConnectError() | httpcore.ConnectTimeout():
                return f"Cannot connect to {host}: {error or 'no answer'}."
            case httpcore.NetworkError() | httpcore.TimeoutException() | httpcore.ProtocolError():
                return f"{host} did not answer in time, or closed the connection early."
            case OSError() if self._settings.command:
                return f"{self._settings.command!r} cannot be started: {error.strerror or error}."
            case _:
                return f"The session failed ({type(error).__name__})."

    def _cancel(self, session: ClientSession, numbers: Sequence[int], *, is_late: bool = False) -> None:
        """Notify the server of a cancelled request. After a timeout, end the session if it answers no ping either."""

        async def notify() -> None:
            params = CancelledNotificationParams(requestId=numbers[0], reason="cancelled by the client")
            cancelled = CancelledNotification(method="notifications/cancelled", params=params)
            with suppress(*_REQUEST_ERRORS):
                try:
                    async with asyncio.timeout(self._settings.initialize_timeout_s):
                        if _IS_FIRST:  # version 2 does it itself
                            await session.send_notification(cast("Any", cancelled))
                        if is_late:
                            await session.send_ping()
                except TimeoutError:
                    self._end("The server stopped responding.")

        if numbers:
            task = self.loop.create_task(notify())
            self._notifications.add(task)
            task.add_done_callback(self._notifications.discard)

    def _answer(self, result: CallToolResult) -> ServerAnswer:
        texts: list[str] = []
        others: list[str] = []
        answer = result.model_dump(by_alias=True)
        for content in answer["content"]:
            match content:
                case {"type": "text", "text": text} | {"type": "resource", "resource": {"text": text}}:
                    texts.append(text)
                case _:
                    others.append(content["type"])
        if len(result.model_dump_json()) > (limit := self._settings.max_result_bytes):
            raise ServiceError(f"The result is larger than the limit of {limit:,} bytes.")
        return ServerAnswer(tuple(texts), tuple(others), answer["structuredContent"], bool(answer["isError"]))


def _next_number(session: Any) -> int:
    """Return the id of the session's next request, which the SDK keeps to itself."""
    return session._request_id if _IS_FIRST else session._dispatcher._next_id + 1


def _public_url(url: str) -> httpx.URL:
    """Return a URL without secrets, because the SDK and httpx write it to logs and errors."""
    return parse_url(url, "URL").copy_with(userinfo=b"", query=None, fragment=None)


class _GuardedTransport(_Transport):
    """A transport over the guarded client's connections. It sends to the whole URL instead of the public one."""

    def __init__(self, http: GuardedHttpClient, url: httpx.URL, on_lost: Callable[[bytes, Exception], None]) -> None:
        self._pool: httpcore.AsyncConnectionPool = http.open_pool(MAX_CONNECTIONS)
        self._url = url
        self._public_url = str(_public_url(str(url)))
        self._on_lost = on_lost

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request. ``on_lost`` gets each message that the server did not accept."""
        url = self._url if str(request.url) == self._public_url else request.url
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers, content, extensions = request.headers.raw, request.stream, request.extensions
        message = httpcore.Request(request.method, target, headers=headers, content=content, extensions=extensions)
        try:
            answer: Any = await self._pool.handle_async_request(message)
            body = _WatchedBody(answer.stream)
            response = _web.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)
            if request.method == "POST" and answer.status >= 300:
                raise _web.HTTPStatusError("refused", request=request, response=response)
        except Exception as error:  # it is only noted: who waits for the answer learns the reason
            if request.method == "POST":
                self._on_lost(request.content, error)
            raise
        return response

    async def aclose(self) -> None:
        await self._pool.aclose()


class _WatchedBody(_ByteStream):
    """A body that reports why it breaks off."""

    def __init__(self, body: Any, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._body = body
        self._on_failure = on_failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                yield chunk
        except Exception as error:  # it is only noted
            if self._on_failure is not None:
                self._on_failure(error)
            raise

    async def aclose(self) -> None:
        await self._body.aclose()
