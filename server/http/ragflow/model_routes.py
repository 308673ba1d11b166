"""The models of the settings, for the forms of nodes and for the page that shows all providers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.assembly.listed_models import ListedModel, list_models
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.responses import respond_plain

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: models"])

_ACTIVE = "active"
RANK = 500
"""RAGFlow's rank of a model that its catalog does not rank."""


@router.get("/models")
async def list_all(request: Request, caller: Authenticated) -> Response:
    """List the models, by default of every type."""
    kind = request.query_params.get("type", "").lower()
    if request.query_params.get("owner_tenant_id", caller.tenant) not in ("", caller.tenant):
        raise RequestError("Permission denied")
    owner = {"tenant_id": caller.tenant, "tenant_name": caller.tenant}
    models = [model for model in _list(request, caller) if not kind or kind in model.kinds]
    return respond_plain([{**_describe(model), **owner} for model in models])


@router.get("/models/default")
async def list_defaults(request: Request, caller: Authenticated) -> Response:
    """List the default models, one for each type that has one."""
    return respond_plain(
        {
            "models": [
                {
                    "model_id": model.id,
                    "model_provider": model.provider,
                    "model_instance": model.instance,
                    "model_name": model.name,
                    "model_type": model.kinds[0],
                    "enable": True,
                }
                for model in _list(request, caller)
                if model.is_default
            ]
        }
    )


@router.get("/providers")
async def list_providers(request: Request, caller: Authenticated) -> Response:
    """List the providers of these models."""
    kinds: dict[str, set[str]] = {}
    for model in _list(request, caller):
        kinds.setdefault(model.provider, set()).update(model.kinds)
    return respond_plain(
        [
            {"name": name, "model_types": sorted(types), "url": {"default": ""}, "has_instance": True}
            for name, types in kinds.items()
        ]
    )


@router.get("/providers/{provider}/models")
async def list_provider_models(provider: str, request: Request, caller: Authenticated) -> Response:
    """List the models of a provider."""
    return respond_plain([_describe_entry(model) for model in _list_of(request, caller, provider)])


@router.get("/providers/{provider}/instances")
async def list_instances(provider: str, request: Request, caller: Authenticated) -> Response:
    """List the instances of a provider, without keys and addresses."""
    names = dict.fromkeys(model.instance for model in _list_of(request, caller, provider))
    return respond_plain([_describe_instance(provider, name) for name in names])


@router.get("/providers/{provider}/instances/{instance}")
async def get_instance(provider: str, instance: str, request: Request, caller: Authenticated) -> Response:
    """Describe an instance, without its key and address."""
    if all(model.instance != instance for model in _list_of(request, caller, provider)):
        raise RequestError(f"No instance {instance!r} found for provider {provider!r}.")
    return respond_plain({**_describe_instance(provider, instance), "api_key": "", "base_url": ""})


@router.get("/providers/{provider}/instances/{instance}/models")
async def list_instance_models(provider: str, instance: str, request: Request, caller: Authenticated) -> Response:
    """List the models of an instance."""
    return respond_plain(
        [_describe_entry(model) for model in _list_of(request, caller, provider) if model.instance == instance]
    )


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


def _describe(model: ListedModel) -> dict[str, Any]:
    return {
        "model_id": model.id,
        "model_type": list(model.kinds),
        "name": model.name,
        "provider_id": model.provider,
        "provider_name": model.provider,
        "instance_id": model.instance,
        "instance_name": model.instance,
        "rank": RANK,
    }


def _describe_entry(model: ListedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "model_type": list(model.kinds),
        "max_tokens": model.context_tokens,
        "status": _ACTIVE,
        "is_tools": model.has_tools,
    }


def _describe_instance(provider: str, instance: str) -> dict[str, Any]:
    return {"id": instance, "instance_name": instance, "provider_id": provider, "region": "", "status": _ACTIVE}
