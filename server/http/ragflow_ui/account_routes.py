"""What the front end's shell asks for: the person, the tenant, the system and the API keys."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.assembly.model_list import list_models
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.ragflow_ui.sign_in_routes import (
    describe_person,
    list_channels,
    show_page,
    sign_in,
    sign_out,
)
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.responses import format_times
from ragflow_lg.server.http.shared.signed_tokens import describe_key, issue_token

router = make_router("RAGFlow's front end: account")
older_router = make_router("RAGFlow's front end: 0.25.0", "/v1")

_MODEL_FIELDS = {"chat": "llm_id", "embedding": "embd_id", "rerank": "rerank_id"}
_TENANT_FIELDS = ("parser_ids", "llm_id", "embd_id", "rerank_id", "asr_id", "img2txt_id", "tts_id", "ocr_id")
_MEMBER: dict[str, Any] = {"avatar": None, "update_date": "", "delta_seconds": 0}
_NOT_AUTHORIZED = 109


@router.get("/language")
async def get_language() -> dict[str, str]:
    """Return the language of the server that the front end should expect."""
    return {"language": "python"}


@router.get("/system/config")
async def get_config() -> dict[str, Any]:
    """Return what the front end has to hide: registration and its password form."""
    return {"registerEnabled": 0, "disablePasswordLogin": True}


@router.get("/system/version")
async def get_version(request: Request, caller: Authenticated) -> str:
    """Return the version of this server."""
    return f"ragflow-lg {request.app.version}"


@router.get("/system/tokens")
async def list_tokens(request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the tenant's API keys. `token` is only the beginning of a key; `beta` opens the pages of agents."""
    app_state = get_app_state(request)
    return [
        {
            "tenant_id": row.tenant,
            "name": row.name,
            "token": f"{row.prefix}…",
            "beta": await issue_token(app_state, describe_key(row), "page"),
            **format_times(row.create_ms, row.create_ms),
        }
        for row in await KeyRepository(app_state.database).list()
        if row.tenant == caller.tenant and row.kind == "api" and row.is_valid(app_state.now_ms())
    ]


@router.get("/users/me")
async def get_person(caller: Authenticated) -> dict[str, Any]:
    """Describe the person who is signed in."""
    return describe_person(caller.owner)


@router.get("/users/me/models")
async def get_tenant(request: Request, caller: Authenticated) -> dict[str, Any]:
    """Describe the tenant, with its default models."""
    models = list_models(get_app_state(request).settings_of(caller.tenant))
    defaults = {_MODEL_FIELDS[model.kinds[0]]: model.id for model in models if model.is_default}
    tenant = {"tenant_id": caller.tenant, "name": caller.tenant, "role": "owner"}
    return {**tenant, **dict.fromkeys(_TENANT_FIELDS, ""), **defaults}


@router.get("/tenants")
async def list_tenants(caller: Authenticated) -> list[dict[str, Any]]:
    """List the tenants that the person can work with: the one of the key."""
    person = describe_person(caller.owner)
    return [
        {
            "tenant_id": caller.tenant,
            "role": "owner",
            "nickname": person["nickname"],
            "email": person["email"],
            **_MEMBER,
        }
    ]


@router.get("/tenants/{tenant_id}/users")
async def list_people(tenant_id: str, request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the users of the tenant in the settings."""
    if tenant_id != caller.tenant:
        raise RequestError("no authorization", _NOT_AUTHORIZED, data=False, has_data=True)
    fixed = {"role": "normal", "status": "1", "is_active": "1", **_MEMBER}
    return [
        {"id": email, "user_id": email, "email": email, "nickname": user.name or email, **fixed}
        for email, user in get_app_state(request).settings.server.users.items()
        if user.tenant == tenant_id
    ]


_OLDER = (
    ("GET", "/user/login/channels", list_channels),
    ("GET", "/user/login/key", show_page),
    ("POST", "/user/login", sign_in),
    ("GET", "/user/logout", sign_out),
    ("GET", "/user/info", get_person),
    ("GET", "/user/tenant_info", get_tenant),
    ("GET", "/tenant/list", list_tenants),
    ("GET", "/tenant/{tenant_id}/user/list", list_people),
    ("GET", "/system/config", get_config),
)
"""The sign-in and the account under their paths of RAGFlow 0.25.0, whose front end asks for nothing newer."""

for _method, _path, _handler in _OLDER:
    older_router.add_api_route(_path, _handler, methods=[_method], include_in_schema=False)
