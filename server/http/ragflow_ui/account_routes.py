"""What the front end's shell asks for: the person, the tenant, the system and the API keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.assembly.model_list import list_models
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.ragflow_ui.sign_in_routes import (
    Person,
    describe_person,
    list_channels,
    show_page,
    sign_in,
    sign_out,
)
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.described_routes import DescribedRoute
from ragflow_lg.server.http.shared.responses import format_times
from ragflow_lg.server.http.shared.route_schemas import Answer, Ms
from ragflow_lg.server.http.shared.signed_tokens import describe_key, issue_token

router = APIRouter(prefix="/api/v1", tags=["RAGFlow's front end: account"], route_class=DescribedRoute)
older_router = APIRouter(prefix="/v1", tags=["RAGFlow's front end: 0.25.0"], route_class=DescribedRoute)

_MODEL_FIELDS = {"chat": "llm_id", "embedding": "embd_id", "rerank": "rerank_id"}
_NOT_AUTHORIZED = 109


class BackendLanguage(Answer):
    """The kind of RAGFlow server that the front end should expect."""

    language: Literal["python"] = "python"


class SystemConfig(Answer):
    """Parts of the front end to hide."""

    registerEnabled: Literal[0] = 0
    disablePasswordLogin: Literal[True] = True


class KeyShown(Answer):
    """An API key of the tenant."""

    tenant_id: str
    name: str
    token: Annotated[str, Field(description="Beginning of the key.")]
    beta: Annotated[str, Field(description="Token for embedded pages, valid as long as the key.")]
    create_time: Ms
    create_date: str
    update_time: Ms
    update_date: str


class TenantModels(Answer):
    """The tenant and the ids of its default models; empty if there is none."""

    tenant_id: str
    name: str
    role: Literal["owner"] = "owner"
    parser_ids: str = ""
    llm_id: str = ""
    embd_id: str = ""
    rerank_id: str = ""
    asr_id: str = ""
    img2txt_id: str = ""
    tts_id: str = ""
    ocr_id: str = ""


class _Member(Answer):
    nickname: str
    email: str
    avatar: None = None
    update_date: str = ""
    delta_seconds: float = 0


class TenantShown(_Member):
    """A tenant that the person can work with."""

    tenant_id: str
    role: Literal["owner"] = "owner"


class TenantPerson(_Member):
    """A user of a tenant."""

    id: str
    user_id: str
    role: Literal["normal"] = "normal"
    status: Literal["1"] = "1"
    is_active: Literal["1"] = "1"


@router.get("/language")
async def get_language() -> BackendLanguage:
    """Return the language of the server that the front end should expect."""
    return BackendLanguage()


@router.get("/system/config")
async def get_config() -> SystemConfig:
    """Return what the front end has to hide: registration and its password form."""
    return SystemConfig()


@router.get("/system/version")
async def get_version(request: Request, caller: Authenticated) -> str:
    """Return the version of this server."""
    return f"ragflow-lg {request.app.version}"


@router.get("/system/tokens")
async def list_tokens(request: Request, caller: Authenticated) -> list[KeyShown]:
    """List the tenant's API keys. `token` is only the beginning of a key; `beta` opens the pages of agents."""
    app_state = get_app_state(request)
    shown: list[KeyShown] = []
    for row in await KeyRepository(app_state.database).list():
        if row.tenant == caller.tenant and row.kind == "api" and row.is_valid(app_state.now_ms()):
            beta = await issue_token(app_state, describe_key(row), "page")
            times = format_times(row.create_ms, row.create_ms)
            shown.append(KeyShown(tenant_id=row.tenant, name=row.name, token=f"{row.prefix}…", beta=beta, **times))
    return shown


@router.get("/users/me")
async def get_person(caller: Authenticated) -> Person:
    """Describe the person who is signed in."""
    return describe_person(caller.owner)


@router.get("/users/me/models")
async def get_tenant(request: Request, caller: Authenticated) -> TenantModels:
    """Describe the tenant, with its default models."""
    models = list_models(get_app_state(request).settings_of(caller.tenant))
    defaults: dict[str, Any] = {_MODEL_FIELDS[model.kinds[0]]: model.id for model in models if model.is_default}
    return TenantModels(tenant_id=caller.tenant, name=caller.tenant, **defaults)


@router.get("/tenants")
async def list_tenants(caller: Authenticated) -> list[TenantShown]:
    """List the tenants that the person can work with: the one of the key."""
    person = describe_person(caller.owner)
    return [TenantShown(tenant_id=caller.tenant, nickname=person.nickname, email=person.email)]


@router.get("/tenants/{tenant_id}/users")
async def list_people(tenant_id: str, request: Request, caller: Authenticated) -> list[TenantPerson]:
    """List the users of the tenant in the settings."""
    if tenant_id != caller.tenant:
        raise RequestError("no authorization", _NOT_AUTHORIZED, data=False, has_data=True)
    return [
        TenantPerson(id=email, user_id=email, email=email, nickname=user.name or email)
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
    older_router.add_api_route(_path, _handler, methods=[_method])
