"""RAGFlow's lists of models, MCP servers and plug-ins under their paths of 0.25, in the shapes of that time."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.server.assembly.model_list import ListedModel, list_models
from ragflow_lg.server.http.ragflow.dataset_routes import read_metadata
from ragflow_lg.server.http.ragflow.empty_list_routes import list_thumbnails
from ragflow_lg.server.http.ragflow.file_routes import upload_without_agent
from ragflow_lg.server.http.ragflow.mcp_routes import (
    KEYWORDS,
    McpServerList,
    McpServerShown,
    find_servers,
    get_mcp_server,
)
from ragflow_lg.server.http.ragflow.model_routes import ContextSize
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.described_routes import PAGES, DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import read_body, read_page, to_text
from ragflow_lg.server.http.shared.route_schemas import Answer
from ragflow_lg.services.knowledge import Metadata

router = APIRouter(prefix="/v1", tags=["RAGFlow: 0.25.0 and older"], route_class=DescribedRoute)
router.add_api_route("/document/thumbnails", list_thumbnails, methods=["GET"])
router.add_api_route("/document/upload_info", upload_without_agent, methods=["POST"])

OlderModelType = Literal["chat", "image2text", "embedding", "rerank"]

_TYPES: dict[str, OlderModelType] = {
    "chat": "chat",
    "vision": "image2text",
    "embedding": "embedding",
    "rerank": "rerank",
}
_TAGS = {"chat": "LLM,CHAT", "vision": "IMAGE2TEXT", "embedding": "TEXT EMBEDDING", "rerank": "TEXT RE-RANK"}


class OlderFactory(Answer):
    """A provider of models, as in RAGFlow 0.25."""

    name: str
    logo: Literal[""] = ""
    status: Literal["1"] = "1"
    tags: str
    model_types: list[OlderModelType]


class OlderOwnModel(Answer):
    """A model of the settings, as in RAGFlow 0.25."""

    id: str
    type: OlderModelType
    name: str
    used_token: Literal[0] = 0
    api_base: Literal[""] = ""
    max_tokens: ContextSize
    status: Literal["1"] = "1"


class OlderOwnModels(Answer):
    """The models of a provider, as in RAGFlow 0.25."""

    tags: str
    llm: list[OlderOwnModel]


class OlderOfferedModel(Answer):
    """A model that forms offer, as in RAGFlow 0.25. Canvases name it `llm_name@fid`."""

    id: str
    llm_name: str
    fid: Annotated[str, Field(description="Name of the provider.")]
    model_type: OlderModelType
    tags: str
    max_tokens: ContextSize
    is_tools: bool
    available: Literal[True] = True
    status: Literal["1"] = "1"


class McpServersWanted(BaseModel):
    """Which MCP servers to list; by default all of them."""

    mcp_ids: list[str] = []


@router.get("/llm/factories")
async def list_factories(request: Request, caller: Authenticated) -> list[OlderFactory]:
    """List the providers of the models."""
    return [
        OlderFactory(
            name=name,
            tags=_join_tags(models),
            model_types=sorted({_TYPES[kind] for model in models for kind in model.kinds}),
        )
        for name, models in _group(request, caller).items()
    ]


@router.get("/llm/my_llms")
async def list_own_models(request: Request, caller: Authenticated) -> dict[str, OlderOwnModels]:
    """List the models by provider, without keys and addresses."""
    return {
        name: OlderOwnModels(tags=_join_tags(models), llm=[_describe_own(model) for model in models])
        for name, models in _group(request, caller).items()
    }


@router.get("/llm/list")
@describe(describe_query("model_type", "Only models of this type.", enum=list(_TYPES.values())))
async def list_offered_models(request: Request, caller: Authenticated) -> dict[str, list[OlderOfferedModel]]:
    """List the models that forms offer, by provider. `llm_name@fid` is the model's id in a canvas."""
    kind = request.query_params.get("model_type", "").lower()
    listed = {
        name: [_describe_offered(model, name) for model in models if kind in _TYPES[model.kinds[0]]]
        for name, models in _group(request, caller).items()
    }
    return {name: models for name, models in listed.items() if models}


@router.get("/plugin/llm_tools")
async def list_plugins(caller: Authenticated) -> list[dict[str, Any]]:
    """List RAGFlow's plug-ins: none. Tools of this server are components."""
    return []


@router.post("/mcp_server/list")
@describe(KEYWORDS, *PAGES, body=McpServersWanted, is_body_required=False)
async def list_servers(request: Request, caller: Authenticated) -> McpServerList:
    """List the MCP servers of the settings: all of them, unless the request has a page and its size."""
    ids: Any = (await read_body(request)).get("mcp_ids")
    wanted = [to_text(id_) for id_ in cast("list[Any]", ids)] if isinstance(ids, list) else []
    is_paged = all(request.query_params.get(name) for name in ("page", "page_size"))
    return await find_servers(request, caller, wanted, read_page(request, caller) if is_paged else None)


@router.get("/mcp_server/detail")
@describe(describe_query("mcp_id", "Id of the server."))
async def get_server(request: Request, caller: Authenticated) -> McpServerShown:
    """Describe an MCP server, with its tools."""
    return await get_mcp_server(request.query_params.get("mcp_id", ""), request, caller)


@router.get("/kb/get_meta")
@describe(describe_query("kb_ids", "The datasets, separated by commas."), surface="plain")
async def get_metadata(request: Request, caller: Authenticated) -> Metadata:
    """Return the metadata of the documents in some datasets: values by key, and ids of documents by value."""
    return await read_metadata(
        request, caller, [id_ for id_ in request.query_params.get("kb_ids", "").split(",") if id_]
    )


def _group(request: Request, caller: ApiCaller) -> dict[str, list[ListedModel]]:
    """Return the models by provider. A model without a provider could not be named by these lists."""
    grouped: dict[str, list[ListedModel]] = {}
    for model in list_models(get_app_state(request).settings_of(caller.tenant)):
        if model.provider:
            grouped.setdefault(model.provider, []).append(model)
    return grouped


def _join_tags(models: list[ListedModel]) -> str:
    return ",".join(dict.fromkeys(_TAGS[kind] for model in models for kind in model.kinds))


def _name(model: ListedModel) -> str:
    """Return the part of a model's id before its provider, with its instance."""
    return model.id.rpartition("@")[0] or model.name


def _describe_own(model: ListedModel) -> OlderOwnModel:
    return OlderOwnModel(id=model.id, type=_TYPES[model.kinds[0]], name=_name(model), max_tokens=model.context_tokens)


def _describe_offered(model: ListedModel, provider: str) -> OlderOfferedModel:
    return OlderOfferedModel(
        id=model.id,
        llm_name=_name(model),
        fid=provider,
        model_type=_TYPES[model.kinds[0]],
        tags=_join_tags([model]),
        max_tokens=model.context_tokens,
        is_tools=model.has_tools,
    )
