"""Checks of the sources of tools: the MCP servers of the settings and installed packages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.checkpoints.check_result import CheckResult

if TYPE_CHECKING:
    from ragflow_lg.adapters.mcp.mcp_servers import McpServer
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.server.settings import Settings

__all__ = ["probe_packages", "probe_tools"]

MAX_LISTED_TOOLS = 20


def probe_packages(registry: Registry) -> list[CheckResult]:
    """Report components and tools of installed packages that cannot be loaded."""
    return [CheckResult(False, f"{broken.name} cannot be loaded", str(broken.error)) for broken in registry.broken]


async def probe_tools(settings: Settings) -> list[CheckResult]:
    """List the tools of every server; the findings of failures say what to check."""
    if not settings.mcp:
        return []
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.mcp.mcp_servers import McpServers

    http = GuardedHttpClient(settings.http_settings)
    servers = McpServers(settings.mcp_settings(), http)
    try:
        return list(await asyncio.gather(*(_probe(id_, server) for id_, server in servers.items())))
    finally:
        await servers.aclose()
        await http.aclose()


async def _probe(id_: str, server: McpServer) -> CheckResult:
    try:
        names = await server.tools()
    except TimeoutError:
        advice = f'See timeout_s of [mcp."{id_}"].'
        return CheckResult(False, f"MCP server {id_} did not list its tools in time", advice)
    except RagflowLgError as error:
        return CheckResult(False, f"MCP server {id_} cannot be used", str(error))
    more = f" and {len(names) - MAX_LISTED_TOOLS} more" if len(names) > MAX_LISTED_TOOLS else ""
    return CheckResult(True, f"MCP server {id_} offers {', '.join(names[:MAX_LISTED_TOOLS]) or 'no tools'}{more}")
