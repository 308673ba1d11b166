"""The MCP servers of the settings. One session serves all agents; it begins with the first call.

The SDK is imported with the first session: it is an extra, and slow to load.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ragflow_lg.adapters.http.http_client import GuardedHttpClient, parse_url
from ragflow_lg.adapters.mcp.mcp_headers import filled, server_headers
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.services.tool_server import ServerAnswer

if TYPE_CHECKING:
    from ragflow_lg.adapters.mcp.mcp_connection import McpConnection

__all__ = ["McpServer", "McpServerSettings", "McpServers"]

MAX_SESSIONS = 16
"""Of one server: canvases with headers of their own have sessions of their own."""


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """How a server is reached: by a command, or by a URL. Only settings can name a command, never a canvas."""

    kind: Literal["stdio", "sse", "streamable-http"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What ``$name`` and ``${name}`` in ``url``, ``headers`` and ``env`` stand for."""
    allow: tuple[str, ...] | None = None
    """The tools that canvases may call; None for all."""
    initialize_timeout_s: float = 5.0
    timeout_s: float = 10.0
    max_result_bytes: int = 4 * 1024 * 1024


class McpServers(Mapping[str, "McpServer"]):
    """The servers by the ids that canvases know them by."""

    def __init__(self, settings: Mapping[str, McpServerSettings], guarded: GuardedHttpClient) -> None:
        self._servers = {id_: McpServer(id_, given, guarded) for id_, given in settings.items()}

    def __getitem__(self, id_: str) -> McpServer:
        return self._servers[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)

    async def aclose(self) -> None:
        """End all sessions and processes; a later call begins new ones."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))


class McpServer:
    """The `ragflow_lg.services.services.ToolServer` behind one id."""

    def __init__(self, id_: str, settings: McpServerSettings, guarded: GuardedHttpClient) -> None:
        self._id = id_
        self._settings = settings
        self._guarded = guarded
        self._sessions: dict[frozenset[tuple[str, str]], McpConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def check(self, tool: str) -> None:
        """Say what keeps a canvas from calling a tool.

        Raises:
            SettingsError: if ``allow`` does not name it, or the SDK is not installed.
        """
        allowed = self._settings.allow
        if allowed is not None and tool not in allowed:
            raise SettingsError(
                f"The settings do not allow the tool {tool!r} of the MCP server {self._id!r}: "
                f'it is not in allow of [mcp."{self._id}"].'
            )
        require("mcp", "An MCP server")

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        """Call a tool. A session that the server has forgotten is begun anew first.

        Raises:
            ServiceError: if there is no session, it breaks off, or the server refuses the call.
            TimeoutError: if there is no answer in time.
        """
        session = await self._session(headers)
        was_open = session.is_open
        try:
            return await session.call(tool, arguments)
        except ServiceError as error:
            if not (was_open and error.is_retryable):
                raise
        return await (await self._session(headers)).call(tool, arguments)

    @property
    def is_busy(self) -> bool:
        """Whether a call waits for its answer."""
        return any(session.is_busy for session in self._sessions.values())

    async def tools(self) -> list[str]:
        """Give the names of the tools that the server offers.

        Raises:
            SettingsError: if the SDK is not installed.
            ServiceError: if there is no session.
            TimeoutError: if there is no answer in time.
        """
        require("mcp", "An MCP server")
        return [tool.name for tool in await (await self._session({})).tools()]

    async def aclose(self) -> None:
        """End all sessions."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.aclose() for session in sessions), *self._closing)

    async def _session(self, own_headers: Mapping[str, str]) -> McpConnection:
        connection = await _module()
        settings = self._settings
        own = dict(own_headers) if settings.kind != "stdio" else dict[str, str]()
        key = frozenset(own.items())
        session = self._sessions.pop(key, None)
        if session is not None and session.loop is not asyncio.get_running_loop():
            session.abandon()
            session = None
        if session is None or session.is_over:
            self._make_room()
            limits = connection.McpLimits(settings.initialize_timeout_s, settings.timeout_s)
            session = connection.McpConnection(self._id, self._how(own), limits, self._guarded)
        self._sessions[key] = session  # the last one used stands last
        return session

    def _how(self, own_headers: Mapping[str, str]) -> Any:
        settings = self._settings
        if settings.kind == "stdio":
            from ragflow_lg.adapters.mcp.mcp_process import McpProcessSettings

            env = {name: filled(value, settings.variables) for name, value in settings.env.items()}
            return McpProcessSettings(settings.command, settings.args, env, settings.max_result_bytes)
        from ragflow_lg.adapters.mcp.mcp_http import McpHttpSettings

        url = filled(settings.url, settings.variables)
        parse_url(url, f'url of [mcp."{self._id}"]')
        headers = server_headers(settings.headers, settings.variables, own_headers)
        seconds = (settings.initialize_timeout_s, settings.timeout_s)
        return McpHttpSettings(url, settings.kind, headers, *seconds, settings.max_result_bytes)

    def _make_room(self) -> None:
        for key, session in list(self._sessions.items()):
            if len(self._sessions) < MAX_SESSIONS:
                return
            if session.is_over or not session.is_busy:
                del self._sessions[key]
                task = asyncio.get_running_loop().create_task(session.aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)


async def _module() -> Any:
    return await asyncio.to_thread(importlib.import_module, "ragflow_lg.adapters.mcp.mcp_connection")
