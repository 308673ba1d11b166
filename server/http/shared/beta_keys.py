"""Who calls from an embedded page, told by a beta key. Such keys stand in pages that anybody can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.auth import AUDIT_PREFIX_CHARS, ApiCaller, authenticate, get_app_state
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.logs import current_notes

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import KeyRow
    from ragflow_lg.server.observability.operations import Operations

__all__ = ["authenticate_any", "authenticate_beta"]

_NO_HEADER = "Authorization is not valid!"
_NO_KEY = "Authentication error: API key is invalid! "
"""With the blank that RAGFlow's text ends with."""


async def authenticate_beta(request: Request) -> ApiCaller:
    """Give the caller of a route that takes beta keys only.

    Raises:
        RequestError: if there is no such key that holds.
    """
    key = _key(request)
    if not key:
        raise RequestError(_NO_HEADER, 102, has_data=True)
    row = await KeyRepository(get_app_state(request).database).find(key, "beta")
    if row is None:
        cast("Operations", request.app.state.operations).metrics.count_refusal("key")
        shown = key[:AUDIT_PREFIX_CHARS] if key.startswith(("beta-", "ragflow-")) else ""
        audit("key.refused", path=request.url.path, beginning=shown)
        raise RequestError(_NO_KEY, 102, has_data=True)
    return _caller(row)


async def authenticate_any(request: Request) -> ApiCaller:
    """Give the caller of a route that takes both kinds of keys.

    Raises:
        RequestError: if there is no key that holds.
    """
    key = _key(request)
    row = await KeyRepository(get_app_state(request).database).find(key, "beta") if key else None
    return _caller(row) if row is not None else await authenticate(request)


def _caller(row: KeyRow) -> ApiCaller:
    held = current_notes()
    held.tenant, held.key = row.tenant, row.id
    return ApiCaller(row.tenant, row.id)


def _key(request: Request) -> str:
    given = request.headers.get("authorization", "").strip()
    scheme, _, rest = given.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else given
