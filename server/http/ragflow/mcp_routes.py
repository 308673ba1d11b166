"""RAGFlow's routes for the MCP servers of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.request_bodies import read_ids
from ragflow_lg.server.http.shared.route_schemas import Pages
from ragflow_lg.server.settings.sections import McpSection
from ragflow_lg.services.tool_policies import ToolDirectory, ToolServer

router = make_router("RAGFlow: MCP servers")


class ServerFilters(Pages):
    """Which MCP servers to list."""

    keywords: Annotated[str, Field(description="Only servers whose id contains this text.")] = ""


@router.get("/mcp/servers")
async def list_mcp_servers(
    request: Request, caller: Authenticated, filters: Annotated[ServerFilters, Query()]
) -> dict[str, Any]:
    """List the MCP servers of the settings with their tools; a server that cannot be reached has none."""
    ids = read_ids(request, "mcp_ids") or read_ids(request, "mcp_id")
    return await find_servers(request, caller, ids, filters.keywords, filters.read(caller))


async def find_servers(
    request: Request, caller: ApiCaller, ids: Sequence[str], keywords: str, page: tuple[int, int] | None
) -> dict[str, Any]:
    """Return the MCP servers that a request asks for: a page with its size, or all of them."""
    chosen = [
        (id_, section)
        for id_, section in get_app_state(request).settings_of(caller.tenant).mcp.items()
        if keywords.casefold() in id_.casefold() and (not ids or id_ in ids)
    ]
    number, size = page or (1, len(chosen))
    rows = chosen[(number - 1) * size : number * size]
    servers = await asyncio.gather(*(_describe_server(request, caller, *row) for row in rows))
    return {"mcp_servers": servers, "total": len(chosen)}


@router.get("/mcp/servers/{mcp_id}")
async def get_mcp_server(mcp_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Describe an MCP server, with its tools."""
    section = get_app_state(request).settings_of(caller.tenant).mcp.get(mcp_id)
    if section is None:
        raise RequestError(f"Cannot find MCP server {mcp_id}: the settings have no section [mcp.{mcp_id!r}].")
    return await _describe_server(request, caller, mcp_id, section)


async def _describe_server(request: Request, caller: ApiCaller, id_: str, section: McpSection) -> dict[str, Any]:
    server = get_app_state(request).services_of(caller.tenant).servers.get(id_)
    address = urlsplit(section.url.get_secret_value())
    return {
        "id": id_,
        "name": id_,
        "server_type": section.type or ("stdio" if section.command else "streamable-http"),
        # Without its path and query, which may contain a key.
        "url": f"{address.scheme}://{address.hostname}" if address.hostname else "",
        "description": None,
        "headers": {},
        "variables": {"tools": await _list_tools(server)},
        "create_date": "",
        "update_date": "",
    }


async def _list_tools(server: ToolServer | None) -> dict[str, Any]:
    if not isinstance(server, ToolDirectory):
        return {}
    try:
        tools = await server.list_tools()
    except (ServiceError, SettingsError, TimeoutError):
        return {}
    fixed: dict[str, Any] = {"enabled": True, "annotations": None}
    return {
        tool.name: {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.schema), **fixed}
        for tool in tools
    }
