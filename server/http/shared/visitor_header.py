"""Visitors of embedded pages: each has a secret of its own, because all of them have the key of the page.

The server makes the secret at the first contact and signs it, so that nobody makes up visitors. It stores a digest of
it with the sessions, uploads and artifacts of the visitor. Clients that send none, such as RAGFlow's own pages, are one
visitor together: they reach what they know the id of, and nothing is listed for them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.visitors import name_visitor
from ragflow_lg.server.http.shared.signed_tokens import KeyOwner, is_visitor_secret

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState

VISITOR_HEADER = "X-RAGFlow-Visitor"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


async def read_visitor(app_state: AppState, request: Request, owner: KeyOwner) -> str:
    """Return the visitor of the page with a key that sends a request: a digest of its secret, else the key's id.

    Raises:
        RequestError: if the secret is none that a server has made for visitors of the key.
    """
    secret = request.headers.get(VISITOR_HEADER, "")
    if not secret:
        return owner.id
    if not _SECRET.fullmatch(secret) or not await is_visitor_secret(app_state, owner, secret):
        raise RequestError(
            f"{VISITOR_HEADER} must be the secret that `GET /api/v1/agentbots/ID/inputs` returned in this header.", 101
        )
    return name_visitor(owner.id, secret)
