"""What the front end's shell asks for: the person, the tenant, the system and the API keys."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.assembly.listed_models import list_models
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.ragflow_ui.sign_in_routes import describe_person
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.responses import format_times, respond
from ragflow_lg.server.http.shared.signed_tokens import describe_key, issue_token

router = APIRouter(prefix="/api/v1", tags=["RAGFlow's front end: account"])

_MODEL_FIELDS = {"chat": "llm_id", "embedding": "embd_id", "rerank": "rerank_id"}
_NO_MODELS = ("llm_id", "embd_id", "rerank_id", "asr_id", "img2txt_id", "tts_id", "ocr_id")
_NOT_AUTHORIZED = 109


@router.get("/language")
async def get_language() -> Response:
    """Return the language of the server that the front end should expect."""
    return respond({"language": "python"})


@router.get("/system/config")
async def get_config() -> Response:
    """Return what the front end has to hide: registration and its password form."""
    return respond({"registerEnabled": 0, "disablePasswordLogin": True})


@router.get("/system/version")
async def get_version(request: Request, caller: Authenticated) -> Response:
    """Return the version of this server."""
    return respond(f"ragflow-lg {request.app.version}")


@router.get("/system/tokens")
async def list_tokens(request: Request, caller: Authenticated) -> Response:
    """List the tenant's API keys. `token` is only the beginning of a key; `beta` opens the pages of agents."""
    app_state = get_app_state(request)
    rows = await KeyRepository(app_state.database).list()
    shown: list[dict[str, Any]] = []
    for row in rows:
        if row.tenant == caller.tenant and row.kind == "api" and row.is_valid(app_state.now_ms()):
            page_token = await issue_token(app_state, describe_key(row), "page")
            fields = {"tenant_id": row.tenant, "token": f"{row.prefix}…", "beta": page_token, "name": row.name}
            shown.append({**fields, **format_times(row.create_ms, row.create_ms)})
    return respond(shown)


@router.get("/users/me")
async def get_person(caller: Authenticated) -> Response:
    """Describe the person who is signed in."""
    return respond(describe_person(caller.owner))


@router.get("/users/me/models")
async def get_tenant(request: Request, caller: Authenticated) -> Response:
    """Describe the tenant, with its default models."""
    models = [model for model in list_models(get_app_state(request).settings_of(caller.tenant)) if model.is_default]
    defaults = dict.fromkeys(_NO_MODELS, "") | {_MODEL_FIELDS[model.kinds[0]]: model.id for model in models}
    fields = {"tenant_id": caller.tenant, "name": caller.tenant, "parser_ids": "", "role": "owner"}
    return respond({**fields, **defaults})


@router.get("/tenants")
async def list_tenants(caller: Authenticated) -> Response:
    """List the tenants that the person can work with: the one of the key."""
    person = describe_person(caller.owner)
    fields = {name: person[name] for name in ("avatar", "email", "nickname")}
    return respond([{**fields, "tenant_id": caller.tenant, "role": "owner", "update_date": "", "delta_seconds": 0}])


@router.get("/tenants/{tenant_id}/users")
async def list_people(tenant_id: str, request: Request, caller: Authenticated) -> Response:
    """List the users of the tenant in the settings."""
    if tenant_id != caller.tenant:
        raise RequestError("no authorization", _NOT_AUTHORIZED, data=False, has_data=True)
    return respond(
        [
            {
                "id": email,
                "user_id": email,
                "email": email,
                "nickname": user.name or email,
                "avatar": None,
                "role": "normal",
                "status": "1",
                "is_active": "1",
                "update_date": "",
                "delta_seconds": 0,
            }
            for email, user in get_app_state(request).settings.server.users.items()
            if user.tenant == tenant_id
        ]
    )
