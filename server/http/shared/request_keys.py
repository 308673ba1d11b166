"""The header ``Idempotency-Key``: a request that is sent again with its key is answered by the run of the first one."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated

from fastapi import Depends, Header
from starlette.requests import Request

from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.server.http.shared.responses import encode_json

HEADER = "Idempotency-Key"
_KEY = Header(
    alias=HEADER,
    max_length=255,
    description="An id of the request. If it is sent again with the same id, no second run begins.",
)


def note_request_key(key: str, path: str, body: bytes) -> None:
    """Note the key of a request, if it has one, and what was sent with it; see `Turns.find_repeated`.

    The key is its sender's own, who must have been authenticated: visitors of a page get no run of each other.
    """
    if key:
        notes = current_notes()
        own_key = "\n".join((notes.key, notes.visitor, key))
        notes.request_key = sha256(own_key.encode("utf-8", "surrogatepass")).hexdigest()
        notes.request_hash = sha256(path.encode() + b"\n" + body).hexdigest()


async def _read_request_key(request: Request, key: Annotated[str, _KEY] = "") -> None:
    if key:
        body = encode_json(await request.json()) if await request.body() else b""
        note_request_key(key, request.url.path, body)


RequestKey = Annotated[None, Depends(_read_request_key)]
"""A parameter of what reads a request that may begin a turn."""
