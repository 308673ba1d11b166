"""The MCP servers in the settings. All agents share one session, which starts with the first call.

The first session imports the MCP SDK, which is an optional dependency and slow to load.

Source of the headers: RAGFlow's ``common/mcp_tool_call_conn.py``.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ragflow_lg.adapters.http.http_client import GuardedHttpClient, encode_headers, parse_url
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.mcp.mcp_settings import McpSections, McpServerSettings, list_hosts, substitute
from ragflow_lg.services.tool_policies import ServerAnswer, ServerTool

if TYPE_CHECKING:
    from ragflow_lg.integrations.mcp.mcp_session import McpSession
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

MAX_LISTED_TOOLS = 20
MAX_SESSIONS = 16
"""Maximum number of sessions with one server. Each set of canvas headers needs its own session."""

_PROTOCOL_PREFIX = "mcp-"
"""Prefix of the protocol's own headers, which only sessions set."""


class McpServers:
    """The servers by the ids that canvases use, and those of tenants."""

    def __init__(self, settings: Mapping[str, McpServerSettings], http: GuardedHttpClient) -> None:
        self._servers = {id_: McpServer(id_, server, http) for id_, server in settings.items()}
        self._http = http
        self._tenants: list[McpServers] = []

    def __getitem__(self, id_: str) -> McpServer:
        if id_ not in self._servers:
            raise SettingsError(
                f"There is no MCP server {id_!r} in the settings. "
                f'Add [mcp."{id_}"] with its URL or the command that starts it.'
            )
        return self._servers[id_]

    def for_tenant(self, settings: Settings, services: Services) -> McpServers:
        """Return the servers of a tenant, with sessions of their own."""
        self._tenants.append(make_servers(settings))
        return self._tenants[-1]

    def serves(self, server: str) -> bool:
        """Return whether there is a server with this id."""
        return server in self._servers

    async def find_tool(self, server: str, tool: str) -> Sequence[ServerTool]:
        """Return nothing: only a session knows the tools."""
        return ()

    def check(self, server: str, tool: str) -> None:
        """Raise an error if a canvas may not call a tool."""
        self[server].check(tool)

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ServerAnswer:
        """Call a tool."""
        return await self[server].call(tool, arguments, headers)

    async def list_tools(self, server: str) -> Sequence[ServerTool]:
        """Return the tools of a server that canvases may call."""
        return await self[server].list_tools()

    async def aclose(self) -> None:
        """End all sessions and processes; a later call starts new ones."""
        await asyncio.gather(*(each.aclose() for each in (*self._servers.values(), *self._tenants)))
        await self._http.aclose()


class McpServer:
    """The sessions with one server."""

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
        tools = await (await self._session({})).tools()
        return [tool for tool in tools if allowed is None or tool.name in allowed]

    async def probe(self) -> CheckResult:
        """List the tools of the server."""
        try:
            names = await self.tools()
        except TimeoutError:
            advice = f'See timeout_s of [mcp."{self._id}"].'
            return CheckResult(False, f"MCP server {self._id} did not list its tools in time", advice)
        except RagflowLgError as error:
            return CheckResult(False, f"MCP server {self._id} cannot be used", str(error))
        listed = ", ".join(names[:MAX_LISTED_TOOLS]) or "no tools"
        more = f" and {len(names) - MAX_LISTED_TOOLS} more" if len(names) > MAX_LISTED_TOOLS else ""
        return CheckResult(True, f"MCP server {self._id} offers {listed}{more}")

    async def aclose(self) -> None:
        """End all sessions."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.aclose() for session in sessions), *self._closing)

    async def _session(self, canvas_headers: Mapping[str, str]) -> McpSession:
        module = await asyncio.to_thread(importlib.import_module, "ragflow_lg.integrations.mcp.mcp_session")
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


def make_servers(settings: Settings) -> McpServers:
    """Return the servers of the settings.

    Their client can reach them in the private network, where canvases cannot call them in any other way.
    """
    servers = {id_: section.settings() for id_, section in settings.section(McpSections).items()}
    http = settings.http_settings
    return McpServers(servers, GuardedHttpClient(structs.replace(http, allow=(*http.allow, *list_hosts(servers)))))


@asynccontextmanager
async def open_servers(settings: Settings, services: Services) -> AsyncGenerator[McpServers]:
    """Open the servers of the settings."""
    async with aclosing(make_servers(settings)) as servers:
        yield servers


async def probe_servers(settings: Settings) -> list[CheckResult]:
    """Report the tools of each server."""
    async with aclosing(make_servers(settings)) as servers:
        return await asyncio.gather(*(servers[id_].probe() for id_ in settings.section(McpSections)))


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
