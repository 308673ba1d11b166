"""RAGFlow's routes for what is in the settings: models, MCP servers, and lists that are always empty here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.assembly.model_list import ListedModel, list_models
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, WithAnyKey, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import Pages, PlainRoute, make_router
from ragflow_lg.server.http.shared.request_bodies import read_ids
from ragflow_lg.services.tool_policies import ToolServers

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services

router = make_router("RAGFlow: models", route_class=PlainRoute)

RANK = 500
"""RAGFlow's rank of a model that its catalog does not rank."""


@router.get("/models")
async def list_all(
    request: Request,
    caller: Authenticated,
    type: Annotated[str, Query(description="Only `chat`, `vision`, `embedding` or `rerank` models.")] = "",
    owner_tenant_id: Annotated[str, Query(description="Only your own tenant is allowed.")] = "",
) -> list[dict[str, Any]]:
    """List the models, by default of every type."""
    if owner_tenant_id not in ("", caller.tenant):
        raise RequestError("Permission denied")
    return [
        {
            "model_id": model.id,
            "model_type": list(model.kinds),
            "name": model.name,
            "provider_id": model.provider,
            "provider_name": model.provider,
            "instance_id": model.instance,
            "instance_name": model.instance,
            "tenant_id": caller.tenant,
            "tenant_name": caller.tenant,
            "rank": RANK,
        }
        for model in _list(request, caller)
        if not type or type.lower() in model.kinds
    ]


@router.get("/models/default")
async def list_defaults(request: Request, caller: Authenticated) -> dict[str, Any]:
    """List the default models, one for each type that has one."""
    models = [
        {
            "model_id": model.id,
            "model_type": model.kinds[0],
            "model_name": model.name,
            "model_provider": model.provider,
            "model_instance": model.instance,
            "enable": True,
        }
        for model in _list(request, caller)
        if model.is_default
    ]
    return {"models": models}


