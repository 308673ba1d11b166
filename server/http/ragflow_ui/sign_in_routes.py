"""Sign-in with an API key or as a user of the settings.

RAGFlow's password form encrypts with a key that every build contains. This server does not know its private half, so it
switches the form off (`disablePasswordLogin`) and offers its own page, as RAGFlow does for single sign-on.
"""

from __future__ import annotations

import logging
import secrets
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state, get_operations
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, describe
from ragflow_lg.server.http.shared.request_parsing import read_body, require_fields, to_text
from ragflow_lg.server.http.shared.responses import respond
from ragflow_lg.server.http.shared.route_schemas import Answer
from ragflow_lg.server.http.shared.signed_tokens import KeyOwner, check_password, issue_token
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.operations import client_network

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/api/v1", tags=["RAGFlow's front end: sign-in"], route_class=DescribedRoute)

_ENCRYPTED_CHARS = 344
"""Length of RAGFlow's encrypted passwords: 2048 bits in Base64."""
_MISMATCH = 109
"""RAGFlow's code for failed authentication."""


class SignInBody(BaseModel):
    """An e-mail address of the settings with its password, or an API key as the password."""

    email: str = ""
    password: Annotated[str, Field(examples=["ragflow-…"])]


class SignInChannel(Answer):
    """A way to sign in: the page `/api/v1/auth/login/CHANNEL`."""

    channel: Literal["key"] = "key"
    display_name: str
    icon: Literal["sso"] = "sso"


class Person(Answer):
    """The person who is signed in."""

    id: Annotated[str, Field(description="Id of the tenant.")]
    nickname: str
    email: Annotated[str, Field(description="Empty if the person signed in with an API key.")]
    avatar: None = None
    language: str = ""
    color_schema: str = "Bright"
    timezone: str = "UTC"
    login_channel: Literal["password", "key"]
    is_superuser: Literal[False] = False
    is_active: Literal["1"] = "1"
    is_anonymous: Literal["0"] = "0"
    is_authenticated: Literal["1"] = "1"
    status: Literal["1"] = "1"


class SignedIn(Person):
    """The person who has signed in, and the token for further requests."""

    access_token: str


@router.get("/auth/login/channels")
async def list_channels(request: Request) -> list[SignInChannel]:
    """List the ways to sign in: a page of this server."""
    has_users = bool(get_app_state(request).settings.server.users)
    name = "an API key or a password" if has_users else "an API key"
    return [SignInChannel(display_name=name)]


@router.get("/auth/login/key")
@describe(surface="none", raw={"text/html": "The page."})
async def show_page() -> Response:
    """Show the page on which people sign in."""
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return Response(_read_page().replace("NONCE", nonce), media_type="text/html", headers=headers)


@router.post("/auth/login")
@describe(answer=SignedIn, body=SignInBody)
async def sign_in(request: Request) -> Response:
    """Sign in. The response header `Authorization` contains the token for further requests."""
    app_state = get_app_state(request)
    network = client_network(request.client.host) if request.client is not None else ""
    # Before the body is read, which costs more than anything that it contains.
    _count_attempt(request, f"address {network}", "")
    fields = await read_body(request, "sign_in")
    require_fields(fields, "password")
    email, password = to_text(fields.get("email")), to_text(fields["password"])
    _count_attempt(request, f"email {email.strip().lower()}", email)
    owner = await check_password(app_state, email, password)
    if owner is None:
        audit("sign_in.refused", email=email)
        logger.warning("wrong password or key: %s %s", request.method, request.url.path)
        raise RequestError(_explain_refusal(password), _MISMATCH, data=False, has_data=True)
    audit("sign_in", tenant=owner.tenant, key=owner.id)
    token = await issue_token(app_state, owner, "session")
    response = respond(SignedIn(**vars(describe_person(owner)), access_token=token), message="Welcome back!")
    response.headers.update({"Authorization": token, "Cache-Control": "no-store"})
    return response


@router.post("/auth/logout")
async def sign_out(caller: Authenticated) -> Literal[True]:
    """Sign out: the browser forgets its token."""
    return True


def _count_attempt(request: Request, whose: str, email: str) -> None:
    """Count an attempt of the sender's network, or with an e-mail address from anywhere.

    Raises:
        RateError: if there are too many.
    """
    if wait_s := get_operations(request).sign_ins.wait_s(whose):
        audit("sign_in.too_often", email=email)
        raise RateError("Too many attempts to sign in.", wait_s)


def describe_person(owner: KeyOwner) -> Person:
    """Return RAGFlow's description of a person: a user of the settings, or anyone who has the key."""
    channel = "password" if owner.email else "key"
    return Person(id=owner.tenant, nickname=owner.name or owner.tenant, email=owner.email, login_channel=channel)


def _explain_refusal(password: str) -> str:
    if len(password) == _ENCRYPTED_CHARS:
        return "This server cannot decrypt passwords of the front end: use the button below the password form."
    return "The e-mail address and the password do not match, or the API key is invalid."


@cache
def _read_page() -> str:
    return (Path(__file__).parent / "sign_in.html").read_text(encoding="utf-8")
