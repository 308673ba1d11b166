"""RAGFlow's routes for the MCP servers of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.described_routes import PAGES, DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import read_ids, read_page
from ragflow_lg.server.http.shared.route_schemas import Answer
from ragflow_lg.server.settings.sections import McpSection
from ragflow_lg.services.tool_policies import ToolDirectory, ToolServer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: MCP servers"], route_class=DescribedRoute)

KEYWORDS = describe_query("keywords", "Only servers whose id contains this text.")


class McpTool(Answer):
    """A tool of an MCP server."""

    name: str
    description: str
    enabled: bool = True
    inputSchema: dict[str, Any]
    annotations: None = None


class McpVariables(Answer):
    """The tools of an MCP server by name; none if it cannot be reached."""

    tools: dict[str, McpTool]


class McpServerShown(Answer):
    """An MCP server of the settings, without its secrets."""

    id: str
    name: str
    server_type: Literal["stdio", "sse", "streamable-http"]
    url: Annotated[str, Field(description="Address without path and query; empty for a command.")]
    description: None = None
    headers: dict[str, str] = Field(default={})
    variables: McpVariables
    create_date: str = ""
    update_date: str = ""


class McpServerList(Answer):
    """The MCP servers of the settings."""

    mcp_servers: list[McpServerShown]
    total: int


@router.get("/mcp/servers")
@describe(KEYWORDS, describe_query("mcp_ids", "Only these servers, separated by commas."), *PAGES)
async def list_mcp_servers(request: Request, caller: Authenticated) -> McpServerList:
    """List the MCP servers of the settings with their tools; a server that cannot be reached has none."""
    ids = read_ids(request, "mcp_ids") or read_ids(request, "mcp_id")
    return await find_servers(request, caller, ids, read_page(request, caller))


async def find_servers(
    request: Request, caller: ApiCaller, ids: Sequence[str], page: tuple[int, int] | None
) -> McpServerList:
    """Return the MCP servers that a request asks for: a page with its size, or all of them."""
    keywords = request.query_params.get("keywords", "").casefold()
    chosen = [
        (id_, section)
        for id_, section in get_app_state(request).settings_of(caller.tenant).mcp.items()
        if keywords in id_.casefold() and (not ids or id_ in ids)
    ]
    number, size = page or (1, len(chosen))
    rows = chosen[(number - 1) * size : number * size]
    servers = await asyncio.gather(*(_describe_server(request, caller, *row) for row in rows))
    return McpServerList(mcp_servers=servers, total=len(chosen))


@router.get("/mcp/servers/{mcp_id}")
async def get_mcp_server(mcp_id: str, request: Request, caller: Authenticated) -> McpServerShown:
    """Describe an MCP server, with its tools."""
    section = get_app_state(request).settings_of(caller.tenant).mcp.get(mcp_id)
    if section is None:
        raise RequestError(f"Cannot find MCP server {mcp_id}: the settings have no section [mcp.{mcp_id!r}].")
    return await _describe_server(request, caller, mcp_id, section)


async def _describe_server(request: Request, caller: ApiCaller, id_: str, section: McpSection) -> McpServerShown:
    server = get_app_state(request).services_of(caller.tenant).servers.get(id_)
    address = urlsplit(section.url.get_secret_value())
    return McpServerShown(
        id=id_,
        name=id_,
        server_type=section.type or ("stdio" if section.command else "streamable-http"),
        # Without its path and query, which may contain a key.
        url=f"{address.scheme}://{address.hostname}" if address.hostname else "",
        variables=McpVariables(tools={tool.name: tool for tool in await _list_tools(server)}),
    )


async def _list_tools(server: ToolServer | None) -> list[McpTool]:
    if not isinstance(server, ToolDirectory):
        return []
    try:
        tools = await server.list_tools()
    except (ServiceError, SettingsError, TimeoutError):
        return []
    return [McpTool(name=tool.name, description=tool.description, inputSchema=dict(tool.schema)) for tool in tools]