@router.get("/providers")
async def list_providers(request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the providers of these models."""
    kinds: dict[str, set[str]] = {}
    for model in _list(request, caller):
        kinds.setdefault(model.provider, set()).update(model.kinds)
    fixed = {"url": {"default": ""}, "has_instance": True}
    return [{"name": name, "model_types": sorted(types), **fixed} for name, types in kinds.items()]


@router.get("/providers/{provider}/models")
async def list_provider_models(provider: str, request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the models of a provider."""
    return [_describe_entry(model) for model in _list_of(request, caller, provider)]


@router.get("/providers/{provider}/instances")
async def list_instances(provider: str, request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the instances of a provider, without keys and addresses."""
    names = dict.fromkeys(model.instance for model in _list_of(request, caller, provider))
    return [_describe_instance(name, provider) for name in names]


@router.get("/providers/{provider}/instances/{instance}")
async def get_instance(provider: str, instance: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Describe an instance, without its key and address, which stay in the settings."""
    if all(model.instance != instance for model in _list_of(request, caller, provider)):
        raise RequestError(f"No instance {instance!r} found for provider {provider!r}.")
    return {**_describe_instance(instance, provider), "api_key": "", "base_url": ""}


@router.get("/providers/{provider}/instances/{instance}/models")
async def list_instance_models(
    provider: str, instance: str, request: Request, caller: Authenticated
) -> list[dict[str, Any]]:
    """List the models of an instance."""
    return [_describe_entry(model) for model in _list_of(request, caller, provider) if model.instance == instance]


def _list(request: Request, caller: ApiCaller) -> list[ListedModel]:
    return list_models(get_app_state(request).settings_of(caller.tenant))


def _list_of(request: Request, caller: ApiCaller, provider: str) -> list[ListedModel]:
    models = [model for model in _list(request, caller) if model.provider == provider]
    if not models:
        raise RequestError(f"No provider found for provider {provider!r}.")
    return models


def _describe_instance(name: str, provider: str) -> dict[str, Any]:
    return {"id": name, "instance_name": name, "provider_id": provider, "region": "", "status": "active"}


def _describe_entry(model: ListedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "model_type": list(model.kinds),
        "max_tokens": model.context_tokens,
        "status": "active",
        "is_tools": model.has_tools,
    }


mcp_router = make_router("RAGFlow: MCP servers")


class ServerFilters(Pages):
    """Which MCP servers to list."""

    keywords: Annotated[str, Field(description="Only servers whose id contains this text.")] = ""


@mcp_router.get("/mcp/servers")
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
        for id_, section in get_app_state(request).settings_of(caller.tenant).tool_servers.items()
        if keywords.casefold() in id_.casefold() and (not ids or id_ in ids)
    ]
    number, size = page or (1, len(chosen))
    rows = chosen[(number - 1) * size : number * size]
    servers = await asyncio.gather(*(_describe_server(request, caller, *row) for row in rows))
    return {"mcp_servers": servers, "total": len(chosen)}


Mode = Annotated[str, Query(description="`download`: as a document with `mcpServers`.")]


@mcp_router.get("/mcp/servers/{mcp_id}")
async def get_mcp_server(mcp_id: str, request: Request, caller: Authenticated, mode: Mode = "") -> dict[str, Any]:
    """Describe an MCP server, with its tools."""
    server = await _describe_server(request, caller, mcp_id, _find_server(request, caller, mcp_id))
    if mode != "download":
        return server
    exported = {"type": server["server_type"], "url": server["url"], "name": mcp_id, "authorization_token": ""}
    return {"mcpServers": {mcp_id: {**exported, **server["variables"]}}}


@mcp_router.post("/mcp/servers/{mcp_id}/test")
async def test_mcp_server(mcp_id: str, request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the tools of an MCP server, as the settings describe it: a URL in the body is not read."""
    _find_server(request, caller, mcp_id)
    try:
        return list((await _read_tools(get_app_state(request).services_of(caller.tenant), mcp_id)).values())
    except TimeoutError:
        raise RequestError("Test MCP error: the server did not answer in time.") from None
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"Test MCP error: {error}") from error


def _find_server(request: Request, caller: ApiCaller, mcp_id: str) -> Any:
    section = get_app_state(request).settings_of(caller.tenant).tool_servers.get(mcp_id)
    if section is None:
        raise RequestError(f"Cannot find MCP server {mcp_id}: the settings have no section [mcp.{mcp_id!r}].")
    return section


async def _describe_server(request: Request, caller: ApiCaller, id_: str, section: Any) -> dict[str, Any]:
    address = urlsplit(str(section.url.get_secret_value()))
    return {
        "id": id_,
        "name": id_,
        "server_type": section.type or ("stdio" if section.command else "streamable-http"),
        # Without its path and query, which may contain a key.
        "url": f"{address.scheme}://{address.hostname}" if address.hostname else "",
        "description": None,
        "headers": {},
        "variables": {"tools": await _list_tools(get_app_state(request).services_of(caller.tenant), id_)},
        "create_date": "",
        "update_date": "",
    }


async def _list_tools(services: Services, id_: str) -> dict[str, Any]:
    try:
        return await _read_tools(services, id_)
    except (ServiceError, SettingsError, TimeoutError):
        return {}


async def _read_tools(services: Services, id_: str) -> dict[str, Any]:
    fixed: dict[str, Any] = {"enabled": True, "annotations": None}
    return {
        tool.name: {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.schema), **fixed}
        for tool in await services.of(ToolServers).list_tools(id_)
    }


empty_router = make_router("RAGFlow: empty lists")
ui_router = make_router("RAGFlow's front end: lists")
"""Lists that only the front end asks for."""

EMPTY_LISTS: dict[str, Any] = {
    "/plugin/tools": [],
    "/pipelines": {"canvas": [], "total": 0},
    "/compilation-templates": {"templates": [], "total": 0},
    "/compilation-templates/builtins": [],
    "/compilation-templates/wiki-presets": [],
    "/compilation-template-groups": {"groups": [], "total": 0},
}
_UI_LISTS: dict[str, Any] = {"/chats": {"chats": [], "total": 0}, "/searches": {"search_apps": [], "total": 0}}


async def list_nothing(request: Request, caller: Authenticated) -> Any:
    """Return an empty list: RAGFlow has these entries, but this server runs agents only."""
    path = request.url.path.removeprefix("/api/v1")
    return EMPTY_LISTS[path] if path in EMPTY_LISTS else _UI_LISTS[path]


for _each_router, _lists in ((empty_router, EMPTY_LISTS), (ui_router, _UI_LISTS)):
    for _path in _lists:
        _each_router.add_api_route(_path, list_nothing)


@empty_router.get("/thumbnails")
async def list_thumbnails(request: Request, caller: WithAnyKey) -> dict[str, str]:
    """Return the pictures of the documents ``doc_ids``: none, because this server does not store any."""
    if not read_ids(request, "doc_ids"):
        raise RequestError('Lack of "Document ID"', 101, data=False, has_data=True)
    return {}
