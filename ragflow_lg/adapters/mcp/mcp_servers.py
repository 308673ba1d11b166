"""The MCP servers in the settings. All agents share one session, which starts with the first call.

The first session imports the MCP SDK, which is an optional dependency and slow to load.

Source of the headers: RAGFlow's ``common/mcp_tool_call_conn.py``.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragflow_lg.adapters.http.http_client import GuardedHttpClient, encode_headers, parse_url
from ragflow_lg.adapters.mcp.mcp_settings import McpServerSettings, substitute
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.services.tool_policies import ServerAnswer, ServerTool

if TYPE_CHECKING:
    from ragflow_lg.adapters.mcp.mcp_session import McpSession

MAX_SESSIONS = 16
"""Maximum number of sessions with one server. Each set of canvas headers needs its own session."""

_PROTOCOL_PREFIX = "mcp-"
"""Prefix of the protocol's own headers, which only sessions set."""


class McpServers(Mapping[str, "McpServer"]):
    """The servers, keyed by the ids that canvases use."""

    def __init__(self, settings: Mapping[str, McpServerSettings], http: GuardedHttpClient) -> None:
        self._servers = {id_: McpServer(id_, server, http) for id_, server in settings.items()}

    def __getitem__(self, id_: str) -> McpServer:
        return self._servers[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)

    async def aclose(self) -> None:
        """End all sessions and processes; a later call starts new ones."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))


class McpServer:
    """A `ragflow_lg.services.services.ToolServer` with sessions to one server."""

    def __init__(self, id_: str, settings: McpServerSettings, http: GuardedHttpClient) -> None:
        self._id = id_
        self._settings = settings
        self._http = http
        self._sessions: dict[frozenset[tuple[str, str]], McpSession] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def check(self, tool: str) -> None:
        """Check whether canvases may call a tool.

        Raises:
            SettingsError: if ``allow`` does not contain it, or the MCP SDK is not installed.
        """
        allowed = self._settings.allow
        if allowed is not None and tool not in allowed:
            raise SettingsError(
                f"The settings do not allow the tool {tool!r} of the MCP server {self._id!r}. "
                f'Add it to allow in [mcp."{self._id}"].'
            )
        require("mcp", "An MCP server")

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        """Call a tool, in a new session if the server definitely did not process the call in the old one."""
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
        """Whether a call is pending."""
        return any(session.is_busy for session in self._sessions.values())

    async def tools(self) -> list[str]:
        """Return the names of the tools that the server offers.

        Raises:
            SettingsError: if the MCP SDK is not installed.
            ServiceError: if no session can be opened, or the session fails.
            TimeoutError: if the server does not respond in time.
        """
        require("mcp", "An MCP server")
        return [tool.name for tool in await (await self._session({})).tools()]

    async def list_tools(self) -> list[ServerTool]:
        """Return the tools that canvases may call. Raises the same errors as `tools`."""
        require("mcp", "An MCP server")
        allowed = self._settings.allow
        return [
            ServerTool(tool.name, tool.description or "", tool.inputSchema)
            for tool in await (await self._session({})).tools()
            if allowed is None or tool.name in allowed
        ]

    async def aclose(self) -> None:
        """End all sessions."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.aclose() for session in sessions), *self._closing)

    async def _session(self, canvas_headers: Mapping[str, str]) -> McpSession:
        module = await asyncio.to_thread(importlib.import_module, "ragflow_lg.adapters.mcp.mcp_session")
        settings, variables = self._settings, self._settings.variables
        key = frozenset(canvas_headers.items() if settings.kind != "stdio" else ())
        session = self._sessions.pop(key, None)
        if session is None or session.has_ended or session.loop is not asyncio.get_running_loop():
            self._evict_idle_sessions()
            url = substitute(settings.url, variables)
            if url:
                parse_url(url, f'url of [mcp."{self._id}"]')
            env = {name: substitute(value, variables) for name, value in settings.env.items()}
            headers = build_headers(settings.headers, variables, dict(key))
            session = module.McpSession(replace(settings, url=url, env=env), headers, self._http)
        self._sessions[key] = session  # ordered by last use
        return session

    def _evict_idle_sessions(self) -> None:
        for key, session in list(self._sessions.items()):
            if len(self._sessions) < MAX_SESSIONS:
                return
            if session.has_ended or not session.is_busy:
                del self._sessions[key]
                task = asyncio.get_running_loop().create_task(session.aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)


def build_headers(
    headers: Mapping[str, str], variables: Mapping[str, str], canvas_headers: Mapping[str, str]
) -> dict[str, str]:
    """Return the headers from the settings with their variables replaced, overridden by a canvas's headers.

    Headers without a name or a value are dropped; ``Bearer`` without a token counts as no value. Placeholders in the
    headers of a canvas refer only to its other headers, so that a canvas cannot read variables from the settings.

    Raises:
        ServiceError: for a name or a value that is not valid in HTTP.
    """
    merged: dict[str, tuple[str, str]] = {}
    for source, values in ((headers, variables), (canvas_headers, canvas_headers)):
        for name, value in source.items():
            name, value = substitute(name, values).strip(), substitute(value, values).strip()
            if name and value and value.lower() != "bearer" and not name.lower().startswith(_PROTOCOL_PREFIX):
                merged[name.lower()] = (name, value)
    return {name: value.decode("utf-8", "replace") for name, value in encode_headers(dict(merged.values()))}
