"""Models that document the routes of RAGFlow's front end, without their envelopes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.server.http.document.response_shapes import Ms

ModelKind = Literal["chat", "vision", "embedding", "rerank"]


class SignInBody(BaseModel):
    """An e-mail address of the settings with its password, or an API key as the password."""

    email: str = ""
    password: Annotated[str, Field(examples=["ragflow-…"])]


class SignInChannel(BaseModel):
    """A way to sign in: the page `/api/v1/auth/login/CHANNEL`."""

    channel: Literal["key"]
    display_name: str
    icon: Literal["sso"]


class Person(BaseModel):
    """The person who is signed in."""

    id: Annotated[str, Field(description="Id of the tenant.")]
    nickname: str
    email: Annotated[str, Field(description="Empty if the person signed in with an API key.")]
    avatar: None
    language: str
    color_schema: str
    timezone: str
    login_channel: Literal["password", "key"]
    is_superuser: Literal[False]
    is_active: Literal["1"]
    is_anonymous: Literal["0"]
    is_authenticated: Literal["1"]
    status: Literal["1"]


class SignedIn(Person):
    """The person who has signed in, and the token for further requests."""

    access_token: str


class BackendLanguage(BaseModel):
    """The kind of RAGFlow server that the front end should expect."""

    language: Literal["python"]


class SystemConfig(BaseModel):
    """Parts of the front end to hide."""

    registerEnabled: Literal[0]
    disablePasswordLogin: Literal[True]


class KeyShown(BaseModel):
    """An API key of the tenant."""

    tenant_id: str
    name: str
    token: Annotated[str, Field(description="Beginning of the key.")]
    beta: Annotated[str, Field(description="Token for embedded pages, valid as long as the key.")]
    create_time: Ms
    create_date: str
    update_time: Ms
    update_date: str


class TenantModels(BaseModel):
    """The tenant and the ids of its default models; empty if there is none."""

    tenant_id: str
    name: str
    role: Literal["owner"]
    parser_ids: str
    llm_id: str
    embd_id: str
    rerank_id: str
    asr_id: str
    img2txt_id: str
    tts_id: str
    ocr_id: str


class TenantShown(BaseModel):
    """A tenant that the person can work with."""

    tenant_id: str
    role: Literal["owner"]
    nickname: str
    email: str
    avatar: None
    update_date: str
    delta_seconds: float


class TenantPerson(BaseModel):
    """A user of a tenant."""

    id: str
    user_id: str
    email: str
    nickname: str
    avatar: None
    role: Literal["normal"]
    status: Literal["1"]
    is_active: Literal["1"]
    update_date: str
    delta_seconds: float


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
    max_tokens: Annotated[int | None, Field(description="Context size, if the settings have it.")]
    status: Literal["active"]
    is_tools: bool


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


class OwnerCount(BaseModel):
    """An owner and the number of datasets."""

    id: str
    label: str
    count: int


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


class ChatList(BaseModel):
    """The chat assistants: always none."""

    chats: list[dict[str, Any]]
    total: int


class SearchList(BaseModel):
    """The search applications: always none."""

    search_apps: list[dict[str, Any]]
    total: int
