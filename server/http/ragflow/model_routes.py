"""The models of the settings, for the forms of nodes and for the page that shows all providers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.assembly.model_list import ListedModel, ModelKind, list_models
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.described_routes import PlainRoute, describe, describe_query
from ragflow_lg.server.http.shared.route_schemas import Answer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: models"], route_class=PlainRoute)

ContextSize = Annotated[int | None, Field(description="Context size, if the settings have it.")]
RANK = 500
"""RAGFlow's rank of a model that its catalog does not rank."""


class ModelShown(Answer):
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
    rank: int = RANK


class DefaultModel(Answer):
    """The default model of a type."""

    model_id: str
    model_type: ModelKind
    model_name: str
    model_provider: str
    model_instance: str
    enable: Literal[True] = True


class DefaultModels(Answer):
    """The default models."""

    models: list[DefaultModel]


class ProviderShown(Answer):
    """A provider of models."""

    name: str
    model_types: list[ModelKind]
    url: dict[str, str] = Field(default={"default": ""})
    has_instance: Literal[True] = True


class ProviderInstance(Answer):
    """An account or endpoint of a provider."""

    id: str
    instance_name: str
    provider_id: str
    region: str = ""
    status: Literal["active"] = "active"


class ProviderInstanceShown(ProviderInstance):
    """A single instance. Keys and addresses stay in the settings."""

    api_key: Literal[""] = ""
    base_url: Literal[""] = ""


class ProviderModel(Answer):
    """A model of a provider."""

    name: str
    model_type: list[ModelKind]
    max_tokens: ContextSize
    status: Literal["active"] = "active"
    is_tools: bool


@router.get("/models")
@describe(
    describe_query("type", "Only models of this type.", enum=["chat", "vision", "embedding", "rerank"]),
    describe_query("owner_tenant_id", "Only models of this tenant; only your own is allowed."),
)
async def list_all(request: Request, caller: Authenticated) -> list[ModelShown]:
    """List the models, by default of every type."""
    kind = request.query_params.get("type", "").lower()
    if request.query_params.get("owner_tenant_id", caller.tenant) not in ("", caller.tenant):
        raise RequestError("Permission denied")
    models = [model for model in _list(request, caller) if not kind or kind in model.kinds]
    return [
        ModelShown(
            model_id=model.id,
            model_type=list(model.kinds),
            name=model.name,
            provider_id=model.provider,
            provider_name=model.provider,
            instance_id=model.instance,
            instance_name=model.instance,
            tenant_id=caller.tenant,
            tenant_name=caller.tenant,
        )
        for model in models
    ]


@router.get("/models/default")
async def list_defaults(request: Request, caller: Authenticated) -> DefaultModels:
    """List the default models, one for each type that has one."""
    return DefaultModels(
        models=[
            DefaultModel(
                model_id=model.id,
                model_provider=model.provider,
                model_instance=model.instance,
                model_name=model.name,
                model_type=model.kinds[0],
            )
            for model in _list(request, caller)
            if model.is_default
        ]
    )


@router.get("/providers")
async def list_providers(request: Request, caller: Authenticated) -> list[ProviderShown]:
    """List the providers of these models."""
    kinds: dict[str, set[ModelKind]] = {}
    for model in _list(request, caller):
        kinds.setdefault(model.provider, set()).update(model.kinds)
    return [ProviderShown(name=name, model_types=sorted(types)) for name, types in kinds.items()]


@router.get("/providers/{provider}/models")
async def list_provider_models(provider: str, request: Request, caller: Authenticated) -> list[ProviderModel]:
    """List the models of a provider."""
    return [_describe_entry(model) for model in _list_of(request, caller, provider)]


@router.get("/providers/{provider}/instances")
async def list_instances(provider: str, request: Request, caller: Authenticated) -> list[ProviderInstance]:
    """List the instances of a provider, without keys and addresses."""
    names = dict.fromkeys(model.instance for model in _list_of(request, caller, provider))
    return [ProviderInstance(id=name, instance_name=name, provider_id=provider) for name in names]


@router.get("/providers/{provider}/instances/{instance}")
async def get_instance(provider: str, instance: str, request: Request, caller: Authenticated) -> ProviderInstanceShown:
    """Describe an instance, without its key and address."""
    if all(model.instance != instance for model in _list_of(request, caller, provider)):
        raise RequestError(f"No instance {instance!r} found for provider {provider!r}.")
    return ProviderInstanceShown(id=instance, instance_name=instance, provider_id=provider)


@router.get("/providers/{provider}/instances/{instance}/models")
async def list_instance_models(
    provider: str, instance: str, request: Request, caller: Authenticated
) -> list[ProviderModel]:
    """List the models of an instance."""
    return [_describe_entry(model) for model in _list_of(request, caller, provider) if model.instance == instance]


def _list(request: Request, caller: ApiCaller) -> list[ListedModel]:
    return list_models(get_app_state(request).settings_of(caller.tenant))


def _list_of(request: Request, caller: ApiCaller, provider: str) -> list[ListedModel]:
    """Return the models of a provider.

    Raises:
        RequestError: if the settings have no model of this provider.
    """
    models = [model for model in _list(request, caller) if model.provider == provider]
    if not models:
        raise RequestError(f"No provider found for provider {provider!r}.")
    return models


def _describe_entry(model: ListedModel) -> ProviderModel:
    return ProviderModel(
        name=model.name,
        model_type=list(model.kinds),
        max_tokens=model.context_tokens,
        is_tools=model.has_tools,
    )
