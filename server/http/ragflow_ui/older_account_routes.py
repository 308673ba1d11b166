"""The sign-in and the account under their paths of RAGFlow 0.25.0, whose front end asks for nothing newer."""

from __future__ import annotations

from fastapi import APIRouter

from ragflow_lg.server.http.ragflow_ui.account_routes import (
    get_config,
    get_person,
    get_tenant,
    list_people,
    list_tenants,
)
from ragflow_lg.server.http.ragflow_ui.sign_in_routes import list_channels, show_page, sign_in, sign_out
from ragflow_lg.server.http.shared.described_routes import DescribedRoute

router = APIRouter(prefix="/v1", tags=["RAGFlow's front end: 0.25.0"], route_class=DescribedRoute)

_SAME = (
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
"""Other names for current routes."""

for _method, _path, _handler in _SAME:
    router.add_api_route(_path, _handler, methods=[_method])
