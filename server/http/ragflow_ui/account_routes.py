"""What the front end's shell asks for: sign-in with an API key or as a user, the person, the tenant, the system, keys.

RAGFlow's password form encrypts with a key that every build contains. This server does not know its private half, so it
switches the form off (`disablePasswordLogin`) and offers its own page, as RAGFlow does for single sign-on.
"""

from __future__ import annotations

import logging
import secrets
from functools import cache
from pathlib import Path
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.server.assembly.model_list import list_models
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state, get_operations
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.request_bodies import BODY_S, SIGN_IN_BYTES, LimitedBody, read_body, to_text
from ragflow_lg.server.http.shared.responses import format_times, respond
from ragflow_lg.server.http.shared.signed_tokens import KeyOwner, check_password, describe_key, issue_token
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.observability.operations import client_network

logger = logging.getLogger(__name__)

sign_in_router = make_router("RAGFlow's front end: sign-in")

_ENCRYPTED_CHARS = 344
"""Length of RAGFlow's encrypted passwords: 2048 bits in Base64."""
_BODY: dict[str, Any] = {
    "requestBody": {
        "description": "An e-mail address of the settings with its password, or an API key as the password.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"email": {"type": "string"}, "password": {"type": "string"}},
                }
            }
        },
    }
}
"""The body, which the route reads itself: attempts are counted before."""
_MISMATCH = 109
"""RAGFlow's code for failed authentication."""


@sign_in_router.get("/auth/login/channels")
async def list_channels(request: Request) -> list[dict[str, str]]:
    """List the ways to sign in: a page of this server."""
    has_users = bool(get_app_state(request).settings.server.users)
    name = "an API key or a password" if has_users else "an API key"
    return [{"channel": "key", "display_name": name, "icon": "sso"}]


@sign_in_router.get("/auth/login/key", response_class=HTMLResponse)
async def show_page() -> Response:
    """Show the page on which people sign in."""
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return Response(_read_page().replace("NONCE", nonce), media_type="text/html", headers=headers)


@sign_in_router.post("/auth/login", openapi_extra=_BODY)
async def sign_in(request: Request) -> Response:
    """Sign in. The response header `Authorization` contains the token for further requests."""
    app_state = get_app_state(request)
    network = client_network(request.client.host) if request.client is not None else ""
    # Before the body is read, which costs more than anything that it contains.
    _count_attempt(request, f"address {network}", "")
    body = LimitedBody(request.receive, request.scope, SIGN_IN_BYTES, BODY_S, "for sign-ins")
    fields = await read_body(Request(request.scope, body.receive))
    if "password" not in fields:
        raise RequestError("required argument are missing: password; ", 101, has_data=True)
    email, password = to_text(fields.get("email")), to_text(fields["password"])
    _count_attempt(request, f"email {email.strip().lower()}", email)
    owner = await check_password(app_state, email, password)
    if owner is None:
        audit("sign_in.refused", email=email)
        logger.warning("wrong password or key: %s %s", request.method, request.url.path)
        raise RequestError(_explain_refusal(password), _MISMATCH, data=False, has_data=True)
    audit("sign_in", tenant=owner.tenant, key=owner.id)
    token = await issue_token(app_state, owner, "session")
    response = respond({**describe_person(owner), "access_token": token}, message="Welcome back!")
    response.headers.update({"Authorization": token, "Cache-Control": "no-store"})
    return response


@sign_in_router.post("/auth/logout")
async def sign_out(caller: Authenticated) -> Literal[True]:
    """Sign out: the browser forgets its token."""
    return True


def _count_attempt(request: Request, whose: str, email: str) -> None:
    """Count an attempt of the sender's network, or with an e-mail address from anywhere."""
    if wait_s := get_operations(request).sign_ins.wait_s(whose):
        audit("sign_in.too_often", email=email)
        raise RateError("Too many attempts to sign in.", wait_s)


def describe_person(owner: KeyOwner) -> dict[str, Any]:
    """Return RAGFlow's description of a person: a user of the settings, or anyone who has the key."""
    return {
        "id": owner.tenant,
        "nickname": owner.name or owner.tenant,
        "email": owner.email,
        "avatar": None,
        "language": "",
        "color_schema": "Bright",
        "timezone": "UTC",
        "login_channel": "password" if owner.email else "key",
        "is_superuser": False,
        "is_active": "1",
        "is_anonymous": "0",
        "is_authenticated": "1",
        "status": "1",
    }


def _explain_refusal(password: str) -> str:
    if len(password) == _ENCRYPTED_CHARS:
        return "This server cannot decrypt passwords of the front end: use the button below the password form."
    return "The e-mail address and the password do not match, or the API key is invalid."


@cache
def _read_page() -> str:
    return (Path(__file__).parent / "sign_in.html").read_text(encoding="utf-8")


router = make_router("RAGFlow's front end: account")
older_router = make_router("RAGFlow's front end: 0.25.0", "/v1")

_MODEL_FIELDS = {"chat": "llm_id", "embedding": "embd_id", "rerank": "rerank_id"}
_TENANT_FIELDS = ("parser_ids", "llm_id", "embd_id", "rerank_id", "asr_id", "img2txt_id", "tts_id", "ocr_id")
_MEMBER: dict[str, Any] = {"avatar": None, "update_date": "", "delta_seconds": 0}
_NOT_AUTHORIZED = 109


@router.get("/system/config")
async def get_config() -> dict[str, Any]:
    """Return what the front end has to hide: registration and its password form."""
    return {"registerEnabled": 0, "disablePasswordLogin": True}


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
        {"id": email, "user_id": email, "email": email, "nickname": email, **fixed}
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
