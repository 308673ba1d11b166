"""Models that document RAGFlow's lists of models, datasets and MCP servers, without their envelopes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.server.http.shared.answers import Counted

ContextSize = Annotated[int | None, Field(description="Context size, if the settings have it.")]
ModelKind = Literal["chat", "vision", "embedding", "rerank"]


class ModelShown(BaseModel):
    """A model of the settings."""

    model_id: Annotated[str, Field(description="The `llm_id`, `embd_id` or `rerank_id` of canvases.")]
    model_type: list[ModelKind]
    name: str
    provider_id: str
    provider_name: str
    instance_id: str
    instance_name: str
    tenant_id: str
    tenant_name: str
    rank: int


class DefaultModel(BaseModel):
    """The default model of a type."""

    model_id: str
    model_type: ModelKind
    model_name: str
    model_provider: str
    model_instance: str
    enable: Literal[True]


class DefaultModels(BaseModel):
    """The default models."""

    models: list[DefaultModel]


class ProviderShown(BaseModel):
    """A provider of models."""

    name: str
    model_types: list[ModelKind]
    url: dict[str, str]
    has_instance: Literal[True]


class ProviderInstance(BaseModel):
    """An account or endpoint of a provider."""

    id: str
    instance_name: str
    provider_id: str
    region: str
    status: Literal["active"]


class ProviderInstanceShown(ProviderInstance):
    """A single instance. Keys and addresses stay in the settings."""

    api_key: Literal[""]
    base_url: Literal[""]


class ProviderModel(BaseModel):
    """A model of a provider."""

    name: str
    model_type: list[ModelKind]
    max_tokens: ContextSize
    status: Literal["active"]
    is_tools: bool


OlderModelType = Literal["chat", "image2text", "embedding", "rerank"]


class OlderFactory(BaseModel):
    """A provider of models, as in RAGFlow 0.25."""

    name: str
    logo: Literal[""]
    status: Literal["1"]
    tags: str
    model_types: list[OlderModelType]


class OlderOwnModel(BaseModel):
    """A model of the settings, as in RAGFlow 0.25."""

    id: str
    type: OlderModelType
    name: str
    used_token: Literal[0]
    api_base: Literal[""]
    max_tokens: ContextSize
    status: Literal["1"]


class OlderOwnModels(BaseModel):
    """The models of a provider, as in RAGFlow 0.25."""

    tags: str
    llm: list[OlderOwnModel]


class OlderOfferedModel(BaseModel):
    """A model that forms offer, as in RAGFlow 0.25. Canvases name it `llm_name@fid`."""

    id: str
    llm_name: str
    fid: Annotated[str, Field(description="Name of the provider.")]
    model_type: OlderModelType
    tags: str
    max_tokens: ContextSize
    is_tools: bool
    available: Literal[True]
    status: Literal["1"]


class McpServersWanted(BaseModel):
    """Which MCP servers to list; by default all of them."""

    mcp_ids: list[str] = []


class DatasetShown(BaseModel):
    """A dataset that Retrieval can search."""

    id: str
    name: str
    avatar: str
    description: str
    chunk_count: int
    document_count: Annotated[int, Field(description="0 if the store does not count documents.")]
    chunk_method: str
    embedding_model: str
    embedding_model_name: str
    permission: str
    tenant_id: str
    nickname: str
    status: str


class OwnerCount(Counted):
    """An owner and the number of datasets."""

    label: str


class DatasetsFilter(BaseModel):
    """The values by which datasets can be filtered."""

    filter: dict[Literal["owner"], list[OwnerCount]]
    total: int


class McpTool(BaseModel):
    """A tool of an MCP server."""

    name: str
    description: str
    enabled: bool
    inputSchema: dict[str, Any]
    annotations: None


class McpVariables(BaseModel):
    """The tools of an MCP server by name; none if it cannot be reached."""

    tools: dict[str, McpTool]


class McpServerShown(BaseModel):
    """An MCP server of the settings, without its secrets."""

    id: str
    name: str
    server_type: Literal["stdio", "sse", "streamable-http"]
    url: Annotated[str, Field(description="Address without path and query; empty for a command.")]
    description: None
    headers: dict[str, str]
    variables: McpVariables
    create_date: str
    update_date: str


class McpServerList(BaseModel):
    """The MCP servers of the settings."""

    mcp_servers: list[McpServerShown]
    total: int


class MemoryList(BaseModel):
    """The memories: always none."""

    memory_list: list[dict[str, Any]]
    total_count: int


class PipelineList(BaseModel):
    """The ingestion pipelines: always none."""

    canvas: list[dict[str, Any]]
    total: int


class CompilationTemplateList(BaseModel):
    """The compilation templates: always none."""

    templates: list[dict[str, Any]]
    total: int


class CompilationGroupList(BaseModel):
    """The groups of compilation templates: always none."""

    groups: list[dict[str, Any]]
    total: int
