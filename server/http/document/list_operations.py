"""Descriptions of RAGFlow's routes for lists of what agents use, and for uploads without an agent."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ragflow_lg.server.http.document.agent_operations import AGENT_ROUTES
from ragflow_lg.server.http.document.descriptions import Route, describe_pages
from ragflow_lg.server.http.document.list_shapes import (
    CompilationGroupList,
    CompilationTemplateList,
    DatasetsFilter,
    DatasetShown,
    DefaultModels,
    McpServerList,
    McpServerShown,
    McpServersWanted,
    MemoryList,
    ModelShown,
    OlderFactory,
    OlderOfferedModel,
    OlderOwnModels,
    PipelineList,
    ProviderInstance,
    ProviderInstanceShown,
    ProviderModel,
    ProviderShown,
)
from ragflow_lg.server.http.shared.described_routes import describe_query

_PAGES = describe_pages()[:2]
_NOTHING = Route(answer=list[dict[str, Any]])

LIST_ROUTES: dict[str, Route] = {
    # models
    "GET /api/v1/models": Route(
        "plain",
        list[ModelShown],
        parameters=(
            describe_query("type", "Only models of this type.", enum=["chat", "vision", "embedding", "rerank"]),
            describe_query("owner_tenant_id", "Only models of this tenant; only your own is allowed."),
        ),
    ),
    "GET /api/v1/models/default": Route("plain", DefaultModels),
    "GET /api/v1/providers": Route("plain", list[ProviderShown]),
    "GET /api/v1/providers/{provider}/models": Route("plain", list[ProviderModel]),
    "GET /api/v1/providers/{provider}/instances": Route("plain", list[ProviderInstance]),
    "GET /api/v1/providers/{provider}/instances/{instance}": Route("plain", ProviderInstanceShown),
    "GET /api/v1/providers/{provider}/instances/{instance}/models": Route("plain", list[ProviderModel]),
    # datasets
    "GET /api/v1/datasets": Route(
        "plain",
        list[DatasetShown] | DatasetsFilter,
        parameters=(
            describe_query("id", "The dataset with this id; refused if there is none."),
            describe_query("ids", "Only these datasets, separated by commas."),
            describe_query("name", "The dataset with this name; refused if there is none."),
            describe_query(
                "ext", "JSON object: only datasets whose name contains its `keywords`.", examples=['{"keywords": "a"}']
            ),
            describe_query("type", "`filter`: return the filter values instead of a list."),
            *_PAGES,
        ),
    ),
    "GET /api/v1/datasets/metadata/flattened": Route(
        "plain",
        dict[str, dict[str, list[str]]],
        parameters=(describe_query("dataset_ids", "The datasets, separated by commas."),),
    ),
    # MCP servers
    "GET /api/v1/mcp/servers": Route(
        answer=McpServerList,
        parameters=(
            describe_query("keywords", "Only servers whose id contains this text."),
            describe_query("mcp_ids", "Only these servers, separated by commas."),
            *_PAGES,
        ),
    ),
    "GET /api/v1/mcp/servers/{mcp_id}": Route(answer=McpServerShown),
    # always empty
    "GET /api/v1/plugin/tools": _NOTHING,
    "GET /api/v1/memories": Route(answer=MemoryList),
    "GET /api/v1/pipelines": Route(answer=PipelineList),
    "GET /api/v1/compilation-templates": Route(answer=CompilationTemplateList),
    "GET /api/v1/compilation-templates/builtins": _NOTHING,
    "GET /api/v1/compilation-templates/wiki-presets": _NOTHING,
    "GET /api/v1/compilation-template-groups": Route(answer=CompilationGroupList),
    "GET /api/v1/thumbnails": Route(
        answer=dict[str, str],
        parameters=(describe_query("doc_ids", "Ids of documents; repeatable."),),
        key="AnyKey",
    ),
    # files
    "POST /api/v1/documents/upload": replace(
        AGENT_ROUTES["POST /api/v1/agents/{agent_id}/upload"], surface="plain", key="ApiKey"
    ),
}

OLDER_LIST_ROUTES: dict[str, Route] = {
    "GET /v1/llm/factories": Route(answer=list[OlderFactory]),
    "GET /v1/llm/my_llms": Route(answer=dict[str, OlderOwnModels]),
    "GET /v1/llm/list": Route(
        answer=dict[str, list[OlderOfferedModel]],
        parameters=(
            describe_query(
                "model_type", "Only models of this type.", enum=["chat", "image2text", "embedding", "rerank"]
            ),
        ),
    ),
    "GET /v1/plugin/llm_tools": _NOTHING,
    "POST /v1/mcp_server/list": Route(
        answer=McpServerList,
        body=McpServersWanted,
        is_body_required=False,
        parameters=(describe_query("keywords", "Only servers whose id contains this text."), *_PAGES),
    ),
    "GET /v1/mcp_server/detail": Route(
        answer=McpServerShown, parameters=(describe_query("mcp_id", "Id of the server."),)
    ),
    "GET /v1/kb/get_meta": replace(
        LIST_ROUTES["GET /api/v1/datasets/metadata/flattened"],
        parameters=(describe_query("kb_ids", "The datasets, separated by commas."),),
    ),
    "GET /v1/document/thumbnails": LIST_ROUTES["GET /api/v1/thumbnails"],
    "POST /v1/document/upload_info": LIST_ROUTES["POST /api/v1/documents/upload"],
}
"""The lists under their paths of RAGFlow 0.25."""
