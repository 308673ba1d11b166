"""Descriptions of the routes that only RAGFlow's front end needs; the server has them if `ragflow_ui` is set."""

from __future__ import annotations

from typing import Literal

from ragflow_lg.server.http.document.descriptions import Route
from ragflow_lg.server.http.document.front_end_shapes import (
    BackendLanguage,
    ChatList,
    KeyShown,
    Person,
    SearchList,
    SignedIn,
    SignInBody,
    SignInChannel,
    SystemConfig,
    TenantModels,
    TenantPerson,
    TenantShown,
)

FRONT_END_ROUTES: dict[str, Route] = {
    # sign-in
    "GET /api/v1/auth/login/channels": Route(answer=list[SignInChannel], key=""),
    "GET /api/v1/auth/login/key": Route("none", key="", raw={"text/html": "The page."}),
    "POST /api/v1/auth/login": Route(answer=SignedIn, body=SignInBody, key=""),
    "POST /api/v1/auth/logout": Route(answer=Literal[True]),
    # account
    "GET /api/v1/language": Route(answer=BackendLanguage, key=""),
    "GET /api/v1/system/config": Route(answer=SystemConfig, key=""),
    "GET /api/v1/system/version": Route(answer=str),
    "GET /api/v1/system/tokens": Route(answer=list[KeyShown]),
    "GET /api/v1/users/me": Route(answer=Person),
    "GET /api/v1/users/me/models": Route(answer=TenantModels),
    "GET /api/v1/tenants": Route(answer=list[TenantShown]),
    "GET /api/v1/tenants/{tenant_id}/users": Route(answer=list[TenantPerson]),
    # other applications
    "GET /api/v1/chats": Route(answer=ChatList),
    "GET /api/v1/searches": Route(answer=SearchList),
}

_OLDER = {
    "GET /v1/user/login/channels": "GET /api/v1/auth/login/channels",
    "GET /v1/user/login/key": "GET /api/v1/auth/login/key",
    "POST /v1/user/login": "POST /api/v1/auth/login",
    "GET /v1/user/logout": "POST /api/v1/auth/logout",
    "GET /v1/user/info": "GET /api/v1/users/me",
    "GET /v1/user/tenant_info": "GET /api/v1/users/me/models",
    "GET /v1/tenant/list": "GET /api/v1/tenants",
    "GET /v1/tenant/{tenant_id}/user/list": "GET /api/v1/tenants/{tenant_id}/users",
    "GET /v1/system/config": "GET /api/v1/system/config",
}
"""Names of these routes in RAGFlow 0.25.0."""

OLDER_FRONT_END_ROUTES = {older: FRONT_END_ROUTES[current] for older, current in _OLDER.items()}
