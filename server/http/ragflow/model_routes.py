"""The models of the settings, for the forms of nodes and for the page that shows all providers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.assembly.model_list import ListedModel, list_models
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import PlainRoute, make_router

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
    """Return the models of a provider.

    Raises:
        RequestError: if the settings have no model of this provider.
    """
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
