"""Whose a request is, told by its API key."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.logs import current_notes

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.observability.operations import Operations
    from ragflow_lg.server.runs.turns import Turns

__all__ = ["AUDIT_PREFIX_CHARS", "COMPAT_HEADER", "ApiCaller", "authenticate", "get_app_state", "get_turns"]

COMPAT_HEADER = "x-ragflow-compat"
AUDIT_PREFIX_CHARS = 12
"""Characters of a refused key that the audit log has: enough to find out whose it was."""

_OLD = "0.24"
_UNAUTHORIZED = "<Unauthorized '401: Unauthorized'>"

logger = logging.getLogger(__name__)


class ApiCaller(Struct, frozen=True):
    """Who calls: a tenant, by one of its keys."""

    tenant: str
    key_id: str
    is_old: bool = False
    """Whether its client expects the shapes of RAGFlow up to 0.25.0."""


def get_app_state(request: Request) -> AppState:
    """Give what the server is made of."""
    return cast("AppState", request.app.state.app_state)


def get_turns(request: Request) -> Turns:
    """Give the turns of this process."""
    return cast("Turns", request.app.state.turns)


async def authenticate(request: Request) -> ApiCaller:
    """Give the caller.

    Raises:
        RequestError: if there is no key that holds.
    """
    app_state = get_app_state(request)
    given = request.headers.get("authorization", "").strip()
    scheme, _, rest = given.partition(" ")
    key = rest.strip() if scheme.lower() == "bearer" else given
    row = await KeyRepository(app_state.database).find(key) if key else None
    if row is None:
        cast("Operations", request.app.state.operations).metrics.count_refusal("key")
        audit(
            "key.refused",
            path=request.url.path,
            beginning=key[:AUDIT_PREFIX_CHARS] if key.startswith("ragflow-") else "",
        )
        logger.warning("no key that holds: %s %s", request.method, request.url.path)
        raise RequestError(_UNAUTHORIZED, 401, status=401, has_data=True)
    held = current_notes()
    held.tenant, held.key = row.tenant, row.id
    asked = request.headers.get(COMPAT_HEADER, "")
    if asked not in ("", "current", _OLD):
        raise RequestError(f"X-RAGFlow-Compat should be current or {_OLD}, not {asked[:20]!r}.", 101)
    compat = asked or row.compat or app_state.settings.server.compat
    return ApiCaller(row.tenant, row.id, compat == _OLD)
