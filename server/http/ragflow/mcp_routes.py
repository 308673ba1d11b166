"""RAGFlow's routes for the MCP servers of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.request_parsing import read_ids, read_page
from ragflow_lg.server.http.shared.responses import respond
from ragflow_lg.server.settings import McpSection
from ragflow_lg.services.tool_policies import ServerTool, ToolDirectory, ToolServer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: MCP servers"])


@router.get("/mcp/servers")
async def list_mcp_servers(request: Request, caller: Authenticated) -> Response:
    """List the MCP servers of the settings with their tools; a server that cannot be reached has none."""
    ids = read_ids(request, "mcp_ids") or read_ids(request, "mcp_id")
    return await respond_with_servers(request, caller, ids, read_page(request, caller))


async def respond_with_servers(
    request: Request, caller: ApiCaller, ids: Sequence[str], page: tuple[int, int] | None
) -> Response:
    """Respond with the MCP servers that a request asks for: a page with its size, or all of them."""
    keywords = request.query_params.get("keywords", "").casefold()
    chosen = [
        (id_, section)
        for id_, section in get_app_state(request).settings_of(caller.tenant).mcp.items()
        if keywords in id_.casefold() and (not ids or id_ in ids)
    ]
    number, size = page or (1, len(chosen))
    rows = chosen[(number - 1) * size : number * size]
    servers = await asyncio.gather(*(_describe_server(request, caller, *row) for row in rows))
    return respond({"mcp_servers": servers, "total": len(chosen)})


@router.get("/mcp/servers/{mcp_id}")
async def get_mcp_server(mcp_id: str, request: Request, caller: Authenticated) -> Response:
    """Describe an MCP server, with its tools."""
    section = get_app_state(request).settings_of(caller.tenant).mcp.get(mcp_id)
    if section is None:
        raise RequestError(f"Cannot find MCP server {mcp_id}: the settings have no section [mcp.{mcp_id!r}].")
    return respond(await _describe_server(request, caller, mcp_id, section))


async def _describe_server(request: Request, caller: ApiCaller, id_: str, section: McpSection) -> dict[str, Any]:
    server = get_app_state(request).services_of(caller.tenant).servers.get(id_)
    tools = {tool.name: _describe_tool(tool) for tool in await _list_tools(server)}
    return {
        "id": id_,
        "name": id_,
        "server_type": section.type or ("stdio" if section.command else "streamable-http"),
        "url": _shorten_url(section),
        "description": None,
        "headers": {},
        "variables": {"tools": tools},
        "create_date": "",
        "update_date": "",
    }


async def _list_tools(server: ToolServer | None) -> Sequence[ServerTool]:
    if not isinstance(server, ToolDirectory):
        return ()
    try:
        return await server.list_tools()
    except (ServiceError, SettingsError, TimeoutError):
        return ()


def _describe_tool(tool: ServerTool) -> Mapping[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "enabled": True,
        "inputSchema": tool.schema,
        "annotations": None,
    }


def _shorten_url(section: McpSection) -> str:
    """Return the address without its path and query, which may contain a key."""
    parts = urlsplit(section.url.get_secret_value())
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else ""
