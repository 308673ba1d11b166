"""Lists for the forms of nodes: datasets, MCP servers, memories, plug-ins; and for the pages of other applications."""

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
from ragflow_lg.server.http.shared.request_parsing import read_page
from ragflow_lg.server.http.shared.responses import encode_json, respond
from ragflow_lg.server.settings import McpSection
from ragflow_lg.services.knowledge import Dataset, DatasetDirectory, DatasetEntry, Metadata
from ragflow_lg.services.tool_policies import ServerTool, ToolDirectory, ToolServer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow's front end: lists"])


@router.get("/datasets")
async def list_datasets(request: Request, caller: Authenticated) -> Response:
    """List the datasets that Retrieval can search."""
    query = request.query_params
    entries = await _find_datasets(request)
    if query.get("type") == "filter":
        owners = [{"id": caller.tenant, "label": caller.tenant, "count": len(entries)}] if entries else []
        return respond({"filter": {"owner": owners}, "total": len(entries)})
    keywords = (query.get("ext[keywords]") or query.get("name") or "").casefold()
    ids = [id_ for id_ in (query.get("ids") or query.get("id") or "").split(",") if id_]
    chosen = [
        entry for entry in entries if keywords in entry.dataset.name.casefold() and (not ids or entry.dataset.id in ids)
    ]
    page, size = read_page(request, caller)
    rows = [_describe_dataset(entry, caller) for entry in chosen[(page - 1) * size : page * size]]
    body = {"code": 0, "message": "", "data": rows, "total_datasets": len(chosen)}
    return Response(encode_json(body), media_type="application/json")


@router.get("/datasets/metadata/flattened")
async def get_metadata(request: Request, caller: Authenticated) -> Response:
    """Return the metadata of the documents in some datasets: values by key, and ids of documents by value."""
    wanted = {id_ for id_ in request.query_params.get("dataset_ids", "").split(",") if id_}
    datasets = [entry.dataset for entry in await _find_datasets(request) if entry.dataset.id in wanted]
    return respond(await _read_metadata(request, datasets))


@router.get("/mcp/servers")
async def list_mcp_servers(request: Request, caller: Authenticated) -> Response:
    """List the MCP servers of the settings with their tools; a server that cannot be reached has none."""
    query = request.query_params
    keywords, ids = query.get("keywords", "").casefold(), query.get("mcp_ids", "")
    wanted = {id_ for id_ in ids.split(",") if id_}
    sections = {
        id_: section
        for id_, section in get_app_state(request).settings.mcp.items()
        if keywords in id_.casefold() and (not wanted or id_ in wanted)
    }
    servers = await asyncio.gather(*(_describe_server(request, *item) for item in sections.items()))
    return respond({"mcp_servers": servers, "total": len(servers)})


@router.get("/mcp/servers/{mcp_id}")
async def get_mcp_server(mcp_id: str, request: Request, caller: Authenticated) -> Response:
    """Describe an MCP server, with its tools."""
    section = get_app_state(request).settings.mcp.get(mcp_id)
    if section is None:
        raise RequestError(f"Cannot find MCP server {mcp_id}: the settings have no section [mcp.{mcp_id!r}].")
    return respond(await _describe_server(request, mcp_id, section))


@router.get("/plugin/tools")
async def list_plugins(caller: Authenticated) -> Response:
    """List the installed plug-ins of RAGFlow: none. Tools of this server are components."""
    return respond([])


@router.get("/memories")
async def list_memories(caller: Authenticated) -> Response:
    """List the memories: none, because this server does not have RAGFlow's memories."""
    return respond({"memory_list": [], "total_count": 0})


@router.get("/chats")
async def list_chats(caller: Authenticated) -> Response:
    """List the chat assistants: none, because this server runs agents only."""
    return respond({"chats": [], "total": 0})


@router.get("/searches")
async def list_searches(caller: Authenticated) -> Response:
    """List the search applications: none, because this server runs agents only."""
    return respond({"search_apps": [], "total": 0})


@router.get("/thumbnails")
async def list_thumbnails(request: Request, caller: Authenticated) -> Response:
    """Return the thumbnails of documents by id: none, because this server does not store pictures of documents."""
    if not request.query_params.getlist("doc_ids"):
        raise RequestError('Lack of "Document ID"', 101, data=False, has_data=True)
    return respond({})


async def _find_datasets(request: Request) -> Sequence[DatasetEntry]:
    knowledge = get_app_state(request).services.knowledge
    if not isinstance(knowledge, DatasetDirectory):
        return ()
    try:
        return await knowledge.list_datasets()
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The datasets cannot be listed: {error}") from error


async def _read_metadata(request: Request, datasets: Sequence[Dataset]) -> Metadata:
    knowledge = get_app_state(request).services.knowledge
    if knowledge is None or not datasets:
        return {}
    try:
        return await knowledge.metadata(datasets)
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The metadata cannot be read: {error}") from error


def _describe_dataset(entry: DatasetEntry, caller: ApiCaller) -> dict[str, Any]:
    dataset = entry.dataset
    return {
        "id": dataset.id,
        "name": dataset.name,
        "avatar": "",
        "description": "",
        "chunk_count": entry.chunks,
        "document_count": entry.documents,
        "chunk_method": "naive",
        "embedding_model": dataset.embedding_model,
        "embedding_model_name": dataset.embedding_model,
        "permission": "me",
        "tenant_id": caller.tenant,
        "nickname": caller.tenant,
        "status": "1",
    }


async def _describe_server(request: Request, id_: str, section: McpSection) -> dict[str, Any]:
    server = get_app_state(request).services.servers.get(id_)
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
