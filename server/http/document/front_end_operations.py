"""Descriptions of the routes that only RAGFlow's front end needs; the server has them if `ragflow_ui` is set."""

from __future__ import annotations

from typing import Any, Literal

from ragflow_lg.server.http.document.descriptions import Route, describe_pages, describe_query
from ragflow_lg.server.http.document.front_end_shapes import (
    BackendLanguage,
    ChatList,
    DatasetsFilter,
    DatasetShown,
    DefaultModels,
    KeyShown,
    McpServerList,
    McpServerShown,
    MemoryList,
    ModelShown,
    Person,
    ProviderInstance,
    ProviderInstanceShown,
    ProviderModel,
    ProviderShown,
    SearchList,
    SignedIn,
    SignInBody,
    SignInChannel,
    SystemConfig,
    TenantModels,
    TenantPerson,
    TenantShown,
)

_KEYWORDS = describe_query("keywords", "Only entries whose name contains this text.")

FRONT_END_ROUTES: dict[str, Route] = {
    # sign-in
    "GET /api/v1/auth/login/channels": Route(answer=list[SignInChannel], key=""),
    "GET /api/v1/auth/login/key": Route("none", key="", raw={"text/html": "The page."}),
    "POST /api/v1/auth/login": Route(answer=SignedIn, body=SignInBody, key=""),
    "POST /api/v1/auth/logout": Route(answer=Literal[True]),
    # account
    "GET /api/v1/language": Route(answer=BackendLanguage, key=""),
    "GET /api/v1/system/config": Route(answer=SystemConfig, key=""),
    "GET /api/v1/system/version": Route(answer=str),
    "GET /api/v1/system/tokens": Route(answer=list[KeyShown]),
    "GET /api/v1/users/me": Route(answer=Person),
    "GET /api/v1/users/me/models": Route(answer=TenantModels),
    "GET /api/v1/tenants": Route(answer=list[TenantShown]),
    "GET /api/v1/tenants/{tenant_id}/users": Route(answer=list[TenantPerson]),
    # models
    "GET /api/v1/models": Route(
        answer=list[ModelShown],
        parameters=(
            describe_query("type", "Only models of this type.", enum=["chat", "vision", "embedding", "rerank"]),
        ),
    ),
    "GET /api/v1/models/default": Route(answer=DefaultModels),
    "GET /api/v1/providers": Route(answer=list[ProviderShown]),
    "GET /api/v1/providers/{provider}/models": Route(answer=list[ProviderModel]),
    "GET /api/v1/providers/{provider}/instances": Route(answer=list[ProviderInstance]),
    "GET /api/v1/providers/{provider}/instances/{instance}": Route(answer=ProviderInstanceShown),
    "GET /api/v1/providers/{provider}/instances/{instance}/models": Route(answer=list[ProviderModel]),
    # lists
    "GET /api/v1/datasets": Route(
        answer=list[DatasetShown] | DatasetsFilter,
        parameters=(
            describe_query("ids", "Only these datasets, separated by commas."),
            describe_query("id", "Same as `ids`."),
            describe_query("name", "Only datasets whose name contains this text."),
            describe_query("ext[keywords]", "Same as `name`, and stronger."),
            describe_query("type", "`filter`: return the filter values instead of a list."),
            *describe_pages()[:2],
        ),
    ),
    "GET /api/v1/datasets/metadata/flattened": Route(
        answer=dict[str, dict[str, list[str]]],
        parameters=(describe_query("dataset_ids", "The datasets, separated by commas."),),
    ),
    "GET /api/v1/mcp/servers": Route(
        answer=McpServerList,
        parameters=(_KEYWORDS, describe_query("mcp_ids", "Only these servers, separated by commas.")),
    ),
    "GET /api/v1/mcp/servers/{mcp_id}": Route(answer=McpServerShown),
    "GET /api/v1/plugin/tools": Route(answer=list[dict[str, Any]]),
    "GET /api/v1/memories": Route(answer=MemoryList),
    "GET /api/v1/chats": Route(answer=ChatList),
    "GET /api/v1/searches": Route(answer=SearchList),
    "GET /api/v1/thumbnails": Route(
        answer=dict[str, str], parameters=(describe_query("doc_ids", "Ids of documents; repeatable."),)
    ),
}
